import { afterEach, expect, test, vi } from "vitest";
import { DEFAULT, headerOf } from "../lib/project";

afterEach(() => {
  vi.unstubAllGlobals();
  window.history.replaceState(null, "", "/");
});

/** The projects that the requests of a page name, by path, where the page has this address. */
async function named(address: string, headers?: HeadersInit) {
  const seen: Record<string, string | null> = {};
  vi.stubGlobal("fetch", async (request: Request) => {
    seen[new URL(request.url).pathname] = request.headers.get("callboard-project");
    return Response.json({ success: true, data: [] });
  });
  window.history.replaceState(null, "", address);
  vi.resetModules();
  const { api } = await import("./client");
  await api.GET("/api/tasks", { headers });
  await api.GET("/api/auth/session");
  await api.GET("/api/auth/keys");
  await api.POST("/api/auth/logout");
  await api.GET("/api/auth/users");
  return seen;
}

test("a request names the project of the address; what is about the account or all users names none", async () => {
  expect(await named("/tasks?project=prj_legal")).toEqual({
    "/api/tasks": "prj_legal",
    "/api/auth/session": "prj_legal",
    "/api/auth/keys": "prj_legal",
    "/api/auth/logout": null,
    "/api/auth/users": null,
  });
});

test("without a project in the address no request names one, and a request may name another", async () => {
  expect(new Set(Object.values(await named("/tasks")))).toEqual(new Set([null]));
  expect((await named("/tasks?project=prj_legal", headerOf(undefined)))["/api/tasks"]).toBe(DEFAULT);
  expect((await named("/tasks", headerOf("prj_sales")))["/api/tasks"]).toBe("prj_sales");
});
