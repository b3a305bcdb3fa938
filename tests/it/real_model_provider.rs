//! The providers against a real small model, served by `tests/model/serve.py`.
//!
//! `CALLBOARD_SKIP_REAL_MODEL=1` leaves these tests out and says so; nothing else does. Time-outs
//! are generous: a busy machine makes two tokens a second.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::confidence::Source;
use callboard_domain::confidence::ask::{Ask, Method};
use callboard_domain::fuel::Fuel;
use callboard_domain::schema::{self, Schema};
use callboard_domain::usage::Prices;
use callboard_worker::confidence;
use callboard_worker::provider::anthropic::Anthropic;
use callboard_worker::provider::openai::OpenAi;
use callboard_worker::provider::{Completion, Failure, Provider, Request};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// For anything that a real model does.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);

/// A model that answers at `url` and ends when this is dropped.
pub(crate) struct Model {
    pub(crate) url: String,
    _process: Child,
}

#[tokio::test]
async fn a_real_model_answers_the_openai_client_with_tokens_usage_and_confidence() {
    let Some(model) = start().await else { return };
    let provider = OpenAi::new(&format!("{}/v1", model.url), None).unwrap();
    let request = Request {
        system_prompt: Some("You answer with one word.".into()),
        context: serde_json::from_str(r#"{"continent": "Europe"}"#).unwrap(),
        max_tokens: None,
        ..ask("What is the capital of France?")
    };
    let (result, deltas) = call(&provider, &request).await;
    let completion = result.unwrap();
    assert!(!completion.output.is_empty());
    assert_eq!(deltas.concat(), completion.output);
    assert_eq!(completion.finish_reason.as_deref(), Some("stop"));
    assert!(completion.usage.input > 10 && completion.usage.output > 0, "{completion:?}");
    let confidence = completion.confidence.unwrap();
    assert!(confidence > 0.0 && confidence < 1.0, "{confidence}");
    assert_eq!(completion.confidence_source, Source::Logprobs);

    let cut = Request { max_tokens: Some(3), ..ask("Count from one to a hundred.") };
    let (result, deltas) = call(&provider, &cut).await;
    let completion = result.unwrap();
    assert_eq!((completion.usage.output, completion.finish_reason.as_deref()), (3, Some("length")));
    assert_eq!((completion.confidence, deltas.concat()), (None, completion.output));

    let long = Request { prompt: "long ".repeat(5000), ..ask("") };
    let failure = call(&provider, &long).await.0.unwrap_err();
    assert!(!failure.retryable && failure.message.contains("context size"), "{}", failure.message);
}

#[tokio::test]
async fn a_real_model_answers_the_anthropic_client_without_confidence() {
    let Some(model) = start().await else { return };
    let prices = Arc::new(Prices::default());
    let provider = Anthropic::new(&model.url, Some("none".into()), prices).unwrap();
    let request = Request {
        system_prompt: Some("You are brief.".into()),
        context: serde_json::from_str(r#"{"continent": "Europe"}"#).unwrap(),
        max_tokens: Some(8),
        ..ask("What is the capital of France?")
    };
    let (result, deltas) = call(&provider, &request).await;
    let completion = result.unwrap();
    assert!(!completion.output.is_empty());
    assert_eq!(deltas.concat(), completion.output);
    assert!(completion.usage.input > 10, "{completion:?}");
    assert!((1..=8).contains(&completion.usage.output), "{completion:?}");
    assert_eq!((completion.confidence, completion.confidence_source), (None, Source::None));
}

#[tokio::test]
async fn dropping_the_call_ends_the_generation() {
    let Some(model) = start().await else { return };
    let provider = OpenAi::new(&format!("{}/v1", model.url), None).unwrap();
    let request = Request {
        max_tokens: Some(1500),
        ..ask("Write a very long story about a ship, with many chapters.")
    };
    let (sender, mut deltas) = mpsc::channel(1);
    let sender = sender.into();
    tokio::select! {
        ended = provider.complete(&request, &sender) => panic!("the story was too short: {ended:?}"),
        delta = deltas.recv() => assert!(delta.is_some()),
    }
    let stopped = async {
        while metric(&model.url, "llamacpp:requests_processing").await > 0.0 {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, stopped).await.expect("the model went on after nobody listened");
    let made = metric(&model.url, "llamacpp:tokens_predicted_total").await;
    assert!(made < 1500.0, "the model wrote the story to its end: {made} tokens");
}

#[tokio::test]
async fn a_real_model_keeps_to_a_schema_that_its_server_enforces() {
    let Some(model) = start().await else { return };
    let source = json!({
        "type": "object", "required": ["city", "vowels"], "additionalProperties": false,
        "properties": {
            "city": {"type": "string", "maxLength": 20},
            "vowels": {"type": "integer"},
        },
    });
    let schema = Schema::compile("outputSchema", &source).expect("a schema");
    let shaped = Request {
        output_schema: Some(source),
        max_tokens: Some(60),
        ..ask("Name the capital of France and its number of vowels, as JSON.")
    };
    let openai = OpenAi::new(&format!("{}/v1", model.url), None).unwrap();
    let (result, deltas) = call(&openai, &shaped).await;
    let completion = result.unwrap();
    assert_eq!(deltas.concat(), completion.output);
    let checked = schema.check_output(&completion.output, &mut Fuel::new(schema::FUEL));
    assert_eq!(checked, Ok(Ok(None)), "{}", completion.output);
}

#[tokio::test]
async fn a_real_model_is_sampled_and_judged_in_one_call_of_the_worker() {
    let Some(model) = start().await else { return };
    let provider = OpenAi::new(&format!("{}/v1", model.url), None).unwrap();
    let request = Request { max_tokens: Some(200), ..ask("What is 1 + 1? Answer with a number.") };
    let judge_model = Some("smollm2-135m".to_owned());
    for (method, source) in [(Method::Samples, Source::Samples), (Method::Judge, Source::Judge)] {
        let ask = Ask { method, n: Some(2), judge_model: judge_model.clone(), ..Ask::default() };
        let (sender, receiver) = mpsc::channel(1);
        let sender = sender.into();
        drop(receiver);
        let until = tokio::time::Instant::now() + PATIENCE;
        let measured = confidence::complete(&provider, &request, Some(&ask), &sender, until).await;
        let measured = measured.unwrap();
        // A small judge may give no verdict; what it gives is a share.
        match measured.completion.confidence {
            Some(share) => {
                assert!((0.0..=1.0).contains(&share), "{share}");
                assert_eq!(measured.completion.confidence_source, source);
            }
            None => assert_eq!(measured.completion.confidence_source, Source::None),
        }
        let judged = measured.judge.map_or(0, |(_, used)| used.input);
        assert_eq!(judged > 0, method == Method::Judge);
        assert!(measured.completion.usage.input > 0);
    }
}

fn ask(prompt: &str) -> Request {
    Request {
        model: "smollm2-135m".into(),
        prompt: prompt.into(),
        max_tokens: Some(16),
        temperature: Some(0.0),
        service_tier: None,
        ..Request::default()
    }
}

/// Makes a call and gathers its deltas.
async fn call(
    provider: &dyn Provider,
    request: &Request,
) -> (Result<Completion, Failure>, Vec<String>) {
    let (sender, mut receiver) = mpsc::channel(1);
    let sender = sender.into();
    let gather = async {
        let mut deltas = Vec::new();
        while let Some(delta) = receiver.recv().await {
            deltas.push(delta);
        }
        deltas
    };
    let complete = async {
        let result = provider.complete(request, &sender).await;
        drop(sender);
        result
    };
    let both = async { tokio::join!(complete, gather) };
    timeout(PATIENCE, both).await.expect("the model is too slow")
}

/// One figure of the model server's own metrics.
pub(crate) async fn metric(url: &str, name: &str) -> f64 {
    let client = crate::support::plain_http().build().expect("a plain client is always built");
    let text = client.get(format!("{url}/metrics")).send().await.expect("the model server answers");
    let text = text.text().await.expect("the metrics are text");
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value
        .unwrap_or_else(|| panic!("{name} is not in {text}"))
        .parse()
        .expect("a metric is a number")
}

/// A model of this test's own, or `None` when such tests are left out.
pub(crate) async fn start() -> Option<Model> {
    if std::env::var("CALLBOARD_SKIP_REAL_MODEL").is_ok_and(|skip| skip == "1") {
        eprintln!("skipped: CALLBOARD_SKIP_REAL_MODEL=1 leaves out the tests with a real model");
        return None;
    }
    callboard_common::tls::install_provider();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/model");
    let mut process = Command::new(python(&scripts).await)
        .arg(scripts.join("serve.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the python that was installed starts");
    let mut lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
    let ready = async {
        while let Some(line) = lines.next_line().await.expect("its output is text") {
            if let Some(url) = line.strip_prefix("ready ") {
                return url.to_owned();
            }
        }
        panic!("the model server ended before it was ready");
    };
    let url = timeout(PATIENCE, ready).await.expect("the model was not ready in time");
    Some(Model { url, _process: process })
}

/// The python that has the model, made if need be.
async fn python(scripts: &Path) -> PathBuf {
    let installed = Command::new(scripts.join("install"))
        .stdin(Stdio::null())
        .output()
        .await
        .expect("bash starts");
    let words = String::from_utf8_lossy(&installed.stderr).into_owned();
    assert!(installed.status.success(), "{words}");
    String::from_utf8_lossy(&installed.stdout).trim().into()
}
