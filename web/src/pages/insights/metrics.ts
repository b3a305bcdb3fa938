/** The metrics of the server, read from its Prometheus text. */
import { t } from "@lingui/core/macro";
import { useQuery } from "@tanstack/react-query";
import { ApiError } from "../../api/client";

export type Sample = { name: string; labels: Record<string, string>; value: number };

/** Every sample; comments and timestamps are left out. */
export function parse(text: string): Sample[] {
  const samples: Sample[] = [];
  for (const line of text.split("\n")) {
    const found = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!found) continue;
    const [, name = "", inner = "", number = ""] = found;
    samples.push({ name, labels: labelsOf(inner), value: numberOf(number) });
  }
  return samples;
}

function labelsOf(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const [, name = "", value = ""] of text.matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g)) {
    labels[name] = value.replace(/\\(.)/g, (_, letter: string) => (letter === "n" ? "\n" : letter));
  }
  return labels;
}

const numberOf = (text: string) =>
  text === "+Inf" ? Number.POSITIVE_INFINITY : text === "-Inf" ? Number.NEGATIVE_INFINITY : Number(text);

/** The value of a sample with these labels. */
export function value(
  samples: Sample[],
  name: string,
  labels: Record<string, string> = {},
): number | undefined {
  return samples.find(
    (sample) =>
      sample.name === name && Object.entries(labels).every(([label, text]) => sample.labels[label] === text),
  )?.value;
}

/** The values that a label has, by name. */
export function names(samples: Sample[], name: string, label: string): string[] {
  const found = samples.filter((sample) => sample.name === name).map((sample) => sample.labels[label] ?? "");
  return [...new Set(found)].sort();
}

export type Bucket = { to: number; upTo: number };

/** A histogram's buckets: how many observations were at most `to`. */
export function buckets(samples: Sample[], name: string, labels: Record<string, string>): Bucket[] {
  return samples
    .filter(
      (sample) =>
        sample.name === `${name}_bucket` &&
        Object.entries(labels).every(([label, text]) => sample.labels[label] === text),
    )
    .map(({ labels: { le = "" }, value: upTo }) => ({ to: numberOf(le), upTo }))
    .sort((a, b) => a.to - b.to);
}

/** The range of the bucket in which a share of the observations ends; a histogram knows no more. */
export function quantile(all: Bucket[], share: number): { from: number; to: number } | undefined {
  const total = all.at(-1)?.upTo ?? 0;
  if (total === 0) return undefined;
  const index = all.findIndex(({ upTo }) => upTo >= total * share);
  const bucket = all[index];
  return bucket && { from: all[index - 1]?.to ?? 0, to: bucket.to };
}

/** Reads the metrics; they are as they were when read. */
export async function readMetrics(signal?: AbortSignal): Promise<Sample[]> {
  const response = await fetch("/api/metrics", { credentials: "same-origin", signal });
  if (!response.ok) {
    const body = await response.json().catch(() => undefined);
    const { code = "UNKNOWN", message = t`the server answered ${response.status}` } = body?.error ?? {};
    throw new ApiError(response.status, code, message);
  }
  return parse(await response.text());
}

export function useMetrics(enabled = true) {
  return useQuery<Sample[], ApiError>({
    queryKey: ["/api/metrics"],
    queryFn: ({ signal }) => readMetrics(signal),
    staleTime: 0,
    enabled,
  });
}
