/** The plan as a graph: every step from the start, with its state as icon, word and colour. */
import { t } from "@lingui/core/macro";
import {
  BaseEdge,
  Controls,
  type Edge,
  type EdgeProps,
  getSmoothStepPath,
  Handle,
  MarkerType,
  MiniMap,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
  type ReactFlowInstance,
} from "@xyflow/react";
import { memo, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import "@xyflow/react/dist/base.css";
import { visible } from "../../lib/visible";
import { Icon } from "../../ui/icons";
import { lookOf } from "../../ui/status";
import { above, HEIGHT, MARGIN, type Place, placed, WHOLE_UP_TO, WIDTH } from "./layout";
import { type Items, itemsLine, type StepView, waitWord } from "./steps";

type StepNode = Node<
  {
    state: string;
    items?: Items;
    /** In place of the word of its state. */
    word?: string;
    calls?: string;
    selected: boolean;
    gate: boolean;
    select: (id: string) => void;
  },
  "step"
>;

const StepBox = memo(function StepBox({ id, data }: NodeProps<StepNode>) {
  const look = lookOf(data.state);
  return (
    <>
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <button
        type="button"
        className="executions-node nopan"
        data-state={data.state}
        data-tone={look.tone}
        data-step={id}
        aria-pressed={data.selected}
        onClick={() => data.select(id)}
      >
        <span className="executions-node-id">
          <span className="cut">{id}</span>
          {data.calls && (
            <span className="executions-node-items" data-tip={t`Calls the function ${data.calls}`}>
              ƒ
            </span>
          )}
          {data.items && <span className="executions-node-items">{itemsLine(data.items)}</span>}
        </span>
        <span className="status" data-tone={look.tone}>
          <Icon name={look.icon} spin={look.spin} size={14} />
          <span className="cut">{visible(data.word ?? look.word)}</span>
        </span>
        {data.gate && (
          <span className="executions-node-gate" data-tip={t`A reviewer must approve its output`}>
            <Icon name="review" size={13} />
          </span>
        )}
      </button>
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </>
  );
});

/** Where the edges end, so that a step need not be drawn to be measured: only those in view are drawn. */
const HANDLES: NonNullable<StepNode["handles"]> = [
  { type: "target", position: Position.Left, x: 0, y: HEIGHT / 2, width: 1, height: 1 },
  { type: "source", position: Position.Right, x: WIDTH - 1, y: HEIGHT / 2, width: 1, height: 1 },
];
const ZOOM = 0.85;

const TYPES = { step: StepBox };
const EDGE_TYPES = { around: Around };

/** An edge that leads to a further band goes around the steps between. */
function Around({ data, markerEnd, ...ends }: EdgeProps<Edge<{ above: number }>>) {
  const [path] = getSmoothStepPath({ ...ends, centerY: data?.above });
  return <BaseEdge path={path} markerEnd={markerEnd} />;
}

function wayOf(places: Map<string, Place>, before: string, id: string) {
  const [from, to] = [places.get(before), places.get(id)];
  return from && to && to.x <= from.x ? { type: "around", data: { above: above(places, to) } } : {};
}
/** The colours of the map, by the tone of a state. */
const TONES = { good: "good", bad: "bad", warn: "warn", run: "run", mute: "control" } as const;

export default function Graph({
  steps,
  selected,
  onSelect,
}: {
  steps: StepView[];
  selected: string | undefined;
  onSelect: (id: string) => void;
}) {
  // The places depend on the plan, which does not change while it runs, and on the frame until the graph is moved.
  const shape = JSON.stringify(steps.map(({ id, dependsOn }) => ({ id, dependsOn })));
  const [size, setSize] = useState<{ width: number; height: number }>();
  const places = useMemo(() => placed(JSON.parse(shape), size), [shape, size]);
  const latest = useRef(onSelect);
  latest.current = onSelect;
  const select = useRef((id: string) => latest.current(id)).current;
  const cache = useRef(new Map<string, StepNode>());

  const nodes = useMemo(
    () =>
      steps.map((step): StepNode => {
        const { id, state, items, function: calls, requiresApproval } = step;
        const position = places.get(id) ?? { x: 0, y: 0 };
        const word = waitWord(step);
        const data = { state, items, word, calls, selected: id === selected, gate: requiresApproval, select };
        const known = cache.current.get(id);
        // A node that did not change is the same object, so it is not drawn again.
        if (known && known.position === position && JSON.stringify(known.data) === JSON.stringify(data))
          return known;
        const size = { width: WIDTH, height: HEIGHT };
        const node: StepNode = {
          id,
          type: "step",
          position,
          data,
          ...size,
          measured: size,
          handles: HANDLES,
        };
        cache.current.set(id, node);
        return node;
      }),
    [steps, places, selected, select],
  );
  const states = steps.map(({ state }) => state).join();
  const edges = useMemo(() => {
    const all: { id: string; dependsOn: string[] }[] = JSON.parse(shape);
    const known = new Map(all.map(({ id }, index) => [id, states.split(",")[index]]));
    return all.flatMap(({ id, dependsOn }) =>
      dependsOn
        .filter((before) => known.has(before))
        .map((before): Edge => {
          const done = known.get(before) === "completed" || known.get(before) === "skipped";
          return {
            id: `${before} ${id}`,
            source: before,
            target: id,
            ...wayOf(places, before, id),
            focusable: false,
            className: done ? "executions-edge-done" : "executions-edge",
            markerEnd: { type: MarkerType.ArrowClosed, width: 14, height: 14, color: "var(--line-strong)" },
          };
        }),
    );
  }, [shape, states, places]);

  const flow = useRef<ReactFlowInstance<StepNode>>(null);
  const frame = useRef<HTMLDivElement>(null);
  const isMoved = useRef(false);
  const isWhole = steps.length <= WHOLE_UP_TO;
  const showWhole = useCallback(() => {
    if (isWhole && !isMoved.current)
      void flow.current?.fitView({ maxZoom: 1.35, padding: { x: `${MARGIN.x}px`, y: `${MARGIN.y}px` } });
  }, [isWhole]);
  const start = (instance: ReactFlowInstance<StepNode>) => {
    flow.current = instance;
    showWhole();
  };
  // Beside the drawer there is less room: the graph stays whole unless somebody moved it.
  useLayoutEffect(() => {
    if (!frame.current || !isWhole) return;
    const { current } = frame;
    const measure = () => {
      if (!isMoved.current) setSize({ width: current.clientWidth, height: current.clientHeight });
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(current);
    return () => observer.disconnect();
  }, [isWhole]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: shown as a whole again where it has other places
  useEffect(() => {
    const next = requestAnimationFrame(showWhole);
    return () => cancelAnimationFrame(next);
  }, [showWhole, places]);
  // A large graph begins where it is looked at: what is drawn elsewhere first would be drawn twice.
  const [viewport] = useState(() => {
    const first = steps.find(({ id }) => id === selected) ?? steps.find(({ state }) => state === "running");
    const at = places.get((first ?? steps[0])?.id ?? "") ?? { x: 0, y: 0 };
    return { x: 120 - at.x * ZOOM, y: window.innerHeight * 0.35 - at.y * ZOOM, zoom: ZOOM };
  });
  // A step that is selected elsewhere (the table, the address) comes into view.
  useEffect(() => {
    const instance = flow.current;
    const at = selected === undefined ? undefined : places.get(selected);
    const box = frame.current?.getBoundingClientRect();
    if (!instance || !at || !box) return;
    const { x, y } = instance.flowToScreenPosition({ x: at.x + WIDTH / 2, y: at.y + HEIGHT / 2 });
    if (x > box.left && x < box.right && y > box.top && y < box.bottom) return;
    void instance.setCenter(at.x + WIDTH / 2, at.y + HEIGHT / 2, { zoom: instance.getZoom() });
  }, [selected, places]);

  return (
    <div className="executions-graph" ref={frame}>
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={TYPES}
        edgeTypes={EDGE_TYPES}
        onInit={start}
        onMoveStart={(event) => {
          if (event) isMoved.current = true;
        }}
        defaultViewport={viewport}
        minZoom={0.05}
        maxZoom={1.5}
        nodesDraggable={false}
        nodesConnectable={false}
        nodesFocusable={false}
        edgesFocusable={false}
        elementsSelectable={false}
        zoomOnDoubleClick={false}
        onlyRenderVisibleElements={steps.length > WHOLE_UP_TO}
        proOptions={{ hideAttribution: true }}
        aria-label={t`Graph of ${steps.length} steps`}
      >
        <Controls showInteractive={false} position="bottom-left" />
        {steps.length >= WHOLE_UP_TO && (
          <MiniMap<StepNode>
            position="bottom-right"
            className="executions-map"
            pannable
            zoomable
            ariaLabel={t`Map of ${steps.length} steps`}
            nodeColor={({ data }) => `var(--${TONES[lookOf(data.state).tone]})`}
          />
        )}
      </ReactFlow>
    </div>
  );
}
