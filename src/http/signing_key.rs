//! The rotation of the key that signs access tokens.
//!
//! ```text
//! file ─▶ audit log, sessions ─▶ tokens      a crash in between leaves keys that no token has
//! ```

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use callboard_domain::Error;
use callboard_domain::audit::By;
use callboard_domain::project::check_server;
use callboard_domain::session::signing::SigningKeys;
use callboard_wire::accounts::{RotateSigningKey, SigningKeysBody};

use super::extract::{Asker, OptionalBody};
use super::{Answer, App, Reply};

/// The time that the earlier keys count unless the request says otherwise.
const OVERLAP: Duration = Duration::from_hours(24);

/// Make a new key that signs access tokens; tokens and sessions of the old one end after the overlap.
#[utoipa::path(
    post, path = "/api/auth/signing-key/rotate", tag = "auth",
    responses(
        (status = 200, body = SigningKeysBody),
        (status = 409, description = "the key is configured, or too many earlier ones count"),
    ),
)]
pub(super) async fn rotate(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    OptionalBody(rotate): OptionalBody<RotateSigningKey>,
) -> Answer {
    check_server(by.project, "the key that signs access tokens")?;
    let overlap = rotate.overlap.unwrap_or(OVERLAP);
    // The rotation goes on if the client leaves in the middle of it.
    let rotated = tokio::spawn(async move { rotated(&app, overlap, by).await });
    let keys = rotated.await.unwrap_or(Err(Error::Internal))?;
    Ok(Reply::ok(&SigningKeysBody::from(&keys)))
}

async fn rotated(app: &Arc<App>, overlap: Duration, by: By) -> Result<SigningKeys, Error> {
    let _alone = app.rotation.lock().await;
    let keys = app.tokens.keys().rotated(overlap, app.handle.now())?;
    let ids = keys.ids();
    let saved = keys.clone();
    let written = tokio::task::spawn_blocking(move || saved.save()).await;
    written.map_err(|_| Error::Internal)?.map_err(|error| {
        tracing::error!(%error, "the signing key is not rotated");
        Error::Unavailable("the signing key cannot be written")
    })?;
    app.handle.change_signing_keys(ids.clone(), by).await?;
    app.tokens.adopt(keys);
    Ok(ids)
}
