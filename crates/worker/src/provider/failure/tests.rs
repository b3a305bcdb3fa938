use serde_json::Value;

use super::*;

const NOW: &str = "2026-11-21T10:00:00Z";

fn advice(headers: &[(&str, &'static str)]) -> Advice {
    let find = |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, v)| *v);
    Advice::read(find, NOW.parse().unwrap())
}

fn failure(status: u16, body: &str, headers: &[(&str, &'static str)]) -> (Code, bool, Option<u64>) {
    let failure = classify(status, &Words::read(body), &advice(headers));
    (failure.code, failure.retryable, failure.retry_after_ms)
}

#[test]
fn what_may_pass_by_itself_is_tried_again_and_nothing_else() {
    for status in [408, 409, 425, 500] {
        assert_eq!(failure(status, "", &[]), (Code::ProviderError, true, None), "{status}");
    }
    for status in [502, 503, 504] {
        assert_eq!(failure(status, "", &[]), (Code::ProviderUnavailable, true, None), "{status}");
    }
    for status in [400, 401, 402, 403, 404, 413, 422] {
        assert_eq!(failure(status, "", &[]), (Code::ProviderError, false, None), "{status}");
    }
    assert_eq!(failure(429, "", &[]), (Code::ProviderRateLimited, true, None));
    assert_eq!(failure(529, "", &[]), (Code::ProviderOverloaded, true, None));
}

#[test]
fn the_time_to_wait_is_read_from_milliseconds_before_seconds_before_a_date() {
    let wait = |headers: &[(&str, &'static str)]| advice(headers).retry_after_ms;
    assert_eq!(wait(&[("retry-after-ms", "1500"), ("retry-after", "9")]), Some(1500));
    assert_eq!(wait(&[("retry-after-ms", "soon"), ("retry-after", "0.25")]), Some(250));
    assert_eq!(wait(&[("retry-after", "Sat, 21 Nov 2026 10:00:30 GMT")]), Some(30_000));
    assert_eq!(wait(&[("retry-after", "Sat, 21 Nov 2026 09:00:00 GMT")]), None);
    for nonsense in ["-1", "NaN", "inf", "1e300", "later", ""] {
        assert_eq!(wait(&[("retry-after", nonsense)]), None, "{nonsense}");
    }
}

#[test]
fn the_providers_word_on_retrying_overrides_the_status() {
    assert!(!failure(500, "", &[("x-should-retry", "false")]).1);
    assert!(failure(400, "", &[("x-should-retry", "true"), ("retry-after", "1")]).1);
    let refused = failure(429, "", &[("x-should-retry", "false"), ("retry-after", "1")]);
    assert_eq!(refused, (Code::ProviderRateLimited, false, None));
}

#[test]
fn a_call_that_lacks_money_is_never_tried_again() {
    let quota = r#"{"error": {"message": "You exceeded your quota", "type": "insufficient_quota", "code": "insufficient_quota"}}"#;
    let spend = r#"{"type": "error", "error": {"type": "rate_limit_error", "message": "enforced_spend_limit_reached"}}"#;
    let billing = r#"{"type": "error", "error": {"type": "billing_error", "message": "pay"}}"#;
    for (status, body) in [(429, quota), (429, spend), (402, billing)] {
        let found = failure(status, body, &[("x-should-retry", "true"), ("retry-after", "1")]);
        assert_eq!(found, (Code::ProviderError, false, None), "{body}");
    }
}

#[test]
fn the_providers_words_are_kept_in_every_shape_they_come_in() {
    let words = |body| Words::read(body).message;
    assert_eq!(words(r#"{"error": {"message": "too long", "code": 400}}"#), "too long");
    assert_eq!(words(r#"{"error": "no such model"}"#), "no such model");
    assert_eq!(words(r#"{"object": "error", "message": "bad"}"#), "bad");
    assert_eq!(words(r#"{"detail": [{"loc": ["x"]}]}"#), r#"[{"loc":["x"]}]"#);
    assert_eq!(words("  upstream is gone\n"), "upstream is gone");
    let failure = classify(503, &Words::read("gone\u{1b}[31m"), &Advice::default());
    assert_eq!(failure.message, "the provider answered 503: gone [31m");
}

#[test]
fn the_wait_in_the_words_of_gemini_is_read() {
    let body = r#"[{"error": {"code": 429, "message": "You exceeded your current quota.",
        "status": "RESOURCE_EXHAUSTED", "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]}}]"#;
    let found = failure(429, body, &[]);
    assert_eq!(found, (Code::ProviderRateLimited, true, Some(34_500)));
    assert_eq!(failure(429, body, &[("retry-after", "2")]).2, Some(2_000));
    assert_eq!(Words::read(body).message, "You exceeded your current quota.");
}

#[test]
fn the_limits_come_with_a_refusal() {
    let headers = [
        ("x-ratelimit-limit-requests", "60"),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "1s"),
    ];
    let limits = classify(429, &Words::default(), &advice(&headers)).limits;
    assert_eq!(
        limits.and_then(|limits| limits.requests).map(|it| (it.limit, it.remaining)),
        Some((60, 0))
    );
}

#[test]
fn a_message_is_bounded() {
    let failure = Failure::refused("ä".repeat(5000));
    assert_eq!(failure.message.chars().count(), 1000);
    assert!(failure.message.ends_with('…'));
}

#[test]
fn an_error_inside_a_stream_is_read_by_its_type_and_else_counts_as_passing() {
    let status = |body| Words::read(body).status_of_event();
    assert_eq!(status(r#"{"error": {"type": "overloaded_error"}}"#), 529);
    assert_eq!(status(r#"{"error": {"type": "rate_limit_error"}}"#), 429);
    assert_eq!(status(r#"{"error": {"type": "invalid_request_error"}}"#), 400);
    assert_eq!(status(r#"{"error": {"code": 503, "type": "unavailable_error"}}"#), 503);
    assert_eq!(status(r#"{"error": {"message": "something"}}"#), 500);
}

#[test]
fn the_words_of_many_servers_are_found() {
    for (body, message, status) in [
        (r#"{"error":{"code":429,"message":"slow down"}}"#, "slow down", 429),
        (r#"{"error":{"code":"429","message":"slow down"}}"#, "slow down", 429),
        (r#"{"error":"rate limit exceeded"}"#, "rate limit exceeded", 429),
        (r#"{"errors":[{"code":7003,"message":"no route"}],"success":false}"#, "no route", 500),
        (r#"{"error":true,"reason":"bad key","status":401}"#, "bad key", 401),
        (r#"{"object":"error","message":"bad","type":"BadRequestError","code":400}"#, "bad", 400),
        (r#"{"object":"error","message":"gone","type":"NotFoundError","code":null}"#, "gone", 404),
        (r#"{"base_resp":{"status_code":1002,"status_msg":"rate limit"}}"#, "rate limit", 429),
        (r#"[{"error":{"status":"RESOURCE_EXHAUSTED","message":"quota"}}]"#, "quota", 429),
        (r#"{"error":{"status":"UNAVAILABLE","message":"busy"}}"#, "busy", 503),
        (
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            "Overloaded",
            529,
        ),
        (r#"{"detail":"Not authenticated","status_code":401}"#, "Not authenticated", 401),
        (
            r#"{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"no GPU"}}}"#,
            "Provider returned error: no GPU",
            502,
        ),
        (r#"{"error":{"message":"x","code":200}}"#, "x", 500),
    ] {
        let words = Words::read(body);
        assert_eq!((words.message.as_str(), words.status_of_event()), (message, status), "{body}");
        assert!(is_error("", &serde_json::from_str::<Value>(body).map(first).unwrap()), "{body}");
    }
}

fn first(json: Value) -> Value {
    json.get(0).cloned().unwrap_or(json)
}

#[test]
fn a_piece_of_an_answer_is_no_error() {
    for piece in [
        r#"{"choices":[]}"#,
        r#"{"choices":[],"error":null}"#,
        r#"{"choices":[],"error":""}"#,
        r#"{"choices":[],"error":{}}"#,
        r#"{"choices":[],"message":"x"}"#,
        r#"{"choices":[],"base_resp":{"status_code":0,"status_msg":""}}"#,
        r#"{"type":"ping"}"#,
        r#"{"type":"message_start","message":{"usage":{}}}"#,
        r#"{"usage":{"prompt_tokens":1}}"#,
        "{}",
    ] {
        assert!(!is_error("", &serde_json::from_str(piece).unwrap()), "{piece}");
    }
    assert!(is_error("error", &Value::Null));
}

#[test]
fn the_words_of_a_page_are_its_text() {
    let page = "\u{feff}<!DOCTYPE html>\n<html><head><title>Sign in</title><style>p {a: b}</style>\
        <SCRIPT>if (a < b) {}</SCRIPT></head><body><h1>Sign in</h1>\n<p>to <b>Example</b></body></html>";
    assert_eq!(Words::read(page).message, "Sign in Sign in to Example");
    assert_eq!(Words::read("<html><script>never ends").message, "");
    assert_eq!(Words::read("<ü").message, "");
}
