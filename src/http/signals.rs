//! Signals to executions: translate only.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use callboard_domain::access::Caller;
use callboard_domain::id::ExecutionId;
use callboard_runtime::handle::SendSignal;
use callboard_wire::executions::ExecutionBody;
use callboard_wire::signals::SignalRequest;

use super::extract::{Inner, OptionalBody};
use super::idempotency::{self, IdempotencyKey};
use super::{Answer, App, Id, Reply};

/// Send a signal to an execution: the step that waits for it goes on, with the payload as its output; a
/// signal that comes before its wait is kept.
#[utoipa::path(
    post, path = "/api/plans/executions/{id}/signals/{name}", tag = "executions",
    responses(
        (status = 200, description = "the signal is durable", body = ExecutionBody),
        (status = 409, description = "there is a signal of this name, or nothing waits for it any more"),
    ),
)]
pub(super) async fn send(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<ExecutionId>,
    Inner(name): Inner,
    IdempotencyKey(key): IdempotencyKey,
    OptionalBody(body): OptionalBody<SignalRequest>,
) -> Answer {
    let SignalRequest { payload, replace } = body;
    let (payload, replace) = (payload.unwrap_or_default(), replace.unwrap_or_default());
    let signal = SendSignal { name, payload, replace, key };
    let by = caller.account.to_string();
    let (execution, replayed) = app.handle.signal(caller.environment, id, &by, signal).await?;
    let reply = Reply::ok(&ExecutionBody::summary(&execution));
    Ok(idempotency::replayed_if(reply, replayed))
}
