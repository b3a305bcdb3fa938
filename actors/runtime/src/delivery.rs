//! A delivery's actor: it alone sends, and writes down what became of it.
//!
//! Spawned by its shard's supervisor when the delivery is due; stops when the attempt is over, be it
//! for good or until the next. What a mail says is read at that moment: the reviewer's address as it
//! is now, and whether the item still waits for this reviewer. Deliberately absent: when to try
//! again, which is [`callboard_domain::delivery`]'s, and SMTP, which is the edge's.

use std::sync::Arc;

use callboard_domain::approval::Mail;
use callboard_domain::delivery::{Cargo, Delivery, Effect, Event, Refusal, State as Life};
use callboard_domain::id::{DeliveryId, Environment};
use callboard_domain::machine::Machine;
use callboard_domain::retry::Jitter;
use callboard_store::Error;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::durable::{Durable, Unchanged};
use crate::node::Node;
use crate::ports::{Letter, NotSent};
use crate::shard::Shard;
use crate::supervisor::{Birth, Kind, Reason};
use crate::tables::{LIVE_DELIVERIES, approvals};
use crate::timers;

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
#[derive(Debug)]
pub(crate) struct DeliveryKind(pub(crate) Arc<Node>);

impl Kind for DeliveryKind {
    type Address = Address;
    type Actor = DeliveryActor;
    const NAME: &'static str = "delivery";

    fn actor(&self) -> DeliveryActor {
        DeliveryActor(Arc::clone(&self.0))
    }
}

/// The actor.
#[derive(Debug)]
pub(crate) struct DeliveryActor(Arc<Node>);

/// What the actor remembers.
pub(crate) struct State {
    birth: Birth<DeliveryKind>,
    /// `None` until it is loaded, or if it is over.
    delivery: Option<Durable<Delivery>>,
    handled: u64,
}

type Done = Result<(), ActorProcessingErr>;

/// Sends a mail on its way whose rows have just become durable.
pub(crate) fn begin(node: &Node, environment: Environment, mail: &Mail) {
    let address = Address { environment, delivery: mail.id };
    node.shard(mail.id.partition()).deliveries.send(address, Message::TimePassed);
}

impl DeliveryActor {
    fn shard(&self, state: &State) -> &Shard {
        self.0.shard(state.birth.address.delivery.partition())
    }

    async fn load(&self, state: &mut State) -> Done {
        let Address { environment, delivery } = state.birth.address;
        let store = &*self.shard(state).store;
        let found = LIVE_DELIVERIES.get(store, environment.number(), &delivery.as_u128()).await?;
        state.delivery = found.map(|found| Durable::loaded(environment, found));
        Ok(())
    }

    /// That an attempt was begun need not be durable: after a crash it is made again.
    async fn time_passed(&self, state: &mut State) -> Done {
        let (shard, now) = (self.0.shard(state.birth.address.delivery.partition()), self.0.now());
        let Some(delivery) = &mut state.delivery else { return Ok(()) };
        match delivery.take_ahead(shard, Event::TimePassed, now) {
            Ok(effects) => self.act(state, effects).await,
            // The clock went back after the timer had fired: ask for the instant again.
            Err(Refusal::NotDue) => {
                let effects = delivery.state().outstanding();
                self.act(state, effects).await
            }
            Err(Refusal::Finished) => Ok(()),
        }
    }

    async fn act(&self, state: &mut State, effects: Vec<Effect>) -> Done {
        for effect in effects {
            match effect {
                Effect::Send => {
                    let Some(delivery) = &state.delivery else { return Ok(()) };
                    let cargo = delivery.state().cargo;
                    let event = self.attempt(state.birth.address.environment, cargo).await?;
                    self.conclude(state, event).await?;
                }
                Effect::WakeAt(_) | Effect::ForgetWake => {
                    perform(&self.0, state.birth.address, effect);
                }
            }
        }
        Ok(())
    }

    async fn attempt(&self, environment: Environment, cargo: Cargo) -> Result<Event, Error> {
        let Cargo::Mail(mail) = cargo;
        let Some(letter) = letter(&self.0, environment, &mail).await? else {
            return Ok(Event::NotNeeded);
        };
        let sent = match &self.0.ports.mailer {
            Some(mailer) => mailer.send(letter).await,
            // It was there when the mail was made, and may be so again.
            None => Err(NotSent {
                permanent: false,
                message: "no server for mail is configured".into(),
            }),
        };
        Ok(match sent {
            Ok(()) => Event::Sent,
            Err(NotSent { permanent, message }) => {
                Event::Failed { permanent, message, jitter: self.jitter() }
            }
        })
    }

    /// Writes down what became of an attempt.
    async fn conclude(&self, state: &mut State, event: Event) -> Done {
        let shard = self.0.shard(state.birth.address.delivery.partition());
        let Some(delivery) = &mut state.delivery else { return Ok(()) };
        let effects = match delivery.take(shard, event, self.0.now(), ()).await {
            Ok(effects) => effects,
            Err(Unchanged::Refused(Refusal::NotDue | Refusal::Finished)) => return Ok(()),
            Err(Unchanged::Broken(error)) => return Err(error.into()),
        };
        tell(delivery.state());
        for effect in effects {
            perform(&self.0, state.birth.address, effect);
        }
        Ok(())
    }

    fn jitter(&self) -> Jitter {
        Jitter((self.0.ports.entropy.bits() & 0xffff) as u16)
    }

    fn rest(myself: &ActorRef<Message>, state: &State) {
        state.birth.directory.retire(&state.birth.address, state.handled, myself);
    }
}

/// Performs an effect that needs no actor: also for passive deliveries, at a start.
pub(crate) fn perform(node: &Node, address: Address, effect: Effect) {
    let timers = node.shard(address.delivery.partition());
    let sleeper = timers::Sleeper::Delivery(address);
    match effect {
        Effect::WakeAt(at) => timers.timers(timers::Message::Set(sleeper, at)),
        Effect::ForgetWake => timers.timers(timers::Message::Forget(sleeper)),
        // Only an awake one can send.
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
        Life::Delivered { .. } => tracing::info!(delivery = %id, %task, "a mail was sent"),
        Life::Dropped { .. } => {
            tracing::info!(delivery = %id, %task, "a mail was not needed any more");
        }
        Life::Pending { next_attempt_at } => {
            tracing::warn!(delivery = %id, %task, attempts, next = %next_attempt_at, error,
                "a mail could not be sent yet");
        }
        Life::Dead { .. } => {
            tracing::error!(delivery = %id, %task, attempts, error, "a mail could not be sent");
        }
    }
}

impl Actor for DeliveryActor {
    type Msg = Message;
    type State = State;
    type Arguments = Birth<DeliveryKind>;

    async fn pre_start(
        &self,
        _: ActorRef<Message>,
        birth: Birth<DeliveryKind>,
    ) -> Result<State, ActorProcessingErr> {
        Ok(State { birth, delivery: None, handled: 0 })
    }

    async fn post_start(&self, myself: ActorRef<Message>, state: &mut State) -> Done {
        self.load(state).await?;
        match state.birth.reason {
            Reason::Woken => return Ok(()),
            Reason::Restarted => self.time_passed(state).await?,
            Reason::GivenUp => {
                let message = "the service broke over it".into();
                let event = Event::Failed { permanent: true, message, jitter: Jitter(0) };
                self.conclude(state, event).await?;
            }
        }
        Self::rest(&myself, state);
        Ok(())
    }

    async fn handle(&self, myself: ActorRef<Message>, message: Message, state: &mut State) -> Done {
        state.handled += 1;
        match message {
            Message::TimePassed => self.time_passed(state).await?,
        }
        Self::rest(&myself, state);
        Ok(())
    }
}
