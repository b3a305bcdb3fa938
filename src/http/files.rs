//! Files: images and documents for tasks (docs/reference/files.md).

pub(super) mod content;
pub(super) mod upload;

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use callboard_domain::Error;
use callboard_domain::access::{Caller, Role};
use callboard_domain::audit::{Action, By, Record};
use callboard_domain::file::File;
use callboard_domain::id::FileId;
use callboard_runtime::Owner;
use callboard_wire::files::{FileBody, ListFiles};

use super::extract::Asker;
use super::{Answer, App, Failure, Id, Query, Reply};

use content::AskedRange;
use upload::Upload;

/// Upload a file: its bytes as the body, with their Content-Type, or a multipart body with one part. The same bytes are
/// stored once. A `Digest` (`sha-256=` and base64) is compared.
#[utoipa::path(
    post, path = "/api/files", tag = "files",
    responses(
        (status = 201, description = "the file is durable", body = FileBody),
        (status = 400, description = "the body breaks off, is empty, or is not what its Digest announces; nothing is kept"),
        (status = 413, description = "the file is larger than [limits] file_bytes"),
    ),
)]
pub(super) async fn upload(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    upload: Upload,
) -> Answer {
    let file = upload.run(&app.handle, &Owner::of(&caller, None)).await?;
    Ok(Reply::created(&FileBody::of(&file)))
}

/// Files, the newest first.
#[utoipa::path(
    get, path = "/api/files", tag = "files",
    responses((status = 200, body = [FileBody])),
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(ListFiles { page }): Query<ListFiles>,
) -> Answer {
    may_list(&caller)?;
    let window = page.window();
    let page = app.handle.files(caller.environment, window).await?;
    let items: Vec<_> = page.items.iter().map(FileBody::of).collect();
    Ok(Reply::page(&items, page.total, window))
}

/// A file, without its bytes.
#[utoipa::path(
    get, path = "/api/files/{id}", tag = "files",
    responses((status = 200, body = FileBody)),
)]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<FileId>,
) -> Answer {
    Ok(Reply::ok(&FileBody::of(&app.readable_file(&caller, id).await?)))
}

/// The bytes of a file, or the part that a `Range` header asks for.
#[utoipa::path(
    get, path = "/api/files/{id}/content", tag = "files",
    responses(
        (status = 200, description = "the bytes", content_type = "*/*", body = Vec<u8>),
        (status = 206, description = "the part that was asked for", content_type = "*/*", body = Vec<u8>),
        (status = 416, description = "the range begins behind the end of the file"),
    ),
)]
pub(super) async fn content(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    range: AskedRange,
    Id(id): Id<FileId>,
) -> Result<Response, Failure> {
    let file = app.readable_file(&caller, id).await?;
    Ok(content::begin(&app.handle, caller.environment, &file, &range).await?)
}

/// Delete a file.
#[utoipa::path(
    delete, path = "/api/files/{id}", tag = "files",
    responses(
        (status = 200, description = "no read shows the file any more", body = FileBody),
        (status = 409, description = "a task that has not ended refers to it"),
    ),
)]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<FileId>,
) -> Answer {
    Ok(Reply::ok(&FileBody::of(&app.remove_file(&caller, by, id).await?)))
}

/// Passes unless the caller is a key that is bound to queues.
///
/// # Errors
/// [`Error::Forbidden`].
pub(super) fn may_list(caller: &Caller) -> Result<(), Error> {
    if caller.is_bound() {
        let says =
            "a key that is bound to queues lists no files: it reads those of tasks that it holds";
        return Err(Error::Forbidden(says.into()));
    }
    Ok(())
}

impl App {
    /// Deletes a file, and writes that to the audit log.
    pub(super) async fn remove_file(
        &self,
        caller: &Caller,
        by: By,
        id: FileId,
    ) -> Result<File, Error> {
        let file = self.handle.delete_file(caller.environment, id).await?;
        self.record(Record::new(Action::FileDeleted, by).of(id).with("bytes", file.bytes)).await;
        Ok(file)
    }

    /// A file that the caller may read: a key that is bound to queues reads those of tasks that it holds, a reviewer
    /// those that led to outputs under review.
    pub(super) async fn readable_file(&self, caller: &Caller, id: FileId) -> Result<File, Error> {
        let environment = caller.environment;
        let may = if caller.is_bound() {
            let held = self.handle.held_by(environment, &caller.account.to_string());
            self.handle.is_file_of(environment, id, held).await?
        } else if caller.role == Role::Reviewer {
            self.handle.is_file_reviewed(environment, id).await?
        } else {
            true
        };
        if !may {
            return Err(Error::not_found("file", id));
        }
        self.handle.file(environment, id).await
    }
}
