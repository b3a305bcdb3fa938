//! The upload of a file: the body is read in pieces, and each is handed on as it comes.

use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use callboard_domain::digest::Digest;
use callboard_domain::file::{File, MAX_MEDIA_TYPE};
use callboard_domain::{Error, Rule};
use callboard_runtime::handle::{FileUpload, NewFile};
use callboard_runtime::{Handle, Owner};
use callboard_wire::files::{UploadFile, is_name};
use callboard_wire::read;
use futures_util::stream;
use multer::{Field, Multipart};
use serde_json::json;

use crate::http::body::pieces::Pieces;
use crate::http::describe::{Input, Operation};
use crate::http::{App, Failure};

const MULTIPART: &str = "multipart/form-data";
/// The bytes that the boundaries and the headers of a multipart body may take.
pub(in crate::http) const FRAMING: u64 = 8 << 10;
const DIGESTS: [HeaderName; 2] =
    [HeaderName::from_static("digest"), HeaderName::from_static("content-digest")];

/// The upload of a file, before its body is read.
pub(in crate::http) struct Upload {
    name: Option<String>,
    digest: Option<Digest>,
    most: u64,
    pieces: Pieces,
    kind: Kind,
}

enum Kind {
    /// The body is the file, with this media type.
    Raw(Option<String>),
    /// The body has parts, with this boundary.
    Multipart(String),
}

impl FromRequest<Arc<App>> for Upload {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Failure> {
        let UploadFile { name } = read::query::parse(request.uri().query().unwrap_or_default())?;
        let headers = request.headers();
        if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
            return Err(Error::UnsupportedMediaType("that of the file, not encoded").into());
        }
        let digest = digest(headers)?;
        let media = headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok());
        let (most, kind) = match media {
            Some(media) if essence(media) == MULTIPART => {
                (app.file_bytes.saturating_add(FRAMING), Kind::Multipart(boundary(Some(media))?))
            }
            media => (app.file_bytes, Kind::Raw(media.and_then(declared))),
        };
        let pieces = Pieces::of(request, most)?;
        Ok(Self { name, digest, most: app.file_bytes, pieces, kind })
    }
}

impl Input for Upload {
    fn describe(operation: &mut Operation) {
        let parameters = operation.components.parameters::<UploadFile>();
        operation.parameters.extend(parameters);
        let text = "`sha-256=` and the SHA-256 of the file in base64, which is compared";
        operation.header("Digest", text, &json!({"type": "string"}));
        let part = json!({"type": "string", "format": "binary"});
        operation.body = Some(json!({
            "required": true,
            "content": {
                "application/octet-stream": {"schema": part},
                "multipart/form-data": {"schema": {
                    "type": "object", "properties": {"file": part}, "required": ["file"],
                }},
            },
        }));
        operation.refusals.extend([400, 408, 413, 415]);
    }
}

fn digest(headers: &HeaderMap) -> Result<Option<Digest>, Error> {
    for name in DIGESTS {
        let text = headers.get(&name).and_then(|value| value.to_str().ok());
        if let Some(digest) = text.map(announced).transpose()?.flatten() {
            return Ok(Some(digest));
        }
    }
    Ok(None)
}

/// The SHA-256 that a `Digest` header (`sha-256=BASE64`) or a `Content-Digest` header (`sha-256=:BASE64:`) announces;
/// other algorithms are passed over.
fn announced(header: &str) -> Result<Option<Digest>, Error> {
    for digest in header.split(',') {
        let Some((algorithm, value)) = digest.trim().split_once('=') else { continue };
        if !algorithm.eq_ignore_ascii_case("sha-256") {
            continue;
        }
        let value = value.strip_prefix(':').and_then(|it| it.strip_suffix(':')).unwrap_or(value);
        let bytes = STANDARD.decode(value).ok().and_then(|bytes| bytes.try_into().ok());
        let malformed = || {
            let says = "Digest must be sha-256= and the 32 bytes of the digest in base64";
            Error::invalid("Digest", Rule::Format, says)
        };
        return bytes.map(|bytes| Some(Digest::from_bytes(bytes))).ok_or_else(malformed);
    }
    Ok(None)
}

/// The boundary of a multipart body, by its Content-Type.
pub(in crate::http) fn boundary(media: Option<&str>) -> Result<String, Error> {
    let boundary = media.and_then(|media| multer::parse_boundary(media).ok());
    boundary.ok_or(Error::UnsupportedMediaType("multipart/form-data with a boundary"))
}

/// The type and the subtype, in lower case.
fn essence(media: &str) -> String {
    media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The media type that is kept; none for that of forms, which programs send without being asked to.
fn declared(media: &str) -> Option<String> {
    let essence = essence(media);
    let is_kept = essence.len() <= MAX_MEDIA_TYPE
        && essence.contains('/')
        && essence.bytes().all(|byte| byte.is_ascii_graphic())
        && essence != "application/x-www-form-urlencoded";
    is_kept.then_some(essence)
}

impl Upload {
    /// Reads the body, and makes it durable as it comes.
    pub(super) async fn run(self, handle: &Handle, owner: &Owner) -> Result<File, Error> {
        let Self { name, digest, most, mut pieces, kind } = self;
        match kind {
            Kind::Raw(media_type) => {
                let new = NewFile { name, media_type, ..NewFile::default() };
                let mut upload = handle.begin_file(owner, new)?;
                while let Some(piece) = pieces.next(0).await? {
                    upload.write(&piece).await?;
                }
                upload.finish(digest).await
            }
            Kind::Multipart(boundary) => {
                let mut parts = parts(pieces, boundary);
                let part = next_part(&mut parts).await?.ok_or_else(no_part)?;
                let new = NewFile { name: name.or_else(|| name_of(&part)), ..described(&part) };
                let mut upload = handle.begin_file(owner, new)?;
                write(part, &mut upload, most).await?;
                if next_part(&mut parts).await?.is_some() {
                    let says = "the body has several parts: upload each file by itself";
                    return Err(Error::invalid("body", Rule::Length, says));
                }
                upload.finish(digest).await
            }
        }
    }
}

/// The parts of a multipart body.
pub(in crate::http) fn parts(pieces: Pieces, boundary: String) -> Multipart<'static> {
    let body = stream::unfold(pieces, async |mut pieces| {
        Some((pieces.next(0).await.transpose()?, pieces))
    });
    Multipart::new(body, boundary)
}

/// The file that a part is.
pub(in crate::http) fn described(part: &Field<'_>) -> NewFile {
    let media_type = part.content_type().and_then(|media| declared(media.as_ref()));
    NewFile { name: name_of(part), media_type, ..NewFile::default() }
}

/// Writes the bytes of a part to an upload; returns their number.
pub(in crate::http) async fn write(
    mut part: Field<'_>,
    upload: &mut FileUpload,
    most: u64,
) -> Result<u64, Error> {
    let mut read = 0;
    while let Some(piece) = next_piece(&mut part).await? {
        read += piece.len() as u64;
        if read > most {
            let limit = usize::try_from(most).unwrap_or(usize::MAX);
            return Err(Error::PayloadTooLarge { limit });
        }
        upload.write(&piece).await?;
    }
    Ok(read)
}

pub(in crate::http) async fn next_part<'p>(
    parts: &mut Multipart<'p>,
) -> Result<Option<Field<'p>>, Error> {
    parts.next_field().await.map_err(broken)
}

pub(in crate::http) async fn next_piece(part: &mut Field<'_>) -> Result<Option<Bytes>, Error> {
    part.chunk().await.map_err(broken)
}

/// The name of the part's file, without the folders that some browsers put before it.
fn name_of(part: &Field<'_>) -> Option<String> {
    let name = part.file_name()?.rsplit(['/', '\\']).next()?;
    is_name(name).then(|| name.to_owned())
}

fn no_part() -> Error {
    Error::invalid("body", Rule::Required, "the body has no part: it must have one, with the file")
}

/// The refusal of a multipart body: that of its bytes, or of their form.
fn broken(error: multer::Error) -> Error {
    if let multer::Error::StreamReadFailed(cause) = error {
        return cause.downcast::<Error>().map_or(Error::Internal, |error| *error);
    }
    Error::invalid("body", Rule::Format, format!("the multipart body is malformed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_in_both_notations_and_a_malformed_one_refused() {
        let empty = Digest::of("");
        let base64 = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
        assert_eq!(announced(&format!("SHA-256={base64}")), Ok(Some(empty)));
        assert_eq!(announced(&format!("md5=xx, sha-256=:{base64}:")), Ok(Some(empty)));
        assert_eq!(announced("unixsum=30637"), Ok(None));
        assert!(announced("sha-256=4f").is_err());
    }

    #[test]
    fn a_media_type_is_kept_without_its_parameters_unless_it_says_nothing() {
        assert_eq!(declared("Text/CSV; charset=utf-8").as_deref(), Some("text/csv"));
        assert_eq!(declared("application/x-www-form-urlencoded"), None);
        assert_eq!(declared("nonsense"), None);
    }
}
