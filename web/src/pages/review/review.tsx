/** Outputs that wait for a reviewer. */
import { useRows } from "../../api/hooks";
import { ratio } from "../../lib/format";
import { useLive } from "../../live/live";
import { PageFrame } from "../../ui/basics";
import { Status } from "../../ui/status";
import { Table } from "../../ui/table";
import { Ago } from "../../ui/time";

export default function Review() {
  useLive(["hitl.*"]);
  const { rows, total, more } = useRows("/api/hitl/pending", { query: { includeExpired: true } });
  return (
    <PageFrame title="Review" fill>
      <Table
        label="Outputs that wait"
        rows={rows}
        total={total}
        more={more}
        keyOf={(item) => item.taskId}
        href={(item) => `/review/${item.taskId}`}
        columns={[
          {
            id: "summary",
            header: "Output",
            width: "minmax(200px, 3fr)",
            cell: (item) => item.summary ?? item.taskId,
          },
          { id: "status", header: "Status", width: "130px", cell: (item) => <Status state={item.status} /> },
          {
            id: "confidence",
            header: "Confidence",
            width: "110px",
            number: true,
            cell: (item) => ratio(item.confidence),
          },
          {
            id: "age",
            header: "Waiting",
            width: "90px",
            number: true,
            cell: (item) => <Ago at={item.createdAt} plain />,
          },
        ]}
      />
    </PageFrame>
  );
}
