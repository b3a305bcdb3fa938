use std::sync::mpsc::channel;
use std::thread;

use super::*;
use crate::Ticket;
use crate::batch::{BatchId, Entry, Op};
use crate::index::Loader;
use crate::query::{Order, Query};
use crate::testing::contract::block_on;

/// An engine that keeps nothing and fails on demand.
struct Fake {
    commits: Arc<AtomicU64>,
    fails_at: u64,
    how: fn() -> Result<(), Error>,
}

impl Engine for Fake {
    fn read<R>(&self, _: &[u8], with: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Error> {
        Ok(with(None))
    }

    fn keys(&self, _: &[u8], _: &[u8], _: usize) -> Result<Vec<Vec<u8>>, Error> {
        Ok(Vec::new())
    }

    fn put(&mut self, _: &[u8], _: &[u8]) {}

    fn delete(&mut self, _: &[u8]) {}

    fn epoch(&self, _: Partition) -> Option<Epoch> {
        Some(Epoch(1))
    }

    fn commit(&mut self, _: &BTreeMap<LogId, Bounds>) -> Result<Applied, Error> {
        let number = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        if number == self.fails_at {
            (self.how)()?;
        }
        Ok(Applied::Yes(Vec::new()))
    }
}

fn put(n: u8) -> Batch {
    let op = Op::Put { key: Key::new(1, 1, &[n]), value: Bytes::new(), entry: None };
    Batch { id: BatchId(u128::from(n)), guards: Vec::new(), ops: vec![op] }
}

/// The committer's answers to `groups` of batches, and the number of calls of `on_failure`.
fn answers(groups: &[u8], fails_at: u64, how: fn() -> Result<(), Error>) -> (Vec<String>, u64) {
    let (commits, calls) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (inbox, jobs) = channel();
    let mut said = Vec::new();
    let mut jobs = Some(jobs);
    let mut running = None;
    for size in groups {
        let tickets: Vec<_> = (0..*size)
            .map(|n| {
                let (reply, ticket) = Ticket::new();
                let _ = inbox.send(Job { batch: put(n), reply });
                ticket
            })
            .collect();
        // The first group waits in line before the thread begins, so that it is one.
        if let Some(jobs) = jobs.take() {
            let shared = Arc::new(Shared::new(BTreeMap::new()));
            let engine = Fake { commits: commits.clone(), fails_at, how };
            let committer = Committer::new(engine, Epoch(1), shared);
            let calls = calls.clone();
            let on_failure = move |_: &Error| {
                calls.fetch_add(1, Ordering::SeqCst);
            };
            running = Some(thread::spawn(move || committer.run(&jobs, on_failure)));
        }
        for ticket in tickets {
            block_on(async { said.push(format!("{:?}", ticket.await)) });
        }
    }
    drop(inbox);
    running.unwrap().join().unwrap();
    (said, calls.load(Ordering::SeqCst))
}

#[test]
fn a_group_shares_one_sync() {
    let commits = Arc::new(AtomicU64::new(0));
    let engine = Fake { commits: commits.clone(), fails_at: 0, how: || Ok(()) };
    let shared = Arc::new(Shared::new(BTreeMap::new()));
    let mut committer = Committer::new(engine, Epoch(1), shared.clone());
    let batches: Vec<_> = (0..200).map(put).collect();
    let outcomes = committer.commit(&batches).unwrap();
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Committed)));
    assert_eq!(commits.load(Ordering::SeqCst), 1);
    assert_eq!((shared.stats().batches, shared.stats().syncs), (200, 1));
}

#[test]
fn a_group_of_refused_batches_costs_no_sync() {
    let commits = Arc::new(AtomicU64::new(0));
    let engine = Fake { commits: commits.clone(), fails_at: 0, how: || Ok(()) };
    let mut committer = Committer::new(engine, Epoch(1), Arc::new(Shared::new(BTreeMap::new())));
    let fenced = Batch { guards: vec![(Partition(0), Epoch(2))], ..put(1) };
    assert!(matches!(committer.commit(&[fenced]).unwrap()[..], [Outcome::Fenced]));
    assert_eq!(commits.load(Ordering::SeqCst), 0);
}

#[test]
fn after_a_failed_sync_nobody_is_told_that_it_went_well() {
    let failing = || Err(Error::Io("the disk is gone".into()));
    let (said, calls) = answers(&[3, 2], 1, failing);
    let unknown = "Unknown(Io(\"the disk is gone\"))";
    assert_eq!(said, [unknown, unknown, unknown, "Unknown(Stopped)", "Unknown(Stopped)"]);
    assert_eq!(calls, 1);
}

#[test]
fn a_failure_spares_what_was_answered_before() {
    let (said, calls) = answers(&[1, 1, 1], 2, || Err(Error::Io("the disk is gone".into())));
    assert_eq!(said, ["Committed", "Unknown(Io(\"the disk is gone\"))", "Unknown(Stopped)"]);
    assert_eq!(calls, 1);
}

#[test]
fn an_engine_that_panics_has_failed() {
    let (said, calls) = answers(&[1, 1], 1, || panic!("as the test wants it"));
    assert_eq!(said, ["Unknown(Io(\"the engine panicked\"))", "Unknown(Stopped)"]);
    assert_eq!(calls, 1);
}

/// An engine that keeps rows in memory.
#[derive(Default)]
struct Kept(BTreeMap<Vec<u8>, Vec<u8>>);

impl Engine for Kept {
    fn read<R>(&self, key: &[u8], with: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Error> {
        Ok(with(self.0.get(key).map(Vec::as_slice)))
    }

    fn keys(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, Error> {
        Ok(self
            .0
            .range(from.to_vec()..to.to_vec())
            .take(limit)
            .map(|(key, _)| key.clone())
            .collect())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.0.insert(key.to_vec(), value.to_vec());
    }

    fn delete(&mut self, key: &[u8]) {
        self.0.remove(key);
    }

    fn epoch(&self, _: Partition) -> Option<Epoch> {
        Some(Epoch(1))
    }

    fn commit(&mut self, _: &BTreeMap<LogId, Bounds>) -> Result<Applied, Error> {
        Ok(Applied::Yes(Vec::new()))
    }
}

#[test]
fn what_one_trim_is_too_small_for_goes_with_what_is_appended() {
    let log = LogId(1);
    let batch = |ops| Batch { id: BatchId(0), guards: Vec::new(), ops };
    let append = || batch(vec![Op::Append { log, record: Bytes::from_static(b"r") }]);
    let shared = Arc::new(Shared::new(BTreeMap::new()));
    let mut committer = Committer::new(Kept::default(), Epoch(1), shared);
    // Each alone, so that each has a row.
    for _ in 0..5_000 {
        committer.commit(&[append()]).unwrap();
    }
    committer.commit(&[batch(vec![Op::Trim { log, before: 4_900 }])]).unwrap();
    assert!(committer.engine.0.len() > 3_900, "one trim is too small");
    for _ in 0..400 {
        committer.commit(&[append()]).unwrap();
    }
    // The records that are kept, the one before them, and the note of the trim.
    let rows = committer.engine.0.len();
    assert!((501..=503).contains(&rows), "{rows} rows");
    let shared = Arc::new(Shared::new(committer.logs.clone()));
    let mut reopened = Committer::new(committer.engine, Epoch(2), shared);
    reopened.commit(&[batch(vec![Op::Trim { log, before: u64::MAX }]), append()]).unwrap();
    assert!(reopened.engine.0.len() <= 3, "{}", reopened.engine.0.len());
}

#[test]
fn a_record_of_many_rows_does_not_keep_those_behind_it_on_the_disk() {
    let log = LogId(1);
    let batch = |ops| Batch { id: BatchId(0), guards: Vec::new(), ops };
    let append = |record: &Bytes| batch(vec![Op::Append { log, record: record.clone() }]);
    // Bytes that do not compress: the record has as many rows as one can have.
    let mut state = 1_u64;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    });
    let (small, large) = (Bytes::from_static(b"r"), noise.take(log::MAX_RECORD).collect::<Bytes>());
    let shared = Arc::new(Shared::new(BTreeMap::new()));
    let mut committer = Committer::new(Kept::default(), Epoch(1), shared);
    for number in 0..1_500 {
        committer.commit(&[append(if number == 1_100 { &large } else { &small })]).unwrap();
    }
    committer.commit(&[batch(vec![Op::Trim { log, before: u64::MAX }])]).unwrap();
    for _ in 0..100 {
        committer.commit(&[append(&small)]).unwrap();
    }
    let rows = committer.engine.0.len();
    assert!(rows <= 103, "{rows} rows for a hundred records");
}

/// An engine whose first group finds that the partition has another owner.
#[derive(Default)]
struct Overtaken {
    is_overtaken: bool,
}

impl Engine for Overtaken {
    fn read<R>(&self, _: &[u8], with: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Error> {
        Ok(with(None))
    }

    fn keys(&self, _: &[u8], _: &[u8], _: usize) -> Result<Vec<Vec<u8>>, Error> {
        Ok(Vec::new())
    }

    fn put(&mut self, _: &[u8], _: &[u8]) {}

    fn delete(&mut self, _: &[u8]) {}

    fn epoch(&self, _: Partition) -> Option<Epoch> {
        (!self.is_overtaken).then_some(Epoch(1))
    }

    fn commit(&mut self, _: &BTreeMap<LogId, Bounds>) -> Result<Applied, Error> {
        self.is_overtaken = true;
        Ok(Applied::Moved(BTreeMap::new()))
    }
}

#[test]
fn a_group_refused_after_it_was_staged_again_is_in_no_list() {
    let shared = Arc::new(Shared::new(BTreeMap::new()));
    let mut committer = Committer::new(Overtaken::default(), Epoch(1), shared.clone());
    let entry = Entry { list: [1, 2], terms: Vec::new(), sort: [None; 2] };
    let put = Op::Put {
        key: Key::new(0x80, 1, &1_u128.to_be_bytes()),
        value: Bytes::new(),
        entry: Some(entry),
    };
    let guards = vec![(Partition(0), Epoch(1))];
    let batch = Batch { id: BatchId(1), guards, ops: vec![put] };
    assert!(matches!(committer.commit(&[batch]).unwrap()[..], [Outcome::Fenced]));
    shared.index.finish_loading(Ok(Loader::default()), &|_| None);
    let query = Query {
        list: [1, 2],
        filters: Vec::new(),
        order: Order::Document,
        descending: false,
        offset: 0,
        limit: 10,
    };
    assert_eq!(block_on(shared.index.query(&query)).unwrap().total, 0);
}
