//! The search of the texts of tasks: translate only.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use callboard_domain::access::Caller;
use callboard_wire::search::{SearchBody, SearchTexts};

use super::{Answer, App, Query, Reply};

/// Search the prompts and outputs of the last days for words, the newest tasks first; a bounded part of them at a
/// time. For a worker key that is bound to queues, those of the tasks that it holds.
#[utoipa::path(
    get, path = "/api/search", tag = "search",
    responses(
        (status = 200, body = SearchBody),
        (status = 409, description = "the search is turned off"),
    ),
)]
pub(super) async fn search(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<SearchTexts>,
) -> Answer {
    let asked = query.asked(app.handle.now(), app.search_days)?;
    let _turn = app.searches.acquire(&caller).await;
    let may_read = |task| app.may_read(&caller, task).is_ok();
    let account = caller.account.to_string();
    let found = app.handle.search(caller.environment, &account, &asked, may_read).await?;
    Ok(Reply::ok(&SearchBody::of(&found)))
}
