//! Trace context: the place of a piece of work in a distributed trace (W3C Trace Context, Level 1).
//!
//! ```text
//!   traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//!                │  trace                            span             └ sampled
//!                └ version
//! ```
//!
//! Tasks run for hours, so no span stays open in memory: a span is made when its work ends. The span's identifier must
//! be known before, to name it as a parent, and is therefore derived from the thing that the span is about.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::id::{ExecutionId, TaskId};
use crate::task::LeaseId;

/// A span in a trace. Neither identifier is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace: u128,
    span: u64,
    sampled: bool,
}

/// The length of a `traceparent` of version 00, in bytes.
const LENGTH: usize = 55;

impl TraceContext {
    /// The span `span` of the trace `trace`; a zero becomes one.
    #[must_use]
    pub fn new(trace: u128, span: u64, sampled: bool) -> Self {
        Self { trace: trace.max(1), span: span.max(1), sampled }
    }

    /// The trace.
    #[must_use]
    pub const fn trace(&self) -> u128 {
        self.trace
    }

    /// The span within the trace.
    #[must_use]
    pub const fn span(&self) -> u64 {
        self.span
    }

    /// True if the spans of this trace are recorded.
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.sampled
    }

    /// Another span of the same trace.
    #[must_use]
    pub fn with_span(self, span: u64) -> Self {
        Self::new(self.trace, span, self.sampled)
    }
}

/// The span of a task: from its creation to its end.
#[must_use]
pub fn span_of_task(task: TaskId) -> u64 {
    span_of(b"task", task.as_u128())
}

/// The span of an execution: from its start to the end of its first run.
#[must_use]
pub fn span_of_execution(execution: ExecutionId) -> u64 {
    span_of(b"execution", execution.as_u128())
}

/// The span of an attempt: the life of its lease. Hashed, because a lease is a secret.
#[must_use]
pub fn span_of_attempt(lease: LeaseId) -> u64 {
    span_of(b"attempt", lease.bits())
}

fn span_of(kind: &[u8], number: u128) -> u64 {
    let mut hash = Sha256::new();
    hash.update(kind);
    hash.update(number.to_be_bytes());
    let first = hash.finalize()[..8].try_into().expect("a hash has 32 bytes");
    u64::from_be_bytes(first).max(1)
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

/// A text that is no `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a traceparent such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
pub struct InvalidTraceparent;

impl FromStr for TraceContext {
    type Err = InvalidTraceparent;

    fn from_str(text: &str) -> Result<Self, InvalidTraceparent> {
        let (known, rest) = text.as_bytes().split_at_checked(LENGTH).ok_or(InvalidTraceparent)?;
        let known = std::str::from_utf8(known).map_err(|_| InvalidTraceparent)?;
        let parts: Vec<_> = known.split('-').collect();
        let [version, trace, span, flags] = parts[..] else { return Err(InvalidTraceparent) };
        // A later version may add fields after those that every version has.
        let has_right_end = match hexadecimal(version, 2)? {
            0xff => false,
            0 => rest.is_empty(),
            _ => rest.is_empty() || rest[0] == b'-',
        };
        let (trace, span) = (hexadecimal(trace, 32)?, hexadecimal(span, 16)?);
        let flags = hexadecimal(flags, 2)?;
        let span = u64::try_from(span).map_err(|_| InvalidTraceparent)?;
        if !has_right_end || trace == 0 || span == 0 {
            return Err(InvalidTraceparent);
        }
        Ok(Self { trace, span, sampled: flags & 1 == 1 })
    }
}

fn hexadecimal(text: &str, length: usize) -> Result<u128, InvalidTraceparent> {
    let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if text.len() != length || !is_hex {
        return Err(InvalidTraceparent);
    }
    u128::from_str_radix(text, 16).map_err(|_| InvalidTraceparent)
}

impl Serialize for TraceContext {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceContext {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_is_read_and_written() {
        let context: TraceContext = EXAMPLE.parse().unwrap();
        assert_eq!(context.trace(), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!((context.span(), context.is_sampled()), (0x00f0_67aa_0ba9_02b7, true));
        assert_eq!(context.to_string(), EXAMPLE);
        let json = serde_json::to_string(&context).unwrap();
        assert_eq!(serde_json::from_str::<TraceContext>(&json).unwrap(), context);
        let other: TraceContext = EXAMPLE.replace("-01", "-02").parse().unwrap();
        assert!(!other.is_sampled(), "the lowest bit of the flags counts");
    }

    #[test]
    fn a_later_version_may_be_longer_and_anything_else_is_refused() {
        let later = EXAMPLE.replacen("00", "01", 1);
        let read = |text: &str| text.parse::<TraceContext>().is_ok();
        assert!(read(&later) && read(&format!("{later}-more")));
        let zero_trace = format!("00-{:032x}-00f067aa0ba902b7-01", 0);
        let zero_span = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{:016x}-01", 0);
        for wrong in [
            "",
            "00",
            &format!("{EXAMPLE}-more"),
            &format!("{EXAMPLE} "),
            &format!("{later}more"),
            &EXAMPLE.replacen("00", "ff", 1),
            &EXAMPLE.to_uppercase(),
            &EXAMPLE.replacen('b', "+", 1),
            &EXAMPLE.replacen("00-4", "0é-", 1),
            &EXAMPLE.replace('-', "0"),
            &zero_trace,
            &zero_span,
        ] {
            assert!(!read(wrong), "{wrong}");
        }
    }

    #[test]
    fn spans_of_different_things_differ_and_do_not_show_the_lease() {
        let (task, execution) = (TaskId::from_u128(7), ExecutionId::from_u128(7));
        let lease = LeaseId::from_random(7);
        let spans = [span_of_task(task), span_of_execution(execution), span_of_attempt(lease)];
        assert!(spans[0] != spans[1] && spans[1] != spans[2] && spans[0] != spans[2]);
        assert!(!lease.to_string().contains(&format!("{:x}", spans[2])));
        assert_eq!(span_of_task(task), spans[0]);
    }
}
