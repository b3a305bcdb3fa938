/** The project of the page by name, for a user who has several: the button that opens their list, and the key. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { lazy, Suspense, useEffect } from "react";
import { useKeys } from "../lib/keys";
import { usePreference } from "../lib/preferences";
import { project } from "../lib/project";
import { Icon } from "../ui/icons";
import { opened, useProject, useProjects } from "./projects";
import { useWho } from "./session";

const ProjectList = lazy(() => import("./project-list"));

/** True for a user of several projects, from the second load on before they are read: nothing moves then. */
export function useSeveral(): boolean {
  const { data } = useProjects();
  const [known, remember] = usePreference(`${useWho().user.id}.several`, false);
  const is = data ? project !== undefined || opened(data).length > 1 : known;
  useEffect(() => {
    if (is !== known) remember(is || undefined);
  }, [is, known, remember]);
  return is;
}

/** The list, and the key that opens it. */
export function Switcher({ isOpen, set }: { isOpen: boolean; set: (isOpen: boolean) => void }) {
  useKeys(t`Everywhere`, [
    { id: "projects", key: "p", label: t`Switch to another project`, run: () => set(true) },
  ]);
  if (!isOpen) return null;
  return (
    <Suspense>
      <ProjectList onClose={() => set(false)} />
    </Suspense>
  );
}

export function ProjectButton({ onClick }: { onClick: () => void }) {
  const here = useProject();
  const name = here?.name ?? (project ? "…" : "default");
  return (
    <button
      type="button"
      className="button project"
      aria-haspopup="dialog"
      data-tip={here?.description}
      data-project={here?.id}
      onClick={onClick}
    >
      <Icon name="projects" />
      <span className="hide">
        <Trans>Project</Trans>
      </span>
      <span className="cut" translate="no">
        {name}
      </span>
      <Icon name="drop" size={12} />
    </button>
  );
}

/** Said on every page of a project that takes no new work. */
export function Archived() {
  const here = useProject();
  if (!here?.archivedAt) return null;
  return (
    <div className="notice" data-tone="warn" role="status" data-archived>
      <span className="status" data-tone="warn">
        <Icon name="stop" />
      </span>
      <div className="grow">
        <strong>
          <Trans>This project is in the archive</Trans>
        </strong>
        <div>
          <Trans>It takes no new work, and its schedules start nothing. Everything can be read.</Trans>
        </div>
      </div>
    </div>
  );
}
