//! The streamed text of a task on its way to the server.
//!
//! Text is gathered for a moment before it goes out, and for longer while the channel is full: a slow server
//! gets fewer and larger deltas, and the task is not held up.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::Text;

/// The time for which text is gathered.
const GATHER: Duration = Duration::from_millis(50);
/// The bytes of text that go out at once, without waiting.
const ENOUGH: usize = 1024;

/// Runs `work` to its end, and meanwhile sends the `pieces` of its output to `text`, for the lease.
///
/// # Errors
/// That of `work`.
pub async fn gather<T, E>(
    lease: &str,
    work: impl Future<Output = Result<T, E>> + Send,
    mut pieces: mpsc::Receiver<String>,
    text: &mpsc::Sender<Text>,
) -> Result<T, E> {
    let mut work = Box::pin(work);
    let mut gathered = String::new();
    let mut since = Instant::now();
    let mut due = false;
    let result = loop {
        tokio::select! {
            biased;
            result = &mut work => break result,
            Some(piece) = pieces.recv() => {
                if gathered.is_empty() {
                    since = Instant::now();
                }
                gathered.push_str(&piece);
                due |= gathered.len() >= ENOUGH;
            }
            Ok(room) = text.reserve(), if due => {
                room.send((lease.to_owned(), std::mem::take(&mut gathered)));
                due = false;
            }
            () = sleep_until(since + GATHER), if !due && !gathered.is_empty() => due = true,
        }
    };
    while let Ok(piece) = pieces.try_recv() {
        gathered.push_str(&piece);
    }
    if result.is_ok() && !gathered.is_empty() {
        // The channel is full: the result that follows holds the whole output anyway.
        let _ = text.try_send((lease.to_owned(), gathered));
    }
    result
}
