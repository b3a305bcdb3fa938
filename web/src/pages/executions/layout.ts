/** Where each step stands in the graph: from left to right by what it depends on. */
import { graphlib, layout } from "@dagrejs/dagre";

export const WIDTH = 176;
export const HEIGHT = 58;
const BETWEEN = 18;
const COLUMN = WIDTH + 48;
/** dagre takes seconds for more; then the steps stand in plain columns. */
const DAGRE_UP_TO = 100;

export type Place = { x: number; y: number };
type Node = { id: string; dependsOn: string[] };

export function placed(steps: Node[]): Map<string, Place> {
  const known = new Set(steps.map(({ id }) => id));
  const nodes = steps.map(({ id, dependsOn }) => ({
    id,
    dependsOn: dependsOn.filter((it) => known.has(it)),
  }));
  return nodes.length > DAGRE_UP_TO ? inColumns(nodes) : byDagre(nodes);
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
