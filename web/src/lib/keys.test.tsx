import { act } from "react";
import { createRoot } from "react-dom/client";
import { afterEach, beforeEach, expect, test } from "vitest";
import { KEYS, KEYS_OFF, pressed, useKeys } from "./keys";
import { write } from "./preferences";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;
let ran: string[];
let root: ReturnType<typeof createRoot>;

function Page() {
  useKeys("Page", [
    { id: "t.next", key: "j", label: "Next", run: () => ran.push("next") },
    { id: "t.approve", key: "a", label: "Approve", run: () => ran.push("approve") },
  ]);
  return <input aria-label="field" />;
}

beforeEach(async () => {
  ran = [];
  document.body.innerHTML = "<div></div>";
  root = createRoot(document.body.firstElementChild as Element);
  await act(async () => root.render(<Page />));
});
afterEach(async () => {
  await act(async () => root.unmount());
  write(KEYS, undefined);
  write(KEYS_OFF, undefined);
});

function press(key: string, target: Element = document.body, more: object = {}) {
  const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more });
  Object.defineProperty(event, "target", { value: target });
  return pressed(event);
}

test("a key runs its action, and none does while somebody types or holds a modifier", () => {
  press("j");
  press("a", document.querySelector("input") as Element);
  press("a", document.body, { ctrlKey: true });
  expect(ran).toEqual(["next"]);
});

test("a key counts by its place on the keyboard where it writes no Latin letter", () => {
  press("ф", document.body, { code: "KeyA" });
  press("α", document.body, { code: "KeyA" });
  press("о", document.body, { code: "KeyJ" });
  press("ש", document.body, { code: "KeyA" });
  expect(ran).toEqual(["approve", "approve", "next", "approve"]);
  // Of a Latin layout, what the key writes counts: on a French one, q stands where a is.
  press("q", document.body, { code: "KeyA" });
  press("ф", document.body, { code: "KeyQ" });
  press("1", document.body, { code: "Digit1" });
  expect(ran).toHaveLength(4);
});

test("caps lock changes no key, and shift does", () => {
  press("A", document.body, { code: "KeyA" });
  expect(ran).toEqual(["approve"]);
  press("A", document.body, { code: "KeyA", shiftKey: true });
  press("Ф", document.body, { code: "KeyA", shiftKey: true });
  expect(ran).toEqual(["approve"]);
  write(KEYS, { "t.approve": "ф" });
  press("ф", document.body, { code: "KeyA" });
  expect(ran).toEqual(["approve", "approve"]);
});

test("a held key decides nothing twice, but goes on to the next item", () => {
  press("a", document.body, { repeat: true });
  press("j", document.body, { repeat: true });
  expect(ran).toEqual(["next"]);
});

test("a key that was changed is another one, and keys that are off do nothing", () => {
  write(KEYS, { "t.approve": "y" });
  press("a");
  press("y");
  expect(ran).toEqual(["approve"]);
  write(KEYS_OFF, true);
  press("y");
  expect(ran).toEqual(["approve"]);
});
