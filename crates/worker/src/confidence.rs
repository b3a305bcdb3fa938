//! The confidence of an answer: the further calls that a task asks for, in the answer's own lease.
//!
//! ```text
//!   answer ─┬─ logprobs: those of the answer itself
//!           ├─ samples: the same prompt n times more ─▶ agreement with the answer
//!           └─ judge: rubric, task and answer to another model ─▶ probability of its verdict
//! ```
//!
//! A further call that fails costs the confidence, never the answer; a 429 is told beside the answer, so that the
//! model is given time.

use callboard_domain::confidence::Source;
use callboard_domain::confidence::agreement::agreement;
use callboard_domain::confidence::ask::{self, Ask, Method, VERDICT_TOKENS};
use callboard_domain::confidence::verdict::{JUDGE, probability, question, verdict};
use callboard_domain::model_limits::Limited;
use callboard_domain::schema::{Schema, parsed_output};
use callboard_domain::task::Sampling;
use callboard_domain::usage::Tokens;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::provider::{Code, Completion, Deltas, Failure, Provider, Request};

/// The least temperature of a sample: at 0 every sample would be the same.
pub(crate) const SAMPLED: f64 = 0.7;

/// An answer with its confidence.
#[derive(Debug)]
pub struct Measured {
    /// The answer; its usage counts the samples too.
    pub completion: Completion,
    /// The judge's model and the tokens of its calls.
    pub judge: Option<(String, Tokens)>,
    /// The calls that were made, failed ones included.
    pub calls: ask::Calls,
    /// The further call that the provider refused with 429 or 529, after which none was made.
    pub limited: Option<Limited>,
}

/// Makes the call of a task, and the further calls that `ask` wants until `until`.
///
/// # Errors
/// The task's own call failed.
pub async fn complete(
    provider: &dyn Provider,
    request: &Request,
    ask: Option<&Ask>,
    deltas: &Deltas,
    until: Instant,
) -> Result<Measured, Failure> {
    let completion = provider.complete(request, deltas).await?;
    let mut calls = Further { provider, until, request, made: 0, limited: None };
    let Some(ask) = ask else { return Ok(calls.measured(completion, None)) };
    let (mut completion, mut judge) = (completion, None);
    // A cut or broken answer will not count, so its confidence is not worth a call.
    let is_whole = completion.finish_reason.as_deref() != Some("length")
        && (request.output_schema.is_none() || parsed_output(&completion.output).is_some());
    match ask.method {
        Method::Auto | Method::Logprobs => {}
        Method::None => completion = with(completion, None, Source::None),
        Method::Samples | Method::Judge if !is_whole => {
            completion = with(completion, None, Source::None);
        }
        Method::Samples => {
            let (confidence, used) = calls.samples(ask, &completion.output).await;
            add(&mut completion.usage, used);
            completion = with(completion, confidence, Source::Samples);
        }
        Method::Judge => {
            let model = ask.judge_model.clone().unwrap_or_default();
            let (confidence, used) = calls.judge(ask, &model, &completion.output).await;
            judge = Some((model, used));
            completion = with(completion, confidence, Source::Judge);
        }
    }
    Ok(calls.measured(completion, judge))
}

fn with(completion: Completion, confidence: Option<f64>, source: Source) -> Completion {
    let confidence_source = if confidence.is_some() { source } else { Source::None };
    Completion { confidence, confidence_source, ..completion }
}

fn add(usage: &mut Tokens, more: Tokens) {
    usage.input = usage.input.saturating_add(more.input);
    usage.output = usage.output.saturating_add(more.output);
    usage.cache_read = usage.cache_read.saturating_add(more.cache_read);
    usage.cache_write = usage.cache_write.saturating_add(more.cache_write);
}

/// The further calls of one task, one after the other: the lease has one slot.
struct Further<'a> {
    provider: &'a dyn Provider,
    until: Instant,
    request: &'a Request,
    /// The calls that were made.
    made: u32,
    limited: Option<Limited>,
}

impl Further<'_> {
    /// One further call, whose text is not sent on; `None` if it failed or took too long. A call that
    /// failed has used what was seen of it.
    async fn call(&mut self, request: &Request, used: &mut Tokens) -> Option<Completion> {
        let (sender, pieces) = mpsc::channel(1);
        drop(pieces);
        let deltas = Deltas::from(sender);
        self.made += 1;
        let called = timeout_at(self.until, self.provider.complete(request, &deltas)).await;
        match called {
            Ok(Ok(completion)) => {
                add(used, completion.usage);
                return Some(completion);
            }
            Ok(Err(Failure {
                code: Code::ProviderRateLimited | Code::ProviderOverloaded,
                retry_after_ms,
                ..
            })) => {
                self.limited = Some(Limited { model: request.model.clone(), retry_after_ms });
            }
            Ok(Err(_)) | Err(_) => {}
        }
        add(used, deltas.used(request).unwrap_or_default());
        None
    }

    /// The answer after these calls: those of a judge are not the model's own.
    fn measured(self, completion: Completion, judge: Option<(String, Tokens)>) -> Measured {
        let calls = match judge {
            Some(_) => ask::Calls { own: 1, judge: self.made },
            None => ask::Calls { own: 1 + self.made, judge: 0 },
        };
        Measured { completion, judge, calls, limited: self.limited }
    }

    async fn samples(&mut self, ask: &Ask, answer: &str) -> (Option<f64>, Tokens) {
        let temperature = Some(self.request.temperature.unwrap_or(SAMPLED).max(SAMPLED));
        let (mut samples, mut used) = (Vec::new(), Tokens::default());
        for number in 1..=ask.calls() {
            // One seed, or a narrow choice of tokens, would make every sample the same.
            let given = self.request.sampling.clone();
            let seed = given.seed.map(|seed| seed.wrapping_add(i64::from(number)));
            let sampling = Sampling { seed, top_p: None, ..given };
            let request =
                Request { temperature, sampling, without_logprobs: true, ..self.request.clone() };
            let Some(sample) = self.call(&request, &mut used).await else { break };
            let is_cut = sample.finish_reason.as_deref() == Some("length");
            samples.push(Some(sample.output).filter(|_| !is_cut));
        }
        // An agreement of fewer samples than were asked for is another measure.
        if samples.len() < usize::from(ask.calls()) {
            return (None, used);
        }
        let schema = self.request.output_schema.as_ref().map(Schema::checked_before);
        let fields = ask.compared(schema.as_ref());
        (agreement(answer, &samples, &fields, schema.is_some()), used)
    }

    async fn judge(&mut self, ask: &Ask, model: &str, answer: &str) -> (Option<f64>, Tokens) {
        let request = Request {
            model: model.to_owned(),
            system_prompt: Some(JUDGE.to_owned()),
            prompt: question(ask.rubric.as_deref(), &self.task(), answer),
            max_tokens: Some(VERDICT_TOKENS),
            temperature: Some(0.0),
            ..Request::default()
        };
        let mut used = Tokens::default();
        let Some(first) = self.call(&request, &mut used).await else { return (None, used) };
        if let Some(probability) = probability(&first.opening) {
            return (Some(probability), used);
        }
        let again = Request { temperature: Some(SAMPLED), ..request };
        let mut verdicts: Vec<_> = verdict(&first.output).into_iter().collect();
        for _ in 1..ask.calls() {
            let Some(next) = self.call(&again, &mut used).await else { break };
            verdicts.extend(verdict(&next.output));
        }
        if verdicts.len() < usize::from(ask.calls()) {
            return (None, used);
        }
        let good = verdicts.iter().filter(|verdict| **verdict).count();
        #[expect(clippy::cast_precision_loss, reason = "at most nine verdicts")]
        let share = good as f64 / verdicts.len() as f64;
        (Some(share), used)
    }

    /// The task as the judge reads it.
    fn task(&self) -> String {
        let earlier = self.request.messages.iter().flat_map(|message| message.content.texts());
        let system = self.request.system_messages();
        let texts = system.into_iter().chain(earlier.cloned()).chain([self.request.prompt.clone()]);
        texts.collect::<Vec<_>>().join("\n\n")
    }
}

#[cfg(test)]
mod tests;
