//! sled panics on a disk that fails and on files that are damaged, in places where an error of ours
//! says the same in words that help. There its panic is caught and not shown.
//!
//! Deliberately absent: any use while the program works; panics of other threads are not shown either
//! while this lasts.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What `work` returns, or what it said when it panicked.
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    // Its holders catch their panics.
    let _one = ONE_AT_A_TIME.lock().expect("no holder panics");
    let usual = panic::take_hook();
    panic::set_hook(Box::new(|_| ()));
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    panic::set_hook(usual);
    done.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a word").to_owned()
    })
}
