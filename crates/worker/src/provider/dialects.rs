//! Answers in the published shapes of many servers, each whole and cut at every byte.
//!
//! The shapes follow the API descriptions, with texts of our own:
//! `OpenAI` (<https://platform.openai.com/docs/api-reference/chat-streaming>),
//! Azure (<https://learn.microsoft.com/azure/ai-foundry/openai/reference>),
//! Anthropic (<https://platform.claude.com/docs/en/build-with-claude/streaming>),
//! Mistral (<https://docs.mistral.ai/api>, <https://docs.mistral.ai/capabilities/reasoning>),
//! Gemini (<https://ai.google.dev/gemini-api/docs/openai>), Groq (<https://console.groq.com/docs/api-reference>,
//! <https://console.groq.com/docs/reasoning>), `DeepSeek` (<https://api-docs.deepseek.com>),
//! xAI (<https://docs.x.ai/docs/api-reference>), `OpenRouter` (<https://openrouter.ai/docs/api-reference/streaming>),
//! vLLM (<https://docs.vllm.ai/en/latest/features/reasoning_outputs.html>),
//! llama.cpp (<https://github.com/ggml-org/llama.cpp/tree/master/tools/server>),
//! Ollama (<https://docs.ollama.com/api/openai-compatibility>).

mod answers;
mod failures;
mod table;

use std::fmt::Write as _;
use std::sync::Arc;

use super::anthropic::Anthropic;
use super::openai::OpenAi;
use super::testing::{Step, call, serve};
use super::{Completion, Failure, Provider, Request};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Interface {
    OpenAi,
    Anthropic,
}

fn request() -> Request {
    let (model, prompt) = ("m".into(), "Where is the Louvre?".into());
    Request { model, prompt, without_logprobs: true, ..Request::default() }
}

/// The head of an answer whose body comes in chunks.
fn head(kind: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nretry-after: 3\r\ntransfer-encoding: chunked\r\n\r\n"
    )
}

/// The answer in one chunk, and in chunks of a byte.
fn scripts(kind: &str, body: &str) -> [Vec<Step>; 2] {
    let bytes = body.as_bytes();
    [bytes.len().max(1), 1].map(|size| {
        let mut script = head(kind).into_bytes();
        for chunk in bytes.chunks(size) {
            script.extend(format!("{:x}\r\n", chunk.len()).bytes());
            script.extend(chunk);
            script.extend(b"\r\n");
        }
        script.extend(b"0\r\n\r\n");
        vec![Step::Send(script)]
    })
}

type Called = (Result<Completion, Failure>, String);

/// The results of the request at a server that gives this answer, whole and cut at every byte. One call each
/// is all that the server takes.
async fn results(interface: Interface, kind: &str, body: &str, request: &Request) -> [Called; 2] {
    let mut results = Vec::new();
    for script in scripts(kind, body) {
        let server = serve(vec![script]).await;
        let key = Some("sk-test".to_owned());
        let provider: Box<dyn Provider> = match interface {
            Interface::OpenAi => {
                Box::new(OpenAi::new(&format!("{}/v1", server.url), key).expect("a client"))
            }
            Interface::Anthropic => {
                Box::new(Anthropic::new(&server.url, key, Arc::default()).expect("a client"))
            }
        };
        results.push(call(&*provider, request).await);
    }
    results.try_into().expect("two results")
}

/// A stream of these events with the mark of its end.
fn stream(events: &[&str]) -> String {
    let mut body = String::new();
    for event in events.iter().chain(&["[DONE]"]) {
        write!(body, "data: {event}\n\n").expect("a text takes it");
    }
    body
}

/// A stream of Anthropic's events, under their names.
fn named(events: &[&str]) -> String {
    let mut body = String::new();
    for event in events {
        let json: serde_json::Value = serde_json::from_str(event).expect("JSON");
        let name = json["type"].as_str().expect("a type");
        write!(body, "event: {name}\ndata: {event}\n\n").expect("a text takes it");
    }
    body
}
