//! sled's flush, without the use after free that sled 0.34.7 has beside its own thread; and the freeing of what sled
//! has replaced.
//!
//! ```text
//! sled's thread   load the pointer to the write buffer ─────────▶ count one more reference
//! flush           put another buffer in its place, and free the old one once no guard is older
//! ```
//!
//! `flush` and sled's thread, which writes the buffer out every [`super::opening::COLLECT_EVERY`], do these
//! steps (`current_iobuf` in `pagecache/iobuf.rs`) without a guard of crossbeam-epoch, so a thread that loses
//! the processor between them goes on with freed memory. Both are in a section in which sled holds its
//! lock `concurrency_control` for reading. So a flush here holds a guard until it has had that lock
//! for writing, as a transaction does: sled's thread has then left the section in which it may have loaded
//! the pointer.
//!
//! crossbeam-epoch frees some of what was replaced at every 128th guard of a thread. A batch of sled is hundreds of rows
//! under one guard, so under load far more is replaced than freed: copies of pages, and write buffers of 512 KB. So a
//! flush, which follows each batch, frees what can be freed.
//!
//! Deliberately absent: a guard in sled's thread, into which no code of ours can come.

use std::thread;
use std::time::Duration;

use sled::transaction::{TransactionResult, abort};

/// The time for which [`flush_beside`] keeps what it replaced: longer than a thread waits for a processor.
const KEPT: Duration = Duration::from_millis(20);
/// The steps in which a flush frees. Each frees up to 500 values that no guard keeps, and a batch replaces about a thousand.
const COLLECTIONS: usize = 8;

/// Flushes, and frees what was replaced before. Waits for all who read or write.
pub(super) fn flush(tree: &sled::Db) -> sled::Result<usize> {
    let guard = crossbeam_epoch::pin();
    let flushed = tree.flush();
    // It is aborted: it changes nothing. It begins once it has the lock.
    let _: TransactionResult<(), ()> = tree.transaction(|_| abort(()));
    drop(guard);
    for _ in 0..COLLECTIONS {
        crossbeam_epoch::pin().flush();
    }
    flushed
}

/// Flushes beside a flush under way, for which no reader shall have to wait.
pub(super) fn flush_beside(tree: &sled::Db) -> sled::Result<usize> {
    let _guard = crossbeam_epoch::pin();
    let flushed = tree.flush();
    thread::sleep(KEPT);
    flushed
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, mpsc};
    use std::time::Instant;

    use super::*;

    static FREED: AtomicBool = AtomicBool::new(false);

    /// True once what was replaced is freed; collects for up to `limit`.
    fn is_freed_within(limit: Duration) -> bool {
        let begun = Instant::now();
        while !FREED.load(Ordering::Relaxed) && begun.elapsed() < limit {
            // Each collects what no guard keeps.
            crossbeam_epoch::pin().flush();
            thread::yield_now();
        }
        FREED.load(Ordering::Relaxed)
    }

    fn open(directory: &Path) -> sled::Db {
        let config = sled::Config::new().path(directory).flush_every_ms(None);
        config.open().expect("it opens")
    }

    /// A pair of channels: one tells that a place was reached, the other that it may be left.
    struct Stop {
        reached: mpsc::Sender<()>,
        may_leave: Mutex<mpsc::Receiver<()>>,
    }

    impl Stop {
        fn new() -> (Self, mpsc::Receiver<()>, mpsc::Sender<()>) {
            let (reached, is_reached) = mpsc::channel();
            let (leave, may_leave) = mpsc::channel();
            (Self { reached, may_leave: Mutex::new(may_leave) }, is_reached, leave)
        }

        fn here(&self) {
            let _ = self.reached.send(());
            let _ = self.may_leave.lock().expect("no holder panics").recv();
        }
    }

    #[test]
    fn what_is_replaced_during_a_flush_is_not_freed_before_its_end() {
        let directory = tempfile::tempdir().expect("it can be made");
        let tree = open(directory.path());
        let (stop, is_reached, leave) = Stop::new();
        thread::scope(|scope| {
            let tree = &tree;
            scope.spawn(move || {
                // A flush waits for the end of a transaction.
                let _: TransactionResult<(), ()> = tree.transaction(|_| {
                    stop.here();
                    abort(())
                });
            });
            is_reached.recv().expect("it is reached");
            let flushing = scope.spawn(move || flush(tree).expect("it flushes"));
            assert!(!is_freed_within(Duration::from_millis(50)));
            crossbeam_epoch::pin().defer(|| FREED.store(true, Ordering::Relaxed));
            let was_freed = is_freed_within(Duration::from_millis(200));
            drop(leave);
            flushing.join().expect("it flushes");
            assert!(!was_freed, "a reader may use it");
        });
        assert!(is_freed_within(Duration::from_secs(30)), "it is kept for ever");
    }

    #[test]
    fn a_flush_ends_once_everybody_has_left_sled() {
        let directory = tempfile::tempdir().expect("it can be made");
        let tree = open(directory.path());
        let (stop, is_reached, leave) = Stop::new();
        tree.set_merge_operator(move |_: &[u8], _: Option<&[u8]>, new: &[u8]| {
            stop.here();
            Some(new.to_vec())
        });
        thread::scope(|scope| {
            let tree = &tree;
            scope.spawn(move || tree.merge("key", "value").expect("it is stored"));
            is_reached.recv().expect("it is reached");
            let flushing = scope.spawn(move || flush(tree).expect("it flushes"));
            thread::sleep(Duration::from_millis(100));
            let is_over = flushing.is_finished();
            drop(leave);
            assert!(!is_over, "a reader is still there");
        });
    }

    #[test]
    fn the_collector_is_that_of_sled() {
        let locked = include_str!("../../../../Cargo.lock");
        assert_eq!(locked.matches("name = \"crossbeam-epoch\"").count(), 1);
    }
}
