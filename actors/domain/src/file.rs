//! Files that tasks show to a model (docs/reference/files.md).
//!
//! Deliberately absent: the bytes, which the store has.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Timestamp;
use crate::digest::Digest;
use crate::id::FileId;
use crate::names::names;

/// The most files of a task.
pub const MAX_FILES: usize = 20;
/// The estimated tokens of a file: providers count a page or an image as 700 to 3,000.
pub const FILE_TOKENS: u64 = 1_500;
/// The most characters of a file's name.
pub const MAX_NAME: usize = 255;
/// The most bytes of a declared media type.
pub const MAX_MEDIA_TYPE: usize = 127;
/// The time for which a file that nothing refers to is kept.
pub const KEPT_UNUSED: Duration = Duration::from_hours(24);
/// The time for which a file of [`Purpose::Batch`] or [`Purpose::BatchOutput`] is kept if no other is given.
pub const KEPT_FOR_BATCHES: Duration = Duration::from_hours(30 * 24);
/// The media type of a file about which nothing else is known.
pub const UNKNOWN_MEDIA_TYPE: &str = "application/octet-stream";

names! {
    /// The formats that are recognised, by the bytes of a file.
    Format {
        /// An image.
        Png = "image/png",
        /// An image.
        Jpeg = "image/jpeg",
        /// An image.
        Webp = "image/webp",
        /// An image.
        Gif = "image/gif",
        /// A document.
        Pdf = "application/pdf",
        /// A document: UTF-8 without a NUL.
        Text = "text/plain",
    }
}

names! {
    /// The parts of messages that show files.
    Kind {
        /// An image.
        Image = "image",
        /// A PDF, or a text.
        Document = "document",
    }
}

names! {
    /// The purpose that a client of OpenAI's interface names; it decides the time for which a file is kept.
    #[derive(Default)]
    Purpose {
        /// Images and documents of conversations; the purpose of files for which none was named.
        #[default]
        UserData = "user_data",
        /// Requests of a batch, a line each.
        Batch = "batch",
        /// The answers to a batch. The server makes these files.
        BatchOutput = "batch_output",
        /// Images for models to look at; kept as those of [`Self::UserData`], as the following purposes are.
        Vision = "vision",
        /// Documents for assistants, which the server does not run.
        Assistants = "assistants",
        /// Examples for evaluations, which the server does not run.
        Evals = "evals",
        /// Examples to train a model with, which the server does not do.
        FineTune = "fine-tune",
    }
}

impl Purpose {
    /// True for the requests and the answers of a batch.
    #[must_use]
    pub const fn is_of_batch(self) -> bool {
        matches!(self, Self::Batch | Self::BatchOutput)
    }
}

impl Format {
    /// The part of a message that shows a file of this format.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::Png | Self::Jpeg | Self::Webp | Self::Gif => Kind::Image,
            Self::Pdf | Self::Text => Kind::Document,
        }
    }

    /// The media type of a file: that of its format, and the declared one only where the bytes do not contradict it.
    #[must_use]
    pub fn media_type(format: Option<Self>, declared: Option<&str>) -> &str {
        match format {
            Some(Self::Text) => match declared {
                Some(declared) if declared.starts_with("text/") => declared,
                Some(declared @ ("application/json" | "application/xml" | "application/yaml")) => {
                    declared
                }
                _ => Self::Text.as_str(),
            },
            Some(format) => format.as_str(),
            None => {
                let claims_another = |declared: &&str| {
                    declared.starts_with("text/")
                        || Self::ALL.iter().any(|format| format.as_str() == *declared)
                };
                declared.filter(|declared| !claims_another(declared)).unwrap_or(UNKNOWN_MEDIA_TYPE)
            }
        }
    }
}

/// A file.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct File {
    /// The identifier, whose partition is the first byte of the digest.
    pub id: FileId,
    /// The account that uploaded the file.
    pub account: String,
    /// The name, for people and providers.
    pub name: Option<String>,
    /// The media type.
    pub media_type: String,
    /// The format, if it is one of those that are recognised.
    pub format: Option<Format>,
    /// The length.
    pub bytes: u64,
    /// The digest of the bytes.
    pub digest: Digest,
    /// The purpose, if the client named one.
    pub purpose: Option<Purpose>,
    /// The instant until which the file is kept although nothing refers to it.
    pub expires_at: Option<Timestamp>,
    /// The instant from which nothing refers to the file; `None` while something may.
    pub unused_since: Option<Timestamp>,
}

impl File {
    /// True if nothing refers to the file, and the time for which it is kept without is over.
    #[must_use]
    pub fn has_expired(&self, now: Timestamp) -> bool {
        let is_over = |since| match self.expires_at {
            Some(end) => now >= end,
            None => now.since(since) >= KEPT_UNUSED,
        };
        self.unused_since.is_some_and(is_over)
    }
}

/// The longest beginning by which a format is recognised.
const HEAD: usize = 12;

/// Recognises the format of bytes that come in pieces.
#[derive(Debug, Clone)]
pub struct Recogniser {
    head: Vec<u8>,
    /// The bytes of a character that the next piece may complete; `None` once the bytes are no text.
    text: Option<Vec<u8>>,
}

impl Default for Recogniser {
    fn default() -> Self {
        Self { head: Vec::with_capacity(HEAD), text: Some(Vec::new()) }
    }
}

impl Recogniser {
    /// Takes the next piece.
    pub fn feed(&mut self, piece: &[u8]) {
        let missing = (HEAD - self.head.len()).min(piece.len());
        self.head.extend_from_slice(&piece[..missing]);
        self.text = self.text.take().and_then(|begun| text_goes_on(begun, piece));
    }

    /// The format of all bytes; `None` if it is none of those that are recognised.
    #[must_use]
    pub fn format(&self) -> Option<Format> {
        let begins = |with: &[u8]| self.head.starts_with(with);
        if begins(b"\x89PNG\r\n\x1a\n") {
            return Some(Format::Png);
        }
        if begins(b"\xff\xd8\xff") {
            return Some(Format::Jpeg);
        }
        if begins(b"RIFF") && self.head.get(8..12) == Some(b"WEBP") {
            return Some(Format::Webp);
        }
        if begins(b"GIF87a") || begins(b"GIF89a") {
            return Some(Format::Gif);
        }
        if begins(b"%PDF-") {
            return Some(Format::Pdf);
        }
        let is_text = self.text.as_ref().is_some_and(Vec::is_empty) && !self.head.is_empty();
        is_text.then_some(Format::Text)
    }
}

/// The bytes of an unfinished character at the end, if `begun` and then `piece` may be text.
fn text_goes_on(mut begun: Vec<u8>, piece: &[u8]) -> Option<Vec<u8>> {
    if piece.contains(&0) {
        return None;
    }
    let mut rest = piece;
    while !begun.is_empty() {
        let Some((next, after)) = rest.split_first() else { return Some(begun) };
        begun.push(*next);
        rest = after;
        match std::str::from_utf8(&begun) {
            Ok(_) => begun.clear(),
            Err(error) if error.error_len().is_some() => return None,
            Err(_) => {}
        }
    }
    match std::str::from_utf8(rest) {
        Ok(_) => Some(Vec::new()),
        Err(error) if error.error_len().is_some() => None,
        Err(error) => Some(rest[error.valid_up_to()..].to_vec()),
    }
}

/// The part of a file that a request asks for: offset and length in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The first byte.
    pub from: u64,
    /// The number of bytes.
    pub length: u64,
}

/// The part that a `Range` header asks for (RFC 9110, 14.2): `None` if the whole file is to be sent, as for a header that
/// is malformed or names several ranges.
///
/// # Errors
/// [`crate::Error::RangeNotSatisfiable`].
pub fn part(range: &str, bytes: u64) -> Result<Option<Part>, crate::Error> {
    let Some((first, last)) = range.strip_prefix("bytes=").and_then(|it| it.split_once('-')) else {
        return Ok(None);
    };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let beyond = crate::Error::RangeNotSatisfiable { bytes };
    match (number(first), number(last)) {
        (Some(from), _) if !last.is_empty() && number(last).is_none_or(|last| last < from) => {
            Ok(None)
        }
        (Some(from), _) if from >= bytes => Err(beyond),
        (Some(from), None) => Ok(Some(Part { from, length: bytes - from })),
        (Some(from), Some(last)) => Ok(Some(Part { from, length: last.min(bytes - 1) - from + 1 })),
        (None, Some(_)) if !first.is_empty() => Ok(None),
        (None, Some(0)) => Err(beyond),
        (None, Some(_)) if bytes == 0 => Err(beyond),
        (None, Some(suffix)) => {
            let length = suffix.min(bytes);
            Ok(Some(Part { from: bytes - length, length }))
        }
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(bytes: &[u8]) -> Option<Format> {
        let mut recogniser = Recogniser::default();
        recogniser.feed(bytes);
        recogniser.format()
    }

    #[test]
    fn a_format_is_recognised_by_the_bytes() {
        for (bytes, format) in [
            (&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], Some(Format::Png)),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", Some(Format::Jpeg)),
            (b"RIFF\x24\0\0\0WEBPVP8 ", Some(Format::Webp)),
            (b"RIFF\x24\0\0\0WAVEfmt ", None),
            (b"GIF89a\x01\0", Some(Format::Gif)),
            (b"%PDF-1.7\n\xe2\xe3", Some(Format::Pdf)),
            ("Grüße\n".as_bytes(), Some(Format::Text)),
            (b"with a \0", None),
            (b"\xff\xfe", None),
            (b"cut \xc3", None),
            (b"", None),
        ] {
            assert_eq!(of(bytes), format, "{bytes:?}");
        }
    }

    #[test]
    fn a_media_type_that_the_bytes_contradict_is_not_kept() {
        let of = Format::media_type;
        assert_eq!(of(Some(Format::Png), Some("text/html")), "image/png");
        assert_eq!(of(Some(Format::Text), Some("text/csv")), "text/csv");
        assert_eq!(of(Some(Format::Text), Some("application/json")), "application/json");
        assert_eq!(of(Some(Format::Text), Some("image/png")), "text/plain");
        assert_eq!(of(None, Some("image/png")), UNKNOWN_MEDIA_TYPE);
        assert_eq!(of(None, Some("application/zip")), "application/zip");
        assert_eq!(of(None, None), UNKNOWN_MEDIA_TYPE);
    }

    #[test]
    fn an_unused_file_goes_after_a_day_or_at_the_end_that_was_named() {
        let at = |hours: u64| Timestamp::from_millis(hours * 3_600_000);
        let file = |unused_since, expires_at| File {
            id: FileId::from_u128(1),
            account: "usr_1".into(),
            name: None,
            media_type: UNKNOWN_MEDIA_TYPE.into(),
            format: None,
            bytes: 1,
            digest: Digest::of(""),
            purpose: None,
            expires_at,
            unused_since,
        };
        let unused = file(Some(at(0)), None);
        assert!(!unused.has_expired(at(23)) && unused.has_expired(at(24)));
        let named = file(Some(at(0)), Some(at(48)));
        assert!(!named.has_expired(at(47)) && named.has_expired(at(48)));
        assert!(!file(None, Some(at(1))).has_expired(at(99)), "a task refers to it");
    }

    #[test]
    fn a_range_is_a_part_of_the_file() {
        let of = |range| part(range, 10);
        let is = |from, length| Ok(Some(Part { from, length }));
        assert_eq!(of("bytes=0-3"), is(0, 4));
        assert_eq!(of("bytes=8-99999999999999999999999"), is(8, 2));
        assert_eq!(of("bytes=4-"), is(4, 6));
        assert_eq!(of("bytes=-3"), is(7, 3));
        assert_eq!(of("bytes=-30"), is(0, 10));
        for ignored in [
            "bytes=3-1",
            "bytes=0-1,4-5",
            "lines=0-1",
            "bytes=a-",
            "bytes=-",
            "bytes=1-x",
            "bytes=x-1",
        ] {
            assert_eq!(of(ignored), Ok(None), "{ignored}");
        }
        let beyond = Err(crate::Error::RangeNotSatisfiable { bytes: 10 });
        assert_eq!(of("bytes=10-"), beyond);
        assert_eq!(of("bytes=-0"), beyond);
        assert!(part("bytes=0-", 0).is_err() && part("bytes=-1", 0).is_err());
    }

    proptest! {
        #[test]
        fn pieces_are_recognised_as_the_whole_is(
            text in "\\PC{0,40}", noise in prop::collection::vec(any::<u8>(), 0..4), cut in 0_usize..9,
        ) {
            for bytes in [text.as_bytes().to_vec(), [text.as_bytes(), &noise].concat()] {
                let mut pieces = Recogniser::default();
                bytes.chunks(cut.max(1)).for_each(|piece| pieces.feed(piece));
                prop_assert_eq!(pieces.format(), of(&bytes));
            }
        }

        #[test]
        fn no_range_leads_out_of_the_file(range in "bytes=[0-9]{0,3}-[0-9]{0,3}", bytes in 0_u64..200) {
            if let Ok(Some(Part { from, length })) = part(&range, bytes) {
                prop_assert!(length > 0 && from + length <= bytes);
            }
        }
    }
}
