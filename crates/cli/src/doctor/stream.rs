//! The check of the way back: a proxy that collects an answer before it passes it on holds every event back.
//!
//! The event log begins each stream with a place in it, at once. Deliberately absent: WebSockets, which no proxy
//! collects.

use std::time::Duration;

use callboard_client::{Call, Client};

use super::Finding;

/// The time in which the first bytes of a stream must come.
const FIRST_BYTES: Duration = Duration::from_secs(5);

/// Opens the event log and waits for its first bytes; `None` if the caller may not read events.
pub(super) async fn check(client: &Client) -> Option<Finding> {
    let call = Call::get(&["events"]).events_after(None).at_once();
    let first = async {
        let mut response = client.stream(&call).await.ok()?;
        Some(response.chunk().await.is_ok_and(|chunk| chunk.is_some()))
    };
    Some(match tokio::time::timeout(FIRST_BYTES, first).await {
        Ok(None) => return None,
        Ok(Some(true)) => Finding::ok("streams", "events arrive as they happen"),
        Ok(Some(false)) => {
            let advice = "let the proxy in front keep connections of /api/events open";
            Finding::warn("streams", "the event stream ended before its first bytes", advice)
        }
        Err(_) => {
            let detail = format!(
                "no byte of the event stream came within {} s: a proxy in front collects answers",
                FIRST_BYTES.as_secs()
            );
            let advice = "turn buffering off for this server (nginx: proxy_buffering off; see docs/how-to/tls.md)";
            Finding::warn("streams", detail, advice)
        }
    })
}
