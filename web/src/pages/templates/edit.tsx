/** A version as the text that would publish it. */
import { useMemo } from "react";
import type { Schemas } from "../../api/client";
import { textOf } from "../definition/definition";
import Write from "../definition/write";

export default function Edit({ template }: { template: Schemas["Template"] }) {
  const text = useMemo(() => textOf(template), [template]);
  return <Write kind="template" initial={text} of={`${template.id}@${template.version}`} />;
}
