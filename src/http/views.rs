//! Saved views: translate only.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use callboard_domain::access::{Action as Permission, Caller};
use callboard_domain::audit::{Action, By, Record};
use callboard_domain::id::ViewId;
use callboard_domain::view::View;
use callboard_wire::views::{ChangeView, CreateView, ListViews, ViewBody};

use super::extract::Asker;
use super::{Answer, App, Body, Id, Query, Reply};

/// Save a view: a named set of filters of a list.
#[utoipa::path(
    post, path = "/api/views", tag = "views",
    responses(
        (status = 201, description = "the view is durable", body = ViewBody),
        (status = 409, description = "there are too many"),
    ),
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Body(create): Body<CreateView>,
) -> Answer {
    let view = create.view(caller.account);
    if view.shared {
        caller.may(Permission::ViewsShare)?;
    }
    let id = app.handle.create_view(caller.environment, &view).await?;
    if view.shared {
        app.record(record(Action::ViewShared, by, id, &view)).await;
    }
    Ok(Reply::created(&ViewBody::of(id, &view)))
}

/// The caller's own views, then the shared ones, each the oldest first.
#[utoipa::path(
    get, path = "/api/views", tag = "views",
    responses((status = 200, body = [ViewBody])),
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(ListViews { of, page }): Query<ListViews>,
) -> Answer {
    let window = page.window();
    let mut views = app.handle.views(caller.environment, caller.account).await?;
    views.retain(|(_, view)| of.is_none_or(|of| of == view.page));
    let shown = views.iter().skip(window.offset).take(window.limit);
    let items: Vec<_> = shown.map(|(id, view)| ViewBody::of(*id, view)).collect();
    Ok(Reply::page(&items, views.len() as u64, window))
}

/// Rename a view, give it other filters, share it, or take it back; a shared one is changed by its maker and admins.
#[utoipa::path(
    patch, path = "/api/views/{id}", tag = "views",
    responses(
        (status = 200, description = "the change is durable", body = ViewBody),
        (status = 409, description = "there are too many"),
    ),
)]
pub(super) async fn change(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<ViewId>,
    Body(change): Body<ChangeView>,
) -> Answer {
    if change.shared == Some(true) {
        caller.may(Permission::ViewsShare)?;
    }
    let (before, view) = app.handle.change_view(&caller, id, change.into()).await?;
    if before.shared || view.shared {
        let action = if before.shared { Action::ViewChanged } else { Action::ViewShared };
        app.record(record(action, by, id, &view)).await;
    }
    Ok(Reply::ok(&ViewBody::of(id, &view)))
}

/// Delete a view; a shared one is deleted by its maker and admins.
#[utoipa::path(
    delete, path = "/api/views/{id}", tag = "views",
    responses((status = 200, description = "nobody sees it any more", body = ViewBody)),
)]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<ViewId>,
) -> Answer {
    let view = app.handle.delete_view(&caller, id).await?;
    if view.shared {
        app.record(record(Action::ViewDeleted, by, id, &view)).await;
    }
    Ok(Reply::ok(&ViewBody::of(id, &view)))
}

fn record(action: Action, by: By, id: ViewId, view: &View) -> Record {
    let record = Record::new(action, by).of(id).with("name", &view.name).with("page", view.page);
    record.with("shared", view.shared)
}
