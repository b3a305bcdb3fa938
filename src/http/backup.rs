//! Backups of the store in use, and what can be restored: translate only.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body as ResponseBody;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use callboard_backup::encode;
use callboard_domain::Error;
use callboard_domain::access::{Action as PermissionWatch, Caller};
use callboard_domain::audit::{Action, Record};
use callboard_store::sled::{SledStore, Snapshot};
use callboard_wire::backup::{BackupReport, BackupStatusBody, BackupVerification};
use futures_util::{StreamExt, stream};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::extract::Asker;
use super::serve::ConnectionHandle;
use super::{Answer, App, Body, Failure, Reply};

/// Frames that wait for a slow reader.
const WAITING: usize = 4;

/// The last backup, the archive behind it, and the moments to which the two restore the server.
#[utoipa::path(
    get, path = "/api/system/backup", tag = "system",
    responses(
        (status = 200, body = BackupStatusBody),
        (status = 409, description = "the data is in PostgreSQL"),
    ),
)]
pub(super) async fn backup_status(State(app): State<Arc<App>>) -> Answer {
    let store = embedded(&app)?;
    Ok(Reply::ok(&BackupStatusBody::of(&store.protection(), app.handle.now())))
}

/// Say that a backup is complete, as `callboard backup create` does. It covers every gap of the archive before it.
#[utoipa::path(
    post, path = "/api/system/backup", tag = "system",
    responses(
        (status = 200, description = "the report is durable", body = BackupStatusBody),
        (status = 409, description = "the backup is of other data, or the data is in PostgreSQL"),
    ),
)]
pub(super) async fn report_backup(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    Body(BackupReport { id, lineage, group }): Body<BackupReport>,
) -> Answer {
    let store = of_lineage(&app, lineage)?;
    let now = app.handle.now();
    let noting = Arc::clone(&store);
    let noted = spawn_blocking(move || noting.record_backup(now.as_millis(), group)).await;
    noted
        .map_err(|_| Error::Unavailable("the server is stopping"))?
        .map_err(|error| Error::InvalidState(error.to_string()))?;
    let record = Record::new(Action::BackupCompleted, by).with("backup", id);
    app.record(record.with("group", group)).await;
    Ok(Reply::ok(&BackupStatusBody::of(&store.protection(), now)))
}

/// Say that a backup was verified, and the finding, as `callboard backup verify` does.
#[utoipa::path(
    post, path = "/api/system/backup/verification", tag = "system",
    responses(
        (status = 200, description = "the report is durable", body = BackupStatusBody),
        (status = 409, description = "the backup is of other data, or the data is in PostgreSQL"),
    ),
)]
pub(super) async fn report_verification(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    Body(verification): Body<BackupVerification>,
) -> Answer {
    let store = of_lineage(&app, verification.lineage)?;
    let now = app.handle.now();
    let note = verification.note(now);
    let record = Record::new(Action::BackupVerified, by).with("backup", &note.backup);
    let record = record.with("result", note.finding.as_str());
    let noting = Arc::clone(&store);
    let noted = spawn_blocking(move || noting.record_verification(note)).await;
    noted
        .map_err(|_| Error::Unavailable("the server is stopping"))?
        .map_err(|error| Error::InvalidState(error.to_string()))?;
    app.record(record).await;
    Ok(Reply::ok(&BackupStatusBody::of(&store.protection(), now)))
}

/// The embedded store, if a backup of this lineage is one of it.
fn of_lineage(app: &App, lineage: u32) -> Result<Arc<SledStore>, Error> {
    let store = embedded(app)?;
    let own = store.protection().lineage;
    if lineage == own {
        return Ok(store);
    }
    let says = format!(
        "the backup is of the data directory with lineage {lineage}, and this server's has {own}"
    );
    Err(Error::InvalidState(says))
}

/// The embedded store.
fn embedded(app: &App) -> Result<Arc<SledStore>, Error> {
    if app.cluster.is_some() {
        let elsewhere =
            "the data is in PostgreSQL: back it up there, with pg_dump or point-in-time recovery";
        return Err(Error::InvalidState(elsewhere.into()));
    }
    app.store.upgrade().ok_or(Error::Unavailable("the server is stopping"))
}

/// Stream the whole store, as it is at the end of the stream, for `callboard backup create`.
///
/// The format is that of the command, which must be of the same version. One backup is made at a time. The
/// stream holds every text and the hashes of passwords and keys; it holds no secret of the server.
#[utoipa::path(
    post, path = "/api/backups", tag = "system",
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>)),
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(connection): Extension<ConnectionHandle>,
    Asker(by): Asker,
) -> Result<Response, Failure> {
    let store = embedded(&app)?;
    let permit = app.streams.open(&caller)?;
    let snapshot = store.snapshot().map_err(|error| Error::InvalidState(error.to_string()))?;
    drop(store);
    app.record(Record::new(Action::BackupStarted, by)).await;
    let (sender, mut frames) = mpsc::channel(WAITING);
    spawn_blocking(move || send(snapshot, &sender));
    let mut right = app.handle.right(&caller, PermissionWatch::BackupsCreate);
    let mut ends = right.clone();
    let over = async move { drop(ends.lost().await) };
    let watch = connection.close_when(over, Duration::ZERO);
    let mut stopping = app.stopping.subscribe();
    let end = async move {
        tokio::select! {
            _ = right.lost() => {}
            _ = stopping.wait_for(|stopping| *stopping) => {}
        }
    };
    let frames = stream::poll_fn(move |context| {
        let _held = (&permit, &watch);
        frames.poll_recv(context)
    });
    let frames = frames.map(Ok::<Bytes, std::convert::Infallible>).take_until(Box::pin(end));
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, ResponseBody::from_stream(frames)).into_response())
}

/// Reads the snapshot to its end, or until the client leaves.
fn send(snapshot: Snapshot, to: &mpsc::Sender<Bytes>) {
    for piece in snapshot {
        let (frame, failed) = match &piece {
            Ok(piece) => (encode(Ok(piece)), false),
            Err(error) => (encode(Err(&error.to_string())), true),
        };
        if to.blocking_send(frame).is_err() || failed {
            return;
        }
    }
}
