//! Frames of a client: text to requests, refusals to frames.

use callboard_domain::{Error, Rule};
use callboard_wire::events::{Subscribe, Unsubscribe};
use callboard_wire::read::{self, Format};
use serde_json::{Value, json};

use crate::http::error::ErrorBody;

/// The request of a client, with the id of the frame.
#[derive(Debug)]
pub(super) enum Asked {
    /// The credentials.
    Auth(String),
    /// Events.
    Subscribe(Subscribe),
    /// No more events.
    Unsubscribe(String),
    /// A sign of life.
    Ping,
}

/// The reason why a frame is refused.
#[derive(Debug)]
pub(super) enum Refused {
    /// The frame is no JSON object: the socket is closed.
    BadFrame,
    /// The frame is a JSON object without a meaning.
    Error(Error),
}

/// The longest id of a frame, in characters.
const MAX_ID: usize = 128;

/// Reads a frame; returns its id even if the frame is refused.
pub(super) fn parse(text: &str) -> (Option<Value>, Result<Asked, Refused>) {
    let Ok(Value::Object(mut members)) = read::parse(text.as_bytes(), Format::Json) else {
        return (None, Err(Refused::BadFrame));
    };
    let refused = |field: &str, rule, says: &str| {
        Err(Refused::Error(Error::invalid(field, rule, format!("{field} {says}"))))
    };
    let id = match members.remove("id") {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) if id.chars().count() <= MAX_ID => Some(Value::String(id)),
        Some(Value::Number(id)) => Some(Value::Number(id)),
        Some(_) => {
            let says = "must be a number or a string of at most 128 characters";
            return (None, refused("id", Rule::Type, says));
        }
    };
    let kind = members.remove("type");
    let Some(kind) = kind.as_ref().and_then(Value::as_str) else {
        let says = "must be one of auth, subscribe, unsubscribe, ping";
        return (id, refused("type", Rule::Required, says));
    };
    let members = Value::Object(members);
    let asked = match kind {
        "auth" => match members.get("token").and_then(Value::as_str) {
            Some(token) => Ok(Asked::Auth(token.to_owned())),
            None => return (id, refused("token", Rule::Required, "must be a key or a token")),
        },
        "subscribe" => read::value(members).map(Asked::Subscribe),
        "unsubscribe" => read::value(members).map(|Unsubscribe { sub }| Asked::Unsubscribe(sub)),
        "ping" => Ok(Asked::Ping),
        _ => {
            let says = "must be one of auth, subscribe, unsubscribe, ping";
            return (id, refused("type", Rule::Enum, says));
        }
    };
    (id, asked.map_err(Refused::Error))
}

/// A frame of this type, with the id of the frame that it answers.
pub(super) fn answer(kind: &str, id: Option<Value>, mut members: Value) -> Value {
    members["type"] = kind.into();
    if let Some(id) = id {
        members["id"] = id;
    }
    members
}

/// The frame of an error.
pub(super) fn error(id: Option<Value>, error: &Error) -> Value {
    let error = serde_json::to_value(ErrorBody(error)).expect("an error has text members only");
    answer("error", id, json!({"error": error}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        match parse(text).1 {
            Err(Refused::Error(error)) => error.to_string(),
            other => panic!("{text} is {other:?}"),
        }
    }

    #[test]
    fn what_is_no_json_object_is_a_bad_frame() {
        for text in ["", "x", "[]", "1", "\"ping\"", "null", "{\"type\":"] {
            assert!(matches!(parse(text).1, Err(Refused::BadFrame)), "{text}");
        }
    }

    #[test]
    fn a_frame_that_makes_no_sense_is_refused_by_name() {
        assert_eq!(fault("{}"), "type must be one of auth, subscribe, unsubscribe, ping");
        assert!(fault(r#"{"type":"x"}"#).starts_with("type must be one of"));
        assert!(fault(r#"{"type":"ping","id":[]}"#).starts_with("id must be"));
        assert!(fault(r#"{"type":"auth","token":1}"#).starts_with("token must be"));
        let subscribe = |members: &str| format!(r#"{{"type":"subscribe",{members}}}"#);
        let unknown = fault(&subscribe(r#""sub":"a","events":["task.done"]"#));
        assert!(unknown.contains("events[0] must name events"), "{unknown}");
        assert!(fault(&subscribe(r#""events":["*"]"#)).contains("sub"));
        assert!(fault(&subscribe(r#""sub":"a","events":"*""#)).contains("events must be an array"));
        assert!(fault(&subscribe(r#""sub":"a","events":["*"],"resume":"x""#)).contains("resume"));
        assert!(fault(&subscribe(r#""sub":"a","events":["*"],"x":1"#)).contains('x'));
    }

    #[test]
    fn an_id_comes_back_with_the_refusal() {
        let (id, refused) = parse(r#"{"type":"subscribe","id":7}"#);
        assert_eq!(id, Some(Value::from(7)));
        let Err(Refused::Error(refused)) = refused else { panic!("{refused:?}") };
        let frame = error(id, &refused);
        assert_eq!((&frame["type"], &frame["id"]), (&"error".into(), &7.into()));
        assert_eq!(frame["error"]["code"], "VALIDATION_ERROR");
    }
}
