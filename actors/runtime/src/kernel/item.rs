//! The actor of an item: one generic implementation for every kind.
//!
//! ```text
//!   message ─▶ directory ─▶ awake? ──▶ handle ─▶ idle? ─▶ retire: the item is a row again
//!                             └ no: spawn, load from the store
//! ```

use std::fmt::{self, Debug};
use std::marker::PhantomData;
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::kernel::address::Address;
use crate::kernel::directory::{Directory, Mail, Myself};
use crate::kernel::supervisor::{ChildSpec, Kind, Reason};

/// The result of a handler; an error breaks the actor, which its supervisor starts again.
pub(crate) type Done = Result<(), ActorProcessingErr>;

/// One kind of item: the state that its actor holds, and its behaviour.
pub(crate) trait Item: Sized + Send + 'static {
    /// The name in logs.
    const NAME: &'static str;
    /// The key that identifies an item.
    type Address: Address;
    type Message: ractor::Message;
    /// The state that the actors of the kind share.
    type Shared: Send + Sync + 'static;

    /// The state before anything is read.
    fn new(node: &Arc<Self::Shared>, address: &Self::Address) -> Self;

    /// Reads the item; after a break also performs the outstanding effects, or gives the item up.
    fn start(held: &mut Activation<Self>, reason: Reason) -> impl Future<Output = Done> + Send;

    fn handle(
        held: &mut Activation<Self>,
        message: Self::Message,
    ) -> impl Future<Output = Done> + Send;

    /// True if nothing keeps the item in memory.
    fn is_idle(&self) -> bool;

    /// Retires the actor if the item is idle.
    fn rest(held: &mut Activation<Self>) {
        if held.item.is_idle() {
            held.retire();
        }
    }

    /// Forgets the item: the actor may go to the pool.
    fn retired(&mut self) {}

    /// The actor breaks: the one that is started again takes over from here what it must hold without a gap.
    fn broke(_: &mut Activation<Self>) {}
}

/// An item in the memory of its actor.
pub(crate) struct Activation<I: Item> {
    /// The shared state of the node.
    pub(crate) node: Arc<I::Shared>,
    /// The item's address.
    pub(crate) address: I::Address,
    pub(crate) item: I,
    /// The actor itself.
    pub(crate) myself: Myself<I::Address, I::Message>,
    /// The number of messages of the directory that were handled.
    pub(crate) handled: u64,
    directory: Arc<Directory<I::Address, I::Message>>,
    retired: bool,
}

impl<I: Item> Activation<I> {
    /// True if the actor has left the directory: its address may be another actor's.
    pub(crate) const fn is_retired(&self) -> bool {
        self.retired
    }

    /// Retires the actor unless messages wait for it.
    pub(crate) fn retire(&mut self) -> bool {
        if !self.retired && self.directory.retire(&self.address, self.handled, &self.myself.0) {
            self.retired = true;
            self.item.retired();
        }
        self.retired
    }
}

/// A kind of item, for its supervisor.
pub(crate) struct ItemKind<I: Item>(Arc<I::Shared>, PhantomData<fn() -> I>);

impl<I: Item> ItemKind<I> {
    pub(crate) const fn new(node: Arc<I::Shared>) -> Self {
        Self(node, PhantomData)
    }
}

impl<I: Item> Kind for ItemKind<I> {
    type Address = I::Address;
    type Message = I::Message;
    type Actor = ItemActor<I>;
    const NAME: &'static str = I::NAME;

    fn actor(&self) -> ItemActor<I> {
        ItemActor(Arc::clone(&self.0), PhantomData)
    }
}

pub(crate) struct ItemActor<I: Item>(Arc<I::Shared>, PhantomData<fn() -> I>);

impl<I: Item> Debug for ItemActor<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(I::NAME)
    }
}

impl<I: Item> Actor for ItemActor<I> {
    type Msg = Mail<I::Address, I::Message>;
    type State = (Activation<I>, Reason);
    type Arguments = ChildSpec<ItemKind<I>>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        ChildSpec { address, reason, directory }: ChildSpec<ItemKind<I>>,
    ) -> Result<Self::State, ActorProcessingErr> {
        let (node, item) = (Arc::clone(&self.0), I::new(&self.0, &address));
        let myself = Myself(myself);
        Ok((
            Activation { node, address, item, myself, handled: 0, directory, retired: false },
            reason,
        ))
    }

    async fn post_start(&self, _: ActorRef<Self::Msg>, state: &mut Self::State) -> Done {
        let (held, reason) = state;
        I::start(held, *reason).await?;
        if *reason != Reason::Woken {
            I::rest(held);
        }
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        mail: Self::Msg,
        (held, _): &mut Self::State,
    ) -> Done {
        let message = match mail {
            Mail::Sent(message) => {
                held.handled += 1;
                message
            }
            Mail::Rebound(address, message) => {
                (held.address, held.handled, held.retired) = (address, 0, false);
                I::start(held, Reason::Woken).await?;
                held.handled = 1;
                message
            }
            Mail::Own(message) => message,
        };
        I::handle(held, message).await.inspect_err(|_| I::broke(held))?;
        I::rest(held);
        Ok(())
    }
}
