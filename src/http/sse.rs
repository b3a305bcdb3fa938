//! A server-sent event that holds JSON.
//!
//! Clients that split lines as Unicode does (Python's `splitlines`, for one) would break a line at U+0085, U+2028 and
//! U+2029, which JSON may hold unescaped.

use axum::response::sse::Event;
use callboard_common::text::line_json;

/// An event without a name, of this JSON, in one line for every reader.
pub(super) fn data(json: &str) -> Event {
    Event::default().data(line_json(json))
}

/// The same with a name, which stands first.
pub(super) fn named(name: &str, json: &str) -> Event {
    Event::default().event(name).data(line_json(json))
}
