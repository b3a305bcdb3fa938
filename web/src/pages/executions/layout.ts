/**
 * Where each step stands in the graph: from left to right by what it depends on. A graph that is too wide to be read
 * in its frame goes on in further bands, as the lines of a text do.
 */
import { graphlib, layout } from "@dagrejs/dagre";

export const WIDTH = 176;
export const HEIGHT = 58;
const BETWEEN = 18;
const COLUMN = WIDTH + 48;
/** dagre takes seconds for more; then the steps stand in plain columns. */
const DAGRE_UP_TO = 100;
/** So many steps are shown as a whole; larger graphs are moved through. */
export const WHOLE_UP_TO = 40;
/** Pixels of the frame that stay empty at each side of the whole graph; edges to a further band pass there. */
export const MARGIN = { x: 32, y: 16 };
/** The smallest text of a step has 12.5 px: at this zoom it is shown with 12. */
export const READABLE = 12 / 12.5;
const BETWEEN_BANDS = 44;

export type Place = { x: number; y: number };
type Node = { id: string; dependsOn: string[] };
type Size = { width: number; height: number };

export function placed(steps: Node[], frame?: Size): Map<string, Place> {
  const known = new Set(steps.map(({ id }) => id));
  const nodes = steps.map(({ id, dependsOn }) => ({
    id,
    dependsOn: dependsOn.filter((it) => known.has(it)),
  }));
  if (nodes.length > DAGRE_UP_TO) return inColumns(nodes);
  const line = byDagre(nodes);
  return frame && nodes.length <= WHOLE_UP_TO ? readable(line, frame) : line;
}

/** The height at which an edge passes above the band of its step: the middle of the space in which no step stands. */
export function above(places: Map<string, Place>, { y }: Place): number {
  let top = y;
  const higher = [...places.values()].filter((place) => place.y < y).sort((one, other) => other.y - one.y);
  for (const place of higher) {
    if (place.y + HEIGHT + BETWEEN_BANDS <= top) break;
    top = place.y;
  }
  return top - BETWEEN_BANDS / 2;
}

/** The zoom at which all of a graph is seen in a frame. */
export function zoomOf(places: Map<string, Place>, frame: Size): number {
  const all = [...places.values()];
  const extent = (of: (place: Place) => number, size: number) =>
    Math.max(...all.map(of)) - Math.min(...all.map(of)) + size;
  const width = (frame.width - 2 * MARGIN.x) / extent(({ x }) => x, WIDTH);
  const height = (frame.height - 2 * MARGIN.y) / extent(({ y }) => y, HEIGHT);
  return Math.min(width, height);
}

/** The fewest bands that can be read, or those that come nearest to it. */
function readable(line: Map<string, Place>, frame: Size): Map<string, Place> {
  const columns = [...new Set([...line.values()].map(({ x }) => x))].sort((one, other) => one - other);
  let best = line;
  for (let bands = 2; zoomOf(best, frame) < READABLE && bands <= columns.length; bands++) {
    const next = inBands(line, columns, Math.ceil(columns.length / bands));
    if (zoomOf(next, frame) > zoomOf(best, frame)) best = next;
  }
  return best;
}

/** The columns of a line in bands of so many, one under the other. */
function inBands(line: Map<string, Place>, columns: number[], each: number): Map<string, Place> {
  const places = new Map<string, Place>();
  let top = 0;
  for (let first = 0; first < columns.length; first += each) {
    const band = [...line].filter(([, { x }]) => {
      const column = columns.indexOf(x);
      return column >= first && column < first + each;
    });
    const ys = band.map(([, { y }]) => y);
    const highest = Math.min(...ys);
    for (const [id, { x, y }] of band)
      places.set(id, { x: (columns.indexOf(x) - first) * COLUMN, y: top + y - highest });
    top += Math.max(...ys) - highest + HEIGHT + BETWEEN_BANDS;
  }
  return places;
}

function byDagre(nodes: Node[]): Map<string, Place> {
  const graph = new graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: BETWEEN, ranksep: COLUMN - WIDTH });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id } of nodes) graph.setNode(id, { width: WIDTH, height: HEIGHT });
  for (const { id, dependsOn } of nodes) for (const before of dependsOn) graph.setEdge(before, id);
  layout(graph);
  return new Map(
    nodes.map(({ id }) => {
      const { x, y } = graph.node(id) as Place;
      return [id, { x: x - WIDTH / 2, y: y - HEIGHT / 2 }];
    }),
  );
}

/** A column for each level; within it, each step stands near the middle of what it depends on. */
function inColumns(nodes: Node[]): Map<string, Place> {
  const levels = levelsOf(nodes);
  const columns: Node[][] = [];
  for (const node of nodes) {
    const level = levels.get(node.id) ?? 0;
    columns[level] ??= [];
    columns[level].push(node);
  }
  const rows = new Map<string, number>();
  const places = new Map<string, Place>();
  for (const [level, column] of columns.entries()) {
    const middle = new Map(
      column.map((node) => [node.id, mean(node.dependsOn.map((it) => rows.get(it) ?? 0))]),
    );
    column.sort((one, other) => (middle.get(one.id) ?? 0) - (middle.get(other.id) ?? 0));
    for (const [index, { id }] of column.entries()) {
      const row = index - (column.length - 1) / 2;
      rows.set(id, row);
      places.set(id, { x: level * COLUMN, y: row * (HEIGHT + BETWEEN) });
    }
  }
  return places;
}

const mean = (values: number[]) =>
  values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;

/** How many steps run before each, one after the other. */
function levelsOf(nodes: Node[]): Map<string, number> {
  const behind = new Map<string, string[]>();
  const open = new Map(nodes.map(({ id, dependsOn }) => [id, dependsOn.length]));
  for (const { id, dependsOn } of nodes) {
    for (const before of dependsOn) behind.set(before, [...(behind.get(before) ?? []), id]);
  }
  const levels = new Map<string, number>();
  const ready = nodes.filter(({ dependsOn }) => dependsOn.length === 0).map(({ id }) => id);
  for (const id of ready) {
    const level = levels.get(id) ?? 0;
    levels.set(id, level);
    for (const next of behind.get(id) ?? []) {
      levels.set(next, Math.max(levels.get(next) ?? 0, level + 1));
      const left = (open.get(next) ?? 1) - 1;
      open.set(next, left);
      if (left === 0) ready.push(next);
    }
  }
  return levels;
}
