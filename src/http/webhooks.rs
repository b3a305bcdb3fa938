//! Deliveries of webhooks and mails (docs/reference/webhooks.md): translate only.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use callboard_domain::Error;
use callboard_domain::access::Caller;
use callboard_domain::audit::{Action, Record};
use callboard_domain::id::{DeliveryId, Mode};
use callboard_domain::project::check_server;
use callboard_domain::query::Deliveries;
use callboard_wire::common::Iso;
use callboard_wire::webhooks::{
    DeliveryBody, ListDeliveries, PreviousSecretBody, RotateSecret, WebhookSecretBody,
};

use super::extract::{Asker, OptionalBody};
use super::{Answer, App, Id, Query, Reply};
use crate::outbound::webhook::{self, SecretPair, Signing};

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
pub(super) async fn secret(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
) -> Answer {
    app.record(Record::new(Action::WebhookSecretShown, by)).await;
    let signing = app.webhook_secrets.at(webhook::now());
    let project = app.handle.project_id(caller.environment);
    let of = |pair: &SecretPair| pair.of_project(project);
    let previous = signing.previous.as_ref().map(|(pair, until)| (of(pair), *until));
    let own = Signing { current: of(&signing.current), previous };
    Ok(Reply::ok(&shown(&own)).secret())
}

/// The time that the old secret signs beside the new one unless the request says otherwise.
const OVERLAP: Duration = Duration::from_hours(24);

/// Make a new secret that signs webhooks; the old one signs beside it until the overlap ends.
#[utoipa::path(
    post, path = "/api/webhooks/secret/rotate", tag = "webhooks",
    responses(
        (status = 200, description = "both secrets sign, also after a restart", body = WebhookSecretBody),
        (status = 409, description = "the secret is configured"),
    ),
)]
pub(super) async fn rotate(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    OptionalBody(rotate): OptionalBody<RotateSecret>,
) -> Answer {
    check_server(by.project, "the rotation of the secret of webhooks")?;
    let (overlap, secrets) = (rotate.overlap.unwrap_or(OVERLAP), Arc::clone(&app.webhook_secrets));
    let now = webhook::now();
    let rotated = tokio::task::spawn_blocking(move || secrets.rotate(overlap, now)).await;
    let signing = rotated.map_err(|_| Error::Internal)??;
    let record = Record::new(Action::WebhookSecretRotated, by);
    app.record(record.with("previousValidUntil", now.after(overlap))).await;
    Ok(Reply::ok(&shown(&signing)).secret())
}

fn shown(Signing { current, previous }: &Signing) -> WebhookSecretBody<'_> {
    WebhookSecretBody {
        secret: current.of_mode(Mode::Live).expose(),
        sandbox_secret: current.of_mode(Mode::Test).expose(),
        previous: previous.as_ref().map(|(pair, until)| PreviousSecretBody {
            secret: pair.of_mode(Mode::Live).expose(),
            sandbox_secret: pair.of_mode(Mode::Test).expose(),
            valid_until: Iso(*until),
        }),
    }
}
