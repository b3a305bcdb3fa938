//! A simulated model: the same request gives the same answer, at no cost and without a network.
//!
//! The simulated model serves tests, trials and the sandbox. Its output says `simulated`, so that
//! it is not taken for a model's; the one exception echoes the prompt and says so in the model's
//! name:
//!
//! | model | answer |
//! |---|---|
//! | `simulated-echo` | the prompt itself |
//! | `simulated-unsure` | confidence 0.25; samples and a judge's verdicts that disagree at a set rate |
//! | `simulated-slow` | as others, a minute later |
//! | `simulated-error` | a failure that is final |
//! | `simulated-unavailable` | a failure that may pass |
//! | `simulated-rate-limited` | a rate limit, to be tried again after a second |
//! | any other | `simulated answer …` |
//!
//! As a judge, every other model says yes. An output that must match a schema is an example of the schema, from every model but the echo.
//!
//! Deliberately absent: directives inside the prompt, and randomness.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use callboard_domain::confidence::verdict::JUDGE;
use callboard_domain::confidence::{self, Source};
use callboard_domain::fuel::Fuel;
use callboard_domain::model_limits::Reported;
use callboard_domain::schema::{self, Schema};
use callboard_domain::usage::{Tokens, estimate_tokens};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::confidence::SAMPLED;

use super::{Code, Completion, Deltas, Failure, Output, Provider, Request};

/// The model whose confidence is low, however it is made.
const UNSURE: &str = "simulated-unsure";

/// The share of its samples and verdicts that disagree, unless the options say otherwise.
const DISAGREEMENT: f64 = 0.5;

/// The model that answers with its prompt, under any output schema.
const ECHO: &str = "simulated-echo";

const SLOW: Duration = Duration::from_mins(1);

/// The behaviour of the model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Options {
    /// The wait before the first piece.
    pub latency: Duration,
    /// The wait before every further piece (a word).
    pub per_word: Duration,
    /// The confidence of every answer; `None` derives it from the prompt.
    pub confidence: Option<f64>,
    /// The share of the samples and verdicts of the unsure model that disagree, 0 to 1; `None` is half of them.
    pub disagreement: Option<f64>,
}

/// The provider.
#[derive(Debug, Clone, Default)]
pub struct Simulated {
    options: Options,
    /// The samples and verdicts of the unsure model so far.
    asked: Arc<AtomicU32>,
}

impl Simulated {
    /// A provider that behaves as the options say.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { options, asked: Arc::default() }
    }

    async fn call(&self, request: &Request, deltas: &Deltas) -> Result<Completion, Failure> {
        let latency = if request.model == "simulated-slow" { SLOW } else { self.options.latency };
        pause(latency).await;
        if let Some(failure) = failure(&request.model) {
            return Err(failure);
        }
        let (mut text, digest) = answer(request);
        let mut schema = request.output_schema.as_ref().filter(|_| request.model != ECHO);
        let is_judge = request.system_prompt.as_deref() == Some(JUDGE);
        let is_further = is_judge || is_sample(request);
        let disagrees = is_further && request.model == UNSURE && self.disagrees();
        if is_judge {
            text = if disagrees { "no".into() } else { "yes".into() };
        } else if disagrees {
            text.push_str(", another one");
            schema = None;
        }
        let whole = match schema {
            Some(schema) => example(schema.clone()).await?,
            None => text,
        };
        let mut output = Output::default();
        let mut finish_reason = "stop";
        for (index, word) in pieces(&whole, schema.is_some()).enumerate() {
            if request.max_tokens.is_some_and(|max| index as u64 >= max) {
                finish_reason = "length";
                break;
            }
            if index > 0 {
                pause(self.options.per_word).await;
            }
            output.push(word.to_owned(), deltas).await?;
        }
        let confidence =
            self.confidence(&request.model, digest).filter(|_| finish_reason == "stop");
        Ok(Completion {
            usage: Tokens {
                input: request.estimated_tokens(),
                output: estimate_tokens(&output.text),
                ..Tokens::default()
            },
            output: output.text,
            thinking: None,
            confidence,
            confidence_source: confidence.map_or(Source::None, |_| Source::Reported),
            finish_reason: Some(finish_reason.to_owned()),
            service_tier: request.service_tier,
            limits: Reported::default(),
            opening: Vec::new(),
        })
    }

    /// True for so many calls in order as the share says.
    fn disagrees(&self) -> bool {
        let share = self.options.disagreement.unwrap_or(DISAGREEMENT).clamp(0.0, 1.0);
        let before = f64::from(self.asked.fetch_add(1, Ordering::Relaxed));
        ((before + 1.0) * share).floor() > (before * share).floor()
    }

    fn confidence(&self, model: &str, digest: [u8; 4]) -> Option<f64> {
        if model == UNSURE {
            return Some(0.25);
        }
        let own = 0.5 + f64::from(digest[0]) / 510.0;
        confidence::clamped(self.options.confidence.unwrap_or(own))
    }
}

impl Provider for Simulated {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn complete<'a>(
        &'a self,
        request: &'a Request,
        deltas: &'a Deltas,
    ) -> BoxFuture<'a, Result<Completion, Failure>> {
        self.call(request, deltas).boxed()
    }
}

/// True for a further answer by which a confidence is measured.
fn is_sample(request: &Request) -> bool {
    request.without_logprobs && request.temperature.is_some_and(|it| it >= SAMPLED)
}

fn failure(model: &str) -> Option<Failure> {
    match model {
        "simulated-error" => Some(Failure::refused("simulated error")),
        "simulated-unavailable" => Some(Failure::broken("simulated unavailability")),
        "simulated-rate-limited" => Some(Failure {
            retry_after_ms: Some(1000),
            ..Failure::new(Code::ProviderRateLimited, "simulated rate limit", true)
        }),
        _ => None,
    }
}

/// The output and a digest: pure functions of the model and of all texts of the request.
fn answer(request: &Request) -> (String, [u8; 4]) {
    let mut hash = Sha256::new();
    let system = request.system_messages();
    let system = system.iter().map(String::as_str);
    let earlier = request.messages.iter().flat_map(|message| {
        [message.role.as_str()].into_iter().chain(message.content.texts().map(String::as_str))
    });
    let texts =
        [request.model.as_str()].into_iter().chain(system).chain(earlier).chain([&*request.prompt]);
    for text in texts {
        hash.update(text.len().to_be_bytes());
        hash.update(text);
    }
    let hash = hash.finalize();
    let digest = [hash[0], hash[1], hash[2], hash[3]];
    if request.model == ECHO {
        return (request.prompt.clone(), digest);
    }
    let text = format!(
        "simulated answer {:08x} of {} to a prompt of {} characters",
        u32::from_be_bytes(digest),
        request.model,
        request.prompt.chars().count()
    );
    (text, digest)
}

/// The words of a text, or the tokens of a JSON text of about four characters each.
fn pieces(whole: &str, is_json: bool) -> impl Iterator<Item = &str> {
    let mut rest = whole;
    std::iter::from_fn(move || {
        let end = if is_json {
            rest.char_indices().nth(4).map(|(at, _)| at)
        } else {
            rest.find(' ').map(|at| at + 1)
        };
        let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

/// A value of the schema. The schema is a caller's, and the search may take a while.
async fn example(schema: Value) -> Result<String, Failure> {
    let make = move || {
        let schema = Schema::checked_before(&schema);
        let example = schema.example(&mut Fuel::new(schema::FUEL)).ok()?;
        Some(example.to_string())
    };
    let example = tokio::task::spawn_blocking(make).await;
    let example = example.map_err(|_| Failure::broken("the simulated model broke"))?;
    example
        .ok_or_else(|| Failure::refused("the simulated model finds no short value of the schema"))
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::sync::mpsc;

    use super::*;

    fn request(model: &str, prompt: &str) -> Request {
        Request { model: model.into(), prompt: prompt.into(), ..Request::default() }
    }

    async fn call(request: Request) -> Result<(Completion, String), Failure> {
        let (sender, mut pieces) = mpsc::channel(64);
        let deltas = Deltas::from(sender);
        let completion = Simulated::default().complete(&request, &deltas).await?;
        drop(deltas);
        let mut joined = String::new();
        while let Some(piece) = pieces.recv().await {
            joined.push_str(&piece);
        }
        Ok((completion, joined))
    }

    #[tokio::test]
    async fn the_same_request_gives_the_same_answer_which_says_what_it_is() {
        let (first, pieces) = call(request("m", "hello")).await.unwrap();
        assert_eq!(pieces, first.output);
        assert!(first.output.starts_with("simulated answer "), "{}", first.output);
        assert_eq!(call(request("m", "hello")).await.unwrap().0, first);
        assert_ne!(call(request("m", "hullo")).await.unwrap().0.output, first.output);
        assert!((0.5..=1.0).contains(&first.confidence.unwrap()));
    }

    #[tokio::test]
    async fn the_echo_is_the_prompt_and_max_tokens_cuts_it_without_confidence() {
        let prompt = "{\"a\": 1} and more";
        assert_eq!(call(request("simulated-echo", prompt)).await.unwrap().0.output, prompt);
        let cut = Request { max_tokens: Some(2), ..request("simulated-echo", prompt) };
        let (cut, _) = call(cut).await.unwrap();
        assert_eq!(cut.output, "{\"a\": 1} ");
        assert_eq!((cut.finish_reason.as_deref(), cut.confidence), (Some("length"), None));
        assert_eq!(cut.confidence_source, Source::None);
    }

    #[tokio::test]
    async fn the_named_failures_are_what_they_say() {
        let failed = async |model| call(request(model, "x")).await.unwrap_err();
        assert!(!failed("simulated-error").await.retryable);
        assert!(failed("simulated-unavailable").await.retryable);
        let limited = failed("simulated-rate-limited").await;
        assert_eq!((limited.code, limited.retry_after_ms), (Code::ProviderRateLimited, Some(1000)));
        let (unsure, _) = call(request("simulated-unsure", "x")).await.unwrap();
        assert_eq!(unsure.confidence, Some(0.25));
    }

    #[tokio::test]
    async fn samples_and_verdicts_of_the_unsure_one_disagree_at_the_set_rate() {
        let provider = |share| {
            let options = Options { disagreement: Some(share), ..Options::default() };
            Simulated::new(options)
        };
        let outputs = async |provider: &Simulated, request: &Request| {
            let mut outputs = Vec::new();
            for _ in 0..8 {
                let (sender, pieces) = mpsc::channel(64);
                drop(pieces);
                let called = provider.complete(request, &Deltas::from(sender)).await;
                outputs.push(called.expect("an answer").output);
            }
            outputs
        };
        let sample = |model| Request {
            temperature: Some(SAMPLED),
            without_logprobs: true,
            output_schema: Some(json!({"type": "object"})),
            ..request(model, "x")
        };
        for (share, expected) in [(0.25, 2), (0.5, 4), (1.0, 8), (0.0, 0)] {
            let found = outputs(&provider(share), &sample(UNSURE)).await;
            assert_eq!(found.iter().filter(|it| *it != "{}").count(), expected, "{share}");
            let judge = Request { system_prompt: Some(JUDGE.into()), ..request(UNSURE, "x") };
            let found = outputs(&provider(share), &judge).await;
            assert_eq!(found.iter().filter(|it| *it == "no").count(), expected, "{share}");
        }
        let sure = outputs(&provider(1.0), &sample("m")).await;
        assert!(sure.iter().all(|it| it == "{}"), "{sure:?}");
        let judge = Request { system_prompt: Some(JUDGE.into()), ..request("m", "x") };
        assert!(outputs(&provider(1.0), &judge).await.iter().all(|it| it == "yes"));
        let plain = outputs(&provider(1.0), &request(UNSURE, "x")).await;
        assert!(plain.iter().all(|it| *it == plain[0]), "its own answer is always the same");
    }

    #[tokio::test(start_paused = true)]
    async fn the_slow_one_takes_a_minute() {
        let start = tokio::time::Instant::now();
        call(request("simulated-slow", "x")).await.unwrap();
        assert_eq!(start.elapsed(), SLOW);
    }
}
