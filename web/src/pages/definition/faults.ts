/** Where in a YAML text the faults of a definition are. The server names a field, such as `steps[1].retry`. */
import { isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from "yaml";

export type Fault = { field: string; message: string; code: string };
export type Placed = Fault & {
  /** From 1. Absent if the fault is of the text as a whole. */
  line?: number;
};

/** `steps[1].retry.maxAttempts` as `["steps", 1, "retry", "maxAttempts"]`. */
export function pathOf(field: string): (string | number)[] {
  const parts = field.matchAll(/\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]|([^.[\]]+)/g);
  return [...parts].map(([, index, quoted, name]) =>
    index !== undefined ? Number(index) : (quoted ?? name ?? ""),
  );
}

/** The faults with their lines, by line. A field that is not there has the line of what it should be in. */
export function placed(text: string, faults: Fault[]): Placed[] {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, strict: false });
  const found = faults.map((fault) => {
    const said = /at line (\d+)/.exec(fault.message);
    if (fault.field === "" && said) return { ...fault, line: Number(said[1]) };
    const offset = offsetOf(document.contents, pathOf(fault.field));
    return { ...fault, line: offset === undefined ? undefined : lines.linePos(offset).line };
  });
  return found.sort((a, b) => (a.line ?? 0) - (b.line ?? 0));
}

/** What is wrong with the text before anybody reads its fields. */
export function syntax(text: string): Placed[] {
  const lines = new LineCounter();
  const { errors } = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  return errors.map(({ message, code, pos }) => ({
    field: "",
    message,
    code,
    line: lines.linePos(pos[0]).line,
  }));
}

function offsetOf(root: unknown, path: (string | number)[]): number | undefined {
  let at = root;
  let offset = start(at);
  for (const part of path) {
    if (isMap(at)) {
      const pair = at.items.find(
        ({ key }) => (isScalar(key) ? String(key.value) : String(key)) === String(part),
      );
      if (!pair) break;
      offset = start(pair.key) ?? offset;
      at = pair.value;
    } else if (isSeq(at)) {
      const item = at.items[Number(part)];
      if (item === undefined) break;
      offset = start(item) ?? offset;
      at = item;
    } else {
      break;
    }
  }
  return offset;
}

const start = (node: unknown) => (node as Node | null | undefined)?.range?.[0];
