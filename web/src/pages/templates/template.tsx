/** One template: its steps, its last runs, the form that deploys it, its versions and what they differ in, its text. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { Link, useLocation } from "wouter";
import { api, type Schemas, unwrap } from "../../api/client";
import { useApi } from "../../api/hooks";
import { duration, money } from "../../lib/format";
import { useParams } from "../../lib/search";
import { visible } from "../../lib/visible";
import { useRole } from "../../session/projects";
import { useMay, useWho } from "../../session/session";
import { Button, Failed, Loaded, Loading, PageFrame, Panel } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { Published } from "../../ui/published";
import { Tabs } from "../../ui/tabs";
import { toast, toastError } from "../../ui/toast";
import { Run } from "../definition/run";
import { Steps } from "../definition/steps";
import { visibilityOf } from "./visibility";

const Versions = lazy(() => import("./versions"));
const Edit = lazy(() => import("./edit"));
const Runs = lazy(() => import("./runs"));

type Template = Schemas["Template"];

export default function One({ id }: { id: string }) {
  const [params, set] = useParams();
  const may = useMay();
  const who = useWho();
  const role = useRole();
  const version = params.get("version") ?? undefined;
  const tab = params.get("tab") ?? "steps";
  const read = useApi("/api/templates/{id}", { path: { id }, query: { version } });
  const versions = useApi("/api/templates/{id}/versions", { path: { id } });
  const [isDeleting, setDeleting] = useState(false);
  const template = read.data;
  const to = (name: string) =>
    `/templates/${id}?${new URLSearchParams({ tab: name, ...(version && { version }) })}`;
  const tabs = [
    { id: "steps", name: t`Steps`, href: to("steps") },
    ...(may("executions: read") ? [{ id: "runs", name: t`Runs`, href: to("runs") }] : []),
    ...(may("templates: deploy") ? [{ id: "deploy", name: t`Deploy`, href: to("deploy") }] : []),
    {
      id: "versions",
      name: versions.data ? t`Versions · ${versions.data.length}` : t`Versions`,
      href: to("versions"),
    },
    ...(may("templates: create") ? [{ id: "edit", name: t`Edit`, href: to("edit") }] : []),
  ];
  const shown = tabs.some((each) => each.id === tab) ? tab : "steps";
  const isOwn = template?.author === who.user.email || role === "admin";
  return (
    <PageFrame
      title={template?.name ?? id}
      actions={
        template && (
          <>
            {versions.data && versions.data.length > 1 && (
              <select
                className="select templates-version"
                aria-label={t`Version`}
                value={template.version}
                onChange={(event) => set({ version: event.target.value })}
              >
                {versions.data.map((each) => (
                  <option key={each.version} value={each.version}>
                    {t`version ${each.version}`}
                  </option>
                ))}
              </select>
            )}
            {may("templates: delete") && isOwn && template.author !== "system" && (
              <Button kind="danger" onClick={() => setDeleting(true)}>
                <Trans>Delete</Trans>
              </Button>
            )}
            {may("templates: deploy") && shown !== "deploy" && (
              <Link className="button" data-kind="primary" href={to("deploy")}>
                <Trans>Deploy</Trans>
              </Link>
            )}
          </>
        )
      }
    >
      {read.error && !template ? (
        <Failed
          error={read.error}
          retry={() => void read.refetch()}
          what={read.error.status === 404 ? t`There is no such template, or you may not see it` : undefined}
        />
      ) : !template ? (
        <Loading />
      ) : (
        <>
          <Head template={template} />
          <Tabs label={t`Parts of the template`} tabs={tabs} current={shown} />
          <Suspense fallback={<Loading />}>
            {shown === "steps" && (
              <Panel title={t`Steps`}>
                <Steps steps={template.steps ?? []} hitl={template.hitl} defaults={template.defaults} />
              </Panel>
            )}
            {shown === "runs" && <Runs template={template} />}
            {shown === "deploy" && (
              <Run
                key={template.version}
                target={{ kind: "template", id, version: template.version }}
                schema={template.inputSchema}
                steps={template.steps ?? []}
                hitl={template.hitl}
              />
            )}
            {shown === "versions" && (
              <Loaded query={versions}>{(all) => <Versions id={id} versions={all} />}</Loaded>
            )}
            {shown === "edit" && <Edit key={template.version} template={template} />}
          </Suspense>
        </>
      )}
      {isDeleting && template && (
        <Delete template={template} many={versions.data?.length ?? 1} onClose={() => setDeleting(false)} />
      )}
    </PageFrame>
  );
}

function Head({ template }: { template: Template }) {
  return (
    <div className="stack">
      {template.description && <p className="templates-description">{visible(template.description)}</p>}
      <div className="row wrap small soft templates-facts">
        <span translate="no" className="mono">
          {template.id}
        </span>
        <span>
          <Trans>version {template.version}</Trans>
        </span>
        <span>{template.industry}</span>
        <span>
          <Trans>by {template.author}</Trans>
        </span>
        <span>
          <Trans>seen by: {visibilityOf(template.visibility)}</Trans>
        </span>
        <span>
          <Trans>
            about {money(template.estimatedCost)}, {duration(template.estimatedDurationMs)}
          </Trans>
        </span>
        <span>
          <Trans>
            published <Published of={template} />
          </Trans>
        </span>
        {template.tags.map((tag) => (
          <Link key={tag} className="tag" href={`/templates?tags=${encodeURIComponent(tag)}`}>
            {tag}
          </Link>
        ))}
      </div>
    </div>
  );
}

function Delete({ template, many, onClose }: { template: Template; many: number; onClose: () => void }) {
  const [all, setAll] = useState(many === 1);
  const [busy, setBusy] = useState(false);
  const [, navigate] = useLocation();
  const client = useQueryClient();
  const run = async () => {
    setBusy(true);
    try {
      const { id, version } = template;
      const query = all ? {} : { version };
      await unwrap(api.DELETE("/api/templates/{id}", { params: { path: { id }, query } }));
      await client.invalidateQueries({ queryKey: ["/api/templates"] });
      client.removeQueries({
        predicate: ({ queryKey }) => String(queryKey[0]).startsWith("/api/templates/"),
      });
      toast(t`It is deleted. Ended executions keep what they ran.`);
      navigate(all ? "/templates" : `/templates/${id}?tab=versions`);
      onClose();
    } catch (error) {
      toastError(error, t`It was not deleted`);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={t`Delete ${template.name}`}
      onClose={onClose}
      onSubmit={() => void run()}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Keep it</Trans>
          </Button>
          <Button type="submit" kind="danger" busy={busy}>
            {all ? t`Delete all versions` : t`Delete ${template.version}`}
          </Button>
        </>
      }
    >
      <p>
        <Trans>It cannot be deployed any more. Executions that ended keep what they ran.</Trans>
      </p>
      {many > 1 && (
        <label className="check">
          <input type="checkbox" checked={all} onChange={(event) => setAll(event.target.checked)} />
          <Trans>
            All {many} versions, not only {template.version}
          </Trans>
        </label>
      )}
    </Dialog>
  );
}
