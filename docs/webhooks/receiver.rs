//! Receives webhooks of Callboard and verifies them.
//!
//! Usage: `CALLBOARD_WEBHOOK_SECRET=whsec_… receiver [PORT]`. Needs the crates axum,
//! ring, `serde_json`, standardwebhooks and tokio.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use ring::hmac;
use serde_json::Value;
use standardwebhooks::Webhook;

struct Receiver {
    secret: String,
    seen: Mutex<HashSet<String>>,
    accept: Box<dyn Fn(Value) + Send + Sync>,
}

/// A receiver that hands each event on once.
pub(crate) fn receiver(secret: String, accept: impl Fn(Value) + Send + Sync + 'static) -> Router {
    let receiver = Receiver { secret, seen: Mutex::default(), accept: Box::new(accept) };
    Router::new().fallback(post(receive)).with_state(Arc::new(receiver))
}

async fn receive(
    State(receiver): State<Arc<Receiver>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    // Checks the headers: the time, too, so that nobody replays an old webhook.
    let webhook = Webhook::new(&receiver.secret).expect("the secret is right");
    if webhook.verify(&body, &headers).is_err() || !signature_is_right(&receiver.secret, &body) {
        return StatusCode::UNAUTHORIZED;
    }
    // A webhook may arrive more than once, always with the same identifier. It is handled, then remembered, then
    // acknowledged: if this program ends in between, the webhook comes again. A real receiver handles and remembers
    // it in one transaction, or handles it so that a second time does no harm.
    let id = headers["webhook-id"].to_str().expect("it was verified").to_owned();
    let is_known = receiver.seen.lock().expect("nobody panics in it").contains(&id);
    if !is_known {
        (receiver.accept)(serde_json::from_slice(&body).expect("a verified body is JSON"));
        receiver.seen.lock().expect("nobody panics in it").insert(id);
    }
    StatusCode::NO_CONTENT
}

/// Checks the member `signature` without the package.
fn signature_is_right(secret: &str, body: &[u8]) -> bool {
    let Some((payload, rest)) = body.len().checked_sub(87).map(|end| body.split_at(end)) else {
        return false;
    };
    let Ok(hex) = std::str::from_utf8(&rest[21..85]) else { return false };
    let bytes = (0..64).step_by(2).map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok());
    let Some(given) = bytes.collect::<Option<Vec<u8>>>() else { return false };
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    // Compares in constant time.
    hmac::verify(&key, &[payload, b"}"].concat(), &given).is_ok()
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let secret = std::env::var("CALLBOARD_WEBHOOK_SECRET").expect("it is set");
    let port = std::env::args().nth(1).map_or(9000, |port| port.parse().expect("a port"));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, receiver(secret, |event| println!("{event}"))).await
}
