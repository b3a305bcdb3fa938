//! Erasure of the texts of a task that has ended.
//!
//! A task keeps its state, usage and cost; its title, idempotency key, prompt, context, thinking, output, edit,
//! comment and the words of its error go.

use std::sync::Arc;

use super::{Ending, Task};
use crate::Timestamp;
use crate::labels::Labels;
use crate::machine::{Machine, Step};

/// The message that stands in place of an erased one.
pub const ERASED: &str = "the texts of the task were erased";

impl Ending {
    /// The same code without the words, which may quote a text.
    #[must_use]
    pub fn erased(&self) -> Self {
        Self { code: self.code, message: ERASED.to_owned() }
    }
}

impl Task {
    /// The step that erases the texts; `None` while the task has not ended. A second erasure keeps
    /// the time of the first.
    #[must_use]
    pub fn erased(&self, now: Timestamp) -> Option<Step<Self>> {
        if !self.is_finished() {
            return None;
        }
        let mut spec = Arc::clone(&self.spec);
        if let Some(labels) = spec.labels.clone().filter(|labels| labels.title.is_some()) {
            Arc::make_mut(&mut spec).labels = Labels { title: None, ..*labels }.boxed();
        }
        if spec.origin.idempotency_key.is_some() {
            Arc::make_mut(&mut spec).origin.idempotency_key = None;
        }
        let next = Self {
            spec,
            version: self.version + 1,
            error: self.error.as_ref().map(Ending::erased),
            erased_at: self.erased_at.or(Some(now)),
            ..self.clone()
        };
        Some(Step { next, facts: Vec::new(), effects: Vec::new() })
    }
}
