//! The content of a message: a text, or parts with texts, images and documents.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use callboard_domain::Error;
use callboard_domain::Rule;
use callboard_domain::file::{Kind, MAX_FILES};
use callboard_domain::id::FileId;
use callboard_domain::task::{Content, Part};
use serde_json::{Value, json};

use super::fixed::nulls_are_absent;
use crate::files::is_name;
use crate::read::rule::{self, Parse};
use crate::read::{Components, Field, Fields, Refused};
use crate::request;

/// A file of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GivenFile {
    /// Bytes in the request.
    Bytes {
        /// The name.
        name: Option<String>,
        /// The declared media type.
        media_type: Option<String>,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// An uploaded file.
    Kept(FileId),
}

impl GivenFile {
    /// The kind of the part that shows it, if `type` was `file`.
    fn kind(&self) -> Kind {
        match self {
            Self::Bytes { media_type: Some(of), .. } if of.starts_with("image/") => Kind::Image,
            Self::Bytes { .. } | Self::Kept(_) => Kind::Document,
        }
    }
}

/// The content of a message.
#[derive(Default, PartialEq, Eq)]
pub struct MessageContent(Vec<Part<GivenFile>>);

/// The content is left out, because it must not reach a log.
impl fmt::Debug for MessageContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageContent").finish_non_exhaustive()
    }
}

impl MessageContent {
    /// The texts as one, and the files.
    pub(super) fn apart(self) -> (String, Vec<GivenFile>) {
        let (mut text, mut files) = (String::new(), Vec::new());
        for part in self.0 {
            match part {
                Part::Text { text: more } if text.is_empty() => text = more,
                Part::Text { text: more } => text.push_str(&more),
                Part::Image { file } | Part::Document { file } => files.push(file),
            }
        }
        (text, files)
    }

    /// The content of an earlier turn, with a place for each of the files.
    pub(super) fn in_turn(self) -> (Content<String>, Vec<GivenFile>) {
        if self.0.iter().all(|part| part.file().is_none()) {
            let (text, files) = self.apart();
            return (text.into(), files);
        }
        let mut files = Vec::new();
        let mut place = |file| {
            files.push(file);
            String::new()
        };
        let parts = self.0.into_iter().map(|part| match part {
            Part::Text { text } => Part::Text { text },
            Part::Image { file } => Part::Image { file: place(file) },
            Part::Document { file } => Part::Document { file: place(file) },
        });
        (Content::Parts(parts.collect()), files)
    }
}

/// A text, or parts.
pub(super) struct TextOrParts;

impl Parse<MessageContent> for TextOrParts {
    fn parse(&self, field: Field<'_>) -> Result<MessageContent, Refused> {
        if !field.value.is_array() {
            let text = rule::text(rule::bytes(0..=usize::MAX)).parse(field)?;
            return Ok(MessageContent(vec![Part::Text { text }]));
        }
        let mut content = Vec::new();
        for ContentPart { text, image_url, file, .. } in parts().parse(field)? {
            content.extend(text.map(|text| Part::Text { text }));
            content.extend(image_url.map(|it| Part::Image { file: it.url.into_file(None) }));
            let file = file.and_then(FilePart::into_file);
            content.extend(file.map(|file| Part::of(file.kind(), file)));
        }
        Ok(MessageContent(content))
    }

    fn schema(&self, components: &mut Components) -> Value {
        json!({"oneOf": [{"type": "string"}, parts().schema(components)]})
    }
}

fn parts() -> impl Parse<Vec<ContentPart>> {
    let fits = |parts: &Vec<ContentPart>| {
        let files = parts.iter().filter(|part| part.image_url.is_some() || part.file.is_some());
        files.count() <= MAX_FILES
    };
    let list = rule::list(1..=usize::MAX, rule::object::<ContentPart>());
    list.only(fits, Rule::Length, "must have at most 20 images and files")
}

request! {
    /// A part of a message.
    #[derive(Debug, Default)]
    pub struct ContentPart as "ChatContentPart" {
        /// The kind: text, `image_url` or file.
        kind: &'static str = required("type", kind()),
        /// The text.
        text: Option<String> = optional("text", rule::text(rule::bytes(0..=usize::MAX))),
        /// The image.
        image_url: Option<ImageUrl> = optional("image_url", rule::object::<ImageUrl>()),
        /// The document.
        file: Option<FilePart> = optional("file", rule::object::<FilePart>()),
        /// A mark for a provider's cache, which Callboard sets by itself.
        cache_control: () = or_default("cache_control", rule::any().map(drop)),
    }
    check part_fits
}

request! {
    /// An image of a message.
    #[derive(Debug, Default)]
    pub struct ImageUrl as "ChatImageUrl" {
        /// The image as a data URL; remote addresses are not fetched.
        url: DataUrl = required("url", image()),
        /// The resolution, which is left to the provider.
        detail: Option<String> = optional("detail", rule::text(rule::characters(1..=16))),
    }
    check nulls_are_absent
}

request! {
    /// A document of a message.
    #[derive(Debug, Default)]
    pub struct FilePart as "ChatFile" {
        /// The bytes, as a data URL or in base64.
        file_data: Option<DataUrl> = optional("file_data", bytes()),
        /// The name.
        filename: Option<String> = optional("filename", name()),
        /// An uploaded file, in place of the bytes.
        file_id: Option<FileId> = optional("file_id", file_id()),
    }
    check file_fits
}

/// The bytes of a data URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DataUrl {
    media_type: Option<String>,
    bytes: Vec<u8>,
}

impl DataUrl {
    fn into_file(self, name: Option<String>) -> GivenFile {
        GivenFile::Bytes { name, media_type: self.media_type, bytes: self.bytes }
    }

    /// Reads `data:TYPE;base64,…`.
    fn parse(url: &str) -> Option<Self> {
        let (head, base64) = url.strip_prefix("data:")?.split_once(',')?;
        let media_type = head.strip_suffix(";base64")?;
        let media_type = media_type.split(';').next().filter(|it| !it.is_empty());
        let bytes = STANDARD.decode(base64).ok().filter(|bytes| !bytes.is_empty())?;
        Some(Self { media_type: media_type.map(str::to_ascii_lowercase), bytes })
    }

    /// Reads a data URL, or base64 alone.
    fn parse_bare(text: &str) -> Option<Self> {
        if text.starts_with("data:") {
            return Self::parse(text);
        }
        let bytes = STANDARD.decode(text).ok().filter(|bytes| !bytes.is_empty())?;
        Some(Self { media_type: None, bytes })
    }
}

impl FilePart {
    fn into_file(self) -> Option<GivenFile> {
        let Self { file_data, filename, file_id } = self;
        file_id.map(GivenFile::Kept).or_else(|| file_data.map(|data| data.into_file(filename)))
    }
}

fn kind() -> impl Parse<&'static str> {
    const KINDS: &[&str] = &["text", "image_url", "file", "input_audio", "refusal"];
    rule::one_of(KINDS, |kind| kind).only(
        |kind| !["input_audio", "refusal"].contains(kind),
        Rule::Unknown,
        "must be text, image_url or file: no other content is supported",
    )
}

fn image() -> impl Parse<DataUrl> {
    rule::text(rule::bytes(1..=usize::MAX))
        .only(
            |url| url.starts_with("data:"),
            Rule::Unknown,
            "must be a data URL, data:image/png;base64,…: a remote address is not fetched",
        )
        .only(
            |url| DataUrl::parse(url).is_some(),
            Rule::Format,
            "must be a data URL in base64, data:image/png;base64,…",
        )
        .then(|url| DataUrl::parse(&url).ok_or(Error::Internal))
}

fn bytes() -> impl Parse<DataUrl> {
    rule::text(rule::bytes(1..=usize::MAX))
        .only(
            |text| DataUrl::parse_bare(text).is_some(),
            Rule::Format,
            "must be a data URL in base64, data:application/pdf;base64,…",
        )
        .then(|text| DataUrl::parse_bare(&text).ok_or(Error::Internal))
}

fn name() -> impl Parse<String> {
    rule::text(rule::bytes(1..=usize::MAX)).only(
        |name| is_name(name),
        Rule::Format,
        "must have at most 255 characters, and no control characters",
    )
}

pub(super) fn file_id() -> impl Parse<FileId> {
    rule::text(rule::characters(1..=64))
        .only(
            |text| text.parse::<FileId>().is_ok(),
            Rule::Format,
            "must be the id of an uploaded file: file_…",
        )
        .then(|text| text.parse().map_err(|_| Error::Internal))
}

fn part_fits(part: ContentPart, fields: &mut Fields<'_>) -> Result<ContentPart, Refused> {
    let part = nulls_are_absent(part, fields)?;
    let ContentPart { kind, text, image_url, file, .. } = &part;
    let members =
        [("text", text.is_some()), ("image_url", image_url.is_some()), ("file", file.is_some())];
    for (name, is_given) in members {
        if is_given != (*kind == name) {
            let (rule, says) = if is_given {
                (Rule::Unknown, format!("is not a member of a part of the type {kind}"))
            } else if *kind == name {
                (Rule::Required, format!("is required in a part of the type {kind}"))
            } else {
                continue;
            };
            return Err(fields.refuse(name, rule, says));
        }
    }
    Ok(part)
}

fn file_fits(part: FilePart, fields: &mut Fields<'_>) -> Result<FilePart, Refused> {
    let part = nulls_are_absent(part, fields)?;
    match (&part.file_data, part.file_id) {
        (None, None) => {
            Err(fields.refuse("file_data", Rule::Required, "is required, or file_id in its place"))
        }
        (Some(_), Some(_)) => {
            Err(fields.refuse("file_id", Rule::Unknown, "must be left out beside file_data"))
        }
        (Some(_), None) | (None, Some(_)) => Ok(part),
    }
}
