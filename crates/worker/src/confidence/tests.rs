use std::sync::Mutex;
use std::time::Duration;

use callboard_domain::task::Sampling;
use callboard_domain::usage::Tokens;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;

use callboard_domain::model_limits::Reported;

use super::*;

/// One planned answer: its text, its first tokens, or a failure.
#[derive(Debug, Clone)]
enum Plan {
    Text(&'static str),
    Tokens(&'static [(&'static str, f64)]),
    Cut(&'static str),
    Fail,
    Never,
}

/// A provider that answers as planned and records its requests.
#[derive(Debug)]
struct Planned {
    answers: Mutex<Vec<Plan>>,
    asked: Mutex<Vec<Request>>,
}

impl Planned {
    fn new(answers: &[Plan]) -> Self {
        let answers = answers.iter().rev().cloned().collect();
        Self { answers: Mutex::new(answers), asked: Mutex::default() }
    }

    fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }
}

impl Provider for Planned {
    fn name(&self) -> &'static str {
        "planned"
    }

    fn complete<'a>(
        &'a self,
        request: &'a Request,
        deltas: &'a Deltas,
    ) -> BoxFuture<'a, Result<Completion, Failure>> {
        async move {
            self.asked.lock().unwrap().push(request.clone());
            let plan = self.answers.lock().unwrap().pop().expect("no more calls than planned");
            let (output, opening, reason) = match plan {
                Plan::Text(text) => (text.to_owned(), Vec::new(), "stop"),
                Plan::Cut(text) => (text.to_owned(), Vec::new(), "length"),
                Plan::Tokens(tokens) => {
                    let text = tokens.iter().map(|(token, _)| *token).collect();
                    let of = |(token, share): &(&str, f64)| ((*token).to_owned(), share.ln());
                    (text, tokens.iter().map(of).collect(), "stop")
                }
                Plan::Fail => return Err(Failure::broken("planned")),
                Plan::Never => std::future::pending().await,
            };
            let _ = deltas.send(output.clone()).await;
            Ok(Completion {
                output,
                thinking: None,
                usage: Tokens { input: 10, output: 1, ..Tokens::default() },
                confidence: Some(0.5),
                confidence_source: Source::Logprobs,
                finish_reason: Some(reason.into()),
                opening,
                service_tier: None,
                limits: Reported::default(),
            })
        }
        .boxed()
    }
}

fn samples(n: u8) -> Ask {
    Ask { method: Method::Samples, n: Some(n), ..Ask::default() }
}

fn judge(n: u8) -> Ask {
    let judge_model = Some("judge".into());
    Ask { method: Method::Judge, n: Some(n), judge_model, ..Ask::default() }
}

async fn measured(provider: &Planned, request: &Request, ask: &Ask) -> (Measured, String) {
    let (sender, mut pieces) = mpsc::channel(64);
    let deltas = Deltas::from(sender);
    let until = Instant::now() + Duration::from_mins(1);
    let measured = complete(provider, request, Some(ask), &deltas, until).await.unwrap();
    drop(deltas);
    let mut streamed = String::new();
    while let Some(piece) = pieces.recv().await {
        streamed.push_str(&piece);
    }
    (measured, streamed)
}

fn request() -> Request {
    Request { model: "m".into(), prompt: "the task".into(), ..Request::default() }
}

#[tokio::test]
async fn samples_agree_and_all_calls_count() {
    use Plan::Text;
    let provider = Planned::new(&[Text("Paris"), Text("paris"), Text("Lyon"), Text(" PARIS ")]);
    let sampling = Sampling {
        seed: Some(40),
        top_p: Some(0.1),
        stop: vec!["END".into()],
        frequency_penalty: Some(0.5),
    };
    let cold = Request { temperature: Some(0.1), sampling, ..request() };
    let (found, streamed) = measured(&provider, &cold, &samples(3)).await;
    assert_eq!((found.completion.output.as_str(), streamed.as_str()), ("Paris", "Paris"));
    assert!((found.completion.confidence.unwrap() - 2.0 / 3.0).abs() < 1e-12);
    assert_eq!(found.completion.confidence_source, Source::Samples);
    assert_eq!((found.completion.usage.input, found.completion.usage.output), (40, 4));
    let asked = provider.asked();
    assert_eq!((asked.len(), asked[0].temperature), (4, Some(0.1)));
    assert_eq!((found.calls, found.limited), (ask::Calls { own: 4, judge: 0 }, None));
    assert!(asked[1..].iter().all(|sample| sample.temperature == Some(0.7)));
    assert!(asked.iter().all(|sample| sample.prompt == "the task"));
    // Each sample has a seed of its own, and the whole distribution.
    let seeds: Vec<_> = asked.iter().map(|sample| sample.sampling.seed).collect();
    assert_eq!(seeds, [40, 41, 42, 43].map(Some));
    assert!(asked[1..].iter().all(|sample| sample.sampling.top_p.is_none()));
    assert!(asked.iter().all(|sample| sample.sampling.stop == ["END"]));
}

#[tokio::test]
async fn samples_of_json_agree_by_the_fields_of_the_schema() {
    use Plan::{Cut, Text};
    let schema = json!({"type": "object", "properties": {"a": {}, "b": {}}});
    let request = Request { output_schema: Some(schema), ..request() };
    let answers = [
        Text("{\"a\": 1, \"b\": \"x\", \"c\": 1}"),
        Text("{\"a\": 1.0, \"b\": \"y\"}"),
        Cut("{\"a\": 1, \"b\": \"x\"}"),
    ];
    let (found, _) = measured(&Planned::new(&answers), &request, &samples(2)).await;
    assert_eq!(found.completion.confidence, Some(0.25), "a cut sample agrees on nothing");
    let fields = Ask { fields: vec!["a".into()], ..samples(2) };
    let (found, _) = measured(&Planned::new(&answers), &request, &fields).await;
    assert_eq!(found.completion.confidence, Some(0.5));
}

#[tokio::test]
async fn a_failed_sample_costs_the_confidence_and_not_the_answer() {
    use Plan::{Fail, Text};
    let provider = Planned::new(&[Text("a"), Text("a"), Fail]);
    let (found, _) = measured(&provider, &request(), &samples(3)).await;
    assert_eq!((found.completion.output.as_str(), found.completion.confidence), ("a", None));
    assert_eq!(found.completion.confidence_source, Source::None);
    assert_eq!(found.completion.usage.input, 20, "the sample that came was paid for");
}

#[tokio::test(start_paused = true)]
async fn a_sample_that_takes_too_long_is_given_up() {
    use Plan::{Never, Text};
    let provider = Planned::new(&[Text("a"), Never]);
    let (found, _) = measured(&provider, &request(), &samples(2)).await;
    assert_eq!((found.completion.output.as_str(), found.completion.confidence), ("a", None));
}

#[tokio::test]
async fn an_answer_that_will_not_count_is_not_measured() {
    let cut = Planned::new(&[Plan::Cut("half an ans")]);
    let (found, _) = measured(&cut, &request(), &samples(3)).await;
    assert_eq!((found.completion.confidence, cut.asked().len()), (None, 1));
    let schema = Some(json!({"type": "object"}));
    let shaped = Request { output_schema: schema, ..request() };
    let broken = Planned::new(&[Plan::Text("no JSON")]);
    let (found, _) = measured(&broken, &shaped, &judge(3)).await;
    assert_eq!((found.completion.confidence, broken.asked().len()), (None, 1));
}

#[tokio::test]
async fn a_judge_with_logprobs_is_asked_once() {
    let provider = Planned::new(&[Plan::Text("4"), Plan::Tokens(&[("No", 0.8), (".", 0.9)])]);
    let ask = Ask { rubric: Some("It is a prime.".into()), ..judge(3) };
    let (found, streamed) = measured(&provider, &request(), &ask).await;
    assert!((found.completion.confidence.unwrap() - 0.2).abs() < 1e-9);
    assert_eq!((found.completion.confidence_source, streamed.as_str()), (Source::Judge, "4"));
    assert_eq!(found.completion.usage.input, 10, "the answer's model was called once");
    let (model, used) = found.judge.expect("a judge was asked");
    assert_eq!((model.as_str(), used.input), ("judge", 10));
    let asked = provider.asked();
    assert_eq!((asked[1].model.as_str(), asked[1].temperature), ("judge", Some(0.0)));
    for part in ["It is a prime.", "the task", "<answer>\n4\n</answer>"] {
        assert!(asked[1].prompt.contains(part), "{part}");
    }
}

#[tokio::test]
async fn a_judge_without_logprobs_gives_the_share_of_its_verdicts() {
    use Plan::Text;
    let answers = [Text("4"), Text("yes"), Text("No"), Text("Yes, it is."), Text("yes")];
    let provider = Planned::new(&answers);
    let (found, _) = measured(&provider, &request(), &judge(4)).await;
    assert_eq!(found.completion.confidence, Some(0.75));
    assert_eq!(found.judge.map(|(_, used)| used.input), Some(40));
    let silent = Planned::new(&[Text("4"), Text("perhaps"), Text("yes")]);
    let (found, _) = measured(&silent, &request(), &judge(2)).await;
    assert_eq!(found.completion.confidence, None, "a judge that gives no verdict is no signal");
}

#[tokio::test]
async fn auto_costs_nothing_and_none_is_none() {
    for (method, expected) in [(Method::Auto, Some(0.5)), (Method::None, None)] {
        let provider = Planned::new(&[Plan::Text("a")]);
        let ask = Ask { method, ..Ask::default() };
        let (found, _) = measured(&provider, &request(), &ask).await;
        assert_eq!((found.completion.confidence, provider.asked().len()), (expected, 1));
    }
}
