//! Panics as errors: sled panics on a disk that fails and on damaged files, in places where an error
//! says the same and the remedy.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::thread;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs `work` and returns the message of its panic, if it panics.
pub(crate) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|panic| message(&*panic))
}

/// The same, and the message is not printed. While `work` runs, a panic of another thread is not printed
/// either: only for opening and closing.
pub(crate) fn catch_silently<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    if thread::panicking() {
        // A thread that panics may not change the hook.
        return catch(work);
    }
    // A holder catches its panics.
    let _one = ONE_AT_A_TIME.lock().expect("no holder panics");
    let usual = panic::take_hook();
    panic::set_hook(Box::new(|_| ()));
    let done = catch(work);
    panic::set_hook(usual);
    done
}

/// The message of a panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message_also_while_another_unwinds() {
        struct Late;
        impl Drop for Late {
            fn drop(&mut self) {
                assert_eq!(catch_silently(|| panic!("inner")), Err::<(), _>("inner".into()));
            }
        }
        assert_eq!(catch_silently(|| 7), Ok(7));
        let outer = catch_silently(|| {
            let _late = Late;
            panic!("outer {}", 1);
        });
        assert_eq!(outer, Err::<(), _>("outer 1".into()));
    }
}
