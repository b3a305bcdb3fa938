//! The table of providers in the guide to workers: every cell is made from an answer in the
//! provider's shape, and from the request that it got.

use serde_json::{Value, json};

use super::super::testing::answer;
use super::*;
use crate::provider::ServiceTier;

/// The guide, whose table of providers this test reads.
const GUIDE: &str = include_str!("../../../../../docs/how-to/workers.md");

/// An answer with all that the provider tells: its output is `{"a":1}`, its thinking `hm`.
struct Provided {
    name: &'static str,
    interface: Interface,
    /// True for those that take schemas in `OpenAI`'s strict dialect.
    is_strict: bool,
    /// The provider's refusals of optional members, before it answers.
    refusals: Vec<&'static str>,
    body: String,
}

/// The chunks of one token of thinking and one of text, with these members in place of the usual ones.
fn chunks(thinking: &str, logprobs: &str, last: &str) -> String {
    let text = format!(
        r#"{{"choices":[{{"index":0,"delta":{{"role":"assistant","content":"{{\"a\":1}}"}},{logprobs}"finish_reason":null}}]}}"#
    );
    let end =
        format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"stop"}}],{last}}}"#);
    let mut events = Vec::new();
    if !thinking.is_empty() {
        events.push(format!(
            r#"{{"choices":[{{"index":0,"delta":{{{thinking}}},"finish_reason":null}}]}}"#
        ));
    }
    events.extend([text, end]);
    stream(&events.iter().map(String::as_str).collect::<Vec<_>>())
}

const LOGPROBS: &str = r#""logprobs":{"content":[{"token":"{\"a\":1}","logprob":-0.1,"bytes":null,"top_logprobs":[]}]},"#;
const COUNTED: &str = r#""usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}"#;
const CACHED: &str = r#""usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4}}"#;
const REASONED: &str = r#""usage":{"prompt_tokens":9,"completion_tokens":23,"total_tokens":32,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":20}}"#;
const REASONING_CONTENT: &str = r#""reasoning_content":"hm""#;
const REASONING: &str = r#""reasoning":"hm""#;
const NO_LOGPROBS: &str =
    r#"{"error":{"message":"property 'logprobs' is unsupported","type":"invalid_request_error"}}"#;
const NO_GEMINI_LOGPROBS: &str = r#"[{"error":{"code":400,"message":"Logprobs is not enabled for models/m","status":"INVALID_ARGUMENT"}}]"#;
const NO_GEMINI_TIER: &str = r#"[{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"service_tier\": Cannot find field.","status":"INVALID_ARGUMENT"}}]"#;
const NO_MISTRAL_LOGPROBS: &str = r#"{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","logprobs"],"msg":"Extra inputs are not permitted","input":true}]},"type":"invalid_request_error","code":null}"#;
const NO_MISTRAL_TIER: &str = r#"{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","service_tier"],"msg":"Extra inputs are not permitted","input":"flex"}]},"type":"invalid_request_error","code":null}"#;

fn providers() -> Vec<Provided> {
    let tier = |members: &str| format!(r#"{members},"service_tier":"flex""#);
    let anthropic = named(&[
        r#"{"type":"message_start","message":{"usage":{"input_tokens":5,"cache_read_input_tokens":4,"output_tokens":1,"service_tier":"standard"}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"{\"a\":1}"}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}"#,
        r#"{"type":"message_stop"}"#,
    ]);
    let thinks = r#""content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]"#;
    let timings = r#""timings":{"cache_n":4,"prompt_n":5,"predicted_n":3}"#;
    let of = |name, refusals: &[&'static str], body| {
        let (interface, refusals) = (Interface::OpenAi, refusals.to_vec());
        Provided { name, interface, is_strict: false, refusals, body }
    };
    vec![
        Provided { is_strict: true, ..of("OpenAI", &[], chunks("", LOGPROBS, &tier(REASONED))) },
        Provided { is_strict: true, ..of("Azure OpenAI", &[], chunks("", LOGPROBS, REASONED)) },
        Provided { interface: Interface::Anthropic, ..of("Anthropic", &[], anthropic) },
        of(
            "Gemini's compatible address",
            &[NO_GEMINI_LOGPROBS, NO_GEMINI_TIER],
            chunks("", "", REASONED),
        ),
        of("Mistral", &[NO_MISTRAL_LOGPROBS, NO_MISTRAL_TIER], chunks(thinks, "", COUNTED)),
        of("Groq", &[NO_LOGPROBS], chunks(REASONING, "", &tier(CACHED))),
        of("vLLM", &[], chunks(REASONING_CONTENT, LOGPROBS, CACHED)),
        of("llama.cpp", &[], chunks(REASONING_CONTENT, LOGPROBS, timings)),
        of("Ollama", &[], chunks(REASONING, LOGPROBS, COUNTED)),
    ]
}

/// The provider's row of the table.
async fn row(of: Provided) -> String {
    let Provided { name, interface, is_strict, refusals, body } = of;
    let [script, _] = scripts("text/event-stream", &body);
    let refused = refusals.iter().map(|body| answer("400 Bad Request", "", body));
    let count = refusals.len() + 1;
    let mut server = serve(refused.chain([script]).collect()).await;
    let provider: Box<dyn Provider> = match interface {
        Interface::OpenAi => {
            let mut client = OpenAi::new(&format!("{}/v1", server.url), None).expect("a client");
            client.is_strict = is_strict;
            Box::new(client)
        }
        Interface::Anthropic => {
            Box::new(Anthropic::new(&server.url, None, Arc::default()).expect("a client"))
        }
    };
    let schema =
        json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}});
    let asked = Request {
        output_schema: Some(schema),
        service_tier: Some(ServiceTier::Flex),
        without_logprobs: false,
        ..request()
    };
    let (result, deltas) = call(&*provider, &asked).await;
    let completion = result.unwrap_or_else(|failure| panic!("{name}: {failure:?}"));
    assert_eq!(
        (completion.output.as_str(), deltas.as_str()),
        (r#"{"a":1}"#, r#"{"a":1}"#),
        "{name}"
    );
    let mut sent = Value::Null;
    for _ in 0..count {
        sent = server.seen.recv().await.expect("a request").body;
    }
    let yes = |is: bool, says: &'static str| if is { says } else { "no" };
    let schemas = match &sent {
        sent if sent["response_format"]["json_schema"]["strict"] == true => "strict",
        sent if sent["response_format"]["json_schema"].is_object() => "`json_schema`",
        sent if sent["output_config"].is_object() => "`output_config`",
        _ => "no",
    };
    let usage = completion.usage;
    let reasoning = match &completion.thinking {
        Some(thinking) if thinking == "hm" => "kept apart",
        Some(_) | None if usage.output == 23 => "counted",
        Some(_) | None => "no",
    };
    let cells = [
        name,
        yes(sent["stream"] == true, "yes"),
        schemas,
        yes(completion.confidence.is_some(), "yes"),
        reasoning,
        yes(usage.input == 9 && [3, 23].contains(&usage.output), "yes"),
        yes(completion.service_tier.is_some(), "yes"),
        yes(usage.cache_read == 4, "counted"),
    ];
    format!("| {} |", cells.join(" | "))
}

#[tokio::test]
async fn the_table_of_providers_in_the_guide_is_what_the_clients_do() {
    let mut made = String::new();
    for provided in providers() {
        made.push_str(&row(provided).await);
        made.push('\n');
    }
    assert!(
        GUIDE.contains(&made),
        "the table of docs/how-to/workers.md must have these rows:\n{made}"
    );
}
