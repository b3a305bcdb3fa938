//! The bytes of a webhook and its signatures (docs/reference/webhooks.md).
//!
//! ```text
//!   P     {"event":…,"taskId":…,"status":…,"output":…,"usage":{…},"completedAt":…}, of a task, and more of
//!         an execution; in the sandbox also "environment":"test"
//!   body  P without its last brace, and ,"signature":"sha256=HEX"}
//! ```

use std::io::Write;

use axum::http::HeaderValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use callboard_domain::approval::Outcome;
use callboard_domain::id::{ExecutionId, PlanId, TaskId};
use callboard_domain::task::Ending;
use callboard_runtime::ports::{ExecutionNotice, TaskDetails, WebhookContent, WebhookSubject};
use callboard_wire::common::{Iso, Text};
use hmac::Mac as _;
use serde::Serialize;
use serde_with::skip_serializing_none;

use super::secret::WebhookSecret;
use crate::auth::signature::sign;

/// The members, in their order; those of the other kind of item are left out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'n> {
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_id: Option<Text<ExecutionId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan_id: Option<Text<PlanId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    template_id: Option<&'n str>,
    /// The task; of an execution the one whose output waits for a reviewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<Text<TaskId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step_id: Option<&'n str>,
    status: &'static str,
    /// The output of what is completed; otherwise null.
    output: Option<&'n str>,
    usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<&'n [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'n str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<Iso>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failed<'n>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details<'n>>,
    /// The mark of the sandbox; production has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Usage {
    input: u64,
    output: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_cost: Option<f64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Failed<'n> {
    code: &'static str,
    message: &'n str,
    #[serde(skip_serializing_if = "Option::is_none")]
    step_id: Option<&'n str>,
}

/// The details of a task that asks for them.
#[skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Details<'n> {
    tags: &'n [String],
    title: Option<&'n str>,
    model: &'n str,
    confidence: Option<f64>,
    total_cost: f64,
    attempt: u32,
    error: Option<Failed<'n>>,
    review: Option<Review<'n>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'n> {
    by: &'n str,
    at: Iso,
    was_modified: bool,
}

impl<'n> Failed<'n> {
    fn of(ending: &'n Ending, step_id: Option<&'n str>) -> Self {
        Self { code: ending.code.as_str(), message: &ending.message, step_id }
    }
}

impl<'n> From<&'n TaskDetails> for Details<'n> {
    fn from(TaskDetails { task, review }: &'n TaskDetails) -> Self {
        let result = task.result.as_deref();
        Self {
            tags: &task.spec.tags,
            title: task.spec.title(),
            model: task.model_used().unwrap_or(&task.spec.model),
            confidence: result.and_then(|result| result.confidence),
            total_cost: result.map_or(0.0, |result| result.usage.total_cost),
            attempt: task.attempt,
            error: task.error.as_ref().map(|ending| Failed::of(ending, None)),
            review: review.as_ref().map(|decision| Review {
                by: decision.by.name(),
                at: Iso(decision.at),
                was_modified: matches!(decision.outcome, Outcome::Approved { edited: true }),
            }),
        }
    }
}

impl<'n> From<&'n WebhookContent> for Payload<'n> {
    fn from(notice: &'n WebhookContent) -> Self {
        let callboard_domain::usage::Usage { input, output, total_cost, .. } = notice.usage;
        let bare = Self {
            event: notice.event,
            execution_id: None,
            plan_id: None,
            template_id: None,
            task_id: None,
            step_id: None,
            status: notice.status,
            output: notice.output.as_deref(),
            usage: Usage { input, output, total_cost: None },
            tags: None,
            title: None,
            completed_at: notice.ended_at.map(Iso),
            error: None,
            details: None,
            environment: (notice.environment.is_test()).then_some("test"),
        };
        match &notice.about {
            WebhookSubject::Task(task, details) => Self {
                task_id: Some(Text(*task)),
                details: details.as_deref().map(Details::from),
                ..bare
            },
            WebhookSubject::Execution(of) => {
                let ExecutionNotice { spec, error, held } = &**of;
                let failed = |(ending, step): &'n (Ending, Option<String>)| {
                    Failed::of(ending, step.as_deref())
                };
                Self {
                    execution_id: Some(Text(spec.id)),
                    plan_id: Some(Text(spec.plan)),
                    template_id: spec.template.as_ref().map(|template| template.id.as_str()),
                    task_id: held.as_ref().map(|(task, _)| Text(*task)),
                    step_id: held.as_ref().map(|(_, step)| step.as_str()),
                    usage: Usage { input, output, total_cost: Some(total_cost) },
                    tags: Some(&spec.tags),
                    title: spec.title(),
                    error: error.as_ref().map(failed),
                    ..bare
                }
            }
        }
    }
}

pub(super) fn body(notice: &WebhookContent, secret: &WebhookSecret) -> Vec<u8> {
    let payload = Payload::from(notice);
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

/// The value of the header `webhook-signature`, over the identifier, the time and the body: one signature by each
/// secret.
pub(super) fn signature<'s>(
    id: &str,
    seconds: u64,
    body: &[u8],
    secrets: impl Iterator<Item = &'s WebhookSecret>,
) -> HeaderValue {
    let signed = secrets.map(|secret| {
        let code = secret.header_key().clone();
        let code = code.chain_update(format!("{id}.{seconds}.")).chain_update(body);
        format!("v1,{}", STANDARD.encode(code.finalize().into_bytes()))
    });
    let signed: Vec<_> = signed.collect();
    HeaderValue::try_from(signed.join(" ")).expect("base64 is visible ASCII")
}

#[cfg(test)]
pub(super) mod tests {
    use callboard_domain::Timestamp;
    use callboard_domain::id::DeliveryId;
    use callboard_domain::usage::Usage as Tokens;
    use serde_json::Value;

    use callboard_domain::id::{Environment, ProjectId};

    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    /// The example for users to test a receiver with.
    const VECTORS: &str = include_str!("../../../docs/webhooks/vectors.json");

    /// A webhook of the documentation.
    pub(in super::super) fn notice(output: Option<&str>) -> WebhookContent {
        let (event, status) = match output {
            Some(_) => ("task.completed", "completed"),
            None => ("task.failed", "failed"),
        };
        WebhookContent {
            delivery: DeliveryId::from_u128(7 << 10),
            environment: Environment::LIVE,
            project: ProjectId::DEFAULT,
            url: "https://example.com/hook".into(),
            event,
            about: WebhookSubject::Task(TaskId::from_u128(1 << 10), None),
            status,
            output: output.map(str::to_owned),
            usage: Tokens { input: 3, output: 5, ..Tokens::default() },
            ended_at: Some(Timestamp::from_millis(1_800_000_000_123)),
            trace: None,
        }
    }

    #[test]
    fn a_body_of_the_sandbox_is_marked_within_the_signature() {
        let secret = WebhookSecret::parse(SECRET).expect("a secret");
        let live = notice(Some("x"));
        let sandboxed = WebhookContent { environment: Environment::TEST, ..notice(Some("x")) };
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
            let signature =
                signature(&notice.delivery.to_string(), seconds, &body, [&secret].into_iter());
            assert_eq!(signature, text(&headers["webhook-signature"]));

            let (signed, body) = (text(&vector["signed"]), text(&vector["body"]));
            assert_eq!(format!("{}}}", &body[..body.len() - 87]), signed, "to cut 87 bytes");
            let mut parsed: Value = serde_json::from_str(&body).expect("JSON");
            parsed.as_object_mut().expect("an object").shift_remove("signature");
            assert_eq!(parsed.to_string(), signed, "to parse it and write it again");
        }
    }
}
