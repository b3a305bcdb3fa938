//! A provider with the interface of Ollama, for the guides: it has one model, and one answer.

use std::future::IntoFuture as _;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use serde_json::{Value, json};

fn answer(body: &Value) -> impl IntoResponse + use<> {
    ([(CONTENT_TYPE, "application/json")], body.to_string())
}

/// Starts it; returns its base address, which ends with `/v1`.
pub(super) async fn start() -> String {
    let models =
        || async { answer(&json!({"object": "list", "data": [{"id": "llama3.2:latest"}]})) };
    let complete = || async {
        let message = json!({"role": "assistant", "content": "an answer of the provider"});
        answer(&json!({
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 5},
        }))
    };
    let router = Router::new()
        .route("/v1/models", get(models))
        .route("/v1/chat/completions", post(complete));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(axum::serve(listener, router).into_future());
    format!("http://{address}/v1")
}
