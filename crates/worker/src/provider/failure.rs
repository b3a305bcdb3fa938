//! The meaning of a failed call: its code, its retry, and the wait before it.
//!
//! The rules are those of the providers' own clients.

mod words;

use std::time::Duration;

use callboard_domain::model_limits::Reported;
use jiff::Timestamp;
use jiff::fmt::rfc2822;

use super::limits;

pub(super) use words::{Words, is_error};

/// The longest message that is kept, in characters.
const MAX_MESSAGE_CHARS: usize = 1000;

/// The code that ends up in the task's `error.code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// The provider refused or failed.
    ProviderError,
    /// The provider asks for fewer calls (429).
    ProviderRateLimited,
    /// The provider is overloaded (529).
    ProviderOverloaded,
    /// The provider could not be reached, or something before it could not reach it (502, 503, 504).
    ProviderUnavailable,
    /// The attempt's deadline passed.
    TaskTimeout,
    /// A fault of the worker's own.
    InternalError,
}

impl Code {
    /// The code's name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ProviderError => "PROVIDER_ERROR",
            Self::ProviderRateLimited => "PROVIDER_RATE_LIMITED",
            Self::ProviderOverloaded => "PROVIDER_OVERLOADED",
            Self::ProviderUnavailable => "PROVIDER_UNAVAILABLE",
            Self::TaskTimeout => "TASK_TIMEOUT",
            Self::InternalError => "INTERNAL_ERROR",
        }
    }
}

/// The reason why a call made no completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure.
    pub code: Code,
    /// The provider's own text, if there is any, at most 1,000 characters.
    pub message: String,
    /// True if the same call may succeed later.
    pub retryable: bool,
    /// The wait that the provider asks for, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// The provider's own limits, from the headers of the answer.
    pub limits: Option<Box<Reported>>,
}

impl Failure {
    /// A failure of any kind whose provider asks for no wait.
    #[must_use]
    pub fn new(code: Code, message: impl AsRef<str>, retryable: bool) -> Self {
        let message = bounded(message.as_ref());
        Self { code, message, retryable, retry_after_ms: None, limits: None }
    }

    /// A failure of a request that the provider refuses now and later.
    #[must_use]
    pub fn refused(message: impl AsRef<str>) -> Self {
        Self::new(Code::ProviderError, message, false)
    }

    /// A connection that nobody answered: nothing was read of the request.
    #[must_use]
    pub fn unreachable(message: impl AsRef<str>) -> Self {
        Self::new(Code::ProviderUnavailable, message, true)
    }

    /// A broken stream or an answer that makes no sense: the next try may work.
    #[must_use]
    pub fn broken(message: impl AsRef<str>) -> Self {
        Self::new(Code::ProviderError, message, true)
    }
}

/// The headers about the next try and the limits.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Advice {
    /// `x-should-retry`.
    pub(super) should_retry: Option<bool>,
    /// `retry-after-ms`, else `retry-after`, in milliseconds.
    pub(super) retry_after_ms: Option<u64>,
    pub(super) limits: Reported,
}

impl Advice {
    /// Reads the headers through `header`; a date counts from `now`.
    pub(super) fn read<'h>(header: impl Fn(&str) -> Option<&'h str>, now: Timestamp) -> Self {
        let millis = header("retry-after-ms").and_then(|text| milliseconds(text, 1.0));
        let after = || header("retry-after").and_then(|text| retry_after(text, now));
        Self {
            should_retry: header("x-should-retry").and_then(|text| text.trim().parse().ok()),
            retry_after_ms: millis.or_else(after),
            limits: limits::read(&header, now),
        }
    }
}

/// The failure that an HTTP status, or an error event that stands for one, means.
pub(super) fn classify(status: u16, words: &Words, advice: &Advice) -> Failure {
    let transient = matches!(status, 408 | 409 | 425 | 429 | 500..=599);
    let out_of_money = status == 402 || words.out_of_money();
    let retryable = !out_of_money && advice.should_retry.unwrap_or(transient);
    let code = match status {
        429 if !out_of_money => Code::ProviderRateLimited,
        529 if !out_of_money => Code::ProviderOverloaded,
        502..=504 if retryable => Code::ProviderUnavailable,
        _ => Code::ProviderError,
    };
    let message = match words.message.as_str() {
        "" => format!("the provider answered {status} without a message"),
        message => format!("the provider answered {status}: {message}"),
    };
    let retry_after_ms = advice.retry_after_ms.or(words.retry_delay_ms).filter(|_| retryable);
    let limits = (!advice.limits.is_none()).then(|| Box::new(advice.limits));
    Failure { retry_after_ms, limits, ..Failure::new(code, message, retryable) }
}

/// The text, cut to the kept length, with control characters made visible.
fn bounded(text: &str) -> String {
    let cut = text.chars().nth(MAX_MESSAGE_CHARS).is_some();
    let kept = text.chars().take(if cut { MAX_MESSAGE_CHARS - 1 } else { MAX_MESSAGE_CHARS });
    let mut kept: String = kept.map(|c| if c.is_control() { ' ' } else { c }).collect();
    if cut {
        kept.push('…');
    }
    kept
}

fn retry_after(text: &str, now: Timestamp) -> Option<u64> {
    milliseconds(text, 1000.0).or_else(|| {
        let date = rfc2822::parse(text.trim()).ok()?.timestamp();
        u64::try_from(date.as_millisecond() - now.as_millisecond()).ok()
    })
}

fn milliseconds(text: &str, unit: f64) -> Option<u64> {
    let number: f64 = text.trim().parse().ok()?;
    let wait = Duration::try_from_secs_f64(number * unit / 1000.0).ok()?;
    wait.as_millis().try_into().ok()
}

#[cfg(test)]
mod tests;
