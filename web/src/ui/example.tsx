/** The button of an empty page that runs an example of what the page shows. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useState } from "react";
import { useLocation } from "wouter";
import { api, unwrap } from "../api/client";
import { Button } from "./basics";
import { toast, toastError } from "./toast";

type Kind = "task" | "review" | "execution";
const NEEDS: Record<Kind, string> = {
  task: "tasks: create",
  review: "tasks: create",
  execution: "templates: deploy",
};
const MESSAGE = "My parcel is a week late. Where is it?";
const PROMPT = `Answer this customer in two short sentences: "${MESSAGE}"`;

export function RunExample({ of }: { of: Kind }) {
  const [busy, setBusy] = useState(false);
  const [, navigate] = useLocation();
  const run = async () => {
    if (of === "execution") {
      const params = { path: { id: "support-reply-v1" } };
      const body = { input: { message: MESSAGE, company: "Callboard" } as unknown as Record<string, never> };
      const begun = await unwrap(api.POST("/api/templates/{id}/deploy", { params, body }));
      return navigate(`/executions/${(begun as { id: string }).id}`);
    }
    const hitl = of === "review" ? { hitl: { required: true } } : {};
    const body = { prompt: PROMPT, maxTokens: 80, tags: ["example"], ...hitl };
    await unwrap(api.POST("/api/tasks", { body }));
    toast(t`Submitted. It appears here once a worker has it.`);
  };
  const click = async () => {
    setBusy(true);
    await run().catch((error) => toastError(error, t`The example was not submitted`));
    setBusy(false);
  };
  return (
    <Button needs={NEEDS[of]} busy={busy} onClick={() => void click()}>
      <Trans>Run an example</Trans>
    </Button>
  );
}
