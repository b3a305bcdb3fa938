//! The span of a model call, by the conventions of OpenTelemetry for generative AI
//! (<https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/>, as of version 1.37, in which
//! `gen_ai.provider.name` took the place of `gen_ai.system`).
//!
//! Deliberately absent: the conventions' optional contents, `gen_ai.input.messages` and the like. No span
//! holds a prompt or an output.

use std::time::SystemTime;

use callboard_domain::task::Sampling;
use callboard_domain::trace::TraceContext;
use callboard_otlp::{Span, SpanKind, Spans};

use crate::call::Means;
use crate::provider::{Completion, Failure, Request};

/// A call under way; a dropped one was cancelled.
pub(super) struct CallSpan(Option<Open>);

struct Open {
    spans: Spans,
    attempt: TraceContext,
    began: SystemTime,
    provider: &'static str,
    model: String,
    max_tokens: Option<u64>,
    temperature: Option<f64>,
    sampling: Sampling,
}

impl CallSpan {
    /// A call that begins now, under the attempt that `traceparent` names. The call is recorded
    /// only if the trace is.
    pub(super) fn begin(means: &Means, traceparent: Option<&str>, request: &Request) -> Self {
        let attempt: Option<TraceContext> = traceparent.and_then(|text| text.parse().ok());
        let attempt = attempt.filter(TraceContext::is_sampled);
        let open = means.spans.clone().zip(attempt).map(|(spans, attempt)| Open {
            spans,
            attempt,
            began: SystemTime::now(),
            provider: means.provider.name(),
            model: request.model.clone(),
            max_tokens: request.max_tokens,
            temperature: request.temperature,
            sampling: request.sampling.clone(),
        });
        Self(open)
    }

    /// Ends the span with the result of the call.
    pub(super) fn end(mut self, result: Result<&Completion, &Failure>) {
        let Some(open) = self.0.take() else { return };
        let (spans, span) = (open.spans.clone(), open.span());
        spans.end(match result {
            Ok(Completion { usage, finish_reason, .. }) => span
                .with("gen_ai.usage.input_tokens", count(usage.input))
                .with("gen_ai.usage.output_tokens", count(usage.output))
                .with_some("gen_ai.response.finish_reasons", finish_reason.clone().map(list)),
            Err(failure) => span.failed(Some(failure.code.as_str())),
        });
    }
}

impl Open {
    fn span(self) -> Span {
        let name = format!("chat {}", self.model);
        let context = self.attempt.with_span(rand::random());
        let parent = Some(self.attempt.span());
        Span::new(context, parent, name, SpanKind::Client, (self.began, SystemTime::now()))
            .with("gen_ai.operation.name", "chat")
            .with("gen_ai.provider.name", self.provider)
            .with("gen_ai.request.model", self.model)
            .with_some("gen_ai.request.max_tokens", self.max_tokens.map(count))
            .with_some("gen_ai.request.temperature", self.temperature)
            .with_some("gen_ai.request.seed", self.sampling.seed)
            .with_some("gen_ai.request.top_p", self.sampling.top_p)
    }
}

impl Drop for CallSpan {
    fn drop(&mut self) {
        if let Some(open) = self.0.take() {
            let spans = open.spans.clone();
            spans.end(open.span().failed(Some("CANCELLED")));
        }
    }
}

fn list(reason: String) -> callboard_otlp::Value {
    callboard_otlp::Value::Array(vec![callboard_otlp::StringValue::from(reason)].into())
}

fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
