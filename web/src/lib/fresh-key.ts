/** A key that nobody has used: `crypto.randomUUID` is missing where a page comes over plain HTTP. */
export function freshKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
