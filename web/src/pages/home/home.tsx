/** What needs attention. */
import { Link } from "wouter";
import { usePage } from "../../api/hooks";
import { useLive } from "../../live/live";
import { Empty, Loaded, PageFrame, Panel } from "../../ui/basics";
import { Ago } from "../../ui/time";

export default function Home() {
  useLive(["hitl.*"]);
  const waiting = usePage("/api/hitl/pending", { query: { limit: 10, includeExpired: true } });
  return (
    <PageFrame title="Overview">
      <Panel title="Waiting for a reviewer">
        <Loaded query={waiting}>
          {({ items }) =>
            items.length === 0 ? (
              <Empty title="Nothing waits" />
            ) : (
              <ul>
                {items.map((item) => (
                  <li key={item.taskId}>
                    <Link href={`/review/${item.taskId}`}>{item.summary || item.taskId}</Link>{" "}
                    <Ago at={item.createdAt} />
                  </li>
                ))}
              </ul>
            )
          }
        </Loaded>
      </Panel>
    </PageFrame>
  );
}
