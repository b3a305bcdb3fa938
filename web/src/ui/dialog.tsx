/** A modal dialog: the browser's own, which keeps the focus inside and closes on Escape. */
import { t } from "@lingui/core/macro";
import { type ReactNode, useEffect, useId, useRef } from "react";
import { Icon } from "./icons";

type Props = {
  title: string;
  onClose: () => void;
  children: ReactNode;
  footer?: ReactNode;
  /** Makes the dialog a form. */
  onSubmit?: () => void;
  size?: "wide";
};

/** Mount it to open it; `onClose` unmounts it. The focus is on its first field, else on its last button. */
export function Dialog({ title, onClose, children, footer, onSubmit, size }: Props) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    if (dialog && !dialog.open) dialog.showModal();
    // The browser's choice is the first button, which closes it: a space that is typed must not press that.
    const field = '.body :is(textarea, select, input:not([type="checkbox"], [type="radio"]))';
    dialog?.querySelector<HTMLElement>(`${field}, footer button:last-child`)?.focus();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const content = (
    <>
      <header>
        <h2 id={id}>{title}</h2>
        <button
          type="button"
          className="button"
          data-kind="quiet"
          data-size="small"
          aria-label={t`Close`}
          onClick={onClose}
        >
          <Icon name="cross" />
        </button>
      </header>
      <div className="body">{children}</div>
      {footer && <footer>{footer}</footer>}
    </>
  );
  return (
    <dialog
      ref={ref}
      className="dialog"
      data-size={size}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      {onSubmit ? (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            onSubmit();
          }}
        >
          {content}
        </form>
      ) : (
        <div>{content}</div>
      )}
    </dialog>
  );
}
