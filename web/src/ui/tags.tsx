/** Tags and keys of an item, each a filter of its list. */
import { t } from "@lingui/core/macro";
import { Link } from "wouter";
import { visible } from "../lib/visible";

type Tagged = { tags?: string[]; idempotencyKey?: string; concurrencyKey?: string };

/** A tag narrows a list to its items; a key is searched for. */
export function Tags({ of, list }: { of: Tagged; list: string }) {
  const tags = of.tags ?? [];
  const keys = [of.concurrencyKey, of.idempotencyKey].filter((key) => key !== undefined);
  if (tags.length + keys.length === 0) return <span className="faint">–</span>;
  return (
    <span className="tags">
      {tags.map((tag) => (
        <Link key={tag} className="tag" href={`${list}?tags=${encodeURIComponent(tag)}`} translate="no">
          {visible(tag)}
        </Link>
      ))}
      {keys.map((key) => (
        <Link
          key={key}
          className="tag"
          href={`${list}?search=${encodeURIComponent(key)}`}
          data-tip={key === of.concurrencyKey ? t`concurrency key` : t`idempotency key`}
          translate="no"
        >
          {visible(key)}
        </Link>
      ))}
    </span>
  );
}
