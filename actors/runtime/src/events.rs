//! The event log as subscribers see it: what was committed, in the order of commit, and what passes
//! by without being stored.
//!
//! While anybody listens the newest records are kept in memory; a subscriber that comes back after a
//! while is served from the store. A record may tell several events: a place is the record's number and the event's within
//! it, and a cursor is a place. Deliberately absent: who may see what, and the wire's shapes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callboard_domain::id::{Environment, TaskId};
use callboard_store::{Error, LogId, Record, Store};
use tokio::sync::{OnceCell, broadcast, mpsc};

use crate::tables::{self, EVENTS, Event};

/// How many records are kept in memory, per environment.
const RECENT: usize = 4_096;
/// How many passing events a subscriber may be behind.
const PASSING: usize = 4_096;
/// How many records are read from the store at a time.
const PAGE: usize = 256;

/// Something to tell a subscriber.
#[derive(Debug, Clone)]
pub enum StreamItem {
    /// A stored event and its place in the log.
    Stored(u64, Arc<Event>),
    /// A piece of an output, at this offset in characters.
    Delta {
        /// The task.
        task: TaskId,
        /// How many characters came before.
        offset: u64,
        /// The piece.
        text: Arc<str>,
    },
}

#[derive(Debug, Clone)]
enum Signal {
    Committed,
    Delta(Environment, TaskId, u64, Arc<str>),
}

type Recent = VecDeque<Arc<Kept>>;

/// How many bits of a place are the number of an event within its record.
const PART: u32 = 6;
/// The last part of a record.
const LAST: u64 = (1 << PART) - 1;

/// A record, read when somebody wants it, and then once for all.
struct Kept {
    record: Record,
    events: OnceCell<Vec<Arc<Event>>>,
}

impl Kept {
    const fn new(record: Record) -> Self {
        Self { record, events: OnceCell::const_new() }
    }

    /// The events that it tells; none if what they happened to is gone.
    async fn events(
        &self,
        store: &dyn Store,
        environment: Environment,
    ) -> Result<&[Arc<Event>], Error> {
        let read = async {
            let row = EVENTS.read(&self.record)?;
            Ok(row.whole(store, environment).await?.into_iter().map(Arc::new).collect())
        };
        self.events.get_or_try_init(|| read).await.map(Vec::as_slice)
    }
}

/// All environments' events.
pub(crate) struct Events {
    store: Arc<dyn Store>,
    recent: [Mutex<Recent>; Environment::ALL.len()],
    signals: broadcast::Sender<Signal>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Events {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            recent: std::array::from_fn(|_| Mutex::default()),
            signals: broadcast::channel(PASSING).0,
        }
    }

    /// Takes in what the store commits, until it closes.
    pub(crate) async fn follow(self: Arc<Self>, mut tail: mpsc::UnboundedReceiver<Vec<Record>>) {
        while let Some(records) = tail.recv().await {
            if self.signals.receiver_count() == 0 {
                self.forget();
                continue;
            }
            for record in records {
                let Some(environment) = environment_of(record.log) else { continue };
                let mut recent = self.recent(environment);
                recent.push_back(Arc::new(Kept::new(record)));
                if recent.len() > RECENT {
                    recent.pop_front();
                }
            }
            // The last one may have left.
            let _ = self.signals.send(Signal::Committed);
        }
    }

    /// Keeps nothing in memory, so that there is no gap: it is all in the store. Whoever came meanwhile
    /// may have looked here before, and looks again.
    fn forget(&self) {
        self.recent.iter().for_each(|recent| locked(recent).clear());
        let _ = self.signals.send(Signal::Committed);
    }

    /// Passes on a piece of an output, without storing it.
    pub(crate) fn delta(&self, environment: Environment, task: TaskId, offset: u64, text: String) {
        if self.signals.receiver_count() > 0 {
            let _ = self.signals.send(Signal::Delta(environment, task, offset, text.into()));
        }
    }

    /// The events after `cursor`, or from now on.
    pub(crate) async fn subscribe(
        self: &Arc<Self>,
        environment: Environment,
        cursor: Option<u64>,
    ) -> Result<Subscription, Error> {
        let signals = self.signals.subscribe();
        let (oldest, newest) = self.store.log_bounds(tables::events(environment)).await?;
        let now = newest << PART | LAST;
        let (after, resumed) = match cursor {
            Some(cursor) if next_record(cursor) >= oldest && cursor <= now => (cursor, true),
            Some(_) => (now, false),
            None => (now, true),
        };
        let (events, ahead) = (Arc::clone(self), VecDeque::new());
        Ok(Subscription { events, environment, after, resumed, signals, ahead })
    }

    /// What follows `after`, from memory if it is there, else from the store; and the place that it
    /// goes up to.
    async fn read(
        &self,
        environment: Environment,
        after: u64,
    ) -> Result<(u64, Vec<(u64, Arc<Event>)>), Error> {
        let kept = if let Some(kept) = self.kept(environment, after) {
            kept
        } else {
            let log = tables::events(environment);
            let before = next_record(after).saturating_sub(1);
            let records = self.store.read_log(log, before, PAGE).await?;
            records.into_iter().map(|record| Arc::new(Kept::new(record))).collect()
        };
        let mut events = Vec::with_capacity(kept.len());
        for one in &kept {
            let told = one.events(&*self.store, environment).await?;
            let slots = (one.record.sequence << PART..).zip(told);
            events.extend(
                slots.filter(|(at, _)| *at > after).map(|(at, event)| (at, Arc::clone(event))),
            );
        }
        Ok((kept.last().map_or(after, |last| last.record.sequence << PART | LAST), events))
    }

    /// What follows `after`, if memory reaches back that far.
    fn kept(&self, environment: Environment, after: u64) -> Option<Vec<Arc<Kept>>> {
        let recent = self.recent(environment);
        let next = next_record(after);
        let reaches = recent.front().is_some_and(|kept| kept.record.sequence <= next);
        reaches.then(|| {
            let from = recent.partition_point(|kept| kept.record.sequence < next);
            recent.range(from..).take(PAGE).cloned().collect()
        })
    }

    fn recent(&self, environment: Environment) -> MutexGuard<'_, Recent> {
        locked(&self.recent[usize::from(environment.number())])
    }
}

fn locked(recent: &Mutex<Recent>) -> MutexGuard<'_, Recent> {
    recent.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first record that tells anything after a place.
const fn next_record(place: u64) -> u64 {
    (place + 1) >> PART
}

fn environment_of(log: LogId) -> Option<Environment> {
    Environment::ALL.into_iter().find(|environment| tables::events(*environment) == log)
}

/// One subscriber's place in the events.
#[derive(Debug)]
pub struct Subscription {
    events: Arc<Events>,
    environment: Environment,
    after: u64,
    resumed: bool,
    signals: broadcast::Receiver<Signal>,
    ahead: VecDeque<StreamItem>,
}

impl Subscription {
    /// Whether it goes on where the cursor was: if not, something between is gone, and the state is
    /// to be read anew.
    #[must_use]
    pub const fn resumed(&self) -> bool {
        self.resumed
    }

    /// The place it is at.
    #[must_use]
    pub const fn cursor(&self) -> u64 {
        self.after
    }

    /// The next event; waits for it. `None` when the service stops.
    ///
    /// # Errors
    /// The store failed.
    pub async fn next(&mut self) -> Result<Option<StreamItem>, Error> {
        loop {
            if let Some(told) = self.ahead.pop_front() {
                return Ok(Some(told));
            }
            let (reached, events) = self.events.read(self.environment, self.after).await?;
            let moved = reached > self.after;
            self.after = reached;
            self.ahead.extend(events.into_iter().map(|(at, event)| StreamItem::Stored(at, event)));
            if moved {
                continue;
            }
            match self.signals.recv().await {
                // Missed signals are harmless: the log is read from where it was left.
                Ok(Signal::Committed) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Ok(Signal::Delta(environment, task, offset, text)) => {
                    if environment == self.environment {
                        self.ahead.push_back(StreamItem::Delta { task, offset, text });
                    }
                }
                Err(broadcast::error::RecvError::Closed) => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use callboard_domain::Timestamp;
    use callboard_domain::id::WorkerId;
    use callboard_store::memory::MemoryStore;
    use callboard_store::{Batch, BatchId, Outcome};

    use super::*;
    use crate::tables::{EventRow, Subject, WorkerRow};

    const LIVE: Environment = Environment::Live;

    /// Commits the event of a worker with this number, and waits until it was taken in.
    async fn happens(store: &MemoryStore, number: u128) {
        let worker = WorkerRow { id: WorkerId::from_u128(number), name: None, queues: Vec::new() };
        let row = EventRow::of_worker("worker.connected", Timestamp::from_millis(0), worker);
        let ops = vec![EVENTS.append(tables::events(LIVE), &row)];
        let committed = store.commit(Batch { id: BatchId(number), guards: Vec::new(), ops }).await;
        assert!(matches!(committed, Outcome::Committed));
        tokio::task::yield_now().await;
    }

    async fn next(subscription: &mut Subscription) -> u128 {
        let told = subscription.next().await.expect("the store answers");
        let Some(StreamItem::Stored(_, event)) = told else { panic!("an event, not {told:?}") };
        let Subject::Worker(worker) = &event.subject else { panic!("a worker's, not {event:?}") };
        worker.id.as_u128()
    }

    #[tokio::test]
    async fn what_happened_while_nobody_listened_is_told_to_whoever_comes_back() {
        let store = Arc::new(MemoryStore::new());
        let events = Arc::new(Events::new(store.clone()));
        let following = tokio::spawn(Arc::clone(&events).follow(store.tail()));
        let mut first = events.subscribe(LIVE, None).await.expect("the store answers");
        happens(&store, 1).await;
        assert_eq!(next(&mut first).await, 1);
        let place = first.cursor();
        drop(first);
        happens(&store, 2).await;
        let mut second = events.subscribe(LIVE, None).await.expect("the store answers");
        happens(&store, 3).await;
        assert_eq!(next(&mut second).await, 3);
        let mut back = events.subscribe(LIVE, Some(place)).await.expect("the store answers");
        assert_eq!((next(&mut back).await, next(&mut back).await), (2, 3));
        following.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_comes_back_just_as_memory_is_cleared_is_told_all_the_same() {
        let store = Arc::new(MemoryStore::new());
        let events = Arc::new(Events::new(store.clone()));
        let following = tokio::spawn(Arc::clone(&events).follow(store.tail()));
        let mut first = events.subscribe(LIVE, None).await.expect("the store answers");
        happens(&store, 1).await;
        assert_eq!(next(&mut first).await, 1);
        let place = first.cursor();
        drop(first);
        following.abort();
        // It has seen that nobody listens, and goes on below.
        happens(&store, 2).await;
        let mut back = events.subscribe(LIVE, Some(place)).await.expect("the store answers");
        let mut told = std::pin::pin!(next(&mut back));
        let waits = tokio::time::timeout(Duration::from_secs(1), &mut told).await;
        assert!(waits.is_err(), "memory has nothing new: {waits:?}");
        events.forget();
        let told = tokio::time::timeout(Duration::from_secs(1), told).await;
        assert_eq!(told, Ok(2));
    }
}
