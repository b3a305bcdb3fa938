/** Why no call of a model begins, until when, and the button that ends it. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { api, type ItemOf, unwrap } from "../api/client";
import { Button } from "./basics";
import { Ago } from "./time";
import { toast, toastError } from "./toast";

type Model = ItemOf<"/api/models">;

export const isClosed = ({ closedUntil, closedQueues }: Model) =>
  closedUntil !== undefined || (closedQueues?.length ?? 0) > 0;

export function ClosedModel({ of: model }: { of: Model }) {
  const client = useQueryClient();
  const open = async () => {
    const params = { path: { name: model.name } };
    try {
      await unwrap(api.DELETE("/api/models/{name}/pause", { params }));
      await client.invalidateQueries({ queryKey: ["/api/models"] });
      toast(t`${model.name} takes calls again.`);
    } catch (error) {
      toastError(error, t`The pause was not ended`);
    }
  };
  return (
    <>
      <span className="soft">
        {model.closedUntil ? (
          <Trans>
            {model.closedBecause === "unavailable"
              ? t`Its provider cannot be reached`
              : t`Its provider refused a call`}
            ; the next call begins <Ago at={model.closedUntil} />.
          </Trans>
        ) : (
          <Trans>
            Its provider refuses calls for {(model.closedQueues ?? []).map((own) => own.queue).join(", ")}.
          </Trans>
        )}
      </span>
      <Button size="small" needs="models: manage" onClick={() => void open()}>
        <Trans>Call it now</Trans>
      </Button>
    </>
  );
}
