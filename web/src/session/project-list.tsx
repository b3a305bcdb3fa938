/** The projects to switch to. Each is a link, which loads the page again: another tab may be opened with it as well. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { moveAmongLinks } from "../lib/arrows";
import { switched } from "../lib/project";
import { Field, Loaded } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { isHere, opened, type Project, useProjects } from "./projects";
import "./project-list.css";

/** Beyond so many, they are searched. */
const MOST = 10;

/** Those whose name or description has every word, in the order of the list. */
export function matching(projects: Project[], text: string): Project[] {
  const words = text.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  return projects.filter(({ name, description = "" }) => {
    const said = `${name} ${description}`.toLocaleLowerCase();
    return words.every((word) => said.includes(word));
  });
}

export default function ProjectList({ onClose }: { onClose: () => void }) {
  const read = useProjects();
  const [path] = useLocation();
  const [text, setText] = useState("");
  const list = useRef<HTMLUListElement>(null);
  const links = () => [...(list.current?.querySelectorAll("a") ?? [])];
  return (
    <Dialog title={t`Switch to another project`} onClose={onClose}>
      <Loaded query={read}>
        {(projects) => {
          const all = opened(projects);
          const shown = matching(all, text);
          return (
            // biome-ignore lint/a11y/noStaticElementInteractions: the arrows move among its links, which have the focus
            <div className="stack" onKeyDown={moveAmongLinks}>
              {all.length > MOST && (
                <Field label={t`Search by name or description`}>
                  {(props) => (
                    <input
                      {...props}
                      className="input"
                      type="search"
                      value={text}
                      onChange={(event) => setText(event.target.value)}
                      onKeyDown={(event) => {
                        if (event.key === "Enter" && !event.nativeEvent.isComposing) links()[0]?.click();
                      }}
                    />
                  )}
                </Field>
              )}
              {shown.length === 0 && (
                <p className="soft" role="status">
                  <Trans>No project has all of these words.</Trans>
                </p>
              )}
              <ul className="project-list" ref={list}>
                {shown.map((each) => (
                  <li key={each.id}>
                    <One of={each} href={switched(path, each.id)} onClose={onClose} />
                  </li>
                ))}
              </ul>
              <Link href="/admin/projects" className="small" onClick={onClose}>
                <Trans>All projects, with members and usage</Trans>
              </Link>
            </div>
          );
        }}
      </Loaded>
    </Dialog>
  );
}

function One({ of, href, onClose }: { of: Project; href: string; onClose: () => void }) {
  const here = isHere(of);
  return (
    <a
      href={href}
      aria-current={here ? "true" : undefined}
      // An opened dialog gives the focus to the element with this attribute, which React does not write.
      ref={(link) => (here ? link?.setAttribute("autofocus", "") : undefined)}
      onClick={(event) => {
        if (!here) return;
        event.preventDefault();
        onClose();
      }}
    >
      <span className="grow">
        <span className="cut" translate="no">
          {of.name}
        </span>
        {of.description && (
          <span className="cut faint small" translate="no" dir="auto">
            {of.description}
          </span>
        )}
      </span>
      {here && (
        <span className="tag">
          <Trans>here</Trans>
        </span>
      )}
      {of.archivedAt && (
        <span className="tag">
          <Trans>archived</Trans>
        </span>
      )}
      <span className="soft small">{of.role}</span>
    </a>
  );
}
