//! `Records<V>`: a typed, versioned view of a log's records, written as rows are.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::buffers::EncodeBuffers;
use super::open;
use crate::batch::{LogId, Op};
use crate::{Error, Record};

/// Records of one kind.
#[derive(Debug)]
pub struct Records<V> {
    version: u8,
    of: PhantomData<fn(V) -> V>,
}

impl<V: Serialize + DeserializeOwned> Records<V> {
    /// Records of `version`.
    #[must_use]
    pub const fn new(version: u8) -> Self {
        Self { version, of: PhantomData }
    }

    /// Appends a record to `log`.
    ///
    /// # Panics
    /// If `V` cannot be JSON: a map whose keys are no strings.
    #[must_use]
    pub fn append(&self, log: LogId, value: &V) -> Op {
        self.append_as(log, value)
    }

    /// The same for a type that is only written; its JSON is that of a `V`.
    ///
    /// # Panics
    /// Those of [`Records::append`].
    #[must_use]
    pub fn append_as(&self, log: LogId, value: &impl Serialize) -> Op {
        Op::Append {
            log,
            record: EncodeBuffers::with(|buffers| buffers.row(self.version, value, None)),
        }
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is damaged, or if a newer program wrote it.
    pub fn read(&self, record: &Record) -> Result<V, Error> {
        let corrupt = |reason: &dyn std::fmt::Display| Error::Corrupt {
            path: format!("record {} of log {}", record.sequence, record.log.0),
            reason: reason.to_string(),
        };
        let (version, payload) = open(&record.bytes).map_err(|reason| corrupt(&reason))?;
        if version > self.version {
            return Err(corrupt(&format!("it has version {version}, of a newer program")));
        }
        serde_json::from_slice(payload).map_err(|error| corrupt(&error))
    }
}
