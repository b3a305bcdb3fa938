//! The event log as subscribers see it: committed events, in the order of commit, and passing ones, which
//! are not stored.
//!
//! While the log has listeners, the newest records are kept in memory; a subscriber that comes back
//! after a while is served from the store. A record may hold several events: a place is the record's
//! number and the event's within it. A cursor is a place, and the mark of the start of the server under which
//! its record was written: a restored server writes other records at the same places. Deliberately absent:
//! permissions, and the wire's shapes.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, ready};

use callboard_domain::Timestamp;
use callboard_domain::id::Environment;
use callboard_domain::task::Spec;
use callboard_store::{Error, Op, Record, Store};
use tokio::sync::{OnceCell, broadcast, mpsc, watch};

use crate::kernel::environments::PerEnvironment;
use crate::kernel::ports::Entropy;
use crate::tables::{self, EVENTS, Event, STARTS};

mod subscription;

pub use subscription::Subscription;

/// The number of records that are kept in memory, per environment.
const RECENT: usize = 4_096;
/// The number of passing events that a subscriber may be behind.
const PASSING: usize = 4_096;
/// The most bytes of text in a piece of an output.
pub const MAX_PIECE: usize = 8 << 10;
/// The most bytes of text in the pieces that are kept for subscribers, per environment.
const KEPT_BYTES: usize = 8 << 20;
/// The number of records that are read from the store at a time.
const PAGE: usize = 256;

/// An item of a [`Subscription`].
#[derive(Debug, Clone)]
pub enum StreamItem {
    /// A stored event and its place in the log.
    Stored(Cursor, Arc<Published<Event>>),
    /// A piece of an output; not stored.
    Delta(Arc<Published<Delta>>),
    /// The length of a queue; not stored.
    Depth(Arc<Published<QueueDepth>>),
    /// The events after the first place, up to and including the second, are no longer kept.
    Gap(Cursor, Cursor),
}

/// A place in the event log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The number of the record and of the event within it.
    pub place: u64,
    /// The mark of the start under which the record was written; `None` in cursors of an earlier version.
    pub mark: Option<u32>,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{:x}", self.place)?;
        self.mark.map_or(Ok(()), |mark| write!(f, "-{mark:08x}"))
    }
}

/// A piece of an output.
#[derive(Debug)]
pub struct Delta {
    /// The task.
    pub task: Arc<Spec>,
    /// The version of the task when the attempt began.
    pub version: u64,
    /// The number of characters of the attempt that came before.
    pub offset: u64,
    /// The piece.
    pub text: String,
    /// The instant of the piece's arrival.
    pub at: Timestamp,
}

/// The length of a queue.
#[derive(Debug)]
pub struct QueueDepth {
    /// The queue's name; the sandbox has one queue, `*`.
    pub queue: Arc<str>,
    /// The number of ready tasks.
    pub depth: usize,
    /// The instant.
    pub at: Timestamp,
}

/// An event with room for its form on the wire, which the first subscriber writes for all.
#[derive(Debug)]
pub struct Published<T> {
    event: T,
    written: OnceLock<Box<str>>,
}

impl<T> Published<T> {
    /// An event that is not written yet.
    #[must_use]
    pub const fn new(event: T) -> Self {
        Self { event, written: OnceLock::new() }
    }

    /// The form on the wire; `write` is called once, and must give the same for every caller.
    pub fn written(&self, write: impl FnOnce(&T) -> String) -> &str {
        self.written.get_or_init(|| write(&self.event).into_boxed_str())
    }
}

impl<T> Deref for Published<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.event
    }
}

/// The transient events, which are not stored, that a subscriber receives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transient {
    /// Pieces of outputs.
    pub deltas: bool,
    /// Lengths of queues.
    pub depths: bool,
}

type Recent = VecDeque<Arc<CachedRecord>>;

type Piece = Published<Delta>;

/// The newest pieces. Subscribers hold weak references, so a slow one keeps no piece in memory; it misses
/// those that were dropped before it came to them.
#[derive(Debug, Default)]
struct KeptPieces {
    pieces: VecDeque<Arc<Piece>>,
    bytes: usize,
}

impl KeptPieces {
    fn keep(&mut self, piece: Arc<Piece>) {
        self.bytes += piece.text.len();
        self.pieces.push_back(piece);
        while self.bytes > KEPT_BYTES || self.pieces.len() > PASSING {
            let Some(oldest) = self.pieces.pop_front() else { return };
            self.bytes -= oldest.text.len();
        }
    }
}

/// Cuts a text into pieces of at most [`MAX_PIECE`] bytes, between characters.
pub(crate) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, more) = rest.split_at(rest.floor_char_boundary(MAX_PIECE));
        rest = more;
        (!piece.is_empty()).then_some(piece)
    })
}

/// The number of bits of a place that number an event within its record.
const PART: u32 = 6;
/// The last part of a record.
const LAST: u64 = (1 << PART) - 1;

/// A record, decoded once for all subscribers when the first one wants it.
struct CachedRecord {
    record: Record,
    events: OnceCell<Vec<Arc<Published<Event>>>>,
}

impl CachedRecord {
    const fn new(record: Record) -> Self {
        Self { record, events: OnceCell::const_new() }
    }

    /// The events of the record; none if the record's item is gone.
    async fn events(
        &self,
        store: &dyn Store,
        environment: Environment,
    ) -> Result<&[Arc<Published<Event>>], Error> {
        let read = async {
            let row = EVENTS.read(&self.record)?;
            let events = row.whole(store, environment).await?.into_iter();
            Ok(events.map(|event| Arc::new(Published::new(event))).collect())
        };
        self.events.get_or_try_init(|| read).await.map(Vec::as_slice)
    }
}

/// All environments' events.
pub(crate) struct Events {
    store: Arc<dyn Store>,
    /// The records that the store commits; a reader holds the lock, so that records keep their order.
    tail: Mutex<mpsc::UnboundedReceiver<Vec<Record>>>,
    streams: PerEnvironment<Streams>,
    /// True once something was kept since the last time that all was forgotten.
    keeps: AtomicBool,
    committed: watch::Sender<()>,
}

/// The events of one environment.
#[derive(Default)]
struct Streams {
    recent: Mutex<Recent>,
    deltas: Passing<Weak<Piece>>,
    kept_pieces: Mutex<KeptPieces>,
    depths: Passing<StreamItem>,
    /// The starts, by their first records.
    starts: OnceLock<BTreeMap<u128, u32>>,
}

/// A channel of [`PASSING`] places, which is made for the first listener: it takes 200 KB.
struct Passing<T>(OnceLock<broadcast::Sender<T>>);

impl<T> Default for Passing<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T: Clone> Passing<T> {
    fn subscribe(&self) -> broadcast::Receiver<T> {
        self.0.get_or_init(|| broadcast::Sender::new(PASSING)).subscribe()
    }

    fn has_listeners(&self) -> bool {
        self.0.get().is_some_and(|channel| channel.receiver_count() > 0)
    }

    fn send(&self, passed: T) {
        if let Some(channel) = self.0.get() {
            // The last listener may leave meanwhile.
            let _ = channel.send(passed);
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Events {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            tail: Mutex::new(store.tail()),
            store,
            streams: PerEnvironment::default(),
            keeps: AtomicBool::new(false),
            committed: watch::Sender::new(()),
        }
    }

    /// Marks the records from here on as those of this start, and forgets the marks of records that are gone; returns
    /// the rows to be committed.
    pub(crate) async fn begin(
        &self,
        environments: &[Environment],
        entropy: &dyn Entropy,
    ) -> Result<Vec<Op>, Error> {
        let mut ops = Vec::new();
        for &environment in environments {
            if self.streams.of(environment).starts.get().is_some() {
                continue;
            }
            let number = environment.number();
            let (oldest, newest) = self.store.log_bounds(tables::event_log(environment)).await?;
            let rows = STARTS.scan(&*self.store, number, None, usize::MAX).await?;
            let mut marks: BTreeMap<_, _> = rows.into_iter().collect();
            let (first, mark) = (u128::from(newest) + 1, entropy.bits() & 0xffff_ffff);
            let mark = u32::try_from(mark).expect("32 bits");
            marks.insert(first, mark);
            ops.push(STARTS.put(number, &first, &mark, None));
            let oldest = marks.range(..=u128::from(oldest)).next_back();
            let kept_from = oldest.map_or(0, |(first, _)| *first);
            let kept = marks.split_off(&kept_from);
            ops.extend(marks.keys().map(|gone| STARTS.delete(number, gone)));
            // Nobody else sets it: a project begins once.
            let _ = self.streams.of(environment).starts.set(kept);
        }
        Ok(ops)
    }

    /// The cursor of a place.
    fn cursor(&self, environment: Environment, place: u64) -> Cursor {
        let starts = self.streams.of(environment).starts.get();
        let start =
            starts.and_then(|starts| starts.range(..=u128::from(place >> PART)).next_back());
        Cursor { place, mark: start.map(|(_, mark)| *mark) }
    }

    /// True if a client was given this cursor by this history of the log.
    fn knows(&self, environment: Environment, cursor: Cursor) -> bool {
        cursor.mark.is_none() || cursor == self.cursor(environment, cursor.place)
    }

    /// Takes in the records that the store commits, until it closes.
    pub(crate) async fn follow(self: Arc<Self>) {
        let next = |cx: &mut Context<'_>| {
            let mut tail = locked(&self.tail);
            let records = ready!(tail.poll_recv(cx));
            Poll::Ready(records.map(|records| self.take_in(records)))
        };
        while poll_fn(next).await.is_some() {}
    }

    fn take_in(&self, records: Vec<Record>) {
        if self.committed.receiver_count() == 0 {
            self.forget();
            return;
        }
        for record in records {
            let environment = tables::environment_of(record.log);
            let mut recent = self.recent(environment);
            recent.push_back(Arc::new(CachedRecord::new(record)));
            if recent.len() > RECENT {
                recent.pop_front();
            }
        }
        self.keeps.store(true, Ordering::Release);
        self.committed.send_replace(());
    }

    /// Keeps nothing in memory, so that there is no gap: it is all in the store. A subscriber that came
    /// meanwhile may have read the kept records as if they were all, and looks again.
    pub(crate) fn forget(&self) {
        if !self.keeps.swap(false, Ordering::AcqRel) {
            return;
        }
        let forget = |streams: &Streams| {
            std::mem::take(&mut *locked(&streams.kept_pieces));
            !std::mem::take(&mut *locked(&streams.recent)).is_empty()
        };
        if self.streams.iter().filter(|streams| forget(streams)).count() > 0 {
            self.committed.send_replace(());
        }
    }

    /// The number of subscribers.
    pub(crate) fn subscribers(&self) -> usize {
        self.committed.receiver_count()
    }

    /// Passes a piece of an output on, if there is a listener for such, after every earlier commit.
    pub(crate) fn delta(&self, environment: Environment, delta: impl FnOnce() -> Delta) {
        let Some(Streams { deltas, kept_pieces, .. }) = self.streams.made(environment) else {
            return;
        };
        if deltas.has_listeners() {
            let mut tail = locked(&self.tail);
            while let Ok(records) = tail.try_recv() {
                self.take_in(records);
            }
            drop(tail);
            let piece = Arc::new(Published::new(delta()));
            let passed_on = Arc::downgrade(&piece);
            locked(kept_pieces).keep(piece);
            self.keeps.store(true, Ordering::Release);
            deltas.send(passed_on);
        }
    }

    /// True if there is a listener for the lengths of queues.
    pub(crate) fn wants_depths(&self, environment: Environment) -> bool {
        self.streams.made(environment).is_some_and(|streams| streams.depths.has_listeners())
    }

    /// Passes the length of a queue on.
    pub(crate) fn depth(&self, environment: Environment, depth: QueueDepth) {
        let depth = StreamItem::Depth(Arc::new(Published::new(depth)));
        self.streams.of(environment).depths.send(depth);
    }

    /// The items that follow `after`, from memory if they are there, else from the store; and the place
    /// that they go up to.
    async fn read(
        &self,
        environment: Environment,
        after: u64,
    ) -> Result<(u64, Vec<StreamItem>), Error> {
        let kept = if let Some(kept) = self.kept(environment, after) {
            kept
        } else {
            let log = tables::event_log(environment);
            let before = next_record(after).saturating_sub(1);
            let records = self.store.read_log(log, before, PAGE).await?;
            records.into_iter().map(|record| Arc::new(CachedRecord::new(record))).collect()
        };
        let mut events = Vec::with_capacity(kept.len());
        if let Some(first) = kept.first().filter(|first| first.record.sequence > next_record(after))
        {
            let to = (first.record.sequence << PART).saturating_sub(1);
            let cursor = |place| self.cursor(environment, place);
            events.push(StreamItem::Gap(cursor(after), cursor(to)));
        }
        for one in &kept {
            let published = one.events(&*self.store, environment).await?;
            let slots = (one.record.sequence << PART..).zip(published);
            let slots = slots.filter(|(at, _)| *at > after);
            let stored =
                |(at, event)| StreamItem::Stored(self.cursor(environment, at), Arc::clone(event));
            events.extend(slots.map(stored));
        }
        Ok((kept.last().map_or(after, |last| last.record.sequence << PART | LAST), events))
    }

    /// The records after `after`, if memory reaches back that far.
    fn kept(&self, environment: Environment, after: u64) -> Option<Vec<Arc<CachedRecord>>> {
        let recent = self.recent(environment);
        let next = next_record(after);
        let reaches = recent.front().is_some_and(|kept| kept.record.sequence <= next);
        reaches.then(|| {
            let from = recent.partition_point(|kept| kept.record.sequence < next);
            recent.range(from..).take(PAGE).cloned().collect()
        })
    }

    fn recent(&self, environment: Environment) -> MutexGuard<'_, Recent> {
        locked(&self.streams.of(environment).recent)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first record with an event after a place.
const fn next_record(place: u64) -> u64 {
    place.saturating_add(1) >> PART
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use callboard_domain::Timestamp;
    use callboard_domain::id::WorkerId;
    use callboard_store::testing::memory::MemoryStore;
    use callboard_store::{Batch, BatchId, Outcome};

    use super::*;
    use crate::tables::golden::full_task;
    use crate::tables::log::{self, Kind};
    use crate::tables::{Subject, WorkerRow};

    const LIVE: Environment = Environment::LIVE;

    /// Commits the event of a worker with this number, and waits until it was taken in.
    async fn happens(store: &MemoryStore, number: u128) {
        let worker = WorkerRow { id: WorkerId::from_u128(number), name: None, queues: Vec::new() };
        let event = ("worker.connected", Timestamp::from_millis(0));
        let ops = vec![log::append(LIVE, event, Kind::Worker, worker)];
        let committed = store.commit(Batch { id: BatchId(number), guards: Vec::new(), ops }).await;
        assert!(matches!(committed, Outcome::Committed));
        tokio::task::yield_now().await;
    }

    async fn next(subscription: &mut Subscription) -> u128 {
        let item = subscription.next().await.expect("the store answers");
        let Some(StreamItem::Stored(_, event)) = item else { panic!("an event, not {item:?}") };
        let Subject::Worker(worker) = &event.subject else { panic!("a worker's, not {event:?}") };
        worker.id.as_u128()
    }

    #[tokio::test]
    async fn what_happened_while_nobody_listened_is_told_to_whoever_comes_back() {
        let store = Arc::new(MemoryStore::new());
        let events = Arc::new(Events::new(store.clone()));
        let following = tokio::spawn(Arc::clone(&events).follow());
        let mut first =
            events.subscribe(LIVE, None, Transient::default()).await.expect("the store answers");
        happens(&store, 1).await;
        assert_eq!(next(&mut first).await, 1);
        let place = first.cursor();
        drop(first);
        happens(&store, 2).await;
        let mut second =
            events.subscribe(LIVE, None, Transient::default()).await.expect("the store answers");
        happens(&store, 3).await;
        assert_eq!(next(&mut second).await, 3);
        let mut back = events
            .subscribe(LIVE, Some(place), Transient::default())
            .await
            .expect("the store answers");
        assert_eq!((next(&mut back).await, next(&mut back).await), (2, 3));
        following.abort();
    }

    /// A piece of a task's text.
    pub(super) fn piece(version: u64) -> Delta {
        let (text, at) = ("text".to_owned(), Timestamp::from_millis(0));
        Delta { task: full_task().spec, version, offset: 0, text, at }
    }

    #[tokio::test]
    async fn a_piece_comes_after_what_was_committed_before_it() {
        let store = Arc::new(MemoryStore::new());
        // Nobody follows: the piece itself takes in the commits.
        let events = Arc::new(Events::new(store.clone()));
        let passing = Transient { deltas: true, depths: false };
        let mut listens = events.subscribe(LIVE, None, passing).await.expect("the store answers");
        happens(&store, 1).await;
        events.delta(LIVE, || piece(2));
        assert_eq!(next(&mut listens).await, 1);
        let item = listens.next().await.expect("the store answers");
        assert!(matches!(item, Some(StreamItem::Delta(_))), "{item:?}");
    }

    #[tokio::test]
    async fn pieces_that_nobody_reads_are_kept_up_to_a_size() {
        let events = Arc::new(Events::new(Arc::new(MemoryStore::new())));
        let passing = Transient { deltas: true, depths: false };
        let mut slow = events.subscribe(LIVE, None, passing).await.expect("the store answers");
        let mut other = events.subscribe(LIVE, None, passing).await.expect("the store answers");
        let told = 3 * KEPT_BYTES / MAX_PIECE;
        for number in 0..told {
            let (text, offset) = ("x".repeat(MAX_PIECE), number as u64);
            events.delta(LIVE, || Delta { offset, text, ..piece(1) });
            let item = other.next().await.expect("the store answers");
            assert!(matches!(item, Some(StreamItem::Delta(it)) if it.offset == offset));
        }
        let item = slow.next().await.expect("the store answers");
        let Some(StreamItem::Delta(first)) = item else { panic!("a piece, not {item:?}") };
        assert_eq!(first.offset, (told - KEPT_BYTES / MAX_PIECE) as u64);
        drop((slow, other));
        events.forget();
        assert_eq!(locked(&events.streams.of(LIVE).kept_pieces).bytes, 0);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = "ü".repeat(MAX_PIECE) + "x";
        let cut: Vec<_> = pieces(&text).collect();
        let lengths: Vec<_> = cut.iter().map(|piece| piece.len()).collect();
        assert_eq!(lengths, [MAX_PIECE, MAX_PIECE, 1]);
        let odd = "€".repeat(MAX_PIECE);
        let cut: Vec<_> = pieces(&odd).collect();
        assert_eq!((cut[0].len(), cut.concat()), (MAX_PIECE - 2, odd.clone()));
        assert_eq!(pieces("").count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_comes_back_just_as_memory_is_cleared_is_told_all_the_same() {
        let store = Arc::new(MemoryStore::new());
        let events = Arc::new(Events::new(store.clone()));
        let following = tokio::spawn(Arc::clone(&events).follow());
        let mut first =
            events.subscribe(LIVE, None, Transient::default()).await.expect("the store answers");
        happens(&store, 1).await;
        assert_eq!(next(&mut first).await, 1);
        let place = first.cursor();
        drop(first);
        following.abort();
        // It has seen that nobody listens, and goes on below.
        happens(&store, 2).await;
        let mut back = events
            .subscribe(LIVE, Some(place), Transient::default())
            .await
            .expect("the store answers");
        let mut item = std::pin::pin!(next(&mut back));
        let waits = tokio::time::timeout(Duration::from_secs(1), &mut item).await;
        assert!(waits.is_err(), "memory has nothing new: {waits:?}");
        events.forget();
        let item = tokio::time::timeout(Duration::from_secs(1), item).await;
        assert_eq!(item, Ok(2));
    }
}
