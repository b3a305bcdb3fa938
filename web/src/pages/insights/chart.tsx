/** A chart by uPlot, in the colours of the theme; a chunk of its own. Beside it there is always a table. */
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export type Line = {
  label: string;
  values: (number | null)[];
  /** A token of the theme, such as `--accent`. */
  colour: string;
  kind?: "line" | "bars" | "points" | "dashed";
  scale?: "y" | "right";
};

type Props = {
  label: string;
  x: number[];
  lines: Line[];
  height?: number;
  xText: (value: number) => string;
  yText: (value: number) => string;
  rightText?: (value: number) => string;
  xRange?: [number, number];
  yRange?: [number, number];
  /** Where a line stands upright. */
  mark?: number;
};

export default function Chart(props: Props) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const mark = useRef(props.mark);
  mark.current = props.mark;
  const shape = JSON.stringify([props.x, props.lines, props.xRange, props.yRange, props.height]);
  const latest = useRef(props);
  latest.current = props;

  // biome-ignore lint/correctness/useExhaustiveDependencies: `shape` stands for what is drawn.
  useEffect(() => {
    const place = host.current;
    if (!place) return;
    const draw = () => {
      plot.current?.destroy();
      plot.current = made(latest.current, place, () => mark.current);
    };
    draw();
    const resized = new ResizeObserver(() => {
      const width = Math.floor(place.clientWidth);
      if (plot.current && width > 0 && width !== plot.current.width) {
        plot.current.setSize({ width, height: plot.current.height });
      }
    });
    resized.observe(place);
    // Colours are read when it is drawn.
    const themed = new MutationObserver(draw);
    themed.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => {
      resized.disconnect();
      themed.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: the mark is drawn from its ref.
  useEffect(() => plot.current?.redraw(), [props.mark]);
  return <div className="insights-chart" ref={host} role="img" aria-label={props.label} />;
}

function made(props: Props, host: HTMLElement, markAt: () => number | undefined): uPlot {
  const { x, lines, xText, yText, rightText, xRange, yRange, height = 240 } = props;
  const styles = getComputedStyle(document.documentElement);
  const colour = (token: string) => styles.getPropertyValue(token).trim();
  const font = `12px ${styles.getPropertyValue("--sans")}`;
  const axis = { stroke: colour("--text-3"), font, ticks: { show: false } };
  const grid = { stroke: colour("--line"), width: 1 };
  const series = lines.map((line): uPlot.Series => {
    const stroke = colour(line.colour);
    const common = { label: line.label, stroke, width: 2, scale: line.scale ?? "y", spanGaps: false };
    switch (line.kind ?? "line") {
      case "bars":
        return {
          ...common,
          width: 0,
          fill: stroke,
          points: { show: false },
          paths: uPlot.paths.bars?.({ size: [0.6, 40] }),
        };
      case "points":
        return { ...common, paths: () => null, points: { show: true, size: 8, fill: stroke, stroke } };
      case "dashed":
        return { ...common, width: 1, dash: [4, 4], points: { show: false } };
      default:
        return { ...common, points: { show: x.length < 40, size: 5, fill: stroke } };
    }
  });
  const axes: uPlot.Axis[] = [
    { ...axis, size: 30, grid: { show: false }, values: (_, splits) => splits.map(xText) },
    { ...axis, grid, size: 62, values: (_, splits) => splits.map(yText) },
  ];
  if (rightText) {
    axes.push({
      ...axis,
      side: 1,
      scale: "right",
      size: 62,
      grid: { show: false },
      values: (_, splits) => splits.map(rightText),
    });
  }
  const upright = (plot: uPlot) => {
    const at = markAt();
    if (at === undefined) return;
    const left = plot.valToPos(at, "x", true);
    plot.ctx.save();
    plot.ctx.strokeStyle = colour("--text-2");
    plot.ctx.lineWidth = window.devicePixelRatio;
    plot.ctx.beginPath();
    plot.ctx.moveTo(left, plot.bbox.top);
    plot.ctx.lineTo(left, plot.bbox.top + plot.bbox.height);
    plot.ctx.stroke();
    plot.ctx.restore();
  };
  return new uPlot(
    {
      width: Math.max(240, Math.floor(host.clientWidth)),
      height,
      legend: { show: false },
      cursor: { show: false },
      select: { show: false, left: 0, top: 0, width: 0, height: 0 },
      scales: {
        x: { time: false, ...(xRange && { range: xRange }) },
        y: yRange ? { range: yRange } : { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] },
        right: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] },
      },
      axes,
      series: [{}, ...series],
      hooks: { draw: [upright] },
    },
    [x, ...lines.map(({ values }) => values)] as uPlot.AlignedData,
    host,
  );
}
