//! Files in the form of OpenAI's interface: those of `/api/files`, with a purpose.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{FromRequest, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use callboard_domain::access::Caller;
use callboard_domain::file::File;
use callboard_domain::id::FileId;
use callboard_domain::{Error, Rule};
use callboard_runtime::{Handle, Owner};
use callboard_wire::chat::files::{
    FileTerms, ListOpenAiFiles, OpenAiFileBody, OpenAiFileDeletedBody, OpenAiFilesBody,
};
use multer::Field;
use serde_json::json;

use crate::http::body::pieces::Pieces;
use crate::http::describe::{Input, Operation};
use crate::http::extract::Asker;
use crate::http::files::content::{self, AskedRange};
use crate::http::files::may_list;
use crate::http::files::upload::{
    FRAMING, boundary, described, next_part, next_piece, parts, write,
};
use crate::http::{Answer, App, Failure, Id, Query, Reply};

/// The most bytes of a part that is a text.
const MAX_TEXT: usize = 1_000;

/// Upload a file as OpenAI's clients do: a form with `file`, `purpose` and, if you like, `expires_after`.
#[utoipa::path(
    post, path = "/v1/files", tag = "openai",
    responses((status = 200, description = "the file is durable", body = OpenAiFileBody)),
)]
pub(in crate::http) async fn upload_file(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    form: Form,
) -> Answer {
    let file = form.run(&app.handle, &Owner::of(&caller, None)).await?;
    Ok(Reply::ok_bare(&OpenAiFileBody::of(&file)))
}

/// Files in the form of OpenAI's interface.
#[utoipa::path(
    get, path = "/v1/files", tag = "openai",
    responses((status = 200, body = OpenAiFilesBody)),
)]
pub(in crate::http) async fn list_files(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(list): Query<ListOpenAiFiles>,
) -> Answer {
    may_list(&caller)?;
    let page = app.handle.files_after(caller.environment, list.purpose, list.keyset()).await?;
    Ok(Reply::ok_bare(&OpenAiFilesBody::of(&page)))
}

/// A file in the form of OpenAI's interface.
#[utoipa::path(
    get, path = "/v1/files/{id}", tag = "openai",
    responses((status = 200, body = OpenAiFileBody)),
)]
pub(in crate::http) async fn get_file(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<FileId>,
) -> Answer {
    Ok(Reply::ok_bare(&OpenAiFileBody::of(&app.readable_file(&caller, id).await?)))
}

/// The bytes of a file, as under `/api/files`.
#[utoipa::path(
    get, path = "/v1/files/{id}/content", tag = "openai",
    responses(
        (status = 200, description = "the bytes", content_type = "*/*", body = Vec<u8>),
        (status = 206, description = "the part that was asked for", content_type = "*/*", body = Vec<u8>),
        (status = 416, description = "the range begins behind the end of the file"),
    ),
)]
pub(in crate::http) async fn get_file_content(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    range: AskedRange,
    Id(id): Id<FileId>,
) -> Result<Response, Failure> {
    let file = app.readable_file(&caller, id).await?;
    Ok(content::begin(&app.handle, caller.environment, &file, &range).await?)
}

/// Delete a file, as under `/api/files`.
#[utoipa::path(
    delete, path = "/v1/files/{id}", tag = "openai",
    responses(
        (status = 200, description = "no read shows the file any more", body = OpenAiFileDeletedBody),
        (status = 409, description = "a task that has not ended refers to it"),
    ),
)]
pub(in crate::http) async fn delete_file(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<FileId>,
) -> Answer {
    app.remove_file(&caller, by, id).await?;
    Ok(Reply::ok_bare(&OpenAiFileDeletedBody::of(id)))
}

/// The form of an upload, before its parts are read.
pub(in crate::http) struct Form {
    boundary: String,
    pieces: Pieces,
    most: u64,
}

impl FromRequest<Arc<App>> for Form {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Failure> {
        let media = request.headers().get(CONTENT_TYPE).and_then(|media| media.to_str().ok());
        let (boundary, most) = (boundary(media)?, app.file_bytes);
        let pieces = Pieces::of(request, most.saturating_add(FRAMING))?;
        Ok(Self { boundary, pieces, most })
    }
}

impl Input for Form {
    fn describe(operation: &mut Operation) {
        let text = json!({"type": "string"});
        operation.body = Some(json!({
            "required": true,
            "content": {"multipart/form-data": {"schema": {
                "type": "object",
                "required": ["file", "purpose"],
                "properties": {
                    "file": {"type": "string", "format": "binary"},
                    "purpose": text,
                    "expires_after[anchor]": text,
                    "expires_after[seconds]": text,
                },
            }}},
        }));
        operation.refusals.extend([400, 408, 413, 415]);
    }
}

impl Form {
    /// Reads the parts, in any order, and makes the file durable as it comes.
    async fn run(self, handle: &Handle, owner: &Owner) -> Result<File, Error> {
        let mut parts = parts(self.pieces, self.boundary);
        let (mut terms, mut upload) = (FileTerms::default(), None);
        while let Some(part) = next_part(&mut parts).await? {
            let name = part.name().unwrap_or_default().to_owned();
            if name != "file" {
                terms.take(&name, &text(part, &name).await?)?;
                continue;
            }
            let mut begun = handle.begin_file(owner, described(&part))?;
            if upload.is_some() {
                let says = "file is given twice: upload each file by itself";
                return Err(Error::invalid("file", Rule::Length, says));
            }
            if write(part, &mut begun, self.most).await? == 0 {
                return Err(Error::invalid("file", Rule::Length, "file is empty"));
            }
            upload = Some(begun);
        }
        let required =
            || Error::invalid("file", Rule::Required, "file is required, as a part of the form");
        let mut upload = upload.ok_or_else(required)?;
        let (purpose, kept) = terms.finish()?;
        upload.set_purpose(purpose, kept);
        upload.finish(None).await
    }
}

/// The text of a part.
async fn text(mut part: Field<'_>, name: &str) -> Result<String, Error> {
    let mut text = Vec::new();
    while let Some(piece) = next_piece(&mut part).await? {
        text.extend_from_slice(&piece);
        if text.len() > MAX_TEXT {
            let says = format!("{name} must have at most {MAX_TEXT} bytes");
            return Err(Error::invalid(name, Rule::Length, says));
        }
    }
    let broken = |_| Error::invalid(name, Rule::Format, format!("{name} must be UTF-8"));
    String::from_utf8(text).map_err(broken)
}
