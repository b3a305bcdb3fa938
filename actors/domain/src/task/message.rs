//! The earlier turns of a conversation (docs/reference/tasks.md).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::names::names;

/// The most bytes that the contents of a task's messages have in all.
pub const MAX_MESSAGES: usize = 1024 * 1024;

names! {
    /// The author of a message.
    Role {
        /// The person or the program that asks.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}

/// An earlier turn of the conversation.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The text; in the source of a step it has placeholders.
    pub content: String,
}

impl Default for Message {
    fn default() -> Self {
        Self { role: Role::User, content: String::new() }
    }
}

/// The text is left out, because it must not reach a log.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("role", &self.role).finish_non_exhaustive()
    }
}

impl Message {
    /// The bytes of the contents of all messages.
    #[must_use]
    pub fn length(messages: &[Self]) -> usize {
        messages.iter().map(|message| message.content.len()).fold(0, usize::saturating_add)
    }

    /// The approximate memory of the messages, in bytes.
    #[must_use]
    pub fn weight(messages: &[Self]) -> usize {
        Self::length(messages).saturating_add(size_of_val(messages))
    }
}
