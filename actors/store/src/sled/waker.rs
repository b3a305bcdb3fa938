//! Wakes whoever waits for a write of sled's that failed.
//!
//! When a write fails whose buffer was left last by a writer, sled remembers the error but tells
//! nobody (`exit_reservation` in its `pagecache/logger.rs`), so that a `flush` under way would wait for
//! ever. Another `flush` finds the error, returns it, and wakes the others.
//!
//! Deliberately absent: a limit to how long a write may take. A slow disk is not a broken one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(1);
/// How long sled may take to write the rest when it is closed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks sled now and then, until it is dropped.
#[derive(Debug)]
pub(super) struct Waker {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Waker {
    pub(super) fn start(tree: sled::Db) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let asking = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(EVERY) {
                // Whoever waits gets the error.
                let _ = catch_unwind(AssertUnwindSafe(|| tree.flush()));
            }
        };
        let thread = thread::Builder::new().name("store-waker".into()).spawn(asking)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It catches its panics.
            let _ = thread.join();
        }
    }
}

/// Closes sled; whether it wrote all it had to. Everything is flushed already, but for what sled writes
/// of its own accord; should that fail, closing could wait for ever.
pub(super) fn close(tree: sled::Db) -> bool {
    let (done, closed) = mpsc::channel();
    let closing = move || {
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(tree)));
        // Nobody listens any more if it took too long.
        let _ = done.send(dropped.is_ok());
    };
    thread::Builder::new().name("store-closing".into()).spawn(closing).is_ok()
        && closed.recv_timeout(PATIENCE).unwrap_or(false)
}
