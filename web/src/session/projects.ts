/** The projects of the user who is signed in, and the role in the one of this page. */
import { useQuery } from "@tanstack/react-query";
import { type ApiError, getPage, type ItemOf } from "../api/client";
import { DEFAULT, project } from "../lib/project";
import { useMay, useWho } from "./session";

export type Project = ItemOf<"/api/projects">;

const PATH = "/api/projects" as const;

export async function readProjects(signal?: AbortSignal, headers?: HeadersInit): Promise<Project[]> {
  const items: Project[] = [];
  for (let hasMore = true; hasMore; ) {
    const page = await getPage(PATH, { query: { limit: 100, offset: items.length } }, signal, headers);
    items.push(...page.items);
    hasMore = page.hasMore && page.items.length > 0;
  }
  return items;
}

/** Every project that the user may see, the oldest first. No event tells of them. */
export function useProjects() {
  const enabled = useMay()("projects: read");
  return useQuery<Project[], ApiError>({
    queryKey: [PATH],
    queryFn: ({ signal }) => readProjects(signal),
    refetchOnWindowFocus: "always",
    enabled,
  });
}

/** Those in which the user has a role; the others cannot be opened. */
export const opened = (projects: Project[] | undefined) => projects?.filter(({ role }) => role) ?? [];

/** True for the project of this page. */
export const isHere = ({ id, name }: Project) => (project ? [id, name].includes(project) : id === DEFAULT);

/** The project of this page, once it is known. */
export const useProject = () => useProjects().data?.find(isHere);

/** The user's role in the project of this page. */
export function useRole(): string {
  const { user } = useWho();
  const here = useProject();
  return project ? (here?.role ?? "") : user.role;
}
