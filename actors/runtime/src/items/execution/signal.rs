//! A client's signal on its way into a unit of its execution.

use callboard_domain::execution::Signal;
use callboard_domain::execution::program::Outputs;
use callboard_domain::execution::signal::Sent;
use callboard_domain::id::{Environment, SignalId};
use callboard_domain::unit::UnitBuilder;
use callboard_domain::{Error, Timestamp};
use callboard_store::{Error as StoreError, Op, Store};
use tokio::sync::oneshot;

use super::{Address, refused};
use crate::commit::sources::NodeSources;
use crate::items::submission::Key;
use crate::messages::execution::Sending;
use crate::tables::{IDEMPOTENCY, IdempotencyRow};

/// A signal that is answered once its unit is durable.
#[derive(Debug)]
pub(crate) struct Accepted {
    reply: oneshot::Sender<Result<bool, Error>>,
    /// The idempotency key, if the signal is new.
    key: Option<Key>,
    replayed: bool,
}

impl Sending {
    /// Answers that nothing was changed.
    pub(super) fn refuse(self, error: Error) {
        // The client may have left.
        let _ = self.reply.send(Err(error));
    }

    /// Adds the signal to the unit, unless its key was used before; a client whose signal is refused has its answer.
    pub(super) async fn take(
        self,
        (store, address): (&dyn Store, Address),
        (builder, outputs, sources): (&mut UnitBuilder<'_>, &mut Outputs, &mut NodeSources<'_>),
        (signals, records): (&mut Vec<Accepted>, &mut Vec<Op>),
    ) -> Result<(), StoreError> {
        let accepted = match self.or_replayed(store, address.environment, signals).await? {
            Ok(fresh) => fresh.add_to(builder, outputs, sources),
            Err(replayed) => replayed,
        };
        records.extend(accepted.as_ref().and_then(|it| it.row(address, builder.now())));
        signals.extend(accepted);
        Ok(())
    }

    /// The earlier use of the signal's key, which may be part of this unit, as `accepted` says; else the signal.
    /// `None` if the key was used for another signal: then the client has its answer.
    async fn or_replayed(
        self,
        store: &dyn Store,
        environment: Environment,
        accepted: &[Accepted],
    ) -> Result<Result<Self, Option<Accepted>>, StoreError> {
        let Some(key) = &self.key else { return Ok(Ok(self)) };
        let own = accepted.iter().filter_map(|accepted| accepted.key.as_ref());
        let body = if let Some(used) = own.rev().find(|used| used.scope == key.scope) {
            Some(used.body.clone())
        } else {
            let row = IDEMPOTENCY.get(store, environment.number(), &key.scope).await?;
            row.map(|row| row.body)
        };
        Ok(match body {
            None => Ok(self),
            Some(body) if body == key.body => {
                Err(Some(Accepted { reply: self.reply, key: None, replayed: true }))
            }
            Some(_) => {
                self.refuse(Error::IdempotencyKeyReused);
                Err(None)
            }
        })
    }

    /// Adds the signal to the unit. `None` if the signal is refused: then the client has its answer.
    fn add_to(
        self,
        builder: &mut UnitBuilder<'_>,
        outputs: &mut Outputs,
        sources: &mut NodeSources<'_>,
    ) -> Option<Accepted> {
        let Self { name, payload, key, replace, reply } = self;
        let (now, steps) = (builder.now(), builder.waits_for(&name));
        let signal = Signal { id: SignalId::from_u128(sources.fresh(now)), at: now };
        if let Err(refusal) = builder.signalled(Sent { steps, signal, replace }, payload, outputs) {
            let _ = reply.send(Err(refused(builder.state(), refusal)));
            return None;
        }
        Some(Accepted { reply, key, replayed: false })
    }
}

impl Accepted {
    /// The row that remembers the key.
    fn row(&self, address: Address, at: Timestamp) -> Option<Op> {
        let Key { scope, body, .. } = self.key.as_ref()?;
        let (tasks, execution) = (Vec::new(), Some(address.execution));
        let row = IdempotencyRow { body: body.clone(), salted_by: None, at, tasks, execution };
        Some(IDEMPOTENCY.put(address.environment.number(), scope, &row, None))
    }

    /// Tells the client, who may have left.
    pub(super) fn answer(self) {
        let _ = self.reply.send(Ok(self.replayed));
    }
}
