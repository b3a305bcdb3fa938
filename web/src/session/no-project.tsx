/** The page in the place of a project that is none of the user's, or is so no more: the way to the others. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { headerOf, inProject } from "../lib/project";
import { Button, Loaded } from "../ui/basics";
import { opened, readProjects } from "./projects";
import { useSignOut } from "./session";
import "./sign-in.css";

export default function NoProject() {
  const signOut = useSignOut();
  const read = useQuery({
    queryKey: ["/api/projects", "others"],
    queryFn: ({ signal }) => readProjects(signal, headerOf(undefined)),
    staleTime: 0,
  });
  return (
    <main className="sign-in" data-no-project>
      <title>{t`No such project · Callboard`}</title>
      <div className="sign-in-box">
        <p className="brand">
          <img src="/favicon.svg" alt="" width="22" height="22" /> Callboard
        </p>
        <h1>
          <Trans>You have no role in this project</Trans>
        </h1>
        <p>
          <Trans>
            Your role was taken away, or there is no such project. An admin of the project gives roles in it.
          </Trans>
        </p>
        <h2>
          <Trans>Your projects</Trans>
        </h2>
        <Loaded query={read} lines={2}>
          {(projects) => (
            <ul className="stack">
              {opened(projects).map(({ id, name }) => (
                <li key={id}>
                  <a className="button" translate="no" href={inProject("/", id)}>
                    {name}
                  </a>
                </li>
              ))}
            </ul>
          )}
        </Loaded>
        <div>
          <Button kind="quiet" onClick={() => void signOut()}>
            <Trans>Sign out</Trans>
          </Button>
        </div>
      </div>
    </main>
  );
}
