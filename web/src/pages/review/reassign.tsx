/** Gives an output to another reviewer. */
import { t } from "@lingui/core/macro";
import { useQueryClient } from "@tanstack/react-query";
import { type Approval, api, unwrap } from "../../api/client";
import { usePage } from "../../api/hooks";
import { toast, toastError } from "../../ui/toast";

export function Reassign({ item }: { item: Approval }) {
  const client = useQueryClient();
  const { data } = usePage("/api/hitl/reviewers", { query: { limit: 100 } });
  const others = data?.items.filter(({ id }) => id !== item.assignedTo) ?? [];
  if (others.length === 0) return null;
  const give = async (assignee: string) => {
    const params = { path: { taskId: item.taskId } };
    try {
      await unwrap(api.POST("/api/hitl/{taskId}/assign", { params, body: { assignee } }));
      toast(t`Given to ${others.find(({ id }) => id === assignee)?.name ?? ""}.`);
    } catch (error) {
      toastError(error, t`It was not given to anybody else`);
    }
    await client.invalidateQueries({ queryKey: ["/api/hitl/{taskId}"] });
    await client.invalidateQueries({ queryKey: ["/api/hitl/{taskId}/history"] });
  };
  return (
    <select
      className="select review-reassign"
      aria-label={t`Give it to another reviewer`}
      value=""
      onChange={(event) => void give(event.target.value)}
    >
      <option value="">{t`Give to…`}</option>
      {others.map(({ id, name, email }) => (
        <option key={id} value={id}>
          {others.some((other) => other.id !== id && other.name === name) ? `${name} (${email})` : name}
        </option>
      ))}
    </select>
  );
}
