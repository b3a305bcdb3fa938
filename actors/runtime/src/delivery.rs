//! A delivery's actor: it alone sends, and writes down what became of it.
//!
//! Spawned by its shard's supervisor when the delivery is due; stops when the attempt is over, be it
//! for good or until the next. What a mail says is read at that moment: the reviewer's address as it
//! is now, and whether the item still waits for this reviewer. Deliberately absent: when to try
//! again, which is [`callboard_domain::delivery`]'s, and SMTP, which is the edge's.

use std::sync::Arc;

use callboard_domain::approval::Mail;
use callboard_domain::delivery::{Cargo, Delivery, Effect, Event, Refusal, State as DeliveryState};
use callboard_domain::id::{DeliveryId, Environment};
use callboard_domain::machine::Machine;
use callboard_domain::retry::Jitter;
use callboard_domain::unit::{self, Change};
use callboard_store::Error;
use ractor::ActorProcessingErr;

use crate::item::{Done, Held, Item, ItemKind};
use crate::node::Node;
use crate::ports::{Letter, NotSent};
use crate::supervisor::Reason;
use crate::tables::{LIVE_DELIVERIES, approvals};
use crate::{durable, timers};

/// A delivery's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address {
    /// Production or sandbox.
    pub(crate) environment: Environment,
    /// The delivery.
    pub(crate) delivery: DeliveryId,
}

/// What a delivery is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// An instant passed that it had asked for, or it was made just now.
    TimePassed,
}

/// Deliveries, for their supervisor.
pub(crate) type DeliveryKind = ItemKind<DeliveryItem>;

/// A delivery in the memory of its actor; `None` if it is over.
#[derive(Default)]
pub(crate) struct DeliveryItem(Option<Delivery>);

impl Item for DeliveryItem {
    const NAME: &'static str = "delivery";
    type Address = Address;
    type Message = Message;

    fn new(_: &Arc<Node>, _: &Address) -> Self {
        Self::default()
    }

    async fn start(held: &mut Held<Self>, reason: Reason) -> Done {
        let Address { environment, delivery } = held.address;
        let store = &*held.node.shard(delivery.partition()).store;
        held.item.0 = LIVE_DELIVERIES.get(store, environment.number(), &delivery.as_u128()).await?;
        match reason {
            Reason::Woken => Ok(()),
            Reason::Restarted => held.time_passed().await,
            Reason::GivenUp => {
                let message = "internal error: the delivery's actor failed repeatedly".into();
                held.conclude(Event::Failed { permanent: true, message, jitter: Jitter(0) }).await
            }
        }
    }

    async fn handle(held: &mut Held<Self>, Message::TimePassed: Message) -> Done {
        held.time_passed().await
    }

    fn is_idle(&self) -> bool {
        true
    }
}

impl Held<DeliveryItem> {
    /// Makes the attempt that is due, if one is.
    async fn time_passed(&mut self) -> Done {
        match self.take(Event::TimePassed).await? {
            Ok(effects) => {
                if effects.contains(&Effect::Send) {
                    let event = self.attempt().await?;
                    self.conclude(event).await?;
                }
            }
            // The clock went back after the timer had fired: ask for the instant again.
            Err(Refusal::NotDue) => {
                for effect in self.item.0.iter().flat_map(Machine::outstanding) {
                    perform(&self.node, self.address, effect);
                }
            }
            Err(Refusal::Finished) => {}
        }
        Ok(())
    }

    /// Takes a step; returns its effects. `Ok(Err(_))` is a refusal.
    async fn take(
        &mut self,
        event: Event,
    ) -> Result<Result<Vec<Effect>, Refusal>, ActorProcessingErr> {
        let Address { environment, delivery } = self.address;
        let Some(current) = &self.item.0 else { return Ok(Err(Refusal::Finished)) };
        let unit = match unit::of_delivery(current, event, self.node.now()) {
            Ok(unit) => unit,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let unit = durable::commit(&self.node, environment, delivery.partition(), unit).await?;
        let mut effects = Vec::new();
        for change in unit.changes {
            if let Change::Delivery(step) = change {
                self.item.0 = Some(step.next);
                effects = step.effects;
            }
        }
        Ok(Ok(effects))
    }

    async fn attempt(&self) -> Result<Event, Error> {
        let Some(delivery) = &self.item.0 else { return Ok(Event::NotNeeded) };
        let Cargo::Mail(mail) = delivery.cargo;
        let Some(letter) = letter(&self.node, self.address.environment, &mail).await? else {
            return Ok(Event::NotNeeded);
        };
        let sent = match &self.node.ports.mailer {
            Some(mailer) => mailer.send(letter).await,
            // It was configured when the mail was ordered, and may be so again.
            None => Err(NotSent {
                permanent: false,
                message: "no server for mail is configured".into(),
            }),
        };
        Ok(match sent {
            Ok(()) => Event::Sent,
            Err(NotSent { permanent, message }) => {
                let jitter = Jitter((self.node.ports.entropy.bits() & 0xffff) as u16);
                Event::Failed { permanent, message, jitter }
            }
        })
    }

    /// Records the result of an attempt.
    async fn conclude(&mut self, event: Event) -> Done {
        if let (Ok(_), Some(delivery)) = (self.take(event).await?, &self.item.0) {
            tell(delivery);
        }
        Ok(())
    }
}

/// Performs an effect that needs no actor. Also used at a start.
pub(crate) fn perform(node: &Node, address: Address, effect: Effect) {
    let shard = node.shard(address.delivery.partition());
    let key = timers::TimerKey::Delivery(address);
    match effect {
        Effect::Begin => shard.deliveries.send(address, Message::TimePassed),
        Effect::WakeAt(at) => shard.timers(timers::Message::Set(key, at)),
        Effect::ForgetWake => shard.timers(timers::Message::Forget(key)),
        // Only the delivery's actor can send.
        Effect::Send => {}
    }
}

/// What a mail says as things stand; `None` if there is nothing to say any more.
async fn letter(
    node: &Node,
    environment: Environment,
    mail: &Mail,
) -> Result<Option<Letter>, Error> {
    let Some(user) = node.accounts.user(mail.to) else { return Ok(None) };
    let Some(approval) = approvals::approval(node.store(), environment, mail.task).await? else {
        return Ok(None);
    };
    if approval.is_finished() || approval.assignee != Some(mail.to) {
        return Ok(None);
    }
    let (origin, opening) = (&approval.task.origin, &approval.opening);
    Ok(Some(Letter {
        delivery: mail.id,
        to: user.email,
        name: user.name,
        task: mail.task,
        step: origin.step.clone(),
        template: origin.template.clone(),
        why: opening.why,
        confidence: opening.confidence,
        threshold: opening.threshold,
        since: opening.since,
        expires_at: opening.expires_at,
        cause: mail.cause,
    }))
}

/// Tells the operator how an attempt went.
fn tell(delivery: &Delivery) {
    let (id, task, attempts) = (delivery.cargo.id(), delivery.cargo.task(), delivery.attempts);
    let error = delivery.last_error.as_deref().unwrap_or_default();
    match delivery.state {
        DeliveryState::Delivered { .. } => tracing::info!(delivery = %id, %task, "a mail was sent"),
        DeliveryState::Dropped { .. } => {
            tracing::info!(delivery = %id, %task, "a mail was not needed any more");
        }
        DeliveryState::Pending { next_attempt_at } => {
            tracing::warn!(delivery = %id, %task, attempts, next = %next_attempt_at, error,
                "a mail could not be sent yet");
        }
        DeliveryState::Dead { .. } => {
            tracing::error!(delivery = %id, %task, attempts, error, "a mail could not be sent");
        }
    }
}
