import type { CallOptions } from "./call.js";
import { checked } from "./check.js";
import { itemOf, Resource } from "./item.js";
import type { Filters, Pages } from "./pages.js";
import type * as models from "./schema.js";

type ApproveOptions = Omit<models.Approve, "bulk"> & CallOptions;
type RejectOptions = Omit<models.Reject, "reason"> & CallOptions;
type ExtendOptions = Omit<models.Extend, "timeoutMs"> & CallOptions;

/** An output that waits for a reviewer, as the server showed it. */
export class Approval extends itemOf<models.Approval>() {
  /** Approves the output, or with `modifiedOutput` another text in its place. Throws `AlreadyDecided`. */
  approve(options?: ApproveOptions): Promise<models.Approved> {
    return new Hitl(this.transport).approve(this.taskId, options);
  }

  /** Rejects the output; with `retry` a new task tries again. Throws `AlreadyDecided`. */
  reject(reason: string, options?: RejectOptions): Promise<models.Rejected> {
    return new Hitl(this.transport).reject(this.taskId, reason, options);
  }

  /** Shows other reviewers for five minutes that you are at work. */
  claim(options?: CallOptions): Promise<models.Claimed> {
    return new Hitl(this.transport).claim(this.taskId, options);
  }

  /** Ends your claim. */
  release(options?: CallOptions): Promise<models.Claimed> {
    return new Hitl(this.transport).release(this.taskId, options);
  }

  /** Takes the decision back; if the output was used, `asCorrection` asks for another one beside it. */
  reopen(options?: models.Reopen & CallOptions): Promise<models.Reopened> {
    return new Hitl(this.transport).reopen(this.taskId, options);
  }

  /** Gives the reviewers this time from now on, in milliseconds: at most 30 days. */
  extend(timeoutMs: number, options?: ExtendOptions): Promise<models.Extended> {
    return new Hitl(this.transport).extend(this.taskId, timeoutMs, options);
  }

  /** The history, the oldest entry first. */
  historyEntries(options?: CallOptions): Promise<models.Entry[]> {
    return new Hitl(this.transport).history(this.taskId, options);
  }
}

/** `cb.hitl`: outputs that wait for reviewers. */
export class Hitl extends Resource {
  /** The outputs that wait now. They are all read before the first one, so that decisions hide none. */
  pending(filters: Filters<"/api/hitl/pending"> = {}): Pages<Approval> {
    return this.pages("GET", "/api/hitl/pending", { filters, whole: true }, (it) => new Approval(this.transport, it));
  }

  /** Lists approvals of every status, the latest hold first. */
  list(filters: Filters<"/api/hitl"> = {}): Pages<Approval> {
    return this.pages("GET", "/api/hitl", { filters }, (it) => new Approval(this.transport, it));
  }

  /** Reads an approval with its whole texts. */
  async get(taskId: string, options: CallOptions = {}): Promise<Approval> {
    const given = { names: { taskId }, ...options };
    return new Approval(this.transport, await this.transport.send("GET", "/api/hitl/{taskId}", given));
  }

  /** Approves an output, or with `modifiedOutput` another text in its place. Throws `AlreadyDecided`. */
  approve(taskId: string, options: models.Approve & CallOptions = {}): Promise<models.Approved> {
    const { signal, ...members } = options;
    const body = checked("Approve", members);
    return this.transport.send("POST", "/api/hitl/{taskId}/approve", { names: { taskId }, body, signal });
  }

  /** Rejects an output; with `retry` a new task tries again. Throws `AlreadyDecided`. */
  reject(taskId: string, reason: string, options: RejectOptions = {}): Promise<models.Rejected> {
    const { signal, ...members } = options;
    const body = checked("Reject", { reason, ...members });
    return this.transport.send("POST", "/api/hitl/{taskId}/reject", { names: { taskId }, body, signal });
  }

  /** Shows other reviewers for five minutes that you are at work. */
  claim(taskId: string, options: CallOptions = {}): Promise<models.Claimed> {
    return this.transport.send("POST", "/api/hitl/{taskId}/claim", { names: { taskId }, ...options });
  }

  /** Ends your claim. */
  release(taskId: string, options: CallOptions = {}): Promise<models.Claimed> {
    return this.transport.send("POST", "/api/hitl/{taskId}/release", { names: { taskId }, ...options });
  }

  /** Gives an output to a reviewer, by the id of the user. */
  assign(taskId: string, assignee: string, options: CallOptions = {}): Promise<models.Assigned> {
    const body = checked("Assign", { assignee });
    return this.transport.send("POST", "/api/hitl/{taskId}/assign", { names: { taskId }, body, ...options });
  }

  /**
   * Takes a decision back. If the output was used: `Conflict` with the uses in `details.usedBy`, or with `asCorrection`
   * another decision beside the first.
   */
  reopen(taskId: string, options: models.Reopen & CallOptions = {}): Promise<models.Reopened> {
    const { signal, ...members } = options;
    const body = checked("Reopen", members);
    return this.transport.send("POST", "/api/hitl/{taskId}/reopen", { names: { taskId }, body, signal });
  }

  /** Gives the reviewers this time from now on, in milliseconds: at most 30 days. */
  extend(taskId: string, timeoutMs: number, options: ExtendOptions = {}): Promise<models.Extended> {
    const { signal, ...members } = options;
    const body = checked("Extend", { timeoutMs, ...members });
    return this.transport.send("POST", "/api/hitl/{taskId}/extend", { names: { taskId }, body, signal });
  }

  /** The history of an approval, the oldest entry first. */
  history(taskId: string, options: CallOptions = {}): Promise<models.Entry[]> {
    return this.transport.send("GET", "/api/hitl/{taskId}/history", { names: { taskId }, ...options });
  }

  /** Lists those who decide. */
  reviewers(filters: Filters<"/api/hitl/reviewers"> = {}): Pages<models.ReviewerName> {
    return this.pages("GET", "/api/hitl/reviewers", { filters });
  }

  /** Sums up the decisions of 30 days. */
  statistics(options: CallOptions = {}): Promise<models.Statistics> {
    return this.transport.send("GET", "/api/hitl/stats", options);
  }

  /** Compares confidences with decisions. */
  calibration(filters: Filters<"/api/hitl/calibration"> = {}): Promise<models.Calibration> {
    const { signal, ...query } = filters;
    return this.transport.send("GET", "/api/hitl/calibration", { query, signal });
  }
}
