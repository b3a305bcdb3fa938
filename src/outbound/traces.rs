//! Spans of requests, executions, tasks and attempts (docs/how-to/monitor.md).
//!
//! ```text
//!   POST /api/tasks ─▶ [execution] ─▶ task ─▶ attempt ─▶ chat, by the worker
//! ```
//!
//! Deliberately absent: texts. No attribute holds a prompt, an output or a reviewer's words.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use callboard_domain::Timestamp;
use callboard_domain::execution::Execution;
use callboard_domain::machine::Machine;
use callboard_domain::task::{State, Task};
use callboard_domain::trace::{TraceContext, span_of_attempt, span_of_execution, span_of_task};
use callboard_otlp::{Counts, Span, SpanKind, Spans};
use callboard_runtime::ports::Tracer;

/// The one place where traces begin and spans are made.
#[derive(Debug, Clone)]
pub struct Traces {
    spans: Spans,
    /// The share of traces that begin here and are recorded, 0 to 1.
    ratio: f64,
}

/// A request that was answered.
#[derive(Debug)]
pub struct Answered<'a> {
    /// The request's method.
    pub method: &'a str,
    /// The route, if there is one.
    pub route: Option<&'a str>,
    /// The status of the answer.
    pub status: u16,
    /// The time at which the request arrived.
    pub began: SystemTime,
}

/// The place of a request in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The parent span of the request's tasks and executions: the request itself if it is recorded.
    pub context: TraceContext,
    /// The caller's span, if the caller sent one.
    pub parent: Option<u64>,
    /// True if the request becomes a span, which `context` names.
    pub recorded: bool,
}

impl Place {
    /// The place of a trace that is passed on and not recorded here.
    #[must_use]
    pub const fn of(caller: TraceContext) -> Self {
        Self { context: caller, parent: None, recorded: false }
    }
}

impl Traces {
    /// Traces whose spans go to `spans`; `ratio` of the traces that begin here are recorded.
    #[must_use]
    pub const fn new(spans: Spans, ratio: f64) -> Self {
        Self { spans, ratio }
    }

    /// The place of a request. A caller that sends a context has decided about its recording;
    /// `None` if the caller sends none and chance decides against recording.
    #[must_use]
    pub fn place(&self, caller: Option<TraceContext>) -> Option<Place> {
        match caller {
            Some(caller) if caller.is_sampled() => Some(Place {
                context: caller.with_span(rand::random()),
                parent: Some(caller.span()),
                recorded: true,
            }),
            Some(caller) => Some(Place::of(caller)),
            None => (rand::random::<f64>() < self.ratio).then(|| Place {
                context: TraceContext::new(rand::random(), rand::random(), true),
                parent: None,
                recorded: true,
            }),
        }
    }

    /// Records a request.
    pub fn answered(&self, place: Place, request: &Answered<'_>) {
        let Answered { method, route, status, began } = *request;
        if !place.recorded {
            return;
        }
        let name = route.map_or_else(|| method.to_owned(), |route| format!("{method} {route}"));
        let times = (began, SystemTime::now());
        let span = Span::new(place.context, place.parent, name, SpanKind::Server, times)
            .with("http.request.method", method.to_owned())
            .with_some("http.route", route.map(str::to_owned))
            .with("http.response.status_code", i64::from(status));
        let code = (status >= 500).then(|| status.to_string());
        self.spans.end(span.failed(code.as_deref()));
    }

    /// The numbers of exported and dropped spans.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.spans.counts()
    }
}

fn sampled(trace: Option<&TraceContext>) -> Option<TraceContext> {
    trace.copied().filter(TraceContext::is_sampled)
}

fn time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(at.as_millis())
}

fn count(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

impl Tracer for Traces {
    fn task_ended(&self, task: &Task, now: Timestamp) {
        let Some(trace) = sampled(task.spec.origin.trace.as_deref()) else { return };
        let (spec, origin) = (&task.spec, &task.spec.origin);
        let execution = origin.step.as_ref().map(|(execution, _)| *execution);
        let parent = execution.map_or(trace.span(), span_of_execution);
        let context = trace.with_span(span_of_task(spec.id));
        let usage = task.result.as_ref().map(|result| result.usage);
        let times = (time(task.eligible_since()), time(now));
        let span = Span::new(context, Some(parent), "task", SpanKind::Internal, times)
            .with("callboard.task.id", spec.id.to_string())
            .with("callboard.task.status", task.status().as_str())
            .with("callboard.queue", spec.queue.clone())
            .with("callboard.attempts", count(task.attempt))
            .with("callboard.retries", count(task.retries))
            .with("callboard.losses", count(task.losses))
            .with("gen_ai.request.model", spec.model.clone())
            .with_some("callboard.execution.id", execution.map(|id| id.to_string()))
            .with_some("callboard.step.id", origin.step.as_ref().map(|(_, step)| step.clone()))
            .with_some("callboard.step.item", origin.item.map(|item| item.to_string()))
            .with_some("callboard.batch.id", origin.batch.map(|id| id.to_string()))
            .with_some("callboard.usage.input_tokens", usage.map(|usage| count(usage.input)))
            .with_some("callboard.usage.output_tokens", usage.map(|usage| count(usage.output)))
            .with_some("callboard.usage.cost_usd", usage.map(|usage| usage.total_cost));
        let failed = task.error.as_ref().filter(|_| !matches!(task.state, State::Completed { .. }));
        self.spans.end(span.failed(failed.map(|error| error.code.as_str())));
    }

    fn attempt_ended(&self, held: &Task, after: &Task, now: Timestamp) {
        let (Some(trace), State::Running { lease, worker, .. }, Some(began)) =
            (sampled(held.spec.origin.trace.as_deref()), &held.state, held.leased_at())
        else {
            return;
        };
        let context = trace.with_span(span_of_attempt(*lease));
        let parent = span_of_task(held.spec.id);
        let times = (time(began), time(now));
        let span = Span::new(context, Some(parent), "attempt", SpanKind::Internal, times)
            .with("callboard.task.id", held.spec.id.to_string())
            .with("callboard.attempt", count(held.attempt))
            .with("callboard.worker.id", worker.to_string())
            .with("gen_ai.request.model", held.spec.model.clone());
        let failed = match &after.state {
            _ if let Some(failure) = held.failure_before(after) => Some(failure.code.as_str()),
            State::Completed { .. } | State::AwaitingApproval { .. } => None,
            State::Ready if after.losses > held.losses => Some("WORKER_LOST"),
            State::Ready => Some("UNDELIVERED"),
            State::Scheduled { .. }
            | State::Running { .. }
            | State::Backoff { .. }
            | State::Failed { .. }
            | State::Cancelled { .. }
            | State::Rejected { .. } => after.error.as_ref().map(|error| error.code.as_str()),
        };
        self.spans.end(span.failed(failed));
    }

    fn execution_ended(&self, execution: &Execution, now: Timestamp) {
        let head = &execution.head;
        let Some(trace) = sampled(head.spec.trace.as_deref()) else { return };
        let first = span_of_execution(head.spec.id);
        // A retry is a span of its own beneath the first run, whose identifier its tasks name.
        let (id, parent, began) = if head.run == 1 {
            (first, trace.span(), head.started_at)
        } else {
            let began = head.retried_at.unwrap_or(head.started_at);
            (first ^ u64::from(head.run), first, began)
        };
        let times = (time(began), time(now));
        let span =
            Span::new(trace.with_span(id), Some(parent), "execution", SpanKind::Internal, times)
                .with("callboard.execution.id", head.spec.id.to_string())
                .with("callboard.execution.status", execution.status().as_str())
                .with("callboard.execution.run", count(head.run))
                .with("callboard.plan.id", head.spec.plan.to_string())
                .with_some(
                    "callboard.template.id",
                    head.spec.template.as_ref().map(|it| it.id.clone()),
                );
        debug_assert!(execution.is_finished(), "a span is made at the end");
        let code = head.error.as_ref().map(|cause| cause.ending.code.as_str());
        self.spans.end(span.failed(code));
    }
}
