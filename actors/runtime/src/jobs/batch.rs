//! A batch's actor: it alone changes its batch, and starts the rows.
//!
//! ```text
//!   a row ends or is held ─▶ a place is free ─▶ the next row, in one commit: its execution, and the row's state
//! ```
//!
//! The executions of a batch live in its partition, and the identifier of each follows from the batch and the row,
//! so a row and its execution are durable together or not at all. The actor stays while the batch runs; otherwise
//! a batch is rows. The counts of executions come from their list. Deliberately absent: everything below a row.

mod commands;
mod erase;
mod same;
mod start;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::access::Action;
use callboard_domain::batch::{Batch, RowState, Status};
use callboard_domain::event::EventName;
use callboard_domain::id::{Environment, TemplateBatchId};
use callboard_store::{Op, Outcome};
use ractor::ActorProcessingErr;
use tokio::sync::oneshot;

use crate::commit::durable;
use crate::items::accounts::caller_of;
pub(crate) use crate::kernel::address::BatchAddress as Address;
use crate::kernel::item::{Activation, Done, Item};
use crate::kernel::supervisor::Reason;
pub(crate) use crate::messages::batch::{Message, Reply, Retry};
use crate::node::Node;
use crate::node::catalog::Known;
use crate::read::batches::{self as read, Keys};
use crate::tables::{BATCHES, batches};

use same::Followers;

/// The time between two records of progress, and between two attempts to start rows that were put off.
const TICK: Duration = Duration::from_secs(1);
/// The time after its end in which the figures of a batch may still be written.
const SETTLED: Duration = Duration::from_mins(1);
/// The number of rows that are read at a time.
const PAGE: usize = 1_000;
/// The number of rows that are started side by side.
const TOGETHER: usize = 64;

/// A batch in the memory of its actor; `None` if there is none.
#[derive(Default)]
pub(crate) struct BatchItem(Option<Loaded>);

struct Loaded {
    batch: Batch,
    /// The rows to start, in their order, and then those to run anew.
    waiting: VecDeque<u32>,
    /// The rows that wait for an earlier one, which asks the same.
    followers: Followers,
    known: Option<Arc<Known>>,
    /// The rows of the batch whose answers are taken over, by the digest of the key, once they are asked for.
    source: Option<Arc<Keys>>,
    /// True if something may have changed since the last record of progress.
    changed: bool,
    /// True while a [`Message::Tick`] is on its way.
    ticking: bool,
    /// True while a [`Message::Next`] is on its way, which starts rows for all that come before it.
    goes_on: bool,
}

impl Loaded {
    /// The rows that wait to be started.
    fn pending(&self) -> u32 {
        u32::try_from(self.waiting.len() + self.followers.count()).unwrap_or(u32::MAX)
    }
}

impl Item for BatchItem {
    const NAME: &'static str = "batch";
    type Address = Address;
    type Message = Message;
    type Shared = Node;

    fn new(_: &Arc<Node>, _: &Address) -> Self {
        Self::default()
    }

    async fn start(held: &mut Activation<Self>, reason: Reason) -> Done {
        held.load().await?;
        match reason {
            Reason::Woken => Ok(()),
            Reason::Restarted => held.advance().await,
            Reason::GivenUp => {
                // The next start of the server or a request wakes the batch again.
                tracing::error!(batch = %held.address.batch, "the batch stands still");
                Ok(())
            }
        }
    }

    async fn handle(held: &mut Activation<Self>, message: Message) -> Done {
        match message {
            Message::Look => {}
            Message::Ended(row) => held.release(row),
            Message::Loaded(batch, reply) => held.loaded(*batch, reply).await?,
            Message::Pause(reply) => held.pause(reply).await?,
            Message::Resume(reply) => held.resume(reply).await?,
            Message::Cancel(reply) => held.cancel(reply).await?,
            Message::Retry(retry, reply) => held.retry(&retry, reply).await?,
            Message::Delete(reply) => held.delete(reply).await?,
            Message::Tick => return held.tick().await,
            Message::Next => {
                if let Some(own) = &mut held.item.0 {
                    own.goes_on = false;
                }
            }
        }
        held.advance().await
    }

    fn is_idle(&self) -> bool {
        self.0.as_ref().is_none_or(|own| !own.batch.runs() && !own.ticking)
    }
}

/// Brings back batches: counts what those have spent that have not ended, and wakes them. An upload that a crash
/// broke off leaves nothing.
pub(crate) async fn recover(
    node: &Node,
    environment: Environment,
) -> Result<usize, callboard_store::Error> {
    let (mut count, mut after) = (0, None);
    loop {
        let page = BATCHES.scan(node.store(), environment.number(), after.as_ref(), PAGE).await?;
        let Some((last, _)) = page.last() else { return Ok(count) };
        after = Some(*last);
        for (_, batch) in page {
            let address = Address { environment, batch: batch.id };
            let batches = &node.shard(batch.id.partition()).batches;
            match batch.status {
                // The last results may have been counted after the end was written.
                Status::Completed
                    if batch.ended_at.is_none_or(|at| node.now().since(at) > SETTLED) =>
                {
                    continue;
                }
                Status::Cancelled
                    if read::unended(node.store(), environment, batch.id).await? == 0 =>
                {
                    continue;
                }
                Status::Loading => {
                    // Nobody waits for the end of the removal.
                    let (reply, _) = oneshot::channel();
                    batches.send(address, Message::Delete(reply));
                }
                Status::Running | Status::Paused | Status::Completed | Status::Cancelled => {
                    let spent = read::recount(node, environment, &batch).await?;
                    node.state.batches.put_spent((environment, batch.id), spent);
                    batches.send(address, Message::Look);
                }
                Status::Deleting => batches.send(address, Message::Look),
            }
            count += 1;
        }
    }
}

impl Activation<BatchItem> {
    fn key(&self) -> (Environment, TemplateBatchId) {
        (self.address.environment, self.address.batch)
    }

    async fn load(&mut self) -> Done {
        let (environment, id) = self.key();
        let store = self.node.store();
        let Some(batch) = batches::batch(store, environment, id).await? else { return Ok(()) };
        let (mut waiting, mut followers) = (VecDeque::new(), Followers::default());
        if matches!(batch.status, Status::Running | Status::Paused) {
            let (mut again, mut after) = (Vec::new(), None);
            loop {
                let page = batches::rows(store, environment, id, after, PAGE).await?;
                let Some((last, _)) = page.last() else { break };
                after = Some(*last);
                for (number, row) in page {
                    match (row.state, row.like) {
                        (RowState::Pending, Some(like)) => followers.add(like, number),
                        (RowState::Pending, None) => waiting.push_back(number),
                        (RowState::Again(_), _) => again.push(number),
                        (RowState::Started | RowState::Invalid(_) | RowState::Refused(_), _) => {}
                    }
                }
            }
            waiting.extend(again);
        }
        let ticking = self.item.0.as_ref().is_some_and(|own| own.ticking);
        let (known, source, changed) = (None, None, true);
        let goes_on = self.item.0.as_ref().is_some_and(|own| own.goes_on);
        let loaded = Loaded { batch, waiting, followers, known, source, changed, ticking, goes_on };
        self.item.0 = Some(loaded);
        self.release_ended().await?;
        self.show();
        Ok(())
    }

    /// Lets readers see the number of waiting rows.
    fn show(&self) {
        if let Some(own) = &self.item.0 {
            self.node.state.batches.put_pending(self.key(), own.pending());
        }
    }

    /// Starts rows while there are places, and ends the batch with its last row.
    async fn advance(&mut self) -> Done {
        let Some(own) = &mut self.item.0 else { return Ok(()) };
        own.changed = true;
        let (status, waits) = (own.batch.status, own.pending() > 0);
        match status {
            Status::Running if own.goes_on => return Ok(()),
            Status::Running => {}
            Status::Deleting => return self.erase().await,
            Status::Cancelled => return self.cancel_rows().await,
            // A row was run anew by itself.
            Status::Completed if self.unended().await? > 0 => {
                self.become_(Status::Running, None, None).await?;
            }
            Status::Paused if !waits && self.unended().await? == 0 => {
                self.become_(Status::Completed, None, Some(EventName::BatchCompleted)).await?;
                return Ok(());
            }
            Status::Completed | Status::Loading | Status::Paused => {
                self.arm();
                return Ok(());
            }
        }
        let goes_on = self.start_next().await?;
        if let Some(own) = &mut self.item.0
            && goes_on
        {
            own.goes_on = self.myself.tell(Message::Next);
        }
        self.show();
        self.arm();
        Ok(())
    }

    /// Starts some of the rows for which there are places. True if there may be more: they are started once what was
    /// asked of the batch meanwhile, such as its cancellation, is done.
    async fn start_next(&mut self) -> Result<bool, ActorProcessingErr> {
        let Some(own) = &mut self.item.0 else { return Ok(false) };
        if own.waiting.is_empty() {
            let waits = own.pending() > 0;
            if self.unended().await? == 0 {
                if waits && self.release_ended().await? {
                    return Ok(true);
                }
                self.become_(Status::Completed, None, Some(EventName::BatchCompleted)).await?;
            }
            return Ok(false);
        }
        if let Err(why) = self.may_go_on() {
            self.become_(Status::Paused, Some(why), Some(EventName::BatchPaused)).await?;
            return Ok(false);
        }
        let room = self.room().await?;
        Ok(room > 0 && self.start_some(room.min(TOGETHER)).await?)
    }

    /// The number of rows that may be started now: held rows have given their places up.
    async fn room(&self) -> Result<usize, callboard_store::Error> {
        let (environment, id) = self.key();
        let Some(own) = &self.item.0 else { return Ok(0) };
        let held = read::held(self.node.store(), environment, id).await?;
        let running = self.unended().await?.saturating_sub(held);
        let room = u64::from(own.batch.concurrency).saturating_sub(running);
        Ok(usize::try_from(room).unwrap_or(usize::MAX))
    }

    async fn unended(&self) -> Result<u64, callboard_store::Error> {
        let (environment, id) = self.key();
        read::unended(self.node.store(), environment, id).await
    }

    /// Passes if the account may start rows still, and the cost leaves room.
    fn may_go_on(&self) -> Result<(), String> {
        let Some(own) = &self.item.0 else { return Ok(()) };
        let Batch { account, max_cost, spent, .. } = &own.batch;
        let spent = self.node.state.batches.spent(self.key(), *spent);
        if let Some(max) = max_cost.filter(|max| spent.cost >= *max) {
            let (spent, max) = (spent.cost.as_usd(), max.as_usd());
            return Err(format!("maxCost is reached: {spent} of {max} USD are spent"));
        }
        let (register, now) = (&self.node.state.accounts, self.node.now());
        let environment = self.address.environment;
        let Ok(known) = account.parse() else { return Ok(()) };
        let allowed = if register.is_handed_over(account) {
            register.owner_may(account, environment, Action::BatchesRun).map(drop)
        } else {
            caller_of(register, known, environment.slot(), now)
                .and_then(|caller| caller.may(Action::BatchesRun))
        };
        allowed.map_err(|error| format!("the account {account} may no longer do this: {error}"))
    }

    /// Asks to be woken for the next record of progress.
    fn arm(&mut self) {
        if let Some(own) = &mut self.item.0
            && own.changed
            && !own.ticking
            && !matches!(own.batch.status, Status::Loading | Status::Deleting)
        {
            own.ticking = true;
            self.myself.tell_after(TICK, || Message::Tick);
        }
    }

    /// Records the progress, and tries the rows again that were put off.
    async fn tick(&mut self) -> Done {
        let key = self.key();
        let Some(own) = &mut self.item.0 else { return Ok(()) };
        own.ticking = false;
        if own.batch.status == Status::Deleting {
            return self.erase().await;
        }
        if std::mem::take(&mut own.changed) {
            let batch = own.batch.clone();
            let event = (!batch.is_over()).then_some(EventName::BatchProgress);
            self.commit(batch, event, Vec::new()).await?;
        }
        let put_off = self.node.state.batches.is_put_off(key);
        if put_off { self.advance().await } else { Ok(()) }
    }

    /// Writes another status, and what is said about it.
    async fn become_(
        &mut self,
        status: Status,
        reason: Option<String>,
        event: Option<EventName>,
    ) -> Done {
        let Some(own) = &self.item.0 else { return Ok(()) };
        let batch = own.batch.with(status, reason, self.node.now());
        self.commit(batch, event, Vec::new()).await
    }

    /// Writes the batch with its figures, its event, and other rows.
    async fn commit(
        &mut self,
        mut batch: Batch,
        event: Option<EventName>,
        mut rows: Vec<Op>,
    ) -> Done {
        let (environment, id) = self.key();
        let Some(own) = &mut self.item.0 else { return Ok(()) };
        batch.spent = self.node.state.batches.fold((environment, id), batch.spent);
        batch.pending = own.pending();
        batch.revision = batch.revision.max(own.batch.revision + 1);
        let now = self.node.now();
        let progress = read::progress(self.node.store(), environment, &batch).await?;
        self.node.state.batches.sample((environment, id), now, progress.ended(), batch.runs());
        let is_figures = matches!(event, Some(EventName::BatchProgress) | None);
        let is_same = is_figures
            && Batch { revision: own.batch.revision, ..batch.clone() } == own.batch
            && !self.node.state.batches.has_moved((environment, id));
        if is_same && rows.is_empty() {
            return Ok(());
        }
        rows.extend(batches::put(environment, &batch));
        let event =
            event.map(|name| batches::event(environment, name, now, (batch.clone(), progress)));
        rows.extend(event);
        self.write(rows).await?;
        if let Some(own) = &mut self.item.0 {
            own.batch = batch;
        }
        Ok(())
    }

    async fn write(&self, rows: Vec<Op>) -> Done {
        let partition = self.address.batch.partition();
        match self.node.shard(partition).commit(partition, rows).await {
            Outcome::Committed => Ok(()),
            outcome @ (Outcome::Fenced
            | Outcome::Conflict(_)
            | Outcome::NotApplied(_)
            | Outcome::Unknown(_)) => Err(durable::NotCommitted(outcome).into()),
        }
    }

    fn known(&self) -> Option<Arc<Known>> {
        self.item.0.as_ref().and_then(|own| own.known.clone())
    }

    /// The rows of the batch whose answers are taken over; none if it was deleted.
    async fn source(&mut self) -> Result<Option<Arc<Keys>>, ActorProcessingErr> {
        let environment = self.address.environment;
        let Some(own) = &mut self.item.0 else { return Ok(None) };
        let Some(reuse) = own.batch.reuse else { return Ok(None) };
        if let Some(source) = &own.source {
            return Ok(Some(Arc::clone(source)));
        }
        let keys = Arc::new(Keys::of(&self.node, environment, reuse).await?);
        own.source = Some(Arc::clone(&keys));
        Ok(Some(keys))
    }

    /// The plan of the rows.
    async fn plan(&mut self) -> Result<Arc<Known>, ActorProcessingErr> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let Some(own) = &mut self.item.0 else { return Err("there is no such batch".into()) };
        let plan = self.node.plan(self.address.environment, own.batch.plan).await?;
        let known = plan.ok_or("the plan of the batch is missing")?;
        own.known = Some(Arc::clone(&known));
        Ok(known)
    }
}
