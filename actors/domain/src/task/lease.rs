//! Leases: the right to work on a task, once (docs/reference/workers.md).
//!
//! Deliberately absent: the end of a lease. A lease holds as long as its worker is heard of.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::{InvalidId, TaskId};

/// 128 random bits. Every write by a worker is compared with the task's current one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseId(u128);

impl LeaseId {
    /// The lease of these random bits.
    #[must_use]
    pub const fn from_random(bits: u128) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u128 {
        self.0
    }

    /// Passes the lease's text to `then`: all 128 bits in hexadecimal.
    fn with_text<T>(self, then: impl FnOnce(&str) -> T) -> T {
        let (mut text, mut rest) = ([0; 32], self.0);
        for place in text.iter_mut().rev() {
            *place = b"0123456789abcdef"[usize::try_from(rest & 15).expect("four bits fit")];
            rest >>= 4;
        }
        then(std::str::from_utf8(&text).expect("the digits are ASCII"))
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_text(|text| f.write_str(text))
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for LeaseId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.with_text(|text| serializer.serialize_str(text))
    }
}

impl<'de> Deserialize<'de> for LeaseId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map(Self).map_err(serde::de::Error::custom)
    }
}

/// A lease as workers see it: the random bits and, so that any node can find the task without
/// remembering its leases, the task. Opaque to workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseToken {
    /// The task.
    pub task: TaskId,
    /// The lease.
    pub lease: LeaseId,
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.task, self.lease)
    }
}

impl FromStr for LeaseToken {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let (task, lease) = text.split_once('.').ok_or(InvalidId)?;
        let in_form =
            lease.len() == 32 && lease.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !in_form {
            return Err(InvalidId);
        }
        let bits = u128::from_str_radix(lease, 16).map_err(|_| InvalidId)?;
        Ok(Self { task: task.parse()?, lease: LeaseId(bits) })
    }
}
