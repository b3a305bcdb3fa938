//! Confidence by samples and judges on each interface: from a lease to the frame with its result.
//!
//! Every further call is checked against the interface's description, like the answer's own. Deliberately
//! absent: the measures by themselves, which the domain's tests have.

use std::time::Duration;

use callboard_domain::confidence::ask::VERDICT_TOKENS;
use callboard_domain::confidence::verdict::JUDGE;
use callboard_protocol::workers::{Assign, Complete, ConfidenceSource, FromWorker};
use tokio::sync::{Semaphore, mpsc};

use super::super::testing::Step;
use super::*;
use crate::call::{self, Means};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Interface {
    OpenAi,
    Gemini,
    Vllm,
    Ollama,
    Anthropic,
}

use Interface::{Anthropic as AnthropicApi, Gemini, Ollama, OpenAi as OpenAiApi, Vllm};

const ALL: [Interface; 5] = [OpenAiApi, Gemini, Vllm, Ollama, AnthropicApi];

/// The words with which an interface refuses `logprobs` for a model that has none.
const GEMINI_REFUSAL: &str = r#"[{"error": {"code": 400, "message": "Logprobs is not enabled for models/gemini-2.5-pro", "status": "INVALID_ARGUMENT"}}]"#;
const OPENAI_REFUSALS: [&str; 3] = [
    r#"{"error": {"message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "type": "invalid_request_error", "param": "max_tokens", "code": "unsupported_parameter"}}"#,
    r#"{"error": {"message": "logprobs are not supported with reasoning models.", "type": "invalid_request_error", "param": null, "code": null}}"#,
    r#"{"error": {"message": "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.", "type": "invalid_request_error", "param": "temperature", "code": "unsupported_value"}}"#,
];

impl Interface {
    fn client(self, server: &Server) -> Arc<dyn Provider> {
        match self {
            Self::OpenAi => {
                let mut client = openai_at(server);
                client.is_strict = true;
                Arc::new(client)
            }
            Self::Gemini | Self::Vllm | Self::Ollama => Arc::new(openai_at(server)),
            Self::Anthropic => Arc::new(anthropic_at(server)),
        }
    }

    fn description(self) -> Value {
        let any = json!({"type": "object"});
        match self {
            Self::OpenAi => chat_completions(&json_schema(&named(&strict()))),
            Self::Gemini | Self::Vllm | Self::Ollama => {
                chat_completions(&json_schema(&named(&any)))
            }
            Self::Anthropic => anthropic(),
        }
    }

    /// An answer of 9 and 7 tokens, in the interface's own form; with the log-probability of its first
    /// token, if one is given.
    fn says(self, text: &str, logprob: Option<f64>) -> Vec<Step> {
        if self == Self::Anthropic {
            let block = json!({"type": "text", "text": ""});
            let delta = json!({"type": "text_delta", "text": text});
            return stream([anthropic_stream(&block, &[delta], "end_turn")]);
        }
        let mut chunk = text_chunk(text, &Value::Null);
        if let Some(logprob) = logprob {
            let token = json!({
                "token": text, "logprob": logprob, "bytes": text.as_bytes(), "top_logprobs": [],
            });
            chunk["choices"][0]["logprobs"] = json!({"content": [token]});
        } else if matches!(self, Self::OpenAi | Self::Vllm) {
            chunk["choices"][0]["logprobs"] = Value::Null;
        }
        let usage = json!({
            "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [],
            "usage": {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16},
        });
        stream([chunks(&[chunk, text_chunk("", &json!("stop")), usage])])
    }

    /// The part of a request that asks for the schema, if one does.
    fn schema_in(self, body: &Value) -> Option<&Value> {
        match self {
            Self::Anthropic => body.pointer("/output_config/format/schema"),
            Self::OpenAi | Self::Gemini | Self::Vllm | Self::Ollama => {
                body.pointer("/response_format/json_schema/schema")
            }
        }
    }

    /// The system messages of a request, joined.
    fn system_of(self, body: &Value) -> String {
        let texts = |list: &Value, member: &str| -> Vec<String> {
            let texts = list.as_array().into_iter().flatten();
            texts.filter_map(|one| one[member].as_str().map(str::to_owned)).collect()
        };
        match self {
            Self::Anthropic => texts(&body["system"], "text").join("\n"),
            Self::OpenAi | Self::Gemini | Self::Vllm | Self::Ollama => {
                let messages = body["messages"].as_array().expect("messages");
                let system = messages.iter().filter(|message| message["role"] == "system");
                texts(&system.cloned().collect(), "content").join("\n")
            }
        }
    }
}

/// A lease of the task that [`request`] is, with or without its schema.
fn lease(confidence: &Value, has_schema: bool) -> Assign {
    let Request { model, prompt, output_schema, .. } = request();
    let mut task = json!({
        "id": "t", "model": model, "queue": "q", "prompt": prompt, "systemPrompt": "Be brief.",
        "maxTokens": 100, "temperature": 0.5, "confidence": confidence,
    });
    if has_schema {
        task["outputSchema"] = output_schema.expect("it has one");
    }
    let assign = json!({"lease": "a", "attempt": 1, "deadlineAt": "", "task": task});
    serde_json::from_value(assign).expect("a lease")
}

/// The result of a lease at a server that plays these scripts, and the requests that the server got.
async fn result(
    interface: Interface,
    assign: Assign,
    scripts: Vec<Vec<Step>>,
) -> (Complete, Vec<Value>) {
    let count = scripts.len();
    let mut server = serve(scripts).await;
    let (text, _texts) = mpsc::channel(64);
    let (provider, slots) = (interface.client(&server), Arc::new(Semaphore::new(1)));
    let means = Means { provider, slots, text, spans: None, client: None };
    let frame = call::run(assign, Duration::from_mins(1), means).await;
    let FromWorker::Complete(complete) = frame else { panic!("{interface:?}: {frame:?}") };
    let mut asked = Vec::new();
    for _ in 0..count {
        let body = server.seen.try_recv().expect("a request for each script").body;
        conforms(&interface.description(), &body);
        asked.push(body);
    }
    (complete, asked)
}

fn near(found: Option<f64>, expected: f64) -> bool {
    found.is_some_and(|found| (found - expected).abs() < 1e-9)
}

/// The prompt of a request: its last message.
fn prompt_of(body: &Value) -> &str {
    let last = body["messages"].as_array().and_then(|messages| messages.last());
    last.and_then(|message| message["content"].as_str()).expect("a prompt")
}

fn samples() -> Value {
    json!({"method": "samples", "n": 3})
}

fn judged() -> Value {
    json!({"method": "judge", "n": 3, "judgeModel": "j", "rubric": "It is a city."})
}

#[tokio::test]
async fn three_samples_of_a_text_agree_on_every_interface() {
    for interface in ALL {
        let says = ["Paris", "paris", "Lyon", " PARIS "];
        let scripts = says.map(|text| interface.says(text, None)).to_vec();
        let (found, asked) = result(interface, lease(&samples(), false), scripts).await;
        assert_eq!(
            (found.output.clone().of_prompt().as_str(), asked.len()),
            ("Paris", 4),
            "{interface:?}"
        );
        assert!(near(found.confidence, 2.0 / 3.0), "{interface:?}: {:?}", found.confidence);
        assert_eq!(found.confidence_source, Some(ConfidenceSource::Samples), "{interface:?}");
        assert_eq!((found.usage.input, found.usage.output, found.judge), (36, 28, None));
        let temperatures: Vec<_> = asked.iter().map(|body| body["temperature"].as_f64()).collect();
        assert_eq!(temperatures, [Some(0.5), Some(0.7), Some(0.7), Some(0.7)], "{interface:?}");
        for body in &asked {
            assert_eq!((prompt_of(body), &body["model"]), ("Extract.", &json!("m")));
            assert_eq!(body.get("logprobs"), None, "{interface:?}: nobody wants them");
            assert_eq!(interface.schema_in(body), None, "{interface:?}");
        }
    }
}

#[tokio::test]
async fn three_samples_of_json_agree_by_field_and_each_is_asked_for_the_schema() {
    for interface in ALL {
        let says = [
            r#"{"name": "A", "kind": "a", "rows": []}"#,
            r#"{"name": "a", "kind": "a", "rows": []}"#,
            r#"{"name": "A", "kind": "b", "rows": []}"#,
            r#"{"name": "A", "kind": "a", "rows": [{"n": 1}]}"#,
        ];
        let scripts = says.map(|text| interface.says(text, None)).to_vec();
        let (found, asked) = result(interface, lease(&samples(), true), scripts).await;
        // The name agrees in case-folded form three times, the others twice.
        let expected = (1.0 + 2.0 / 3.0 + 2.0 / 3.0) / 3.0;
        assert!(near(found.confidence, expected), "{interface:?}: {:?}", found.confidence);
        assert_eq!(found.confidence_source, Some(ConfidenceSource::Samples), "{interface:?}");
        let schemas: Vec<_> = asked.iter().map(|body| interface.schema_in(body)).collect();
        assert!(schemas[0].is_some() && schemas.iter().all(|schema| *schema == schemas[0]));
        assert_eq!((found.usage.input, found.usage.output), (36, 28), "{interface:?}");
    }
}

#[tokio::test]
async fn a_judge_with_log_probabilities_is_asked_once() {
    for interface in [OpenAiApi, Vllm, Ollama] {
        for (has_schema, answer) in [(false, "Paris"), (true, JSON)] {
            for (verdict, expected) in [("Yes", 0.8), ("No", 0.2)] {
                let scripts =
                    vec![interface.says(answer, None), interface.says(verdict, Some(0.8_f64.ln()))];
                let (found, asked) = result(interface, lease(&judged(), has_schema), scripts).await;
                assert!(near(found.confidence, expected), "{interface:?}: {:?}", found.confidence);
                is_judged(interface, &found, 1);
                assert_eq!(asked[0].get("logprobs"), None, "{interface:?}: not of the answer");
                asks_the_judge(interface, &asked[1], answer);
                assert_eq!(asked[1]["logprobs"], true, "{interface:?}");
                assert_eq!(asked[1]["temperature"], 0.0, "{interface:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_judge_without_log_probabilities_gives_three_verdicts() {
    // Older servers of Ollama leave `logprobs` out of account, and Anthropic's interface has none.
    for interface in [Ollama, AnthropicApi] {
        for (has_schema, answer) in [(false, "Paris"), (true, JSON)] {
            let says = [answer, "Yes", "No.", "yes, it is"];
            let scripts = says.map(|text| interface.says(text, None)).to_vec();
            let (found, asked) = result(interface, lease(&judged(), has_schema), scripts).await;
            assert!(near(found.confidence, 2.0 / 3.0), "{interface:?}: {:?}", found.confidence);
            is_judged(interface, &found, 3);
            asked[1..].iter().for_each(|body| asks_the_judge(interface, body, answer));
            let temperatures: Vec<_> =
                asked[1..].iter().map(|body| body["temperature"].as_f64()).collect();
            assert_eq!(temperatures, [Some(0.0), Some(0.7), Some(0.7)], "{interface:?}");
            assert_eq!(interface.schema_in(&asked[0]).is_some(), has_schema, "{interface:?}");
        }
    }
}

#[tokio::test]
async fn a_judge_that_refuses_log_probabilities_is_asked_without_them() {
    let refused = |text| answer("400 Bad Request", "content-type: application/json\r\n", text);
    for (interface, refusals, has_temperature) in
        [(Gemini, &[GEMINI_REFUSAL][..], true), (OpenAiApi, &OPENAI_REFUSALS[..], false)]
    {
        for (has_schema, output) in [(false, "Paris"), (true, JSON)] {
            let mut scripts = vec![interface.says(output, None)];
            scripts.extend(refusals.iter().map(|text| refused(text)));
            scripts.extend(["yes", "Yes.", "no"].map(|text| interface.says(text, None)));
            let (found, asked) = result(interface, lease(&judged(), has_schema), scripts).await;
            assert!(near(found.confidence, 2.0 / 3.0), "{interface:?}: {:?}", found.confidence);
            is_judged(interface, &found, 3);
            // The first question is refused; the answer to each refusal leaves one more member out.
            let verdicts = &asked[1 + refusals.len()..];
            assert_eq!(asked[1]["logprobs"], true, "{interface:?}");
            for body in verdicts {
                asks_the_judge(interface, body, output);
                assert_eq!(body.get("logprobs"), None, "{interface:?}");
                assert_eq!(body.get("temperature").is_some(), has_temperature, "{interface:?}");
            }
        }
    }
}

#[tokio::test]
async fn auto_takes_the_log_probabilities_of_the_answer_alone() {
    let auto = json!({"method": "auto"});
    for interface in [OpenAiApi, Vllm, Ollama] {
        let scripts = vec![interface.says("Paris", Some(0.5_f64.ln()))];
        let (found, asked) = result(interface, lease(&auto, false), scripts).await;
        assert!(near(found.confidence, 0.5), "{interface:?}: {:?}", found.confidence);
        assert_eq!(found.confidence_source, Some(ConfidenceSource::Logprobs), "{interface:?}");
        assert_eq!(asked[0]["logprobs"], true, "{interface:?}");
    }
    let refused = answer("400 Bad Request", "", GEMINI_REFUSAL);
    for (interface, first) in [(Gemini, Some(refused)), (AnthropicApi, None)] {
        let scripts = first.into_iter().chain([interface.says("Paris", None)]).collect();
        let (found, asked) = result(interface, lease(&auto, false), scripts).await;
        assert_eq!(
            (found.output.clone().of_prompt().as_str(), found.confidence),
            ("Paris", None),
            "{interface:?}"
        );
        assert_eq!(found.confidence_source, Some(ConfidenceSource::None), "{interface:?}");
        assert_eq!(asked.last().and_then(|body| body.get("logprobs")), None, "{interface:?}");
    }
}

/// The result has a judge's confidence, and counts this number of its calls apart from the answer's.
fn is_judged(interface: Interface, found: &Complete, calls: u64) {
    assert_eq!(found.confidence_source, Some(ConfidenceSource::Judge), "{interface:?}");
    assert_eq!((found.usage.input, found.usage.output), (9, 7), "{interface:?}");
    let judge = found.judge.as_ref().expect("a judge was asked");
    let used = (judge.model.as_str(), judge.usage.input, judge.usage.output);
    assert_eq!(used, ("j", 9 * calls, 7 * calls), "{interface:?}");
}

/// The request is a judge's question about this answer, in words alone.
fn asks_the_judge(interface: Interface, body: &Value, answer: &str) {
    assert_eq!(body["model"], "j", "{interface:?}");
    assert_eq!(interface.system_of(body), JUDGE, "{interface:?}");
    let question = prompt_of(body);
    for part in
        ["It is a city.", "Be brief.", "Extract.", &format!("<answer>\n{answer}\n</answer>")]
    {
        assert!(question.contains(part), "{interface:?}: {part}");
    }
    assert_eq!(interface.schema_in(body), None, "{interface:?}: a verdict is one word");
    let limit = body.get("max_tokens").or(body.get("max_completion_tokens"));
    assert_eq!(limit, Some(&json!(VERDICT_TOKENS)), "{interface:?}");
}
