//! sled panics on a disk that fails and on files that are damaged, in places where an error of ours
//! says the same in words that help. There its panic is caught and not shown.
//!
//! Deliberately absent: any use while the program works; panics of other threads are not shown either
//! while this lasts.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::thread;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What `work` returns, or what it said when it panicked.
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let work = AssertUnwindSafe(work);
    let done = if thread::panicking() {
        // A thread that panics may not change the hook.
        panic::catch_unwind(work)
    } else {
        // Its holders catch their panics.
        let _one = ONE_AT_A_TIME.lock().expect("no holder panics");
        let usual = panic::take_hook();
        panic::set_hook(Box::new(|_| ()));
        let done = panic::catch_unwind(work);
        panic::set_hook(usual);
        done
    };
    done.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a word").to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_words_also_while_another_unwinds() {
        struct Late;
        impl Drop for Late {
            fn drop(&mut self) {
                assert_eq!(quietly(|| panic!("inner")), Err::<(), _>("inner".into()));
            }
        }
        assert_eq!(quietly(|| 7), Ok(7));
        let outer = quietly(|| {
            let _late = Late;
            panic!("outer {}", 1);
        });
        assert_eq!(outer, Err::<(), _>("outer 1".into()));
    }
}
