//! The title of a task or an execution, and the events that its callback announces
//! (docs/reference/webhooks.md).
//!
//! Deliberately absent: the tags and the callback's address, which have members of their own.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::event::EventName;
use crate::names::names;

/// The longest title, in characters.
pub const MAX_TITLE: usize = 200;

/// The longest text that a title is made of, in characters: placeholders take room.
pub const MAX_TITLE_SOURCE: usize = 1_000;

/// The bytes of a text that a title is made of.
const READ: usize = 4_096;

names! {
    /// An event that a callback announces.
    CallbackEvent {
        /// The task or the execution is completed.
        Completed = "completed",
        /// The task or the execution failed for good.
        Failed = "failed",
        /// The task or the execution was cancelled.
        Cancelled = "cancelled",
        /// A reviewer rejected the task's output.
        Rejected = "rejected",
        /// An output waits for a reviewer: the task's, or that of a task of the execution.
        AwaitingApproval = "awaiting_approval",
    }
}

impl CallbackEvent {
    /// The events of an execution: the rejection of an output fails the execution, or is tried again.
    pub const OF_EXECUTIONS: [Self; 4] =
        [Self::Completed, Self::Failed, Self::Cancelled, Self::AwaitingApproval];

    /// The event of a task.
    #[must_use]
    pub const fn of_task(self) -> EventName {
        match self {
            Self::Completed => EventName::TaskCompleted,
            Self::Failed => EventName::TaskFailed,
            Self::Cancelled => EventName::TaskCancelled,
            Self::Rejected => EventName::TaskRejected,
            Self::AwaitingApproval => EventName::TaskAwaitingApproval,
        }
    }

    /// The name of the event of an execution.
    #[must_use]
    pub const fn of_execution(self) -> &'static str {
        match self {
            Self::Completed => "execution.completed",
            Self::Failed | Self::Rejected => "execution.failed",
            Self::Cancelled => "execution.cancelled",
            Self::AwaitingApproval => "execution.awaiting_approval",
        }
    }
}

/// The members `title`, `callbackEvents` and `callbackDetails` of a task or of the start of an execution.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Labels {
    /// The title, for people.
    pub title: Option<String>,
    /// The announced events; `None` leaves them to the settings.
    pub callback_events: Option<Vec<CallbackEvent>>,
    /// True if the announcement says more than the result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub callback_details: bool,
}

impl Labels {
    /// True if no member was given.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The members as a task or an execution keeps them; none if no member was given.
    #[must_use]
    pub fn boxed(self) -> Option<Box<Self>> {
        (!self.is_none()).then(|| Box::new(self))
    }

    /// The members of a task of a step, which has a title at most.
    #[must_use]
    pub fn titled(title: Option<String>) -> Option<Box<Self>> {
        Self { title, ..Self::default() }.boxed()
    }

    /// True if the event is announced.
    #[must_use]
    pub fn announces(
        labels: Option<&Self>,
        event: CallbackEvent,
        by_default: impl FnOnce() -> bool,
    ) -> bool {
        let named = labels.and_then(|labels| labels.callback_events.as_ref());
        named.map_or_else(by_default, |events| events.contains(&event))
    }
}

/// A title of one line, with at most [`MAX_TITLE`] characters; `None` if nothing is left of the text.
#[must_use]
pub fn title_of(text: &str) -> Option<String> {
    let beginning = &text[..text.floor_char_boundary(READ)];
    let is_between = |c: char| c.is_whitespace() || c.is_control();
    let words: Vec<_> = beginning.split(is_between).filter(|word| !word.is_empty()).collect();
    let mut title = words.join(" ");
    if let Some((end, _)) = title.char_indices().nth(MAX_TITLE) {
        let last = title[..end].char_indices().next_back().map_or(0, |(last, _)| last);
        title.truncate(last);
        title.push('…');
    }
    (!title.is_empty()).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_line_and_no_longer_than_two_hundred_characters() {
        assert_eq!(title_of("  Mail\n from\tAda \u{7} "), Some("Mail from Ada".into()));
        assert_eq!(title_of(" \n\u{1b}"), None);
        for long in ["ä".repeat(5_000), "a b ".repeat(100), "word ".repeat(40)] {
            let title = title_of(&long).expect("a text");
            assert!(title.chars().count() <= MAX_TITLE, "{}", title.chars().count());
        }
        let cut = title_of(&"ä".repeat(201)).expect("a text");
        assert_eq!((cut.chars().count(), cut.ends_with('…')), (MAX_TITLE, true));
    }

    #[test]
    fn own_events_take_the_place_of_the_settings() {
        let own = |events: &[CallbackEvent]| Labels {
            callback_events: Some(events.to_vec()),
            ..Labels::default()
        };
        let (done, held) = (CallbackEvent::Completed, CallbackEvent::AwaitingApproval);
        assert!(Labels::announces(None, done, || true));
        assert!(!Labels::announces(Some(&Labels::default()), done, || false));
        assert!(Labels::announces(Some(&own(&[held])), held, || false));
        assert!(!Labels::announces(Some(&own(&[held])), done, || true));
    }
}
