//! Exchanges in the published formats of five providers: the headers of limits, refusals, cached tokens and
//! service tiers. Requests are checked against the fields of their API descriptions.

use callboard_domain::model_limits::{Allowance, Reported};
use callboard_domain::task::ServiceTier;
use callboard_domain::usage::Tokens;
use serde_json::Value;

use super::anthropic::Anthropic;
use super::openai::OpenAi;
use super::testing::{Server, Step, answer, call, data, serve};
use super::{Code, Completion, Failure, Provider, Request};

/// The members of a request in `OpenAI`'s description of chat completions.
const OPENAI_MEMBERS: [&str; 35] = [
    "messages",
    "model",
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "metadata",
    "modalities",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
    "web_search_options",
];
/// The values of its `service_tier`.
const OPENAI_TIERS: [&str; 5] = ["auto", "default", "flex", "scale", "priority"];

/// The members of a request in Anthropic's description of messages.
const ANTHROPIC_MEMBERS: [&str; 17] = [
    "model",
    "messages",
    "max_tokens",
    "container",
    "context_management",
    "mcp_servers",
    "metadata",
    "output_config",
    "service_tier",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_p",
];
/// The values of its `service_tier`.
const ANTHROPIC_TIERS: [&str; 2] = ["auto", "standard_only"];

/// Checks a request's members and its service tier.
fn check(body: &Value, members: &[&str], tiers: &[&str]) {
    for name in body.as_object().expect("it is an object").keys() {
        assert!(members.contains(&name.as_str()), "{name} is no member of the published request");
    }
    if let Some(tier) = body.get("service_tier") {
        assert!(tiers.contains(&tier.as_str().expect("it is a text")), "{tier}");
    }
}

fn request(model: &str, service_tier: Option<ServiceTier>) -> Request {
    Request {
        model: model.into(),
        system_prompt: Some("Be brief.".into()),
        prompt: "Say hello.".into(),
        max_tokens: Some(50),
        temperature: Some(0.5),
        service_tier,
        ..Request::default()
    }
}

fn stream(headers: &str, events: &str) -> Vec<Step> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{headers}connection: close\r\n\r\n{events}"
    );
    vec![Step::Send(head.into_bytes())]
}

/// The result of a call of an `OpenAI`-compatible server, and the request that it received.
async fn openai(script: Vec<Step>, request: &Request) -> (Result<Completion, Failure>, Value) {
    let mut server = serve(vec![script]).await;
    let provider = OpenAi::new(&format!("{}/v1", server.url), Some("sk-test".into())).unwrap();
    let (result, _) = call(&provider, request).await;
    let sent = sent(&mut server).await;
    check(&sent, &OPENAI_MEMBERS, &OPENAI_TIERS);
    (result, sent)
}

async fn sent(server: &mut Server) -> Value {
    server.seen.recv().await.expect("a request came").body
}

const OPENAI_LIMITS: &str = "x-ratelimit-limit-requests: 5000\r\nx-ratelimit-limit-tokens: 800000\r\n\
     x-ratelimit-remaining-requests: 4999\r\nx-ratelimit-remaining-tokens: 799984\r\n\
     x-ratelimit-reset-requests: 12ms\r\nx-ratelimit-reset-tokens: 1m0.5s\r\n";

#[tokio::test]
async fn openai_tells_limits_cached_tokens_and_the_tier_that_it_gave() {
    let events = data(&[
        r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-5.1","service_tier":"flex","system_fingerprint":null,"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"x"}"#,
        r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-5.1","service_tier":"flex","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}],"usage":null}"#,
        r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-5.1","service_tier":"flex","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}"#,
        r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-5.1","service_tier":"flex","choices":[],"usage":{"prompt_tokens":2006,"completion_tokens":300,"total_tokens":2306,"prompt_tokens_details":{"cached_tokens":1920,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}"#,
        "[DONE]",
    ]);
    let asked = request("gpt-5.1", Some(ServiceTier::Flex));
    let (result, sent) = openai(stream(OPENAI_LIMITS, &events), &asked).await;
    let completion = result.unwrap();
    assert_eq!(sent["service_tier"], "flex");
    assert_eq!(completion.service_tier, Some(ServiceTier::Flex));
    let usage = Tokens { input: 2006, output: 300, cache_read: 1920, cache_write: 0 };
    assert_eq!(completion.usage, usage);
    let limits = Reported {
        requests: Some(Allowance { limit: 5_000, remaining: 4_999, reset_ms: Some(12) }),
        tokens: Some(Allowance { limit: 800_000, remaining: 799_984, reset_ms: Some(60_500) }),
        ..Reported::default()
    };
    assert_eq!(completion.limits, limits);
}

#[tokio::test]
async fn openai_gives_the_usual_tier_under_the_name_default_and_none_is_asked_unless_wanted() {
    let events = data(&[
        r#"{"object":"chat.completion.chunk","service_tier":"default","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}"#,
        "[DONE]",
    ]);
    let (result, sent) = openai(stream("", &events), &request("gpt-5.1", None)).await;
    assert_eq!(result.unwrap().service_tier, Some(ServiceTier::Auto));
    assert_eq!(sent.get("service_tier"), None);
}

#[tokio::test]
async fn openai_refuses_with_429_and_its_limits() {
    let body = r#"{"error":{"message":"Rate limit reached for gpt-5.1 on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s.","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#;
    let headers = format!("retry-after: 20\r\nretry-after-ms: 19800\r\n{OPENAI_LIMITS}");
    let script = answer("429 Too Many Requests", &headers, body);
    let failure = openai(script, &request("gpt-5.1", None)).await.0.unwrap_err();
    assert_eq!((failure.code, failure.retryable), (Code::ProviderRateLimited, true));
    assert_eq!(failure.retry_after_ms, Some(19_800));
    assert_eq!(
        failure.limits.and_then(|limits| limits.requests).map(|requests| requests.limit),
        Some(5_000)
    );
}

#[tokio::test]
async fn gemini_answers_in_openais_shape_and_asks_for_a_wait_in_its_own() {
    let events = data(&[
        r#"{"choices":[{"delta":{"content":"Hello","role":"assistant"},"finish_reason":"stop","index":0}],"created":1,"id":"g1","model":"gemini-2.5-flash","object":"chat.completion.chunk","usage":{"completion_tokens":9,"prompt_tokens":8,"total_tokens":17}}"#,
        "[DONE]",
    ]);
    let asked = request("gemini-2.5-flash", None);
    let completion = openai(stream("", &events), &asked).await.0.unwrap();
    assert_eq!((completion.usage.input, completion.usage.output), (8, 9));
    assert!(completion.limits.is_none());
    let body = r#"[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"generativelanguage.googleapis.com/generate_content_free_tier_requests","quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier","quotaValue":"10"}]},{"@type":"type.googleapis.com/google.rpc.Help","links":[]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"43s"}]}}]"#;
    let failure = openai(answer("429 Too Many Requests", "", body), &asked).await.0.unwrap_err();
    assert_eq!((failure.code, failure.retryable), (Code::ProviderRateLimited, true));
    assert_eq!(failure.retry_after_ms, Some(43_000));
}

#[tokio::test]
async fn vllm_tells_cached_tokens_where_it_is_asked_to_and_no_limits() {
    let events = data(&[
        r#"{"id":"chatcmpl-v","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}"#,
        r#"{"id":"chatcmpl-v","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"Hello"},"logprobs":{"content":[{"token":"Hello","logprob":-0.5,"bytes":[72],"top_logprobs":[]}]},"finish_reason":"stop","stop_reason":null}]}"#,
        r#"{"id":"chatcmpl-v","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":33,"total_tokens":35,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":32}}}"#,
        "[DONE]",
    ]);
    let completion = openai(stream("", &events), &request("m", None)).await.0.unwrap();
    assert_eq!(completion.usage, Tokens { input: 33, output: 2, cache_read: 32, cache_write: 0 });
    assert!(completion.limits.is_none() && completion.confidence.is_some());
    let body = r#"{"object":"error","message":"The server is overloaded","type":"ServiceUnavailableError","param":null,"code":503}"#;
    let failure = openai(answer("503 Service Unavailable", "", body), &request("m", None)).await.0;
    let failure = failure.unwrap_err();
    assert_eq!((failure.code, failure.retryable), (Code::ProviderUnavailable, true));
}

#[tokio::test]
async fn ollama_counts_tokens_and_tells_neither_limits_nor_a_tier() {
    let events = data(&[
        r#"{"id":"chatcmpl-9","object":"chat.completion.chunk","created":1,"model":"llama3.2","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"},"finish_reason":null}]}"#,
        r#"{"id":"chatcmpl-9","object":"chat.completion.chunk","created":1,"model":"llama3.2","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}]}"#,
        r#"{"id":"chatcmpl-9","object":"chat.completion.chunk","created":1,"model":"llama3.2","system_fingerprint":"fp_ollama","choices":[],"usage":{"prompt_tokens":26,"completion_tokens":10,"total_tokens":36}}"#,
        "[DONE]",
    ]);
    let completion = openai(stream("", &events), &request("llama3.2", None)).await.0.unwrap();
    assert_eq!((completion.usage.input, completion.usage.output), (26, 10));
    assert_eq!((completion.service_tier, completion.limits), (None, Reported::default()));
    let body = r#"{"error":{"message":"server busy, please try again.  maximum pending requests exceeded","type":"api_error","param":null,"code":null}}"#;
    let failure = openai(answer("503 Service Unavailable", "", body), &request("m", None)).await.0;
    assert!(failure.unwrap_err().retryable);
}

const ANTHROPIC_LIMITS: &str = "anthropic-ratelimit-requests-limit: 50\r\n\
     anthropic-ratelimit-requests-remaining: 49\r\n\
     anthropic-ratelimit-requests-reset: 2020-01-01T00:00:00Z\r\n\
     anthropic-ratelimit-input-tokens-limit: 30000\r\nanthropic-ratelimit-input-tokens-remaining: 28000\r\n\
     anthropic-ratelimit-input-tokens-reset: 2020-01-01T00:00:04Z\r\n\
     anthropic-ratelimit-output-tokens-limit: 8000\r\nanthropic-ratelimit-output-tokens-remaining: 8000\r\n\
     anthropic-ratelimit-output-tokens-reset: 2020-01-01T00:00:00Z\r\n\
     anthropic-ratelimit-tokens-limit: 38000\r\nanthropic-ratelimit-tokens-remaining: 36000\r\n\
     anthropic-ratelimit-tokens-reset: 2020-01-01T00:00:04Z\r\n";

const ANTHROPIC_EVENTS: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-6","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":12,"cache_creation_input_tokens":100,"cache_read_input_tokens":2000,"cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":0},"output_tokens":1,"service_tier":"priority"}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15}}

event: message_stop
data: {"type":"message_stop"}

"#;

/// A client of a server that plays these scripts.
async fn anthropic(scripts: Vec<Vec<Step>>) -> (Anthropic, Server) {
    let server = serve(scripts).await;
    (Anthropic::new(&server.url, Some("sk-ant".into()), std::sync::Arc::default()).unwrap(), server)
}

#[tokio::test]
async fn anthropic_tells_limits_cached_tokens_and_the_tier_that_it_gave() {
    let (provider, mut server) = anthropic(vec![stream(ANTHROPIC_LIMITS, ANTHROPIC_EVENTS)]).await;
    let asked = request("claude-sonnet-4-6", Some(ServiceTier::Priority));
    let completion = call(&provider, &asked).await.0.unwrap();
    let sent = sent(&mut server).await;
    check(&sent, &ANTHROPIC_MEMBERS, &ANTHROPIC_TIERS);
    assert_eq!(sent["service_tier"], "auto", "priority is what auto gives where it was bought");
    assert_eq!(completion.service_tier, Some(ServiceTier::Priority));
    let usage = Tokens { input: 2_112, output: 15, cache_read: 2_000, cache_write: 100 };
    assert_eq!(completion.usage, usage);
    let limits = Reported {
        requests: Some(Allowance { limit: 50, remaining: 49, reset_ms: Some(0) }),
        input_tokens: Some(Allowance { limit: 30_000, remaining: 28_000, reset_ms: Some(0) }),
        output_tokens: Some(Allowance { limit: 8_000, remaining: 8_000, reset_ms: Some(0) }),
        tokens: None,
    };
    assert_eq!(completion.limits, limits);
}

#[tokio::test]
async fn anthropic_has_no_cheaper_tier_and_refuses_with_429_or_529() {
    let limited = r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 30,000 input tokens per minute."},"request_id":"req_1"}"#;
    let overloaded =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let headers = format!("retry-after: 7\r\n{ANTHROPIC_LIMITS}");
    let scripts = vec![
        answer("429 Too Many Requests", &headers, limited),
        answer("529 Overloaded", "x-should-retry: true\r\n", overloaded),
    ];
    let (provider, mut server) = anthropic(scripts).await;
    let asked = request("claude-sonnet-4-6", Some(ServiceTier::Flex));
    let failure = call(&provider, &asked).await.0.unwrap_err();
    assert_eq!(sent(&mut server).await.get("service_tier"), None);
    assert_eq!((failure.code, failure.retry_after_ms), (Code::ProviderRateLimited, Some(7_000)));
    assert!(failure.limits.is_some_and(|limits| limits.input_tokens.is_some()));
    let failure = call(&provider, &asked).await.0.unwrap_err();
    assert_eq!((failure.code, failure.retryable), (Code::ProviderOverloaded, true));
    assert_eq!(failure.retry_after_ms, None);
}

#[tokio::test]
async fn a_long_system_prompt_is_marked_for_anthropics_cache_when_it_comes_again() {
    let script = || stream("", ANTHROPIC_EVENTS);
    let (provider, mut server) = anthropic(vec![script(), script()]).await;
    let long = Request {
        system_prompt: Some("A rule of the house. ".repeat(300)),
        ..request("claude-sonnet-4-6", None)
    };
    for expected in [None, Some("ephemeral")] {
        call(&provider as &dyn Provider, &long).await.0.unwrap();
        let sent = sent(&mut server).await;
        check(&sent, &ANTHROPIC_MEMBERS, &ANTHROPIC_TIERS);
        assert_eq!(sent["system"][0]["cache_control"]["type"].as_str(), expected);
    }
}
