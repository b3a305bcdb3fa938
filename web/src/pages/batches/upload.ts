/** The upload of a file of rows, as a stream of the browser: a page holds none of it. */
import { t } from "@lingui/core/macro";
import { ApiError, refusal, type Schemas } from "../../api/client";
import { headerOf, project } from "../../lib/project";
import type { Media } from "./file";
import type { Batch } from "./read";

export type Settings = {
  templateId: string;
  version?: string;
  name?: string;
  tags?: string;
  maxCost?: string;
  concurrency?: string;
  onInvalid?: string;
  reuse?: string;
  dedupe?: string;
  keyColumn?: string;
};

/** The estimated cost of a file, of which nothing is kept. */
export async function estimate(
  file: File,
  media: Media,
  settings: Settings,
  signal: AbortSignal,
): Promise<Schemas["TemplateBatchEstimate"]> {
  const response = await fetch(`/api/batches?${queryOf({ ...settings, dryRun: "true" })}`, {
    method: "POST",
    headers: { "content-type": media, ...headerOf(project) },
    body: file,
    signal,
  });
  const body = read(await response.text());
  if (!response.ok) throw refusal(response, body);
  return (body as { data: Schemas["TemplateBatchEstimate"] }).data;
}

function queryOf(settings: Record<string, string | undefined>): URLSearchParams {
  return new URLSearchParams(
    Object.entries(settings).filter((each): each is [string, string] => Boolean(each[1])),
  );
}

/** Begins an upload. `onSent` is told how many bytes have gone; with the same key, a repeated one makes no second batch. */
export function upload(
  file: File,
  media: Media,
  settings: Settings,
  key: string,
  onSent: (bytes: number) => void,
): { done: Promise<Batch>; abort: () => void } {
  // `fetch` does not tell how much it has sent.
  const request = new XMLHttpRequest();
  request.open("POST", `/api/batches?${queryOf(settings)}`);
  const headers = { "content-type": media, "idempotency-key": key, ...headerOf(project) };
  for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
  const done = new Promise<Batch>((resolve, reject) => {
    request.upload.onprogress = ({ loaded }) => onSent(loaded);
    request.onload = () => {
      const body = read(request.responseText);
      if (request.status === 201) resolve((body as { data: Batch }).data);
      else {
        const headers = new Headers({ "x-request-id": request.getResponseHeader("x-request-id") ?? "" });
        reject(refusal({ status: request.status, headers }, body));
      }
    };
    request.onerror = () =>
      reject(
        new ApiError(0, "UNREACHABLE", t`the server cannot be reached, or it has ended the upload`, {}, true),
      );
    request.onabort = () => reject(new DOMException(t`the upload was stopped`, "AbortError"));
  });
  request.send(file);
  return { done, abort: () => request.abort() };
}

function read(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
