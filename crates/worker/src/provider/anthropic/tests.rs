use std::fmt::Write as _;

use callboard_domain::confidence::Source;
use callboard_domain::task::{Role, Sampling};
use callboard_domain::usage::Tokens;
use serde_json::json;

use super::super::testing::{Server, Step, answer, call, serve, stream};
use super::super::{Code, Message};
use super::*;

const HELLO: [&str; 9] = [
    r#"{"type":"message_start","message":{"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":85,"output_tokens":1}}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
    r#"{"type":"ping"}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hé"}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"llo"}}"#,
    r#"{"type":"content_block_stop","index":0}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":7}}"#,
    r#"{"type":"message_stop"}"#,
];

fn events(messages: &[&str]) -> String {
    messages.iter().fold(String::new(), |mut text, message| {
        let kind: Value = serde_json::from_str(message).unwrap();
        write!(text, "event: {}\ndata: {message}\n\n", kind["type"].as_str().unwrap()).unwrap();
        text
    })
}

fn request() -> Request {
    Request {
        model: "claude".into(),
        system_prompt: Some("Be brief.".into()),
        context: serde_json::from_str(r#"{"b":1,"a":2}"#).unwrap(),
        messages: vec![
            Message { role: Role::User, content: "hi".into() },
            Message { role: Role::Assistant, content: "hello?".into() },
        ],
        files: Vec::new(),
        prompt: " say hello\n".into(),
        max_tokens: None,
        temperature: Some(0.5),
        sampling: Sampling {
            seed: Some(7),
            top_p: Some(0.25),
            stop: vec!["END".into()],
            frequency_penalty: Some(0.5),
        },
        service_tier: None,
        output_schema: None,
        without_logprobs: false,
    }
}

fn client(server: &Server, path: &str) -> Anthropic {
    let table = r#"{"claude": {"max_output_tokens": 777}}"#;
    let prices = Arc::new(Prices::parse(table).unwrap());
    Anthropic::new(&format!("{}{path}", server.url), Some("sk-ant".into()), prices).unwrap()
}

async fn run(script: Vec<Step>) -> (Result<Completion, Failure>, String) {
    let server = serve(vec![script]).await;
    call(&client(&server, ""), &request()).await
}

#[tokio::test]
async fn a_streamed_answer_becomes_deltas_and_a_completion_without_confidence() {
    let (result, deltas) = run(stream([events(&HELLO)])).await;
    let completion = result.unwrap();
    assert_eq!((completion.output.as_str(), deltas.as_str()), ("Héllo", "Héllo"));
    let counted = Tokens { input: 100, output: 7, cache_read: 85, cache_write: 5 };
    assert_eq!(completion.usage, counted);
    assert_eq!((completion.confidence, completion.confidence_source), (None, Source::None));
    assert_eq!(completion.finish_reason.as_deref(), Some("stop"));
}

#[tokio::test]
async fn the_request_has_system_texts_in_order_and_the_models_own_greatest_output() {
    for path in ["", "/", "/v1", "/v1/"] {
        let mut server = serve(vec![stream([events(&HELLO)])]).await;
        call(&client(&server, path), &request()).await.0.unwrap();
        let seen = server.seen.recv().await.unwrap();
        assert!(seen.head.starts_with("post /v1/messages http/1.1"), "{}", seen.head);
        assert!(
            seen.head.contains("x-api-key: sk-ant")
                && seen.head.contains("anthropic-version: 2023-06-01")
        );
        let expected = json!({
            "model": "claude",
            "max_tokens": 777,
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "hello?"},
                {"role": "user", "content": " say hello\n"},
            ],
            "stream": true,
            "system": [
                {"type": "text", "text": "Be brief."},
                {"type": "text", "text": "Context:\n{\"b\":1,\"a\":2}"},
            ],
            "temperature": 0.5,
            "top_p": 0.25,
            "stop_sequences": ["END"],
        });
        assert_eq!(seen.body, expected);
    }
}

#[tokio::test]
async fn the_end_by_length_is_told_in_the_common_word() {
    let cut = HELLO[7].replace("end_turn", "max_tokens");
    let completion = run(stream([events(&[HELLO[0], HELLO[3], &cut, HELLO[8]])])).await.0.unwrap();
    assert_eq!(completion.finish_reason.as_deref(), Some("length"));
}

#[tokio::test]
async fn an_overloaded_provider_may_have_room_later_and_an_empty_purse_may_not() {
    let body = |kind: &str| {
        json!({"type": "error", "error": {"type": kind, "message": "sorry"}}).to_string()
    };
    let overloaded =
        run(answer("529 Overloaded", "retry-after-ms: 20\r\n", &body("overloaded_error"))).await.0;
    let overloaded = overloaded.unwrap_err();
    assert_eq!((overloaded.retryable, overloaded.retry_after_ms), (true, Some(20)));
    for (status, kind) in [
        ("402 Payment Required", "billing_error"),
        ("429 Too Many Requests", "enforced_spend_limit_reached"),
    ] {
        let failure = run(answer(status, "retry-after: 1\r\n", &body(kind))).await.0.unwrap_err();
        assert_eq!(
            (failure.code, failure.retryable, failure.retry_after_ms),
            (Code::ProviderError, false, None),
            "{kind}"
        );
    }
}

#[tokio::test]
async fn an_error_event_or_an_early_end_is_a_failure_that_may_pass() {
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let (result, deltas) = run(stream([events(&[HELLO[0], HELLO[3], error])])).await;
    let failure = result.unwrap_err();
    assert_eq!(deltas, "Hé");
    assert_eq!(
        (failure.message.as_str(), failure.retryable),
        ("the provider answered 529: Overloaded", true)
    );
    let cut = run(stream([events(&HELLO[..8])])).await.0.unwrap_err();
    assert!(cut.retryable, "{}", cut.message);
}

#[tokio::test]
async fn a_temperature_that_the_model_refuses_is_left_out_and_remembered() {
    let body = r#"{"type":"error","error":{"type":"invalid_request_error","message":"`temperature` is deprecated for this model."}}"#;
    let hello = stream([events(&HELLO)]);
    let mut server = serve(vec![answer("400 Bad Request", "", body), hello.clone(), hello]).await;
    let provider = client(&server, "");
    call(&provider, &request()).await.0.unwrap();
    call(&provider, &request()).await.0.unwrap();
    let sent = [server.seen.recv().await, server.seen.recv().await, server.seen.recv().await];
    let sent = sent.map(|seen| seen.unwrap().body.get("temperature").is_some());
    assert_eq!(sent, [true, false, false]);
}
