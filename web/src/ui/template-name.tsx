/** The name of a template, wherever it is shown. */
import { useNameOf } from "../lib/names";
import { visible } from "../lib/visible";

export function TemplateName({ id }: { id: string }) {
  return <span data-tip={id}>{visible(useNameOf()({ templateId: id }))}</span>;
}
