//! The revocation of many keys, after a leak (docs/reference/accounts.md).

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use callboard_domain::access::{Account, Caller};
use callboard_wire::revocation::{RevokeKeys, RevokedKeysBody};

use super::extract::Asker;
use super::{Answer, App, Body, Reply};

/// Revoke many keys: all, those of a maker with all that they made in turn, those of a user, or old ones. The key of
/// the request stays.
#[utoipa::path(
    post, path = "/api/auth/keys/revoke", tag = "auth",
    responses(
        (status = 200, description = "they are refused from now on, or would be", body = RevokedKeysBody),
        (status = 409, description = "another number of keys matches; nothing was done"),
    ),
)]
pub(super) async fn revoke_keys(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Body(keys): Body<RevokeKeys>,
) -> Answer {
    let own = match caller.account {
        Account::Key(key) => Some(key),
        Account::User(_) => None,
    };
    let selection = keys.selection(own);
    let found = if keys.dry_run {
        app.handle.selected_keys(by.project, selection)
    } else {
        app.handle.revoke_keys(selection, keys.expect, keys.reason, by).await?
    };
    Ok(Reply::ok(&RevokedKeysBody::new(&found, own, keys.dry_run, app.handle.now())))
}
