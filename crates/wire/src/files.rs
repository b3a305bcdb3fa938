//! Files on the wire (docs/reference/files.md).

use callboard_domain::file::{File, MAX_FILES, MAX_NAME};
use callboard_domain::id::FileId;
use callboard_domain::{Error, Rule};
use serde::Serialize;
use serde_json::json;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::common::{Iso, Paging, Text};
use super::read::rule::{self, Parse};
use super::read::shape;
use crate::request;

request! {
    /// A file to be uploaded.
    #[derive(Debug, Clone)]
    pub struct UploadFile as "UploadFile" {
        /// The name, for people and models; by default that of the part of a multipart body.
        name: Option<String> = optional("name", file_name()),
    }
}

request! {
    /// The files to list; the newest first.
    #[derive(Debug)]
    pub struct ListFiles as "ListFiles" {
        /// The page.
        page: Paging = flat(shape::<Paging>()),
    }
}

fn file_name() -> impl Parse<String> {
    rule::text(rule::characters(1..=MAX_NAME)).only(
        |name: &String| is_name(name),
        Rule::Format,
        "must have no control characters",
    )
}

/// `files` of a task: identifiers.
pub(super) fn file_ids() -> impl Parse<Vec<FileId>> {
    let is_id = |text: &String| text.parse::<FileId>().is_ok();
    let id = rule::text(rule::characters(1..=64))
        .only(is_id, Rule::Format, "must be the id of a file: file_…")
        .with(|| json!({"pattern": "^file_[0-9a-hjkmnp-tv-z]{26}$"}));
    rule::list(0..=MAX_FILES, id)
        .then(|ids| ids.iter().map(|id| id.parse().map_err(|_| Error::Internal)).collect())
}

/// `files` of a step, which the domain checks.
pub(super) fn file_texts() -> impl Parse<Vec<String>> {
    let limit = || json!({"maxItems": MAX_FILES});
    rule::list(0..=usize::MAX, rule::text(rule::bytes(0..=usize::MAX))).with(limit)
}

/// True if a file may have this name.
#[must_use]
pub fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.chars().count()) && !name.chars().any(char::is_control)
}

/// A file, without its bytes.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = File)]
pub struct FileBody<'a> {
    /// `file_…`
    #[schema(value_type = String)]
    id: Text<FileId>,
    /// The name, for people and models.
    name: Option<&'a str>,
    /// The media type: by the bytes where the server knows the format, else as it was declared.
    content_type: &'a str,
    /// The part that messages show the file as: image or document; absent from a file that no model is shown.
    kind: Option<&'static str>,
    /// The length.
    bytes: u64,
    /// The SHA-256 of the bytes, in hexadecimal.
    sha256: String,
    /// The account that uploaded the file.
    created_by: &'a str,
    /// The end of the upload.
    created_at: Iso,
}

impl<'a> FileBody<'a> {
    /// The file as the wire shows it.
    #[must_use]
    pub fn of(file: &'a File) -> Self {
        Self {
            id: Text(file.id),
            name: file.name.as_deref(),
            content_type: &file.media_type,
            kind: file.format.map(|format| format.kind().as_str()),
            bytes: file.bytes,
            sha256: file.digest.to_string(),
            created_by: &file.account,
            created_at: Iso(file.id.created_at()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_no_control_characters() {
        assert!(is_name("Röntgen 1.png"));
        assert!(!is_name("a\nb") && !is_name("") && !is_name(&"x".repeat(256)));
    }
}
