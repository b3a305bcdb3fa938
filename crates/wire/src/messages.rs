//! Earlier turns on the wire (docs/reference/tasks.md).

use callboard_domain::Rule;
use callboard_domain::task::{MAX_MESSAGES, Message, Role};
use serde::Serialize;
use utoipa::ToSchema;

use super::read::rule::{self, Parse};
use crate::request;

request! {
    impl Message as "MessageRequest" {
        /// The author.
        role = required("role", rule::one_of(&Role::ALL, Role::as_str)),
        /// The text; that of a step has placeholders.
        content = required("content", rule::text(rule::bytes(0..=usize::MAX))),
    }
}

/// `messages` of a task.
pub(super) fn messages() -> impl Parse<Vec<Message>> {
    let fits = |messages: &Vec<Message>| Message::length(messages) <= MAX_MESSAGES;
    turns().only(fits, Rule::Length, "must have at most 1048576 bytes of content in all")
}

/// `messages` of a step, whose length the domain checks.
pub(super) fn turns() -> impl Parse<Vec<Message>> {
    rule::list(0..=usize::MAX, rule::object::<Message>())
}

/// An earlier turn.
#[derive(Debug, Serialize, ToSchema)]
pub struct MessageBody<'a> {
    /// user or assistant.
    role: &'static str,
    /// The text.
    content: &'a str,
}

impl<'a> MessageBody<'a> {
    /// All turns; `None` if there is none.
    pub(super) fn all(messages: &'a [Message]) -> Option<Vec<Self>> {
        let body =
            |message: &'a Message| Self { role: message.role.as_str(), content: &message.content };
        (!messages.is_empty()).then(|| messages.iter().map(body).collect())
    }
}
