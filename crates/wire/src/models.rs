//! Models and their limits on the wire.

use callboard_domain::model_limits::{
    Allowance, Closure, MAX_LIMIT, MeterStatus, ModelLimits as Limits, Reported,
};
use callboard_domain::usage::Rates;
use callboard_runtime::handle::ModelView;
use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::common::Iso;
use super::read::rule::{self, Parse};
use crate::request;

request! {
    impl Limits as "SetModelLimits" {
        /// Requests in any minute; unlimited if left out, as each of these.
        requests_per_minute = optional("requestsPerMinute", limit()),
        /// Input tokens in any minute.
        input_tokens_per_minute = optional("inputTokensPerMinute", limit()),
        /// Output tokens in any minute.
        output_tokens_per_minute = optional("outputTokensPerMinute", limit()),
        /// Input and output tokens together in any minute.
        tokens_per_minute = optional("tokensPerMinute", limit()),
        /// Calls in flight.
        concurrent = optional("concurrent", limit()),
    }
}

fn limit() -> impl Parse<u64> {
    rule::whole(1..=MAX_LIMIT)
}

/// A model; a figure that nobody set or reported is left out.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ModelState)]
pub struct ModelBody<'a> {
    /// The name.
    name: &'a str,
    /// The connected workers that announce the model by its exact name.
    workers: usize,
    /// The prices, in USD per token.
    price: Option<PriceBody>,
    /// The limits that count.
    limits: LimitsBody,
    /// The use of the last minute, including the reservations of calls in flight.
    used: UsedBody,
    /// The limits in the headers of the provider's last answer.
    reported: Option<ReportedBody>,
    /// The time before which no call begins: the provider refused one, or could not be reached.
    closed_until: Option<Iso>,
    /// The reason.
    #[schema(value_type = Option<String>)]
    closed_because: Option<&'static str>,
    /// The queues for whose tasks alone no call begins: their workers' keys serve no other queues.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    closed_queues: Vec<ClosedQueue<'a>>,
}

/// A queue for which a model is closed.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ClosedQueue<'a> {
    /// The queue.
    queue: &'a str,
    /// The time before which no call begins.
    until: Iso,
}

/// The prices, in USD per token.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PriceBody {
    /// The price of the prompt.
    input: f64,
    /// The price of the output.
    output: f64,
    /// The price of prompt tokens read from the provider's cache.
    cache_read: f64,
    /// The price of prompt tokens written to the provider's cache.
    cache_write: f64,
}

/// The limits of a model; a member that is left out is unlimited.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct LimitsBody {
    /// Requests in any minute.
    requests_per_minute: Option<u64>,
    /// Input tokens in any minute.
    input_tokens_per_minute: Option<u64>,
    /// Output tokens in any minute.
    output_tokens_per_minute: Option<u64>,
    /// Both together in any minute.
    tokens_per_minute: Option<u64>,
    /// Calls in flight.
    concurrent: Option<u64>,
}

/// The use of a model.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct UsedBody {
    /// Calls in the last minute.
    requests: u64,
    /// Input tokens.
    input_tokens: u64,
    /// Output tokens.
    output_tokens: u64,
    /// Calls in flight now.
    in_flight: u64,
}

/// The limits that a provider reports.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ReportedBody {
    /// Calls, in the provider's time.
    requests: Option<AllowanceBody>,
    /// Input and output tokens together.
    tokens: Option<AllowanceBody>,
    /// Input tokens.
    input_tokens: Option<AllowanceBody>,
    /// Output tokens.
    output_tokens: Option<AllowanceBody>,
}

/// One limit of a provider.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct AllowanceBody {
    /// The limit of a minute.
    limit: u64,
    /// The rest of it, when it was reported.
    remaining: u64,
}

impl<'a> ModelBody<'a> {
    /// A model as the server knows it.
    #[must_use]
    pub fn of(view: &'a ModelView) -> Self {
        let status = view.status.as_ref();
        let reported = status.map(|status| status.reported).filter(|it| !it.is_none());
        Self {
            name: &view.name,
            workers: view.workers,
            price: view.rates.map(PriceBody::from),
            limits: LimitsBody::from(status.map(|status| status.limits).unwrap_or_default()),
            used: status.map(UsedBody::from).unwrap_or_default(),
            reported: reported.map(ReportedBody::from),
            closed_until: view.closed_until.map(Iso),
            closed_because: status.and_then(|status| status.closed_because).map(Closure::as_str),
            closed_queues: view
                .closed_queues
                .iter()
                .map(|(queue, until)| ClosedQueue { queue, until: Iso(*until) })
                .collect(),
        }
    }
}

impl From<Rates> for PriceBody {
    fn from(rates: Rates) -> Self {
        let Rates { input, output, cache_read, cache_write } = rates;
        Self { input, output, cache_read, cache_write }
    }
}

impl From<Limits> for LimitsBody {
    fn from(limits: Limits) -> Self {
        let Limits {
            requests_per_minute,
            input_tokens_per_minute,
            output_tokens_per_minute,
            tokens_per_minute,
            concurrent,
        } = limits;
        Self {
            requests_per_minute,
            input_tokens_per_minute,
            output_tokens_per_minute,
            tokens_per_minute,
            concurrent,
        }
    }
}

impl From<&MeterStatus> for UsedBody {
    fn from(status: &MeterStatus) -> Self {
        Self {
            requests: status.requests,
            input_tokens: status.input_tokens,
            output_tokens: status.output_tokens,
            in_flight: status.in_flight,
        }
    }
}

impl From<Reported> for ReportedBody {
    fn from(reported: Reported) -> Self {
        let body = |allowance: Allowance| AllowanceBody {
            limit: allowance.limit,
            remaining: allowance.remaining,
        };
        Self {
            requests: reported.requests.map(body),
            tokens: reported.tokens.map(body),
            input_tokens: reported.input_tokens.map(body),
            output_tokens: reported.output_tokens.map(body),
        }
    }
}
