//! The bytes of a webhook and its signatures (docs/reference/webhooks.md).
//!
//! ```text
//!   P     {"event":…,"taskId":…,"status":…,"output":…,"usage":{…},"completedAt":…}; in the sandbox also
//!         "environment":"test"
//!   body  P without its last brace, and ,"signature":"sha256=HEX"}
//! ```

use std::io::Write;

use axum::http::HeaderValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use callboard_domain::id::Environment;
use callboard_runtime::ports::WebhookContent;
use callboard_wire::common::{Iso, Text};
use hmac::Mac as _;
use serde::Serialize;

use super::secret::WebhookSecret;
use crate::auth::signature::sign;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'n> {
    event: &'static str,
    task_id: Text<callboard_domain::id::TaskId>,
    status: &'static str,
    /// The output of a completed task; otherwise null.
    output: Option<&'n str>,
    usage: Usage,
    completed_at: Iso,
    /// The mark of the sandbox; production has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<&'static str>,
}

#[derive(Serialize)]
struct Usage {
    input: u64,
    output: u64,
}

pub(super) fn body(notice: &WebhookContent, secret: &WebhookSecret) -> Vec<u8> {
    let payload = Payload {
        event: notice.event.as_str(),
        task_id: Text(notice.task),
        status: notice.status.as_str(),
        output: notice.output.as_deref(),
        usage: Usage { input: notice.usage.input, output: notice.usage.output },
        completed_at: Iso(notice.ended_at),
        environment: (notice.environment == Environment::Test).then_some("test"),
    };
    let mut bytes = serde_json::to_vec(&payload).expect("texts and numbers have a JSON form");
    let signature = sign(secret.body_key(), &bytes);
    bytes.pop();
    bytes.extend_from_slice(br#","signature":"sha256="#);
    for byte in signature {
        write!(bytes, "{byte:02x}").expect("a vector takes every write");
    }
    bytes.extend_from_slice(br#""}"#);
    bytes
}

/// The value of the header `webhook-signature`, over the identifier, the time and the body.
pub(super) fn signature(
    id: &str,
    seconds: u64,
    body: &[u8],
    secret: &WebhookSecret,
) -> HeaderValue {
    let code =
        secret.header_key().clone().chain_update(format!("{id}.{seconds}.")).chain_update(body);
    let encoded = STANDARD.encode(code.finalize().into_bytes());
    HeaderValue::from_str(&format!("v1,{encoded}")).expect("base64 is ASCII")
}

#[cfg(test)]
pub(super) mod tests {
    use callboard_domain::Timestamp;
    use callboard_domain::event::EventName;
    use callboard_domain::id::{DeliveryId, TaskId};
    use callboard_domain::task::Status;
    use callboard_domain::usage::Usage as Tokens;
    use serde_json::Value;

    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    /// The example for users to test a receiver with.
    const VECTORS: &str = include_str!("../../../docs/webhooks/vectors.json");

    /// A webhook of the documentation.
    pub(in super::super) fn notice(output: Option<&str>) -> WebhookContent {
        let (event, status) = match output {
            Some(_) => (EventName::TaskCompleted, Status::Completed),
            None => (EventName::TaskFailed, Status::Failed),
        };
        WebhookContent {
            delivery: DeliveryId::from_u128(7 << 10),
            environment: Environment::Live,
            url: "https://example.com/hook".into(),
            event,
            task: TaskId::from_u128(1 << 10),
            status,
            output: output.map(str::to_owned),
            usage: Tokens { input: 3, output: 5, ..Tokens::default() },
            ended_at: Timestamp::from_millis(1_800_000_000_123),
            trace: None,
        }
    }

    #[test]
    fn a_body_of_the_sandbox_is_marked_within_the_signature() {
        let secret = WebhookSecret::parse(SECRET).expect("a secret");
        let live = notice(Some("x"));
        let sandboxed = WebhookContent { environment: Environment::Test, ..notice(Some("x")) };
        let text = |notice| String::from_utf8(body(notice, &secret)).expect("UTF-8");
        let (live, sandboxed) = (text(&live), text(&sandboxed));
        assert!(!live.contains("environment"), "{live}");
        let signed = format!("{}}}", &sandboxed[..sandboxed.len() - 87]);
        assert!(signed.ends_with(r#","environment":"test"}"#), "{signed}");
        assert_eq!(live.len() + r#","environment":"test""#.len(), sandboxed.len());
    }

    #[test]
    fn the_vectors_of_the_documentation_are_what_is_sent() {
        let vectors: Value = serde_json::from_str(VECTORS).expect("JSON");
        let secret = vectors["secret"].as_str().and_then(WebhookSecret::parse).expect("a secret");
        let vectors = vectors["vectors"].as_array().expect("a list");
        assert!(vectors.len() >= 3);
        for vector in vectors {
            let text = |value: &Value| value.as_str().expect("a text").to_owned();
            let notice = notice(vector["output"].as_str());
            let body = body(&notice, &secret);
            assert_eq!(String::from_utf8(body.clone()).expect("UTF-8"), text(&vector["body"]));
            let headers = &vector["headers"];
            assert_eq!(notice.delivery.to_string(), text(&headers["webhook-id"]));
            let seconds = text(&headers["webhook-timestamp"]).parse().expect("seconds");
            let signature = signature(&notice.delivery.to_string(), seconds, &body, &secret);
            assert_eq!(signature, text(&headers["webhook-signature"]));

            let (signed, body) = (text(&vector["signed"]), text(&vector["body"]));
            assert_eq!(format!("{}}}", &body[..body.len() - 87]), signed, "to cut 87 bytes");
            let mut parsed: Value = serde_json::from_str(&body).expect("JSON");
            parsed.as_object_mut().expect("an object").shift_remove("signature");
            assert_eq!(parsed.to_string(), signed, "to parse it and write it again");
        }
    }
}
