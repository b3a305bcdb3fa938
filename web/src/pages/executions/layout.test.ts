import { expect, test } from "vitest";
import { above, HEIGHT, placed, READABLE, WIDTH, zoomOf } from "./layout";

const chain = (length: number) =>
  Array.from({ length }, (_, index) => ({ id: `s${index}`, dependsOn: index ? [`s${index - 1}`] : [] }));
const WIDE = { width: 1130, height: 600 };
const BESIDE_DRAWER = { width: 700, height: 600 };

test("what can be read in one line stays in one", () => {
  expect(placed(chain(4), WIDE)).toEqual(placed(chain(4)));
});

test("seven steps in a row go on in further bands, in which they can be read", () => {
  for (const frame of [WIDE, BESIDE_DRAWER]) {
    expect(zoomOf(placed(chain(7)), frame)).toBeLessThan(READABLE);
    expect(zoomOf(placed(chain(7), frame), frame)).toBeGreaterThanOrEqual(READABLE);
  }
  const rows = [...placed(chain(7), WIDE).values()].map(({ y }) => y);
  expect(new Set(rows).size).toBe(2);
  expect(rows).toEqual(rows.toSorted((one, other) => one - other));
});

test("steps beside each other keep their order in a band, and no two overlap", () => {
  const steps = [
    { id: "a", dependsOn: [] },
    ...["b", "c", "d"].map((id) => ({ id, dependsOn: ["a"] })),
    { id: "e", dependsOn: ["b", "c", "d"] },
    ...["f", "g", "h", "i", "j"].map((id, index) => ({ id, dependsOn: ["efghi"[index] ?? ""] })),
  ];
  const all = [...placed(steps, BESIDE_DRAWER).values()];
  expect(all.length).toBe(steps.length);
  for (const [index, one] of all.entries())
    for (const other of all.slice(index + 1))
      expect(Math.abs(one.x - other.x) >= WIDTH || Math.abs(one.y - other.y) >= HEIGHT).toBe(true);
});

test("where nothing can be read, what comes nearest to it is taken; beyond forty steps there are no bands", () => {
  const phone = { width: 366, height: 420 };
  expect(zoomOf(placed(chain(30), phone), phone)).toBeGreaterThan(zoomOf(placed(chain(30)), phone));
  expect(placed(chain(41), phone)).toEqual(placed(chain(41)));
});

test("an edge to a further band passes between the bands, where no step stands", () => {
  const steps = [
    { id: "a", dependsOn: [] },
    ...["b", "c", "d"].map((id) => ({ id, dependsOn: ["a"] })),
    { id: "e", dependsOn: ["b", "c", "d"] },
    { id: "f", dependsOn: ["e"] },
  ];
  const places = placed(steps, BESIDE_DRAWER);
  const [from, to] = [places.get("c") ?? { x: 0, y: 0 }, places.get("e") ?? { x: 0, y: 0 }];
  expect(to.x).toBeLessThan(from.x);
  const height = above(places, to);
  expect(height).toBeLessThan(to.y);
  for (const id of "abcd") expect(height).toBeGreaterThan((places.get(id)?.y ?? 0) + HEIGHT);
});
