/** The decision on the open item. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { useState } from "react";
import { keyOf } from "../../lib/keys";
import { useNarrow } from "../../lib/narrow";
import { useMay } from "../../session/session";
import { Button } from "../../ui/basics";
import { Icon } from "../../ui/icons";

type Props = {
  comment: string;
  setComment: (comment: string) => void;
  toMend: number;
  mend: () => void;
  /** Said beside the button, and bars nothing. */
  notice: "early" | "unseen" | undefined;
  toEnd: () => void;
  skip: (() => void) | undefined;
  reject: (() => void) | undefined;
  approve: (() => void) | undefined;
  isEdited: boolean;
};

export function Bar(props: Props) {
  const { comment, setComment, toMend, mend, notice, toEnd, skip, reject, approve, isEdited } = props;
  const may = useMay()("hitl: approve/reject");
  const isNarrow = useNarrow();
  const [open, setOpen] = useState(false);
  const hasComment = !isNarrow || open;
  return (
    <footer className="review-bar">
      {may && hasComment && (
        <input
          className="input review-comment"
          aria-label={t`Comment`}
          placeholder={t`Comment, if any`}
          maxLength={10_000}
          value={comment}
          onChange={(event) => setComment(event.target.value)}
        />
      )}
      {may && toMend > 0 ? (
        <button type="button" className="button review-notice" data-kind="quiet" onClick={mend}>
          <span className="status" data-tone="bad">
            <Icon name="warn" />
            <Plural value={toMend} one="# fault to mend" other="# faults to mend" />
          </span>
        </button>
      ) : notice === "early" ? (
        <span className="review-notice small soft" role="status">
          <Trans>Not decided: it had only just appeared.</Trans>
        </span>
      ) : (
        may &&
        notice === "unseen" && (
          <button type="button" className="button review-notice" data-kind="quiet" onClick={toEnd}>
            <Trans>Not seen to the end</Trans> <Icon name="drop" />
          </button>
        )
      )}
      <div className="review-buttons">
        {may && isNarrow && (
          <Button kind="quiet" aria-expanded={open} onClick={() => setOpen(!open)}>
            <Trans>Comment</Trans>
            {comment && " ✓"}
          </Button>
        )}
        <Button kind="quiet" onClick={skip} hotkey={keyOf("review.skip", "s")} disabled={!skip}>
          <Trans>Skip</Trans>
        </Button>
        <Button
          kind="danger"
          icon="cross"
          disabled={!reject}
          onClick={reject}
          hotkey={keyOf("review.reject", "r")}
          needs="hitl: approve/reject"
        >
          <Trans>Reject…</Trans>
        </Button>
        <Button
          kind="primary"
          icon="check"
          disabled={!approve}
          onClick={approve}
          hotkey={keyOf("review.approve", "a")}
          needs="hitl: approve/reject"
        >
          {isEdited ? t`Approve the edit` : t`Approve`}
        </Button>
      </div>
    </footer>
  );
}
