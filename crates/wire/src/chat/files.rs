//! Files in the shapes of `OpenAI`'s interface.

use std::time::Duration;

use callboard_domain::file::{File, Purpose};
use callboard_domain::id::FileId;
use callboard_domain::query::{Keyset, Page};
use callboard_domain::{Error, Rule, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::parts::file_id;
use crate::common::Text;
use crate::read::rule::{self, Parse as _};
use crate::request;

/// The most files of one page.
const MAX_PAGE: usize = 1_000;
/// The shortest and the longest time for which a file may be kept, in seconds.
const KEPT: std::ops::RangeInclusive<u64> = 3_600..=2_592_000;

request! {
    /// The files to list; the newest first.
    #[derive(Debug)]
    pub struct ListOpenAiFiles as "ListOpenAiFiles" {
        /// Only files of this purpose.
        purpose: Option<Purpose> = optional("purpose", rule::one_of(&Purpose::ALL, Purpose::as_str)),
        /// The most files of the page, 1 to 10000; a page has at most 1000.
        limit: Option<usize> = optional("limit", rule::whole(1..=10_000_u16).map(usize::from)),
        /// The last file of the page before.
        after: Option<FileId> = optional("after", file_id()),
        /// The order of creation: desc (by default) or asc.
        order: Option<bool> = optional("order", rule::one_of(&[false, true], |asc| if asc { "asc" } else { "desc" })),
    }
}

impl ListOpenAiFiles {
    /// The page.
    #[must_use]
    pub fn keyset(&self) -> Keyset {
        Keyset {
            after: self.after.map(FileId::as_u128),
            ascending: self.order.unwrap_or_default(),
            limit: self.limit.unwrap_or(MAX_PAGE).min(MAX_PAGE),
        }
    }
}

/// The text parts of an upload.
#[derive(Debug, Default, Clone, Copy)]
pub struct FileTerms {
    purpose: Option<Purpose>,
    anchor: Option<()>,
    seconds: Option<u64>,
}

impl FileTerms {
    /// Takes a part.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn take(&mut self, name: &str, text: &str) -> Result<(), Error> {
        let refuse = |rule, says: &str| Err(Error::invalid(name, rule, format!("{name} {says}")));
        let text = text.trim();
        match name {
            "purpose" => match Purpose::parse(text) {
                Some(Purpose::BatchOutput) | None => {
                    return refuse(
                        Rule::Enum,
                        "must be batch, user_data, vision, assistants, evals or fine-tune",
                    );
                }
                purpose => self.purpose = purpose,
            },
            "expires_after[anchor]" if text == "created_at" => self.anchor = Some(()),
            "expires_after[anchor]" => return refuse(Rule::Enum, "must be created_at"),
            "expires_after[seconds]" => match text.parse().ok().filter(|it| KEPT.contains(it)) {
                Some(seconds) => self.seconds = Some(seconds),
                None => return refuse(Rule::Range, "must be 3600 to 2592000, in seconds"),
            },
            _ => return refuse(Rule::Unknown, "is not a part of the upload of a file"),
        }
        Ok(())
    }

    /// The purpose, and the time for which the file is kept.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a part is missing.
    pub fn finish(self) -> Result<(Purpose, Option<Duration>), Error> {
        let required = |name: &str| {
            Error::invalid(
                name,
                Rule::Required,
                format!("{name} is required, as a part of the form"),
            )
        };
        let purpose = self.purpose.ok_or_else(|| required("purpose"))?;
        match (self.anchor, self.seconds) {
            (None, None) => Ok((purpose, None)),
            (Some(()), Some(seconds)) => Ok((purpose, Some(Duration::from_secs(seconds)))),
            (None, Some(_)) => Err(required("expires_after[anchor]")),
            (Some(()), None) => Err(required("expires_after[seconds]")),
        }
    }
}

/// Seconds since 1970.
pub(super) const fn seconds(at: Timestamp) -> u64 {
    at.as_millis() / 1_000
}

/// A file.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenAiFileBody<'a> {
    /// `file_…`, as under /api/files.
    #[schema(value_type = String)]
    id: Text<FileId>,
    /// file
    object: &'static str,
    /// The length.
    bytes: u64,
    /// The end of the upload, in seconds since 1970.
    created_at: u64,
    /// The instant at which the file goes if nothing refers to it, in seconds since 1970. A file without one goes
    /// once nothing has referred to it for 24 hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
    /// The name; the id of a file without one.
    filename: String,
    /// `user_data` of a file for which none was named.
    purpose: &'a str,
    /// processed
    status: &'static str,
}

impl OpenAiFileBody<'_> {
    /// The file as the wire shows it.
    #[must_use]
    pub fn of(file: &File) -> Self {
        Self {
            id: Text(file.id),
            object: "file",
            bytes: file.bytes,
            created_at: seconds(file.id.created_at()),
            expires_at: file.expires_at.map(seconds),
            filename: file.name.clone().unwrap_or_else(|| file.id.to_string()),
            purpose: file.purpose.unwrap_or_default().as_str(),
            status: "processed",
        }
    }
}

/// A page of files.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenAiFilesBody<'a> {
    /// list
    object: &'static str,
    /// The files.
    data: Vec<OpenAiFileBody<'a>>,
    /// The first one's id; null without any.
    #[schema(value_type = serde_json::Value)]
    first_id: Option<Text<FileId>>,
    /// The last one's id, from which the next page goes on; null without any.
    #[schema(value_type = serde_json::Value)]
    last_id: Option<Text<FileId>>,
    /// True if there are more.
    has_more: bool,
}

impl OpenAiFilesBody<'_> {
    /// A page; its total is the number of files from its first one on.
    #[must_use]
    pub fn of(page: &Page<File>) -> Self {
        Self {
            object: "list",
            data: page.items.iter().map(OpenAiFileBody::of).collect(),
            first_id: page.items.first().map(|file| Text(file.id)),
            last_id: page.items.last().map(|file| Text(file.id)),
            has_more: page.total > page.items.len() as u64,
        }
    }
}

/// A file that was deleted.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenAiFileDeletedBody {
    /// `file_…`
    #[schema(value_type = String)]
    id: Text<FileId>,
    /// file
    object: &'static str,
    /// true
    deleted: bool,
}

impl OpenAiFileDeletedBody {
    /// The file of this id.
    #[must_use]
    pub const fn of(id: FileId) -> Self {
        Self { id: Text(id), object: "file", deleted: true }
    }
}
