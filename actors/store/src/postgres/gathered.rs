//! Reads of single rows, gathered into few calls.
//!
//! ```text
//! get ─▶ waits with the others ─▶ a call is free? ─ yes ─▶ one call reads every waiting key
//!                                     └ no: the keys wait until one of the calls has ended
//! ```
//!
//! A lone read is not delayed. Reads that run side by side cost one exchange with the database together.
//! Deliberately absent: a cache. A read that begins after a commit was answered sees it.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinError;

use crate::{Error, panics};

/// The calls that may be on their way.
const CALLS: usize = 4;
/// The most keys of one call, so that its answer stays below some megabytes.
const KEYS: usize = 1_000;

/// The rows of one call, by their keys; a key without a row is absent.
pub(super) type Found = BTreeMap<Vec<u8>, Bytes>;

/// One call: the keys, and the rows that there are.
pub(super) type Call = Box<dyn Fn(Vec<Vec<u8>>) -> Answer + Send + Sync>;
pub(super) type Answer = Pin<Box<dyn Future<Output = Result<Found, Error>> + Send>>;

type Reply = oneshot::Sender<Result<Option<Bytes>, Error>>;

/// The reads that wait for a call.
pub(super) struct Gathered {
    runtime: Handle,
    call: Call,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    reads: Vec<(Vec<u8>, Reply)>,
    calls: usize,
}

impl Gathered {
    /// Reads by `call`, on `runtime`.
    pub(super) fn new(runtime: Handle, call: Call) -> Self {
        Self { runtime, call, waiting: Mutex::default() }
    }

    /// The row at a key on disk.
    pub(super) async fn get(self: &Arc<Self>, key: Vec<u8>) -> Result<Option<Bytes>, Error> {
        let (reply, answer) = oneshot::channel();
        let is_free = {
            let mut waiting = self.waiting();
            waiting.reads.push((key, reply));
            let is_free = waiting.calls < CALLS;
            waiting.calls += usize::from(is_free);
            is_free
        };
        if is_free {
            // Not the caller's own: others' reads go on if the caller leaves.
            self.runtime.spawn(Arc::clone(self).run());
        }
        answer.await.map_err(|_| Error::Stopped)?
    }

    /// Calls until no read waits.
    async fn run(self: Arc<Self>) {
        loop {
            let reads = {
                let mut waiting = self.waiting();
                if waiting.reads.is_empty() {
                    waiting.calls -= 1;
                    return;
                }
                let length = waiting.reads.len().min(KEYS);
                waiting.reads.drain(..length).collect::<Vec<_>>()
            };
            let keys = reads.iter().map(|(key, _)| key.clone()).collect();
            // In a task of its own: a panic is its readers' failure, and the next call goes on here.
            let call = Arc::clone(&self);
            let call = self.runtime.spawn(async move { (call.call)(keys).await });
            let found = call.await.unwrap_or_else(|error| Err(broken(error)));
            for (key, reply) in reads {
                let row = found.as_ref().map(|found| found.get(&key).cloned());
                // The reader may have left.
                let _ = reply.send(row.map_err(Clone::clone));
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no holder panics")
    }
}

/// The failure of a call that panicked, or that the end of the runtime cut off.
fn broken(error: JoinError) -> Error {
    error.try_into_panic().map_or(Error::Stopped, |panic| {
        Error::Io(format!("a read panicked: {}", panics::message(&*panic)).into())
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::future::join_all;
    use tokio::sync::{Semaphore, mpsc};

    use super::*;

    /// A database with a row at each even key, which answers a call once it is let, and the lengths of
    /// the calls.
    fn database(let_go: &Arc<Semaphore>) -> (Arc<Gathered>, mpsc::UnboundedReceiver<usize>) {
        let (calls, asked) = mpsc::unbounded_channel();
        let let_go = Arc::clone(let_go);
        let call = move |keys: Vec<Vec<u8>>| -> Answer {
            calls.send(keys.len()).expect("the test listens");
            assert!(!keys.contains(&b"panics early".to_vec()), "there is no row here");
            let let_go = Arc::clone(&let_go);
            Box::pin(async move {
                let_go.acquire().await.expect("it stays open").forget();
                assert!(!keys.contains(&b"panics later".to_vec()), "there is no row here");
                if keys.contains(&b"fails".to_vec()) {
                    return Err(Error::Stopped);
                }
                let rows = keys.into_iter().filter(|key| key[0] % 2 == 0);
                Ok(rows.map(|key| (key.clone(), Bytes::from(key))).collect())
            })
        };
        (Arc::new(Gathered::new(Handle::current(), Box::new(call))), asked)
    }

    #[tokio::test]
    async fn reads_side_by_side_take_few_calls_and_each_gets_its_row() {
        let let_go = Arc::new(Semaphore::new(0));
        let (gathered, mut asked) = database(&let_go);
        let read = |key: u8| {
            let gathered = Arc::clone(&gathered);
            async move { gathered.get(vec![key]).await.expect("the database answers") }
        };
        let alone = tokio::spawn(read(2));
        assert_eq!(asked.recv().await, Some(1), "a lone read does not wait for others");
        let many = tokio::spawn(join_all((0..=250).map(read)));
        assert_eq!(asked.recv().await, Some(251));
        let_go.add_permits(10);
        assert_eq!(alone.await.expect("it ends"), Some(Bytes::from_static(&[2])));
        for (key, row) in (0_u8..).zip(many.await.expect("they end")) {
            let right = (key % 2 == 0).then(|| Bytes::from(vec![key]));
            assert_eq!(row, right, "the row at {key}");
        }
    }

    #[tokio::test]
    async fn reads_beyond_the_calls_on_their_way_wait_for_the_next() {
        let let_go = Arc::new(Semaphore::new(0));
        let (gathered, mut asked) = database(&let_go);
        let mut reads = Vec::new();
        for key in 0..10 {
            let gathered = Arc::clone(&gathered);
            reads.push(tokio::spawn(async move { gathered.get(vec![key]).await }));
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        }
        let_go.add_permits(5);
        for read in reads {
            read.await.expect("it ends").expect("the database answers");
        }
        let mut calls = Vec::new();
        while let Ok(keys) = asked.try_recv() {
            calls.push(keys);
        }
        assert_eq!(calls, [1, 1, 1, 1, 6]);
    }

    #[tokio::test]
    async fn a_failed_call_is_every_readers_failure_and_later_reads_go_on() {
        let let_go = Arc::new(Semaphore::new(10));
        let (gathered, _asked) = database(&let_go);
        let failing = [gathered.get(b"fails".to_vec()), gathered.get(vec![4])];
        let failed = join_all(failing).await;
        assert!(failed.iter().all(Result::is_err), "{failed:?}");
        assert!(matches!(gathered.get(vec![4]).await, Ok(Some(_))));
    }

    /// Before: each panic took one of the four calls for good, and after four no read was answered.
    #[tokio::test]
    async fn a_call_that_panics_fails_its_readers_and_frees_its_slot() {
        let let_go = Arc::new(Semaphore::new(100));
        let (gathered, _asked) = database(&let_go);
        let read = |key: &[u8]| {
            let (gathered, key) = (Arc::clone(&gathered), key.to_vec());
            async move {
                let read = gathered.get(key);
                tokio::time::timeout(Duration::from_secs(5), read).await.expect("an answer")
            }
        };
        for panics in [b"panics early", b"panics later"] {
            for _ in 0..2 * CALLS {
                assert!(read(panics).await.is_err());
            }
        }
        assert!(
            matches!(read(b"panics later").await, Err(Error::Io(why)) if why.contains("no row"))
        );
        assert!(matches!(read(&[4]).await, Ok(Some(row)) if row == [4][..]));
        assert_eq!(gathered.waiting().calls, 0);
    }

    #[tokio::test]
    async fn a_reader_that_leaves_takes_no_others_read_along() {
        let let_go = Arc::new(Semaphore::new(0));
        let (gathered, mut asked) = database(&let_go);
        let [leaves, stays] = [2, 4].map(|key| {
            let gathered = Arc::clone(&gathered);
            tokio::spawn(async move { gathered.get(vec![key]).await })
        });
        assert_eq!(asked.recv().await, Some(2));
        leaves.abort();
        let_go.add_permits(1);
        assert!(matches!(stays.await.expect("it ends"), Ok(Some(_))));
    }
}
