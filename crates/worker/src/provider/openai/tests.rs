use callboard_domain::confidence::Source;
use callboard_domain::task::{Role, Sampling};
use callboard_domain::usage::Tokens;
use serde_json::json;
use tokio::sync::mpsc;

use super::super::testing::{Server, Step, answer, call, data, serve, stream, stream_head};
use super::super::{Code, MAX_OUTPUT_BYTES, Message};
use super::*;

const HELLO: [&str; 6] = [
    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"Hé"},"logprobs":{"content":[{"logprob":-0.2}]},"finish_reason":null}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"llo"},"logprobs":{"content":[{"logprob":-0.4}]}}],"usage":null}"#,
    r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    r#"{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":8}}}"#,
    "[DONE]",
];

fn request() -> Request {
    Request {
        model: "m".into(),
        system_prompt: Some("Be brief.".into()),
        context: serde_json::from_str(r#"{"b":1,"a":2}"#).unwrap(),
        messages: vec![
            Message { role: Role::User, content: "hi".into() },
            Message { role: Role::Assistant, content: "hello?".into() },
        ],
        files: Vec::new(),
        prompt: " say hello\n".into(),
        max_tokens: Some(7),
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

async fn run(script: Vec<Step>) -> (Result<Completion, Failure>, String) {
    let server = serve(vec![script]).await;
    call(&client(&server), &request()).await
}

fn client(server: &Server) -> OpenAi {
    OpenAi::new(&format!("{}/v1/", server.url), Some("sk-test".into())).unwrap()
}

fn finished(reason: &str, logprob: f64) -> String {
    let text = json!({"choices": [{"delta": {"content": "x"}, "logprobs": {"content": [{"logprob": logprob}]}, "finish_reason": reason}]});
    data(&[&text.to_string(), "[DONE]"])
}

#[tokio::test]
async fn a_streamed_answer_becomes_deltas_and_a_completion() {
    let (result, deltas) = run(stream([data(&HELLO)])).await;
    let completion = result.unwrap();
    assert_eq!((completion.output.as_str(), deltas.as_str()), ("Héllo", "Héllo"));
    assert_eq!(completion.usage, Tokens { input: 12, output: 2, cache_read: 8, cache_write: 0 });
    assert!((completion.confidence.unwrap() - (-0.3_f64).exp()).abs() < 1e-12);
    assert_eq!(completion.confidence_source, Source::Logprobs);
    assert_eq!(completion.finish_reason.as_deref(), Some("stop"));
}

#[tokio::test]
async fn the_request_has_the_prompt_as_the_last_user_message_and_the_key_in_its_header() {
    let mut server = serve(vec![stream([data(&HELLO)])]).await;
    call(&client(&server), &request()).await.0.unwrap();
    let seen = server.seen.recv().await.unwrap();
    assert!(seen.head.starts_with("post /v1/chat/completions http/1.1"), "{}", seen.head);
    assert!(seen.head.contains("authorization: bearer sk-test"));
    let expected = json!({
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "system", "content": "Context:\n{\"b\":1,\"a\":2}"},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "hello?"},
            {"role": "user", "content": " say hello\n"},
        ],
        "stream": true,
        "stream_options": {"include_usage": true},
        "logprobs": true,
        "temperature": 0.5,
        "seed": 7,
        "top_p": 0.25,
        "frequency_penalty": 0.5,
        "stop": ["END"],
        "max_tokens": 7,
    });
    assert_eq!(seen.body, expected);
}

#[tokio::test]
async fn bytes_that_come_one_by_one_with_carriage_returns_make_the_same_answer() {
    let text = format!(": keep-alive\n\n{}", data(&HELLO)).replace('\n', "\r\n");
    let bytes: Vec<[u8; 1]> = text.bytes().map(|byte| [byte]).collect();
    let (result, _) = run(stream(bytes)).await;
    assert_eq!(result.unwrap(), run(stream([data(&HELLO)])).await.0.unwrap());
}

#[tokio::test]
async fn an_output_that_was_cut_has_no_confidence() {
    for (reason, sure) in [("stop", true), ("length", false), ("content_filter", false)] {
        let completion = run(stream([finished(reason, -0.1)])).await.0.unwrap();
        assert_eq!(completion.confidence.is_some(), sure, "{reason}");
        assert_eq!(completion.confidence_source == Source::Logprobs, sure, "{reason}");
    }
}

#[tokio::test]
async fn hidden_reasoning_counts_for_neither_output_nor_confidence() {
    let thought = r#"{"choices":[{"delta":{"reasoning_content":"hm"},"logprobs":{"content":[{"logprob":-9}]}}]}"#;
    let text = format!("{}{}", data(&[thought]), finished("stop", -0.5));
    let completion = run(stream([text])).await.0.unwrap();
    assert_eq!(completion.output, "x");
    assert!((completion.confidence.unwrap() - (-0.5_f64).exp()).abs() < 1e-12);
}

#[tokio::test]
async fn a_server_that_counts_nothing_is_charged_an_estimate_and_gives_no_confidence() {
    let bare = r#"{"choices":[{"delta":{"content":"four by four"},"finish_reason":"stop"}]}"#;
    let completion = run(stream([data(&[bare])])).await.0.unwrap();
    assert_eq!((completion.confidence, completion.confidence_source), (None, Source::None));
    assert_eq!((completion.usage.input, completion.usage.output), (15, 3));
}

#[tokio::test]
async fn a_rate_limit_says_when_to_come_back() {
    let body =
        r#"{"error": {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}}"#;
    let script = answer("429 Too Many Requests", "retry-after: 2\r\n", body);
    let failure = run(script).await.0.unwrap_err();
    let expected = Failure {
        code: Code::ProviderRateLimited,
        message: "the provider answered 429: slow down".into(),
        retryable: true,
        retry_after_ms: Some(2000),
        limits: None,
    };
    assert_eq!(failure, expected);
}

#[tokio::test]
async fn a_failing_answer_is_told_in_the_providers_words_without_the_key() {
    let script = answer("401 Unauthorized", "", r#"{"error": {"message": "bad key sk-test"}}"#);
    let failure = run(script).await.0.unwrap_err();
    assert_eq!(
        (failure.message.as_str(), failure.retryable),
        ("the provider answered 401: bad key …", false)
    );
    let failure = run(answer("302 Found", "location: /elsewhere\r\n", "")).await.0.unwrap_err();
    assert!(failure.message.starts_with("the provider answered 302"), "{}", failure.message);
}

#[tokio::test]
async fn an_error_after_the_stream_began_is_a_failure() {
    let text = data(&[
        HELLO[1],
        r#"{"error": {"message": "gpu on fire", "type": "server_error"}}"#,
        "[DONE]",
    ]);
    let (result, deltas) = run(stream([text])).await;
    let failure = result.unwrap_err();
    assert_eq!(deltas, "Hé");
    assert_eq!(
        (failure.message.as_str(), failure.retryable),
        ("the provider answered 500: gpu on fire", true)
    );
    let named =
        "event: error\ndata: {\"message\": \"too many\", \"type\": \"rate_limit_error\"}\n\n";
    assert_eq!(run(stream([named])).await.0.unwrap_err().code, Code::ProviderRateLimited);
}

#[tokio::test]
async fn a_stream_that_breaks_or_ends_early_is_a_failure_that_may_pass() {
    let cut = run(stream([data(&HELLO[..2])])).await.0.unwrap_err();
    assert_eq!((cut.code, cut.retryable), (Code::ProviderError, true));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\ndata:";
    let broken = run(vec![Step::Send(head.into())]).await.0.unwrap_err();
    assert!(
        broken.retryable && broken.message.starts_with("the provider's stream broke"),
        "{}",
        broken.message
    );
}

#[tokio::test]
async fn a_provider_that_is_not_there_is_a_failure_that_may_pass() {
    let provider = OpenAi::new("http://127.0.0.1:1/v1", None).unwrap();
    let failure = call(&provider, &request()).await.0.unwrap_err();
    assert!(failure.retryable && failure.message.contains("refused"), "{}", failure.message);
    assert!(!failure.message.contains("127.0.0.1:1/"), "{}", failure.message);
}

#[tokio::test]
async fn what_a_model_refuses_is_left_out_and_remembered() {
    let refuse = |message: &str| {
        answer("400 Bad Request", "", &json!({"error": {"message": message}}).to_string())
    };
    let mut server = serve(vec![
        refuse("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."),
        refuse("logprobs are not supported with reasoning models."),
        refuse("Unsupported value: 'temperature' does not support 0.5 with this model."),
        refuse("Unsupported parameter: 'top_p' is not supported with this model."),
        refuse("Unrecognized request argument supplied: seed"),
        refuse("Unsupported parameter: 'frequency_penalty' is not supported with this model."),
        stream([data(&HELLO)]),
        stream([data(&HELLO)]),
    ])
    .await;
    let provider = client(&server);
    call(&provider, &request()).await.0.unwrap();
    call(&provider, &request()).await.0.unwrap();
    let mut bodies = Vec::new();
    for _ in 0..8 {
        bodies.push(server.seen.recv().await.unwrap().body);
    }
    for body in &bodies[6..] {
        let members = body.as_object().unwrap().keys().map(String::as_str);
        let members: Vec<&str> = members.collect();
        assert_eq!(
            members,
            ["model", "messages", "stream", "stream_options", "stop", "max_completion_tokens"]
        );
    }
}

#[tokio::test]
async fn a_refusal_of_anything_else_is_final_at_once() {
    let body = r#"{"error": {"message": "context too long", "code": 400}}"#;
    let mut server = serve(vec![answer("400 Bad Request", "", body)]).await;
    let failure = call(&client(&server), &request()).await.0.unwrap_err();
    assert_eq!((failure.code, failure.retryable), (Code::ProviderError, false));
    assert!(server.seen.recv().await.is_some() && server.seen.recv().await.is_none());
}

#[tokio::test]
async fn an_output_beyond_the_bound_is_refused() {
    let long = "x".repeat(MAX_OUTPUT_BYTES / 4);
    let chunk = data(&[&json!({"choices": [{"delta": {"content": long}}]}).to_string()]);
    let failure = run(stream([chunk.repeat(5)])).await.0.unwrap_err();
    assert!(!failure.retryable && failure.message.contains("longer than"), "{}", failure.message);
}

#[tokio::test]
async fn a_call_that_breaks_has_used_what_was_counted_or_streamed() {
    let counted = r#"{"choices":[{"delta":{"content":"lo"}}],"usage":{"prompt_tokens":12,"completion_tokens":9}}"#;
    let overloaded = r#"{"error":{"message":"Overloaded","code":503}}"#;
    for (events, expected) in [
        (vec![HELLO[0], HELLO[1]], Some((request().estimated_tokens(), 1))),
        (vec![HELLO[0], counted], Some((12, 9))),
        (vec![counted, overloaded], Some((12, 9))),
        (vec![overloaded], None),
    ] {
        let server = serve(vec![stream([data(&events)])]).await;
        let (sender, _pieces) = mpsc::channel(64);
        let deltas = Deltas::from(sender);
        client(&server).complete(&request(), &deltas).await.unwrap_err();
        let used = deltas.used(&request()).map(|used| (used.input, used.output));
        assert_eq!(used, expected, "{events:?}");
    }
}

#[tokio::test]
async fn dropping_the_call_closes_the_providers_stream() {
    let script = vec![
        Step::Send(stream_head()),
        Step::Send(data(&HELLO[..2]).into_bytes()),
        Step::UntilClosed,
    ];
    let mut server = serve(vec![script]).await;
    let (provider, request) = (client(&server), request());
    let (sender, mut pieces) = mpsc::channel(1);
    let deltas = Deltas::from(sender);
    tokio::select! {
        _ = provider.complete(&request, &deltas) => unreachable!("the stream has no end"),
        piece = pieces.recv() => assert_eq!(piece.as_deref(), Some("Hé")),
    }
    server.closed.recv().await.unwrap();
}
