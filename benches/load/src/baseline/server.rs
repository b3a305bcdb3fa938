//! The least durable server: axum, JSON, one actor, the committer.

use std::path::Path;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::CACHE_BYTES;
use super::actor::Keeper;
use crate::error::Error;

const ANSWER: usize = 300;

/// Serves `POST /api/tasks` until the process is killed.
pub(super) async fn run(directory: &Path, tell: impl Fn(&str)) -> Result<(), Error> {
    let baseline = Keeper::start(directory, CACHE_BYTES).await?;
    let router = Router::new().route("/api/tasks", post(create)).with_state(baseline);
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(Error::of("no port is free"))?;
    let address = listener.local_addr().map_err(Error::of("no port is free"))?;
    tell(&format!("listening on http://{address}"));
    let listener = listener.tap_io(|stream| {
        // A failure makes the baseline slower than it could be, and has no other effect.
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, router).await.map_err(Error::of("the listener fails"))
}

async fn create(State(baseline): State<Keeper>, body: Bytes) -> Response {
    let Ok(task) = serde_json::from_slice::<Value>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    if baseline.keep(body.into()).await.is_err() {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    let mut answer = json!({"data": {"model": task["model"], "rest": ""}});
    let rest = ANSWER.saturating_sub(answer.to_string().len());
    answer["data"]["rest"] = "x".repeat(rest).into();
    let json = HeaderValue::from_static("application/json");
    (StatusCode::CREATED, [(CONTENT_TYPE, json)], answer.to_string()).into_response()
}
