/** Approving outputs of one step together: the number, the range, and the mark that the history keeps. */
import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useState } from "react";
import type { Approval } from "../../api/client";
import { ratio } from "../../lib/format";
import { visible } from "../../lib/visible";
import { Button, Field } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { groupOf, opened } from "./select";

type Props = { items: Approval[]; onClose: () => void; onApprove: (comment: string) => void };

export function BulkDialog({ items, onClose, onApprove }: Props) {
  const [comment, setComment] = useState("");
  const known = items.flatMap((item) => (item.confidence === undefined ? [] : [item.confidence]));
  const unseen = items.filter((item) => !opened(item.taskId)).length;
  return (
    <Dialog
      title={plural(items.length, { one: "Approve # output", other: "Approve # outputs" })}
      onClose={onClose}
      onSubmit={() => onApprove(comment)}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Cancel</Trans>
          </Button>
          <Button type="submit" kind="primary">
            <Trans>Approve {items.length}</Trans>
          </Button>
        </>
      }
    >
      <dl className="facts">
        <dt>
          <Trans>Step</Trans>
        </dt>
        <dd>{items[0] && groupOf(items[0])}</dd>
        <dt>
          <Trans>Confidence</Trans>
        </dt>
        <dd>
          {known.length === 0
            ? t`none`
            : [...new Set([Math.min(...known), Math.max(...known)].map(ratio))].join(" to ")}
        </dd>
        <dt>
          <Trans>Not opened</Trans>
        </dt>
        <dd>{unseen}</dd>
      </dl>
      <ul className="review-bulk">
        {items.map((item) => (
          <li key={item.taskId}>
            <span className="num">{ratio(item.confidence)}</span>
            <span className="cut" translate="no" dir="auto">
              {visible(item.summary ?? "")}
            </span>
          </li>
        ))}
      </ul>
      <Field label={t`Comment`} hint={t`Kept with each. The history marks each as approved in bulk.`}>
        {(props) => (
          <input
            {...props}
            className="input"
            maxLength={10_000}
            value={comment}
            onChange={(event) => setComment(event.target.value)}
          />
        )}
      </Field>
    </Dialog>
  );
}
