/** True if a worker that announces these models runs this one: by its name, or by the beginning of it (`gpt-*`). */
export const runsModel = (announced: string[], model: string) =>
  announced.some((name) => (name.endsWith("*") ? model.startsWith(name.slice(0, -1)) : name === model));
