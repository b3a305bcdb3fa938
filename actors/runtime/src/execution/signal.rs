//! A client's signal on its way into a unit of its execution.
//!
//! Deliberately absent: the effect of a signal, which [`callboard_domain::execution::signal`] says.

use callboard_domain::Error;
use callboard_domain::execution::program::Outputs;
use callboard_domain::execution::signal::Sent;
use callboard_domain::execution::{Refusal, Signal, SignalKey};
use callboard_domain::id::SignalId;
use callboard_domain::unit::Joint;
use tokio::sync::oneshot;

use super::refused;
use crate::sources::NodeSources;

/// A signal, and the client who waits for the answer.
#[derive(Debug)]
pub(crate) struct Sending {
    /// The signal's name.
    pub(crate) name: String,
    /// The payload, as the text that prompts get.
    pub(crate) payload: String,
    /// The digests of the idempotency key.
    pub(crate) key: Option<SignalKey>,
    /// True if the signal takes the place of a kept one.
    pub(crate) replace: bool,
    /// The channel for the answer: true if the signal is a replay.
    pub(crate) reply: oneshot::Sender<Result<bool, Error>>,
}

/// A signal that is answered once its unit is durable.
#[derive(Debug)]
pub(crate) struct Accepted {
    reply: oneshot::Sender<Result<bool, Error>>,
    replayed: bool,
}

impl Sending {
    /// Answers that nothing was changed.
    pub(super) fn refuse(self, error: Error) {
        // The client may have left.
        let _ = self.reply.send(Err(error));
    }

    /// Adds the signal to the unit. `None` if the signal is refused: then the client has its answer.
    pub(super) fn add_to(
        self,
        joint: &mut Joint<'_>,
        outputs: &mut Outputs,
        sources: &mut NodeSources<'_>,
    ) -> Option<Accepted> {
        let Self { name, payload, key, replace, reply } = self;
        let (now, steps) = (joint.now(), joint.waits_for(&name));
        let signal = Signal { id: SignalId::from_u128(sources.fresh(now)), at: now, key };
        let replayed = match joint.signalled(Sent { steps, signal, replace }, payload, outputs) {
            Ok(()) => false,
            // The first one may be part of this unit, which is not durable yet.
            Err(Refusal::SignalReplayed) => true,
            Err(refusal) => {
                let error = if refusal == Refusal::SignalKeyReused {
                    Error::IdempotencyKeyReused
                } else {
                    refused(joint.state(), refusal)
                };
                let _ = reply.send(Err(error));
                return None;
            }
        };
        Some(Accepted { reply, replayed })
    }
}

impl Accepted {
    /// Tells the client, who may have left.
    pub(super) fn answer(self) {
        let _ = self.reply.send(Ok(self.replayed));
    }
}
