//! The one restart strategy: start by address, restart with bounded intensity and backoff.
//!
//! ractor reports a failure to the direct supervisor only, and its default is to stop the supervisor
//! and with it all siblings. Here a child that broke is started again from the store; a child that
//! breaks too often is started a last time to give up on its item, and the rest goes on.

use std::collections::HashMap;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::time::Instant;

use crate::kernel::address::Address;
use crate::kernel::directory::{Directory, Mail};

/// The most restarts within [`WITHIN`] that are borne.
pub(crate) const MAX_RESTARTS: usize = 3;
/// The time in which restarts are counted.
pub(crate) const WITHIN: Duration = Duration::from_mins(1);
/// The wait before the first restart; doubled for each further one.
pub(crate) const FIRST_WAIT: Duration = Duration::from_millis(20);

/// A kind of supervised actor.
pub(crate) trait Kind: Send + Sync + 'static {
    /// The key that identifies an actor of the kind.
    type Address: Address;
    type Message: ractor::Message;
    type Actor: Actor<Msg = Mail<Self::Address, Self::Message>, Arguments = ChildSpec<Self>>;
    /// The kind's name in logs.
    const NAME: &'static str;

    /// A fresh actor.
    fn actor(&self) -> Self::Actor;
}

pub(crate) type DirectoryOf<K> = Directory<<K as Kind>::Address, <K as Kind>::Message>;

/// The arguments of a child.
pub(crate) struct ChildSpec<K: Kind + ?Sized> {
    /// The child's address.
    pub address: K::Address,
    /// The reason of the start.
    pub reason: Reason,
    /// The directory that lists the child, for it to retire.
    pub directory: Arc<DirectoryOf<K>>,
}

impl<K: Kind> Debug for ChildSpec<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?} ({:?})", K::NAME, self.address, self.reason)
    }
}

/// The reason why a child is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A message was sent to the child.
    Woken,
    /// The child broke: it performs its outstanding effects.
    Restarted,
    /// The child broke too often: it gives up on its item and stops.
    GivenUp,
}

/// The supervisor of all children of a kind.
#[derive(Debug)]
pub(crate) struct Supervisor<K>(PhantomData<fn() -> K>);

impl<K> Default for Supervisor<K> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

#[derive(Debug)]
pub(crate) enum SupervisorMessage<A> {
    /// Start the child at this address.
    Start(A),
    /// Start the child again.
    Restart(A, Reason),
}

/// The state of a supervisor: its kind, its directory, and the restarts of its children.
pub(crate) struct State<K: Kind> {
    kind: K,
    directory: Arc<DirectoryOf<K>>,
    restarts: HashMap<K::Address, Vec<Instant>>,
}

impl<K: Kind> State<K> {
    async fn start(&mut self, address: K::Address, reason: Reason, supervisor: ActorCell) {
        let directory = Arc::clone(&self.directory);
        let birth = ChildSpec { address: address.clone(), reason, directory };
        match Actor::spawn_linked(None, self.kind.actor(), birth, supervisor).await {
            Ok((actor, _)) => self.directory.started(&address, actor),
            Err(error) => {
                tracing::error!(kind = K::NAME, ?address, %error, "an actor could not be started");
                self.directory.forget(&address);
            }
        }
    }

    fn broken(
        &mut self,
        who: &ActorCell,
        why: &ActorProcessingErr,
        myself: &ActorRef<SupervisorMessage<K::Address>>,
    ) {
        let Some(address) = self.directory.address_of(who.get_id()) else {
            return;
        };
        let now = Instant::now();
        let restarts = self.restarts.entry(address.clone()).or_default();
        restarts.retain(|at| now - *at < WITHIN);
        restarts.push(now);
        let count = restarts.len();
        tracing::error!(kind = K::NAME, ?address, error = %why, restarts = count, "an actor broke");
        if count > MAX_RESTARTS + 1 {
            tracing::error!(kind = K::NAME, ?address, "an actor could not even give up");
            self.directory.forget(&address);
            return;
        }
        self.directory.broken(&address);
        let reason = if count > MAX_RESTARTS { Reason::GivenUp } else { Reason::Restarted };
        let wait = FIRST_WAIT * 2_u32.pow(u32::try_from(count - 1).unwrap_or(0));
        myself.send_after(wait, move || SupervisorMessage::Restart(address, reason));
    }

    fn forget_old_misfortunes(&mut self) {
        if self.restarts.len() > 1000 {
            let now = Instant::now();
            self.restarts.retain(|_, all| all.iter().any(|at| now - *at < WITHIN));
        }
    }
}

impl<K: Kind> Actor for Supervisor<K> {
    type Msg = SupervisorMessage<K::Address>;
    type State = State<K>;
    type Arguments = (K, Arc<DirectoryOf<K>>);

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        (kind, directory): Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        directory.on_start(move |address| {
            // The send fails only when the system is stopping, and then no child is started any more.
            let _ = myself.cast(SupervisorMessage::Start(address));
        });
        Ok(State { kind, directory, restarts: HashMap::new() })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SupervisorMessage::Start(address) => {
                state.start(address, Reason::Woken, myself.get_cell()).await;
            }
            SupervisorMessage::Restart(address, reason) => {
                state.start(address, reason, myself.get_cell()).await;
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        // A child that stops has retired before.
        if let SupervisionEvent::ActorFailed(who, why) = event {
            state.broken(&who, &why, &myself);
            state.forget_old_misfortunes();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::Reason::{GivenUp, Restarted, Woken};
    use super::*;

    /// Reports the reason of its start, and breaks at every message unless it has given up.
    struct Faulty(mpsc::UnboundedSender<Reason>);

    impl Kind for Faulty {
        type Address = u8;
        type Message = ();
        type Actor = FaultyActor;
        const NAME: &'static str = "clumsy";

        fn actor(&self) -> FaultyActor {
            FaultyActor(self.0.clone())
        }
    }

    struct FaultyActor(mpsc::UnboundedSender<Reason>);

    impl Actor for FaultyActor {
        type Msg = Mail<u8, ()>;
        type State = ChildSpec<Faulty>;
        type Arguments = ChildSpec<Faulty>;

        async fn pre_start(
            &self,
            _: ActorRef<Self::Msg>,
            birth: ChildSpec<Faulty>,
        ) -> Result<ChildSpec<Faulty>, ActorProcessingErr> {
            Ok(birth)
        }

        async fn post_start(
            &self,
            myself: ActorRef<Self::Msg>,
            birth: &mut ChildSpec<Faulty>,
        ) -> Result<(), ActorProcessingErr> {
            self.0.send(birth.reason).expect("the test listens");
            match birth.reason {
                Woken => Ok(()),
                Restarted => panic!("it breaks again"),
                GivenUp => {
                    assert!(birth.directory.retire(&birth.address, 0, &myself));
                    Ok(())
                }
            }
        }

        async fn handle(
            &self,
            _: ActorRef<Self::Msg>,
            _: Self::Msg,
            _: &mut ChildSpec<Faulty>,
        ) -> Result<(), ActorProcessingErr> {
            Err("it breaks".into())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_breaks_too_often_is_started_a_last_time_to_give_up_and_the_rest_goes_on() {
        let (sender, mut started) = mpsc::unbounded_channel();
        let directory = Arc::<DirectoryOf<Faulty>>::default();
        let arguments = (Faulty(sender), Arc::clone(&directory));
        let (supervisor, _) =
            Actor::spawn(None, Supervisor::default(), arguments).await.expect("it starts");
        directory.send(1, ());
        let mut reasons = Vec::new();
        for _ in 0..5 {
            reasons.push(started.recv().await.expect("it is started"));
        }
        assert_eq!(reasons, [Woken, Restarted, Restarted, Restarted, GivenUp]);
        while directory.awake() > 0 {
            tokio::task::yield_now().await;
        }
        // Another one is none the worse for it.
        directory.send(2, ());
        assert_eq!(started.recv().await, Some(Woken));
        supervisor.stop(None);
    }

    /// Reports each message with its own address; retires after each message.
    struct Pooled(mpsc::UnboundedSender<(u8, &'static str)>);

    #[derive(Debug)]
    enum PooledMessage {
        Work,
        Break,
    }

    impl Kind for Pooled {
        type Address = u8;
        type Message = PooledMessage;
        type Actor = PooledActor;
        const NAME: &'static str = "willing";

        fn actor(&self) -> PooledActor {
            PooledActor(self.0.clone())
        }
    }

    struct PooledActor(mpsc::UnboundedSender<(u8, &'static str)>);

    impl Actor for PooledActor {
        type Msg = Mail<u8, PooledMessage>;
        type State = ChildSpec<Pooled>;
        type Arguments = ChildSpec<Pooled>;

        async fn pre_start(
            &self,
            _: ActorRef<Self::Msg>,
            birth: ChildSpec<Pooled>,
        ) -> Result<ChildSpec<Pooled>, ActorProcessingErr> {
            let what = if birth.reason == Woken { "starts" } else { "starts again" };
            self.0.send((birth.address, what)).expect("the test listens");
            Ok(birth)
        }

        async fn handle(
            &self,
            myself: ActorRef<Self::Msg>,
            mail: Self::Msg,
            birth: &mut ChildSpec<Pooled>,
        ) -> Result<(), ActorProcessingErr> {
            let say = |address, what| self.0.send((address, what)).expect("the test listens");
            let message = match mail {
                Mail::Rebound(address, message) => {
                    birth.address = address;
                    say(address, "becomes");
                    message
                }
                Mail::Sent(message) | Mail::Own(message) => message,
            };
            match message {
                PooledMessage::Work => {
                    // Only the last message before it rests lets it retire.
                    let retires = birth.directory.retire(&birth.address, 1, &myself);
                    say(birth.address, if retires { "worked" } else { "works" });
                }
                PooledMessage::Break => return Err("it breaks".into()),
            }
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_spare_becomes_the_actor_of_another_address_and_breaks_as_that() {
        let (sender, mut heard) = mpsc::unbounded_channel();
        let directory = Arc::new(DirectoryOf::<Pooled>::with_pool(1));
        let arguments = (Pooled(sender), Arc::clone(&directory));
        let (supervisor, _) =
            Actor::spawn(None, Supervisor::default(), arguments).await.expect("it starts");
        let mut hear = async || heard.recv().await.expect("something happens");
        directory.send(1, PooledMessage::Work);
        assert_eq!([hear().await, hear().await], [(1, "starts"), (1, "worked")]);
        directory.send(2, PooledMessage::Work);
        assert_eq!([hear().await, hear().await], [(2, "becomes"), (2, "worked")]);
        // There is one in the pool, and it breaks as the actor of the third.
        directory.send(3, PooledMessage::Break);
        directory.send(4, PooledMessage::Work);
        assert_eq!(hear().await, (3, "becomes"));
        assert_eq!([hear().await, hear().await], [(4, "starts"), (4, "worked")]);
        assert_eq!(hear().await, (3, "starts again"));
        directory.send(3, PooledMessage::Work);
        assert_eq!(hear().await, (3, "worked"));
        assert_eq!(directory.awake(), 0);
        supervisor.stop(None);
    }
}
