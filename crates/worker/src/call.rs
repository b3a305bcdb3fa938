//! One lease's model call: its deadline, its streamed text, and the frame that ends it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout};

use crate::trace::CallSpan;
use callboard_client::Client;
use callboard_client::worker::run_loop::{self, Handle, Report, Reporting, Text, gather};
use callboard_otlp::Spans;

use callboard_domain::model_limits::Reported;

use crate::confidence::{self, Measured};
use crate::files::{self, File};
use crate::provider::{Code, Deltas, Failure, Provider, Request};
use callboard_domain::confidence::Source;
use callboard_domain::confidence::ask::Ask;
use callboard_domain::task::Message;
use callboard_domain::usage::Tokens;
use callboard_protocol::workers::{
    Assign, Complete, ErrorBody, Fail, FileRef, FromWorker, JudgeUsage, MAX_FRAME, Task, Usage,
};

/// The most time before the deadline in which no further call is made.
const DELIVERY: Duration = Duration::from_secs(5);
/// The most time before the deadline at which a call is ended, so that the report of its usage is in time.
const REPORT: Duration = Duration::from_millis(250);
/// The pieces that may wait between the provider and the gathering.
const PIECES: usize = 64;

/// The member that a frame has beside those of a result.
const TYPE: &str = r#""type":"complete","#;

/// The resources of a call beside its lease.
#[derive(Debug, Clone)]
pub(super) struct Means {
    /// The provider that runs the call.
    pub(super) provider: Arc<dyn Provider>,
    /// One permit for each call that may run at once.
    pub(super) slots: Arc<Semaphore>,
    /// The channel of the text.
    pub(super) text: mpsc::Sender<Text>,
    /// The sender of the spans of calls.
    pub(super) spans: Option<Spans>,
    /// The reader of files; `None` in tests without any.
    pub(super) client: Option<Client>,
}

/// The calls of a worker on its provider.
pub(super) struct Calls {
    provider: Arc<dyn Provider>,
    slots: Arc<Semaphore>,
    spans: Option<Spans>,
    client: Option<Client>,
}

impl Calls {
    /// At most `concurrency` calls at once.
    pub(super) fn new(provider: Arc<dyn Provider>, spans: Option<Spans>, concurrency: u32) -> Self {
        let slots = Arc::new(Semaphore::new(concurrency as usize));
        Self { provider, slots, spans, client: None }
    }

    /// The same, with the reader of files.
    pub(super) fn reading(self, client: Client) -> Self {
        Self { client: Some(client), ..self }
    }
}

impl Handle for Calls {
    fn handle(
        &self,
        assign: run_loop::Assign,
        time: Duration,
        text: mpsc::Sender<Text>,
    ) -> Reporting {
        let (provider, slots) = (Arc::clone(&self.provider), Arc::clone(&self.slots));
        let (spans, client) = (self.spans.clone(), self.client.clone());
        let means = Means { provider, slots, text, spans, client };
        Box::pin(async move {
            let run_loop::Assign { lease, attempt, deadline_at, timeout_ms, task } = assign;
            let frame = match serde_json::from_value(task) {
                Ok(task) => {
                    run(Assign { lease, attempt, deadline_at, timeout_ms, task }, time, means).await
                }
                // The fault is not reported: it may hold parts of the prompt.
                Err(_) => FromWorker::Fail(fail(
                    lease,
                    Failure::refused("this version of the worker cannot read the task"),
                )),
            };
            report(&frame)
        })
    }
}

/// The frame of a result, as the run loop sends it.
fn report(frame: &FromWorker) -> Report {
    serde_json::to_value(frame)
        .and_then(serde_json::from_value)
        .expect("a call ends with a result, which is an object of JSON")
}

/// Runs the lease to its end and returns the frame that reports it. `remaining` is the time until
/// the attempt's deadline. Dropping the future drops the model call.
pub(super) async fn run(assign: Assign, remaining: Duration, means: Means) -> FromWorker {
    let Assign { lease, mut task, .. } = assign;
    let (context, ask) = (task.traceparent.take(), task.confidence.take());
    let begun = Instant::now();
    let (own, messages) = (task.files.len(), std::mem::take(&mut task.messages));
    let files = match timeout(remaining, fetched(&task.files, &messages, &means)).await {
        Ok(Ok(files)) => files,
        Ok(Err(failure)) => return FromWorker::Fail(fail(lease, failure)),
        Err(_) => return FromWorker::Fail(fail(lease, too_late())),
    };
    let remaining = remaining.saturating_sub(begun.elapsed());
    let mut files = files.into_iter();
    let request = Request {
        files: files.by_ref().take(own).collect(),
        messages: messages.iter().map(|message| message.with_files(|_| files.next())).collect(),
        ..request(task, ask.as_deref())
    };
    let span = CallSpan::begin(&means, context.as_deref(), &request);
    // Further calls leave the answer time to be sent.
    let until = Instant::now() + remaining.saturating_sub((remaining / 10).min(DELIVERY));
    let (sender, pieces) = mpsc::channel(PIECES);
    let deltas = Deltas::from(sender);
    let asked = Asked { request: &request, ask: ask.as_deref(), until, deltas: &deltas };
    let measured = limited(&lease, asked, pieces, &means);
    let called = AssertUnwindSafe(measured).catch_unwind();
    let result = match timeout(remaining.saturating_sub((remaining / 20).min(REPORT)), called).await
    {
        Ok(Ok(result)) => result,
        // The panic's own text is not reported: it may hold parts of the prompt.
        Ok(Err(_panic)) => {
            Err(Failure::new(Code::InternalError, "the worker failed while it ran the task", true))
        }
        Err(_) => Err(too_late()),
    };
    span.end(result.as_ref().map(|measured| &measured.completion));
    match result {
        Ok(measured) => bounded(complete(lease, measured)),
        Err(failure) => {
            let used = deltas.used(&request).map(|tokens| used(tokens, 1));
            FromWorker::Fail(Fail { usage: used, ..fail(lease, failure) })
        }
    }
}

fn too_late() -> Failure {
    let says = "the attempt's deadline passed before the model had finished";
    Failure::new(Code::TaskTimeout, says, true)
}

/// The files of a task, those of its messages last.
async fn fetched(
    own: &[FileRef],
    messages: &[Message<FileRef>],
    means: &Means,
) -> Result<Vec<File>, Failure> {
    let shown = Message::files(messages).map(|(_, _, file)| file);
    let files: Vec<_> = own.iter().chain(shown).collect();
    match &means.client {
        Some(client) if !files.is_empty() => files::fetch(client, &files).await,
        Some(_) | None => Ok(Vec::new()),
    }
}

/// The wishes of a lease, and the channel of its text.
#[derive(Clone, Copy)]
struct Asked<'a> {
    request: &'a Request,
    ask: Option<&'a Ask>,
    /// The end of the time for further calls.
    until: Instant,
    deltas: &'a Deltas,
}

async fn limited(
    lease: &str,
    Asked { request, ask, until, deltas }: Asked<'_>,
    pieces: mpsc::Receiver<String>,
    means: &Means,
) -> Result<Measured, Failure> {
    let _slot = means.slots.acquire().await.expect("the semaphore is never closed");
    let call = confidence::complete(&*means.provider, request, ask, deltas, until);
    gather(lease, call, pieces, &means.text).await
}

fn request(task: Task, ask: Option<&Ask>) -> Request {
    Request {
        model: task.model,
        system_prompt: task.system_prompt,
        context: task.context,
        messages: Vec::new(),
        files: Vec::new(),
        prompt: task.prompt,
        max_tokens: task.max_tokens,
        temperature: task.temperature,
        sampling: task.sampling,
        service_tier: task.service_tier,
        output_schema: task.output_schema,
        without_logprobs: !ask.map_or(task.logprobs, |ask| ask.source() == Source::Logprobs),
    }
}

fn used(tokens: Tokens, calls: u32) -> Usage {
    let Tokens { input, output, cache_read, cache_write } = tokens;
    Usage { input, output, cache_read, cache_write, calls }
}

fn complete(lease: String, measured: Measured) -> Complete {
    let Measured { completion, judge, calls, limited } = measured;
    Complete {
        lease,
        output: completion.output.into(),
        usage: used(completion.usage, calls.own),
        cost: None,
        confidence: completion.confidence,
        confidence_source: Some(completion.confidence_source.into()),
        finish_reason: completion.finish_reason,
        service_tier: completion.service_tier,
        limits: limits_of(completion.limits),
        judge: judge.map(|(model, tokens)| {
            Box::new(JudgeUsage { model, usage: used(tokens, calls.judge) })
        }),
        thinking: completion.thinking,
        limited: limited.map(Box::new),
    }
}

/// The failure that takes the place of a result whose frame the server would refuse.
fn bounded(complete: Complete) -> FromWorker {
    // A byte takes at most six in JSON.
    if complete.output.length() < MAX_FRAME / 8 {
        return FromWorker::Complete(complete);
    }
    let length = serde_json::to_string(&complete).map_or(0, |text| text.len()) + TYPE.len();
    if length <= MAX_FRAME {
        return FromWorker::Complete(complete);
    }
    let why = format!(
        "the output takes {length} bytes as JSON, and a frame may have at most {MAX_FRAME}"
    );
    let usage = Some(complete.usage);
    FromWorker::Fail(Fail { usage, ..fail(complete.lease, Failure::refused(why)) })
}

/// The limits that the provider reported, if any.
fn limits_of(limits: Reported) -> Option<Box<Reported>> {
    (!limits.is_none()).then(|| Box::new(limits))
}

fn fail(lease: String, failure: Failure) -> Fail {
    let error = ErrorBody { code: failure.code.as_str().to_owned(), message: failure.message };
    Fail {
        lease,
        error,
        retryable: failure.retryable,
        retry_after_ms: failure.retry_after_ms,
        limits: failure.limits,
        usage: None,
    }
}

#[cfg(test)]
mod tests;
