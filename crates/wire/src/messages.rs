//! Earlier turns on the wire (docs/reference/tasks.md).

use std::convert::Infallible;

use callboard_domain::Rule;
use callboard_domain::file::{Kind, MAX_FILES};
use callboard_domain::id::FileId;
use callboard_domain::plan::MAX_FILE_SOURCE;
use callboard_domain::task::{Content, Inputs, MAX_MESSAGES, MAX_PARTS, Message, Part, Role};
use serde_json::{Value, json};

use super::common::Text;
use super::read::rule::{self, Parse};
use super::read::{Components, Field, Fields, Refused};
use crate::answer::Given;
use crate::request;

/// A turn as it is written: a file is an identifier, or in a step a template of some.
type Turn = Message<String>;

request! {
    impl Turn as "MessageRequest", answered as "Message" {
        /// The author.
        role = required("role", rule::one_of(&Role::ALL, Role::as_str)),
        /// The text, or parts: texts, images and documents; those of a step have placeholders.
        content = required("content", TextOrParts),
    }
}

request! {
    /// A part of a message.
    #[derive(Debug, Default)]
    pub struct GivenPart as "MessagePartRequest", answered as "MessagePart" {
        /// The kind.
        kind: &'static str = required("type", rule::one_of(&[TEXT, "image", "document"], |kind| kind)),
        /// The text of a part of the type text.
        text: Option<String> = optional("text", rule::text(rule::bytes(0..=usize::MAX))),
        /// The id of the file that another part shows; in a step a placeholder too, of an id or of a list of ids.
        file: Option<String> = optional("file", rule::text(rule::bytes(1..=MAX_FILE_SOURCE))),
    }
    check part_fits
}

const TEXT: &str = "text";

fn part_fits(part: GivenPart, fields: &Fields<'_>) -> Result<GivenPart, Refused> {
    let kind = part.kind;
    for (name, is_given) in [(TEXT, part.text.is_some()), ("file", part.file.is_some())] {
        let belongs = (name == TEXT) == (kind == TEXT);
        if is_given && !belongs {
            let says = format!("is not a member of a part of the type {kind}");
            return Err(fields.refuse(name, Rule::Unknown, says));
        }
        if belongs && !is_given {
            let says = format!("is required in a part of the type {kind}");
            return Err(fields.refuse(name, Rule::Required, says));
        }
    }
    Ok(part)
}

impl GivenPart {
    fn into_part(self) -> Part<String> {
        let file = self.file.unwrap_or_default();
        match self.kind {
            "image" => Part::of(Kind::Image, file),
            "document" => Part::of(Kind::Document, file),
            _ => Part::Text { text: self.text.unwrap_or_default() },
        }
    }
}

/// A text, or parts.
struct TextOrParts;

impl Parse<Content<String>> for TextOrParts {
    fn parse(&self, field: Field<'_>) -> Result<Content<String>, Refused> {
        if field.value.is_array() {
            let parts = parts().parse(field)?;
            return Ok(Content::Parts(parts.into_iter().map(GivenPart::into_part).collect()));
        }
        rule::text(rule::bytes(0..=usize::MAX)).parse(field).map(Content::Text)
    }

    fn schema(&self, components: &mut Components) -> Value {
        components.named_in_answers(
            "MessageContent",
            |components| json!({"oneOf": [{"type": "string"}, parts().schema(components)]}),
        )
    }
}

fn parts() -> impl Parse<Vec<GivenPart>> {
    rule::list(1..=MAX_PARTS, rule::object::<GivenPart>())
}

/// `messages` of a task.
pub(super) fn messages() -> impl Parse<Vec<Turn>> {
    let fits = |messages: &Vec<Turn>| Message::length(messages) <= MAX_MESSAGES;
    turns().only(fits, Rule::Length, "must have at most 1048576 bytes of content in all")
}

/// `messages` of a step, whose length and files the domain checks.
pub(super) fn turns() -> impl Parse<Vec<Turn>> {
    rule::list(0..=usize::MAX, rule::object::<Turn>())
}

/// Refuses the files of a task's messages that are no identifiers, or too many beside `others`.
pub(super) fn fit(messages: &[Turn], others: usize, fields: &Fields<'_>) {
    let mut files = others;
    for (place, _, file) in Message::files(messages) {
        files += 1;
        if file.parse::<FileId>().is_err() {
            fields.refuse(&place, Rule::Format, "must be the id of a file: file_…");
        }
    }
    if files > MAX_FILES {
        let says = format!("must have at most {MAX_FILES} files in all, with those of files");
        fields.refuse("messages", Rule::Length, says);
    }
}

/// An earlier turn, as its source is written.
pub type TurnBody<'a> = Given<'a, Turn>;

/// The turns of a task; `None` if there is none.
pub(super) fn of_task(inputs: &Inputs) -> Option<Vec<Message<Text<FileId>, &str>>> {
    let turn = |message| with_ids(message, &inputs.files);
    (!inputs.messages.is_empty()).then(|| inputs.messages.iter().map(turn).collect())
}

fn with_ids<'a>(message: &'a Message, files: &[FileId]) -> Message<Text<FileId>, &'a str> {
    let Ok(content) = message.content.try_map(
        |text| Ok::<_, Infallible>(text.as_str()),
        |at| Ok(files.get(usize::from(*at)).copied().map(Text).into_iter().collect()),
    );
    Message { role: message.role, content }
}
