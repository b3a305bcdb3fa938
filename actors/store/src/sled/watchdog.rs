//! A watchdog for sled's writes, and the closing of sled.
//!
//! If a write fails whose buffer a writer was the last to leave, sled keeps the error and wakes no waiter
//! (`exit_reservation` in its `pagecache/logger.rs`), so that a `flush` under way would wait for ever.
//! Another `flush` finds the error, returns it, and wakes the others.
//!
//! Deliberately absent: a time limit for a write. A slow disk is not a broken one.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::reclaim;
use crate::panics;

const INTERVAL: Duration = Duration::from_secs(1);
/// The longest time for sled to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Flushes sled once a second, until it is dropped.
#[derive(Debug)]
pub(super) struct Watchdog {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    pub(super) fn start(tree: sled::Db) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let watch = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(INTERVAL) {
                // The flush that waits gets the error.
                let _ = panics::catch(|| reclaim::flush_beside(&tree));
            }
        };
        let thread = thread::Builder::new().name("store-watchdog".into()).spawn(watch)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // The thread catches its own panics.
            let _ = thread.join();
        }
    }
}

/// Closes sled and returns true if it could write all it had to. All rows are flushed before; but sled
/// also writes on its own, and if that fails, closing could wait for ever.
pub(super) fn close(tree: sled::Db) -> bool {
    let (done, closed) = mpsc::channel();
    let closing = move || {
        let dropped = panics::catch(|| drop(tree));
        // The receiver is gone after the timeout.
        let _ = done.send(dropped.is_ok());
    };
    thread::Builder::new().name("store-closing".into()).spawn(closing).is_ok()
        && closed.recv_timeout(CLOSE_TIMEOUT).unwrap_or(false)
}
