/** /docs: the guides of this version. /docs/api: the HTTP interface. Both come with the program. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useEffect, useMemo, useState } from "react";
import { Link, useParams as useRoute } from "wouter";
import { Empty, Loaded, Loading, PageFrame } from "../../ui/basics";
import { fileOf, isGuide, readGuide, sections } from "./guides";
import { Markdown } from "./markdown";
import "../../ui/plain.css";
import "../definition/definition.css";
import "./docs.css";

const Api = lazy(() => import("./api"));

export default function Docs() {
  const route = useRoute<{ "*"?: string }>();
  const address = (route["*"] ?? "").replace(/\/$/, "");
  const [open, setOpen] = useState(false);
  const all = useMemo(() => sections(), []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another guide closes the list on a phone.
  useEffect(() => setOpen(false), [address]);
  return (
    <PageFrame title={t`Documentation`}>
      <div className="docs">
        <nav className="docs-nav" aria-label={t`Guides`} data-open={open}>
          <button
            type="button"
            className="button docs-list"
            aria-expanded={open}
            onClick={() => setOpen(!open)}
          >
            <Trans>All guides</Trans>
          </button>
          <ul>
            <Entry to="/docs" current={address === ""}>
              <Trans>Start</Trans>
            </Entry>
            <Entry to="/docs/api" current={address === "api"}>
              <Trans>HTTP API: operations</Trans>
            </Entry>
          </ul>
          {all.map(({ title, guides }) => (
            <section key={title}>
              <h2>{title}</h2>
              <ul>
                {guides.map((guide) => (
                  <Entry
                    key={guide.address}
                    to={`/docs/${guide.address}`}
                    current={guide.address === address}
                  >
                    {guide.title}
                  </Entry>
                ))}
              </ul>
            </section>
          ))}
        </nav>
        <article className="docs-text">
          <Suspense fallback={<Loading />}>
            {address === "api" ? <Api /> : <Guide key={address} address={address} />}
          </Suspense>
        </article>
      </div>
    </PageFrame>
  );
}

function Entry({ to, current, children }: { to: string; current: boolean; children: React.ReactNode }) {
  return (
    <li>
      <Link href={to} aria-current={current ? "page" : undefined}>
        {children}
      </Link>
    </li>
  );
}

function Guide({ address }: { address: string }) {
  const read = useQuery<string | null, Error>({
    queryKey: ["guide", address],
    queryFn: async () => (await readGuide(address)) ?? null,
  });
  const text = read.data;
  useEffect(() => {
    if (!text) return;
    const id = decodeURIComponent(window.location.hash.slice(1));
    if (id) document.getElementById(id)?.scrollIntoView();
    else window.scrollTo(0, 0);
  }, [text]);
  return (
    <Loaded query={read} lines={10}>
      {(found) =>
        found === null ? (
          <Empty title={t`There is no such guide`}>
            <Link href="/docs">
              <Trans>All guides</Trans>
            </Link>
          </Empty>
        ) : (
          <Markdown text={found} place={{ file: fileOf(address), isGuide }} />
        )
      }
    </Loaded>
  );
}
