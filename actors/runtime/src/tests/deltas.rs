//! The text that a worker streams.

use super::*;
use crate::observers::texts::TextPosition;

/// Before: the worker's actor passed on a delta of any length without a pause, 16 MiB in a second, and kept
/// its thread from everybody else.
#[tokio::test]
async fn others_have_their_turn_between_the_pieces_of_a_long_delta() {
    const LENGTH: usize = 1 << 19;
    let bench = Bench::new().await;
    let id = bench.submit(request()).await;
    let mut worker = bench.worker(1).await;
    let lease = worker.assignment().await.lease;
    let mut reader = bench.handle.follow_text(Environment::LIVE, id);
    worker.link.say(WorkerMessage::Delta(lease, "ü".repeat(LENGTH / 2)));
    // All of them share this thread.
    let (mut at, mut longest, mut whole) = (TextPosition::default(), 0, 0);
    while whole < LENGTH {
        if let Some((offset, text, next)) = reader.after(at, usize::MAX) {
            assert_eq!(offset, at.characters);
            at = next;
            longest = longest.max(text.len());
            whole += text.len();
        }
        tokio::task::yield_now().await;
    }
    assert!(longest <= LENGTH / 4, "{longest} bytes in one go");
}
