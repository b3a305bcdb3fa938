//! Answers of status 200 that are none.

use serde_json::json;

use super::super::Code;
use super::super::testing::{answer, data};
use super::*;

const LIMITED: (Code, bool) = (Code::ProviderRateLimited, true);
const OVERLOADED: (Code, bool) = (Code::ProviderOverloaded, true);
const PASSING: (Code, bool) = (Code::ProviderError, true);
const FINAL: (Code, bool) = (Code::ProviderError, false);

const PAGE: &str =
    "<!doctype html><html><head><title>Sign in</title></head><body>to <b>Example</b></body></html>";

const SLOW: &str = r#"{"error":{"code":429,"message":"slow down"}}"#;

/// An event without a text, with this reason to stop.
fn silent(reason: &str) -> String {
    stream(&[&format!(
        r#"{{"choices":[{{"delta":{{"content":""}},"finish_reason":"{reason}"}}]}}"#
    )])
}

/// An answer, the class of its failure, and words of the message.
type Case = (String, (Code, bool), &'static str);

fn chat_completions() -> Vec<Case> {
    let slow = SLOW.to_owned();
    let no_money = r#"{"error":{"message":"pay first","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    let began = r#"{"choices":[{"delta":{"content":"In "}}]}"#;
    let thought = r#"{"choices":[{"delta":{"reasoning_content":"hm"},"finish_reason":"stop"}]}"#;
    vec![
        (SLOW.into(), LIMITED, "the provider answered 429: slow down"),
        (format!("[{slow}]"), LIMITED, "the provider answered 429: slow down"),
        (stream(&[&slow]), LIMITED, "the provider answered 429: slow down"),
        (stream(&[began, &slow]), LIMITED, "the provider answered 429: slow down"),
        (
            "event: error\ndata: {\"message\":\"slow down\",\"code\":429}\n\n".into(),
            LIMITED,
            "slow down",
        ),
        ("event: error\ndata: too many requests\n\n".into(), LIMITED, "too many requests"),
        ("event: error\ndata: {\"error\":\"gpu lost\"}".into(), PASSING, "500: gpu lost"),
        (
            stream(&[
                r#"{"choices":[{"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"upstream"}}]}"#,
            ]),
            PASSING,
            "upstream",
        ),
        (
            r#"{"detail":"Not authenticated","status_code":401}"#.into(),
            FINAL,
            "401: Not authenticated",
        ),
        (
            r#"{"object":"error","message":"no such model","type":"NotFoundError","code":404}"#
                .into(),
            FINAL,
            "404: no such model",
        ),
        (no_money.into(), FINAL, "pay first"),
        (PAGE.into(), PASSING, "the provider sent a page instead of an answer: Sign in to Example"),
        ("upstream connect error".into(), PASSING, "upstream connect error"),
        (String::new(), PASSING, "an empty answer"),
        ("\n\n".into(), PASSING, "an empty answer"),
        ("{}".into(), PASSING, "no answer: {}"),
        (r#"{"choices":["#.into(), PASSING, "not a JSON object"),
        (stream(&[r#"{"choices":[]}"#]), PASSING, "no answer"),
        (stream(&[]), PASSING, "no answer"),
        (silent("stop"), PASSING, "no answer"),
        (silent("length"), FINAL, "raise maxTokens"),
        (silent("content_filter"), FINAL, "the provider withheld the answer: content_filter"),
        (
            stream(&[began, r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#]),
            PASSING,
            "broke the answer off: error",
        ),
        (stream(&[thought]), PASSING, "sent its reasoning and no answer"),
        (format!("data: {began}\n\n"), PASSING, "ended before the output did"),
    ]
}

fn messages() -> Vec<Case> {
    let overloaded =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let refused =
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"too long"}}"#;
    vec![
        (overloaded.into(), OVERLOADED, "529: Overloaded"),
        (named(&[overloaded]), OVERLOADED, "529: Overloaded"),
        (data(&[overloaded]), OVERLOADED, "529: Overloaded"),
        (refused.into(), FINAL, "400: too long"),
        (SLOW.into(), LIMITED, "429: slow down"),
        (PAGE.into(), PASSING, "Sign in to Example"),
        (String::new(), PASSING, "an empty answer"),
        (
            named(&[
                r#"{"type":"message_delta","delta":{"stop_reason":"refusal"}}"#,
                r#"{"type":"message_stop"}"#,
            ]),
            FINAL,
            "withheld the answer: refusal",
        ),
        (
            r#"{"type":"message","content":[],"stop_reason":"end_turn"}"#.into(),
            PASSING,
            "no answer",
        ),
    ]
}

#[tokio::test]
async fn an_error_in_an_answer_is_classified_as_its_status_would_be_in_the_providers_words() {
    let of = |interface, cases: Vec<Case>| cases.into_iter().map(move |case| (interface, case));
    let messages = of(Interface::Anthropic, messages());
    for (interface, (body, expected, words)) in
        of(Interface::OpenAi, chat_completions()).chain(messages)
    {
        for (result, _) in results(interface, "application/json", &body, &request()).await {
            let failure = result.expect_err(&body);
            assert_eq!((failure.code, failure.retryable), expected, "{body}: {failure:?}");
            assert!(failure.message.contains(words), "{body}: {}", failure.message);
            let waits = failure.retry_after_ms;
            assert!(waits.is_none() || expected != FINAL && waits == Some(3_000), "{body}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_was_cut_before_it_began_is_the_servers_business_under_a_schema() {
    let shaped = Request { output_schema: Some(json!({"type": "object"})), ..request() };
    for (result, _) in
        results(Interface::OpenAi, "text/event-stream", &silent("length"), &shaped).await
    {
        let completion = result.expect("the server asks for more tokens");
        assert_eq!(
            (completion.output.as_str(), completion.finish_reason.as_deref()),
            ("", Some("length"))
        );
    }
}

#[tokio::test]
async fn a_refused_member_is_left_out_wherever_the_refusal_stands() {
    let refusal = r#"{"error":{"message":"Unknown parameter: 'logprobs'.","code":400}}"#;
    let text = stream(&[r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"#]);
    for refused in [
        answer("403 Forbidden", "", refusal),
        answer("200 OK", "content-type: application/json\r\n", refusal),
        scripts("text/event-stream", &stream(&[refusal]))[0].clone(),
    ] {
        let [answered, _] = scripts("text/event-stream", &text);
        let busy = answer("429 Too Many Requests", "", "{}");
        let mut server = serve(vec![refused, busy, answered]).await;
        let provider = OpenAi::new(&format!("{}/v1", server.url), None).expect("a client");
        let request = Request { without_logprobs: false, ..request() };
        assert!(call(&provider, &request).await.0.expect_err("it is busy").retryable);
        call(&provider, &request).await.0.expect("it is served");
        let mut asked = Vec::new();
        for _ in 0..3 {
            asked.push(server.seen.recv().await.expect("a request").body.get("logprobs").is_some());
        }
        assert_eq!(asked, [true, false, false]);
    }
}

#[tokio::test]
async fn a_model_that_does_not_stream_is_asked_for_a_whole_completion() {
    let refusal = r#"{"error":{"message":"Your organization must be verified to stream this model.","param":"stream","code":"unsupported_value"}}"#;
    let whole = r#"{"choices":[{"message":{"content":"Paris"},"finish_reason":"stop"}]}"#;
    let mut server = serve(vec![
        answer("400 Bad Request", "", refusal),
        answer("200 OK", "content-type: application/json\r\n", whole),
    ])
    .await;
    let provider = OpenAi::new(&format!("{}/v1", server.url), None).expect("a client");
    let (result, deltas) = call(&provider, &request()).await;
    assert_eq!((result.expect("an answer").output.as_str(), deltas.as_str()), ("Paris", "Paris"));
    assert_eq!(server.seen.recv().await.expect("a request").body["stream"], true);
    let body = server.seen.recv().await.expect("a request").body;
    assert_eq!((body.get("stream"), body.get("stream_options")), (None, None));
}
