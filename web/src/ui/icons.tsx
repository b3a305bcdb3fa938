/** Icons of 16 × 16, drawn with one stroke. An icon never stands alone for a state: a word is beside it. */
const PATHS = {
  home: "M2.5 7 8 2.5 13.5 7v6.5h-4v-4h-3v4h-4Z",
  review: "M3 2.5h10v11H3ZM5.5 8l2 2 3.5-4",
  executions: "M2 3.5h4v3H2ZM10 2h4v3h-4ZM10 11h4v3h-4ZM6 5h2v7.5h2M8 3.5h2",
  batches: "M2.5 3h11v10h-11ZM2.500 6.300h11M2.500 9.700h11M6.500 3v10",
  tasks: "M2.5 4h1M2.5 8h1M2.5 12h1M6 4h8M6 8h8M6 12h8",
  plans: "M3 2.5h7l3 3v8H3ZM10 2.5v3h3M5.5 8.5h5M5.5 11h5",
  templates: "M2.5 2.5h5v5h-5ZM9.5 2.5h4v4h-4ZM2.5 9.5h4v4h-4ZM9.5 9.5h4v4h-4Z",
  workers: "M2.5 3h11v4h-11ZM2.5 9h11v4h-11ZM5 5h.5M5 11h.5",
  models: "M4 4h8v8H4ZM6.5 1.5V4M9.5 1.5V4M6.5 12v2.5M9.5 12v2.5M1.5 6.5H4M1.5 9.5H4M12 6.5h2.5M12 9.5h2.5",
  queues: "M2 4h12M2 8h9M2 12h6",
  insights: "M2.5 13.5h11M4 11V7.5M8 11V3M12 11V6",
  money:
    "M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8ZM10 5.800C9.500 5 6 4.700 6 6.500s4 1.100 4 3-3.500 1.800-4 .8M8 4v8",
  admin:
    "M8 5.5a2.5 2.5 0 1 1 0 5 2.5 2.5 0 0 1 0-5ZM8 1.5v2M8 12.5v2M1.5 8h2M12.5 8h2M3.4 3.4l1.4 1.4M11.2 11.2l1.4 1.4M12.6 3.4l-1.4 1.4M4.8 11.2l-1.4 1.4",
  projects: "M2.5 3.5h4l1.5 2h5.5v7h-11Z",
  docs: "M2.5 3h4.5l1 1 1-1h4.5v9.5H9l-1 1-1-1H2.5ZM8 4v9",
  check: "m3 8.5 3.2 3.2L13 5",
  cross: "m4 4 8 8M12 4l-8 8",
  clock: "M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8ZM8 4.5V8l2.5 1.5",
  hand: "M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8ZM6.3 5.5v5M9.7 5.5v5",
  running: "M8 1.8A6.2 6.2 0 1 1 1.8 8",
  stop: "M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8ZM3.7 12.3l8.6-8.6",
  skip: "M3 4l5 4-5 4ZM9 4l4 4-4 4Z",
  warn: "M8 2 14.5 13.5h-13ZM8 6.5V9.5M8 11.5v.3",
  up: "M8 13V3M4 7l4-4 4 4",
  dot: "M8 6a2 2 0 1 1 0 4 2 2 0 0 1 0-4Z",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9ZM10.5 10.5 14 14",
  menu: "M2 4h12M2 8h12M2 12h12",
  copy: "M5.5 5.5h8v8h-8ZM10.5 5.5v-3h-8v8h3",
  back: "M9.5 3.5 5 8l4.5 4.5",
  next: "M6.5 3.5 11 8l-4.5 4.5",
  edit: "M3 13l.7-2.8L10.5 3.4l2.1 2.1-6.8 6.8Z",
  undo: "M3 6h6.5a3.5 3.5 0 0 1 0 7H6M3 6l3-3M3 6l3 3",
  fork: "M5 2.5v11M5 9.5c4 0 6-1 6-4.5M9 6.5l2-2 2 2",
  drop: "M3.5 5.5 8 10l4.5-4.5",
  plus: "M8 3v10M3 8h10",
  link: "M6.5 9.5l3-3M7 4.5 9 2.7a3 3 0 0 1 4.3 4.3L11.5 9M9 11.5l-2 1.8A3 3 0 0 1 2.7 9L4.5 7",
  person: "M8 2.5a2.7 2.7 0 1 1 0 5.4 2.7 2.7 0 0 1 0-5.4ZM2.8 13.7c.6-2.7 2.6-4 5.2-4s4.600 1.300 5.200 4",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16, spin = false }: { name: IconName; size?: number; spin?: boolean }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill={name === "dot" ? "currentColor" : "none"}
      stroke="currentColor"
      strokeWidth="1.5"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      className={spin ? "spin" : undefined}
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
