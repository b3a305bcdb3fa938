//! The earlier turns of a conversation (docs/reference/tasks.md).
//!
//! ```text
//! source of a step   Message<String>              a file is a template of identifiers
//! compiled step      Message<Template, Template>  texts are templates too
//! inputs of a task   Message                      a file is a place in the list of the task's files
//! lease, call        Message<FileRef>, …          a file is what is known of it, then its bytes
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::file::Kind;
use crate::names::names;

/// The most bytes that the contents of a task's messages have in all.
pub const MAX_MESSAGES: usize = 1024 * 1024;
/// The most parts of a message.
pub const MAX_PARTS: usize = 100;

names! {
    /// The author of a message.
    Role {
        /// The person or the program that asks.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}

/// The place of a file in the list of a task's files.
pub type FilePlace = u8;

/// An earlier turn of the conversation.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message<F = FilePlace, T = String> {
    /// The author.
    pub role: Role,
    /// The text, or the parts; in the source of a step they have placeholders.
    pub content: Content<F, T>,
}

/// The content of a message.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content<F = FilePlace, T = String> {
    /// A text alone.
    Text(T),
    /// Texts and files in their order.
    Parts(Vec<Part<F, T>>),
}

/// A part of a message.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Part<F = FilePlace, T = String> {
    /// A text.
    Text {
        /// The text.
        text: T,
    },
    /// An image.
    Image {
        /// The file.
        file: F,
    },
    /// A PDF, or a text.
    Document {
        /// The file.
        file: F,
    },
}

impl<F> Default for Message<F> {
    fn default() -> Self {
        Self { role: Role::User, content: String::new().into() }
    }
}

impl<F> From<String> for Content<F> {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<F> From<&str> for Content<F> {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// The content is left out, because it must not reach a log.
impl<F, T> fmt::Debug for Message<F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("role", &self.role).finish_non_exhaustive()
    }
}

impl<F, T> Part<F, T> {
    /// The part that shows a file as this kind.
    pub const fn of(kind: Kind, file: F) -> Self {
        match kind {
            Kind::Image => Self::Image { file },
            Kind::Document => Self::Document { file },
        }
    }

    /// The file of the part, and the kind that its author says.
    pub const fn file(&self) -> Option<(Kind, &F)> {
        match self {
            Self::Text { .. } => None,
            Self::Image { file } => Some((Kind::Image, file)),
            Self::Document { file } => Some((Kind::Document, file)),
        }
    }

    /// The text of the part.
    pub const fn text(&self) -> Option<&T> {
        match self {
            Self::Text { text } => Some(text),
            Self::Image { .. } | Self::Document { .. } => None,
        }
    }
}

impl<F, T> Content<F, T> {
    /// The parts; none of a text alone.
    pub fn parts(&self) -> &[Part<F, T>] {
        match self {
            Self::Text(_) => &[],
            Self::Parts(parts) => parts,
        }
    }

    /// The texts.
    pub fn texts(&self) -> impl Iterator<Item = &T> {
        let text = match self {
            Self::Text(text) => Some(text),
            Self::Parts(_) => None,
        };
        text.into_iter().chain(self.parts().iter().filter_map(Part::text))
    }

    /// The same content with other texts, and of each file the ones that take its place.
    ///
    /// # Errors
    /// The first of `text` or `file`.
    pub fn try_map<'a, G, U, E>(
        &'a self,
        mut text: impl FnMut(&'a T) -> Result<U, E>,
        mut file: impl FnMut(&'a F) -> Result<Vec<G>, E>,
    ) -> Result<Content<G, U>, E> {
        let parts = match self {
            Self::Text(it) => return text(it).map(Content::Text),
            Self::Parts(parts) => parts,
        };
        let mut mapped = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Part::Text { text: it } => mapped.push(Part::Text { text: text(it)? }),
                Part::Image { file: of } => {
                    mapped.extend(file(of)?.into_iter().map(|file| Part::Image { file }));
                }
                Part::Document { file: of } => {
                    mapped.extend(file(of)?.into_iter().map(|file| Part::Document { file }));
                }
            }
        }
        Ok(Content::Parts(mapped))
    }
}

impl<F, T> Message<F, T> {
    /// The files of all messages, with the place of each in the request, such as `messages[0].content[1].file`.
    pub fn files(messages: &[Self]) -> impl Iterator<Item = (String, Kind, &F)> {
        messages.iter().enumerate().flat_map(|(at, message)| {
            let parts = message.content.parts().iter().enumerate();
            parts.filter_map(move |(part, it)| {
                let (kind, file) = it.file()?;
                Some((format!("messages[{at}].content[{part}].file"), kind, file))
            })
        })
    }
}

impl<F> Message<F> {
    /// The same message with other files: of each, the one that takes its place, or none.
    #[must_use]
    pub fn with_files<G>(&self, mut file: impl FnMut(&F) -> Option<G>) -> Message<G> {
        let mapped = self.content.try_map(
            |text| Ok::<_, std::convert::Infallible>(text.clone()),
            |of| Ok(file(of).into_iter().collect()),
        );
        let Ok(content) = mapped;
        Message { role: self.role, content }
    }

    /// The texts, to be changed.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let (text, parts) = match &mut self.content {
            Content::Text(text) => (Some(text), None),
            Content::Parts(parts) => (None, Some(parts)),
        };
        let parts = parts.into_iter().flatten().filter_map(|part| match part {
            Part::Text { text } => Some(text),
            Part::Image { .. } | Part::Document { .. } => None,
        });
        text.into_iter().chain(parts)
    }

    /// The files, to be changed.
    pub fn files_mut(&mut self) -> impl Iterator<Item = &mut F> {
        let parts = match &mut self.content {
            Content::Text(_) => None,
            Content::Parts(parts) => Some(parts),
        };
        parts.into_iter().flatten().filter_map(|part| match part {
            Part::Text { .. } => None,
            Part::Image { file } | Part::Document { file } => Some(file),
        })
    }

    /// The bytes of the texts of all messages.
    #[must_use]
    pub fn length(messages: &[Self]) -> usize {
        let texts = messages.iter().flat_map(|message| message.content.texts());
        texts.map(String::len).fold(0, usize::saturating_add)
    }

    /// The approximate memory of the messages, in bytes.
    #[must_use]
    pub fn weight(messages: &[Self]) -> usize {
        let parts = messages.iter().map(|message| size_of_val(message.content.parts()));
        let parts = parts.fold(size_of_val(messages), usize::saturating_add);
        Self::length(messages).saturating_add(parts)
    }
}
