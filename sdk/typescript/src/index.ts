export {
  type CallStepOptions,
  Definition,
  Plan,
  Step,
  type StepOptions,
  Template,
  type TemplateOptions,
  type WaitForOptions,
} from "./build.js";
export type { CallOptions, Fetch, Fetched, FetchOptions, KeyOptions, WaitOptions } from "./call.js";
export { Callboard, type Event, type EventName, type EventOptions } from "./client.js";
export * as errors from "./errors.js";
export { Approval } from "./hitl.js";
export { type JsonSchema, type OutputOf, type OutputSchema, type StandardSchema, withJsonSchema } from "./output.js";
export type { Filters, Pages } from "./pages.js";
export { Execution, type Fork } from "./runs.js";
export type * as models from "./schema.js";
export type { Json, ServerEvent } from "./sse.js";
export { type Call, type Imported, Task, type TaskOptions } from "./tasks.js";
export type { ClientOptions } from "./transport.js";
export { VERSION } from "./version.js";
export * as webhooks from "./webhooks.js";
