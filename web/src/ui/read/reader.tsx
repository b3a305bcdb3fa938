/** A text of anybody as people read it: JSON member by member, Markdown as elements; as it is on demand. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { type ReactNode, useMemo, useState } from "react";
import { count } from "../../lib/format";
import { parsed } from "../../lib/json";
import { Button } from "../basics";
import { LongText } from "../long-text";
import { Members } from "./json";
import { markdownOf } from "./untrusted";
import "./markdown.css";
import "./reader.css";

/** What is longer is shown as it is: its parts are laid out as they come into view. */
const MOST = 60_000;

type Read = { kind: "JSON" | "Markdown"; content: ReactNode } | { kind: "text" | "partly" };

export function Reader({ text, label, end }: { text: string; label: string; end?: ReactNode }) {
  const [raw, setRaw] = useState(false);
  const read = useMemo(() => readOf(text), [text]);
  const isRead = "content" in read && !raw;
  return (
    <>
      {isRead ? (
        <div
          className="reader"
          data-kind={read.kind}
          translate="no"
          role="region"
          aria-label={label}
          dir="auto"
        >
          {read.content}
          {end}
        </div>
      ) : (
        <LongText label={label} text={text} end={end} />
      )}
      <p className="reader-under small faint">
        <span>
          <Trans>{count(text.length)} characters</Trans>
          {read.kind === "partly" && t`, shown as it is: as Markdown, a part of it would be hidden`}
        </span>
        {"content" in read && (
          <Button size="small" kind="quiet" onClick={() => setRaw(!raw)}>
            {raw ? t`Read the ${read.kind}` : t`As it is`}
          </Button>
        )}
      </p>
    </>
  );
}

function readOf(text: string): Read {
  if (text.length > MOST) return { kind: "text" };
  if (/^\s*[[{]/.test(text)) {
    const found = parsed(text);
    if (found) return { kind: "JSON", content: <Members value={found.value} /> };
  }
  const content = markdownOf(text);
  return typeof content === "string" ? { kind: content } : { kind: "Markdown", content };
}
