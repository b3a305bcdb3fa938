//! Frames to messages of the worker's actor, and back: conversions only.

use std::ops::Range;
use std::time::Duration;

use callboard_domain::confidence::ask::Calls;
use callboard_domain::file::File;
use callboard_domain::function::{
    self, Announced, MAX_DESCRIPTION, MAX_FUNCTIONS, NAME_PATTERN, Output, Work,
};
use callboard_domain::id::{FileId, WorkerId};
use callboard_domain::model_limits::Limited;
use callboard_domain::task::{
    Completion, Failure, FilePlace, JudgeUsage, LeaseToken, MAX_TARGET, Thinking,
};
use callboard_domain::usage::Usage;
use callboard_domain::worker::{MAX_NAMES, Profile};
use callboard_protocol::workers::{
    self, Ack, Assign, Complete, ErrorBody, Fail, FileRef, FromWorker, Function, Of, Outcome,
    Register, Task, ToWorker,
};
use callboard_runtime::worker::{
    self, AckResult, Assignment, Called, WorkerCommand, WorkerMessage,
};
use serde::de::IgnoredAny;

/// The most leases that one worker may hold, and name in a frame.
pub(super) const MAX_CONCURRENCY: u32 = 10_000;
/// The most values of a long frame: those of the longest heartbeat, and more.
const MAX_VALUES: usize = 32_768;
/// The characters of a worker's own name and version that are kept.
const KEPT: usize = 128;
/// The most calls of one model in an attempt that are counted: an answer, and nine further calls.
const MAX_CALLS: u32 = 10;
/// The highest cost of a function's call, in USD.
const MAX_COST: f64 = 1_000_000.0;
/// The longest message of a failure that is kept, in bytes of JSON: it stands in the task's row.
const MAX_MESSAGE: usize = 1_200;

/// The result of a frame.
pub(super) enum Heard {
    /// A message to the worker's actor.
    WorkerMessage(WorkerMessage),
    /// The answer, at once: the server never gave out the lease.
    Answered(ToWorker),
}

/// The longest schemas of a worker's functions together, in bytes of compact JSON.
const MAX_SCHEMAS: usize = 1 << 20;

/// A frame from its text.
pub(super) fn parse(text: &str) -> Result<FromWorker, String> {
    let error = match serde_json::from_str(text) {
        Ok(FromWorker::Complete(complete)) => return Ok(kept(complete)),
        Ok(frame) => return Ok(frame),
        Err(error) => format!("the frame is not understood: {error}"),
    };
    // The parser goes less deep than an output may.
    match Parted::of(text) {
        Some(parted) => parted.frame(),
        None => Err(error),
    }
}

/// A frame without its output, which is a value other than a string. Parsed, each value of a long one would take
/// more room than in the text.
struct Parted<'a> {
    rest: String,
    output: &'a str,
}

impl<'a> Parted<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let span = output_span(text)?;
        let output = text[span.clone()].trim();
        let is_value =
            !output.starts_with('"') && serde_json::from_str::<IgnoredAny>(output).is_ok();
        let rest = || [&text[..span.start], "null", &text[span.end..]].concat();
        is_value.then(|| Self { rest: rest(), output })
    }

    /// The frame with its output.
    fn frame(self) -> Result<FromWorker, String> {
        let frame = serde_json::from_str(&self.rest);
        let frame = frame.map_err(|error| format!("the frame is not understood: {error}"))?;
        let FromWorker::Complete(complete) = frame else { return Ok(frame) };
        let output = Output::Json(self.output.to_owned());
        Ok(kept(Complete { output, ..complete }))
    }
}

/// A result, or the failure that it is if its output cannot be kept: another attempt would repeat it.
fn kept(complete: Complete) -> FromWorker {
    let fault = match &complete.output {
        Output::Text(_) => None,
        Output::Json(json) => function::output_fault(json),
    };
    let Some(message) = fault else { return FromWorker::Complete(complete) };
    FromWorker::Fail(Fail {
        lease: complete.lease,
        error: ErrorBody { code: "OUTPUT_INVALID".into(), message },
        retryable: false,
        retry_after_ms: None,
        limits: None,
        usage: None,
    })
}

/// The place of the value of the member `output` of a frame.
fn output_span(text: &str) -> Option<Range<usize>> {
    let (mut depth, mut start, mut string, mut is_escaped) = (0_u32, None, None, false);
    let mut last = "";
    for (at, byte) in text.bytes().enumerate() {
        match (byte, string) {
            _ if is_escaped => is_escaped = false,
            (b'\\', Some(_)) => is_escaped = true,
            (b'"', Some(from)) => {
                string = None;
                if depth == 1 {
                    last = &text[from..at];
                }
            }
            (b'"', None) => string = Some(at + 1),
            (b'{' | b'[', None) => depth += 1,
            (b':', None) if depth == 1 && last == "output" && start.is_none() => {
                start = Some(at + 1);
            }
            (b',', None) if depth == 1 && start.is_some() => return Some(start?..at),
            (b'}' | b']', None) => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(start?..at);
                }
            }
            _ => {}
        }
    }
    None
}

/// A long frame from its text. Parsed, each of its values takes more room than in the text.
pub(super) fn parse_long(text: &str) -> Result<FromWorker, String> {
    let parted = Parted::of(text);
    let counted = parted.as_ref().map_or(text, |parted| &parted.rest);
    let (mut commas, mut in_string, mut is_escaped) = (0, false, false);
    for byte in counted.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b',' if !in_string => commas += 1,
            _ => {}
        }
    }
    if commas >= MAX_VALUES {
        return Err(format!("a frame must have at most {MAX_VALUES} values"));
    }
    parted.map_or_else(|| parse(text), Parted::frame)
}

/// The registration of a worker.
pub(super) struct Registration {
    pub(super) profile: Profile,
    /// The worker and the leases that it resumes.
    pub(super) resume: Option<(WorkerId, Vec<LeaseToken>)>,
    /// Leases that are not resumed, because they or the worker cannot be read.
    pub(super) unreadable: Vec<String>,
}

/// The registration of a worker, from its frame.
pub(super) fn registration(register: Register) -> Result<Registration, String> {
    let names = |field: &str, names: &[String]| {
        let fits = |name: &String| (1..=MAX_TARGET).contains(&name.chars().count());
        if (1..=MAX_NAMES).contains(&names.len()) && names.iter().all(fits) {
            Ok(())
        } else {
            Err(format!("{field} must be 1 to {MAX_NAMES} names of 1 to {MAX_TARGET} characters"))
        }
    };
    names("queues", &register.queues)?;
    if register.functions.is_empty() || !register.models.is_empty() {
        names("models", &register.models)?;
    }
    let functions = functions(register.functions)?;
    if !(1..=MAX_CONCURRENCY).contains(&register.concurrency) {
        return Err(format!("concurrency must be a whole number from 1 to {MAX_CONCURRENCY}"));
    }
    let short = |text: String| text.chars().take(KEPT).collect();
    let profile = Profile {
        name: short(register.name),
        version: short(register.version),
        queues: register.queues,
        models: register.models,
        functions: functions.into(),
        concurrency: register.concurrency as usize,
    };
    // The server never gave out an unreadable identifier: the worker registers as a new one.
    let Some(resume) = register.resume else {
        return Ok(Registration { profile, resume: None, unreadable: Vec::new() });
    };
    check_count(&resume.leases)?;
    let Ok(worker) = resume.worker_id.parse() else {
        let unreadable = resume.leases.iter().map(|lease| shown(lease)).collect();
        return Ok(Registration { profile, resume: None, unreadable });
    };
    let (leases, unreadable) = leases(&resume.leases);
    Ok(Registration { profile, resume: Some((worker, leases)), unreadable })
}

/// The functions that a worker announces.
fn functions(given: Vec<Function>) -> Result<Vec<Announced>, String> {
    if given.len() > MAX_FUNCTIONS {
        return Err(format!("functions must be at most {MAX_FUNCTIONS}"));
    }
    let mut room = MAX_SCHEMAS;
    for (index, function) in given.iter().enumerate() {
        let at = |says: &str| Err(format!("functions[{index}].{says}"));
        if !function::is_name(&function.name) {
            return at(&format!("name must match {NAME_PATTERN}"));
        }
        if given[..index].iter().any(|other| other.name == function.name) {
            return at("name must not be given twice");
        }
        if function.description.as_ref().is_some_and(|it| it.chars().count() > MAX_DESCRIPTION) {
            return at(&format!("description must have at most {MAX_DESCRIPTION} characters"));
        }
        let schemas =
            [("inputSchema", &function.input_schema), ("outputSchema", &function.output_schema)];
        for (name, schema) in schemas {
            let Some(schema) = schema else { continue };
            if !schema.is_object() {
                return at(&format!("{name} must be an object"));
            }
            let Some(left) = room.checked_sub(function::json_length(schema)) else {
                return Err(format!(
                    "the schemas of functions must have at most {MAX_SCHEMAS} bytes in all"
                ));
            };
            room = left;
        }
    }
    let announced = |Function { name, description, input_schema, output_schema }| Announced {
        name,
        description,
        input_schema,
        output_schema,
    };
    Ok(given.into_iter().map(announced).collect())
}

fn check_count(leases: &[String]) -> Result<(), String> {
    if leases.len() <= MAX_CONCURRENCY as usize {
        Ok(())
    } else {
        Err(format!("leases must be at most {MAX_CONCURRENCY}"))
    }
}

/// The leases among these texts, and the other texts.
fn leases(texts: &[String]) -> (Vec<LeaseToken>, Vec<String>) {
    let (mut leases, mut unreadable) = (Vec::with_capacity(texts.len()), Vec::new());
    for text in texts {
        match text.parse() {
            Ok(lease) => leases.push(lease),
            Err(_) => unreadable.push(shown(text)),
        }
    }
    (leases, unreadable)
}

/// The provider's own limits in a frame, and the calls of its attempt, which are told before its result.
pub(super) fn beside(frame: &FromWorker) -> impl Iterator<Item = WorkerMessage> {
    let (lease, limits, called) = match frame {
        FromWorker::Complete(complete) => (&*complete.lease, &complete.limits, called(complete)),
        FromWorker::Fail(fail) => (&*fail.lease, &fail.limits, None),
        FromWorker::Register(_)
        | FromWorker::Heartbeat { .. }
        | FromWorker::Delta(_)
        | FromWorker::Drain {}
        | FromWorker::Return { .. } => ("", &None, None),
    };
    let reported = |lease| Some(WorkerMessage::Reported(lease, limits.clone()?));
    let called = |lease| called.map(|called| WorkerMessage::Called(lease, Box::new(called)));
    let lease = lease.parse().ok();
    [lease.and_then(reported), lease.and_then(called)].into_iter().flatten()
}

/// The calls of an attempt; none if the worker does not count them, and no call was refused.
fn called(complete: &Complete) -> Option<Called> {
    let judge = complete.judge.as_ref();
    let calls = Calls {
        own: complete.usage.calls.min(MAX_CALLS),
        judge: judge.map_or(0, |judge| judge.usage.calls.min(MAX_CALLS)),
    };
    let limited = complete.limited.as_deref().map(|limited| Limited {
        model: limited.model.chars().take(MAX_TARGET).collect(),
        retry_after_ms: limited.retry_after_ms,
    });
    (calls.own > 0 || limited.is_some()).then_some(Called { calls, limited })
}

/// The message of a frame to the worker's actor.
pub(super) fn said(frame: FromWorker) -> Result<Heard, String> {
    match frame {
        FromWorker::Register(_) => Err("this connection is registered already".into()),
        FromWorker::Heartbeat { leases: texts } => {
            check_count(&texts)?;
            let (leases, unreadable) = leases(&texts);
            Ok(Heard::WorkerMessage(WorkerMessage::Heartbeat(leases, unreadable)))
        }
        FromWorker::Delta(delta) => match delta.lease.parse() {
            Ok(lease) => Ok(Heard::WorkerMessage(WorkerMessage::Delta(lease, delta.text))),
            Err(_) => Err(format!("{} is no lease", shown(&delta.lease))),
        },
        FromWorker::Complete(complete) => match complete.lease.parse() {
            Ok(lease) => completed(lease, complete),
            Err(_) => Ok(stale(complete.lease, Of::Complete)),
        },
        FromWorker::Fail(fail) => Ok(match fail.lease.parse() {
            Ok(lease) => failed(lease, &fail),
            Err(_) => stale(fail.lease, Of::Fail),
        }),
        FromWorker::Drain {} => Ok(Heard::WorkerMessage(WorkerMessage::Draining)),
        FromWorker::Return { leases: texts } => {
            check_count(&texts)?;
            // Whatever is no lease is none of the worker's.
            Ok(Heard::WorkerMessage(WorkerMessage::Returned(leases(&texts).0)))
        }
    }
}

fn completed(lease: LeaseToken, complete: Complete) -> Result<Heard, String> {
    if complete.confidence.is_some_and(|confidence| !(0.0..=1.0).contains(&confidence)) {
        return Err("confidence must be a number from 0 to 1".into());
    }
    if complete.cost.is_some_and(|cost| !(0.0..=MAX_COST).contains(&cost)) {
        return Err(format!("cost must be a number of USD from 0 to {MAX_COST}"));
    }
    let source = complete.confidence_source.map(|source| source.as_str().to_owned());
    let total_cost = complete.cost.unwrap_or_default();
    let usage = Usage { total_cost, ..usage_of(complete.usage) };
    let completion = Completion {
        usage,
        confidence: complete.confidence,
        confidence_source: source,
        finish_reason: complete.finish_reason.map(|reason| reason.chars().take(64).collect()),
        service_tier: complete.service_tier,
        judge: complete.judge.map(|judge| {
            let model = judge.model.chars().take(MAX_TARGET).collect();
            Box::new(JudgeUsage { model, usage: usage_of(judge.usage) })
        }),
        thinking: complete.thinking.map(Thinking::of),
    };
    Ok(Heard::WorkerMessage(WorkerMessage::Completed(lease, complete.output, completion)))
}

fn usage_of(counted: workers::Usage) -> Usage {
    Usage {
        input: counted.input,
        output: counted.output,
        cache_read: counted.cache_read,
        cache_write: counted.cache_write,
        ..Usage::default()
    }
}

/// The message of a worker whose confidence does not count; its source stays.
pub(super) fn untrusted(said: WorkerMessage) -> WorkerMessage {
    match said {
        WorkerMessage::Completed(lease, output, completion) => {
            let completion = Completion { confidence: None, ..completion };
            WorkerMessage::Completed(lease, output, completion)
        }
        WorkerMessage::Heartbeat(..)
        | WorkerMessage::Delta(..)
        | WorkerMessage::Failed(..)
        | WorkerMessage::Reported(..)
        | WorkerMessage::Called(..)
        | WorkerMessage::Returned(..)
        | WorkerMessage::Draining => said,
    }
}

fn failed(lease: LeaseToken, fail: &Fail) -> Heard {
    let (retry_after, usage) =
        (fail.retry_after_ms.map(Duration::from_millis), fail.usage.map(usage_of));
    let failure =
        Failure::of_worker(&fail.error.code, bounded(&fail.error.message), fail.retryable);
    Heard::WorkerMessage(WorkerMessage::Failed(lease, Failure { retry_after, usage, ..failure }))
}

fn bounded(text: &str) -> String {
    let mut room = MAX_MESSAGE;
    let fits = |character: &char| {
        let takes = match character {
            '"' | '\\' => 2,
            '\0'..='\x1f' => 6,
            other => other.len_utf8(),
        };
        room.checked_sub(takes).inspect(|left| room = *left).is_some()
    };
    text.chars().take_while(fits).collect()
}

fn stale(lease: String, of: Of) -> Heard {
    Heard::Answered(ToWorker::Ack(Ack { lease, of, result: Outcome::Stale }))
}

/// The shown beginning of a text that is no lease; a lease is shorter.
fn shown(lease: &str) -> String {
    lease.chars().take(128).collect()
}

/// The frame of a command; none for the end of the connection.
pub(super) fn to_frame(command: WorkerCommand) -> Option<ToWorker> {
    Some(match command {
        WorkerCommand::Assign(assignment) => ToWorker::Assign(Box::new(assign(*assignment))),
        WorkerCommand::Leases(leases, unreadable) => ToWorker::Leases {
            renewed: texts(&leases.renewed),
            lost: lost(unreadable, &leases.lost),
        },
        WorkerCommand::Ack(lease, of, result) => ToWorker::Ack(Ack {
            lease: lease.to_string(),
            of: match of {
                worker::Of::Complete => Of::Complete,
                worker::Of::Fail => Of::Fail,
            },
            result: match result {
                AckResult::Applied => Outcome::Applied,
                AckResult::Duplicate => Outcome::Duplicate,
                AckResult::Stale => Outcome::Stale,
            },
        }),
        WorkerCommand::Cancel(lease, reason) => {
            ToWorker::Cancel { lease: lease.to_string(), reason: reason.to_owned() }
        }
        WorkerCommand::Drain(deadline) => ToWorker::Drain { deadline_ms: millis(deadline) },
        WorkerCommand::Close => return None,
    })
}

fn assign(assignment: Assignment) -> Assign {
    let Assignment { lease, deadline, task, inputs, files, max_tokens, trace } = assignment;
    let spec = &task.spec;
    let (execution, step) = spec.origin.step.clone().unzip();
    let own = inputs.own_files().len();
    let files: Vec<_> = files.into_iter().map(file).collect();
    let shown = |at: &FilePlace| files.get(usize::from(*at)).cloned();
    let messages = inputs.messages.iter().map(|message| message.with_files(shown)).collect();
    Assign {
        lease: lease.to_string(),
        attempt: task.attempt,
        deadline_at: deadline.to_string(),
        timeout_ms: Some(spec.timeout_ms),
        task: Task {
            id: spec.id.to_string(),
            model: task.model().to_owned(),
            queue: spec.queue.clone(),
            prompt: inputs.prompt,
            function: match (Work::of(&spec.model), &inputs.args) {
                (Work::Function(name), Some(_)) => Some(name.to_owned()),
                (Work::Function(_), None) | (Work::Prompt(_), _) => None,
            },
            args: inputs.args.map(|args| *args),
            system_prompt: inputs.system_prompt,
            context: inputs.context,
            messages,
            files: files.into_iter().take(own).collect(),
            max_tokens,
            temperature: spec.temperature,
            sampling: spec.sampling.as_deref().cloned().unwrap_or_default(),
            service_tier: spec.service_tier(),
            output_schema: inputs.output_schema.map(|schema| schema.source().clone()),
            // An explicit request says itself what it reads.
            logprobs: spec.gate.is_some() || inputs.confidence.is_some(),
            confidence: inputs.confidence,
            plan_execution_id: execution.map(|id| id.to_string()),
            step_id: step,
            item: spec.origin.item,
            traceparent: trace.map(|trace| trace.to_string()),
        },
    }
}

/// A file of a task. The worker finds out about one that was deleted: it cannot be read.
fn file((id, file): (FileId, Option<File>)) -> FileRef {
    let Some(file) = file else { return FileRef { id: id.to_string(), ..FileRef::default() } };
    FileRef {
        id: id.to_string(),
        name: file.name,
        content_type: file.media_type,
        bytes: file.bytes,
        sha256: file.digest.to_string(),
    }
}

/// Leases as texts.
pub(super) fn texts(leases: &[LeaseToken]) -> Vec<String> {
    leases.iter().map(LeaseToken::to_string).collect()
}

/// The leases that a worker does not hold: texts that are no leases, and leases that are not its own.
pub(super) fn lost(unreadable: Vec<String>, lost: &[LeaseToken]) -> Vec<String> {
    unreadable.into_iter().chain(texts(lost)).collect()
}

/// A duration in whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
