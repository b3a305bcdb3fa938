//! Deliveries of webhooks and mails (docs/reference/webhooks.md): translate only.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use callboard_domain::access::Caller;
use callboard_domain::audit::{Action, Record};
use callboard_domain::id::{DeliveryId, Environment};
use callboard_domain::query::Deliveries;
use callboard_wire::webhooks::{DeliveryBody, ListDeliveries, WebhookSecretBody};

use super::extract::Asker;
use super::{Answer, App, Id, Query, Reply};

/// Webhooks and mails that were or will be sent, the newest first.
#[utoipa::path(
    get, path = "/api/webhooks/deliveries", tag = "webhooks",
    responses((status = 200, body = [DeliveryBody])),
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(list): Query<ListDeliveries>,
) -> Answer {
    let query = Deliveries::from(list);
    let page = app.handle.deliveries(caller.environment, &query).await?;
    let items: Vec<_> = page.items.iter().map(DeliveryBody::of).collect();
    Ok(Reply::page(&items, page.total, query.window))
}

/// Send a webhook or a mail again, under the same identifier; one that waits for its next attempt is
/// sent at once.
#[utoipa::path(
    post, path = "/api/webhooks/deliveries/{id}/redeliver", tag = "webhooks",
    responses(
        (status = 200, description = "it is pending", body = DeliveryBody),
        (status = 409, description = "it is being sent already"),
    ),
)]
pub(super) async fn redeliver(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<DeliveryId>,
) -> Answer {
    let delivery = app.handle.redeliver(caller.environment, id).await?;
    app.record(Record::new(Action::DeliveryRepeated, by).of(id)).await;
    Ok(Reply::ok(&DeliveryBody::of(&delivery)))
}

/// The secrets that sign webhooks: of production, and of the sandbox.
#[utoipa::path(
    get, path = "/api/webhooks/secret", tag = "webhooks",
    responses((status = 200, body = WebhookSecretBody)),
)]
pub(super) async fn secret(State(app): State<Arc<App>>, Asker(by): Asker) -> Answer {
    app.record(Record::new(Action::WebhookSecretShown, by)).await;
    let of = |environment| app.webhook_secrets.in_environment(environment).expose();
    let (secret, sandbox_secret) = (of(Environment::Live), of(Environment::Test));
    Ok(Reply::ok(&WebhookSecretBody { secret, sandbox_secret }).secret())
}
