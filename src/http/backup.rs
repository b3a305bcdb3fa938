//! Backups of the store in use: translate only.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use callboard_backup::encode;
use callboard_domain::Error;
use callboard_domain::access::{Action as PermissionWatch, Caller};
use callboard_domain::audit::{Action, Record};
use callboard_store::sled::Snapshot;
use futures_util::{StreamExt, stream};
use tokio::sync::mpsc;

use super::extract::Asker;
use super::serve::ConnectionHandle;
use super::{App, Failure};

/// Frames that wait for a slow reader.
const WAITING: usize = 4;

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
    if app.cluster.is_some() {
        let elsewhere =
            "the data is in PostgreSQL: back it up there, with pg_dump or point-in-time recovery";
        return Err(Error::InvalidState(elsewhere.into()).into());
    }
    let permit = app.streams.open(caller.account)?;
    let store = app.store.upgrade().ok_or(Error::Unavailable("the server is stopping"))?;
    let snapshot = store.snapshot().map_err(|error| Error::InvalidState(error.to_string()))?;
    drop(store);
    app.record(Record::new(Action::BackupStarted, by)).await;
    let (sender, mut frames) = mpsc::channel(WAITING);
    tokio::task::spawn_blocking(move || send(snapshot, &sender));
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
    Ok((headers, Body::from_stream(frames)).into_response())
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
