//! The share of the node that one project may take: others find room under its flood.

use callboard_domain::Error;
use tokio::task::JoinSet;

use super::*;

const TOO_MUCH: Error =
    Error::Unavailable("too many submissions wait for the disk: send this again in a few seconds");

/// A task of one MiB.
fn large() -> Request {
    Request { inputs: Inputs { prompt: "x".repeat(1 << 20), ..Inputs::default() }, ..request() }
}

#[tokio::test(start_paused = true)]
async fn a_project_whose_submissions_wait_for_the_disk_leaves_room_for_another_one() {
    let store = Arc::new(MemoryStore::new());
    let faulty = Arc::new(FaultyStore::new(store.clone(), 200, Fault::Silent));
    let wall = Arc::new(AtomicU64::new(1_800_000_000_000));
    let start = (Instant::now(), wall);
    let bench = Bench::at(start, settings(), store, faulty.clone()).await;
    let other = bench.other_project("search").await;
    let submit = |owner: Owner, request| {
        let handle = bench.handle.clone();
        async move { handle.submit(&owner, vec![request], false, None).await.map(drop) }
    };
    while !faulty.has_failed() {
        // The last one has no answer.
        let _ = submit(owner(), request()).await;
    }
    let mut flood = JoinSet::new();
    for _ in 0..100 {
        flood.spawn(submit(owner(), large()));
    }
    let answers = flood.join_all().await;
    assert!(answers.iter().all(Result::is_err), "the disk stands still");
    let taken = answers.iter().filter(|answer| **answer != Err(TOO_MUCH)).count();
    assert_eq!(taken, 47, "three quarters of 64 MiB, less what each takes besides its text");
    assert_eq!(submit(owner(), large()).await, Err(TOO_MUCH));
    assert_ne!(submit(other, large()).await, Err(TOO_MUCH), "it waits for the disk");
}
