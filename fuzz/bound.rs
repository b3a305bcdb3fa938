//! The bound of a text's time: no text that a caller sends may make others wait.

use std::time::{Duration, Instant};

/// Runs `work`, which must not take half a second: a build for fuzzing takes about five times as long as a
/// release, which has 100 ms.
pub fn bounded<T>(work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let made = work();
    let took = began.elapsed();
    assert!(took < Duration::from_millis(500), "it took {took:?}");
    made
}
