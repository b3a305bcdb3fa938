//! The share of the node that one project may take: others find room under its flood.

use std::pin::Pin;

use callboard_domain::Error;
use tokio::task::JoinSet;

use super::*;

const TOO_MUCH: Error =
    Error::Unavailable("too many submissions wait for the disk: send this again in a few seconds");

/// A task of one MiB.
fn large() -> Request {
    Request { inputs: Inputs { prompt: "x".repeat(1 << 20), ..Inputs::default() }, ..request() }
}

/// Two projects on a disk that answers no commit any more.
async fn standing_still() -> (Bench, Arc<FaultyStore>, Owner) {
    let store = Arc::new(MemoryStore::new());
    let faulty = Arc::new(FaultyStore::new(store.clone(), 200, Fault::Silent));
    let wall = Arc::new(AtomicU64::new(1_800_000_000_000));
    let start = (Instant::now(), wall);
    let bench = Bench::at(start, settings(), store, faulty.clone()).await;
    let other = bench.other_project("search").await;
    while !faulty.has_failed() {
        // The last one has no answer.
        let _ = submissions(&bench)(owner(), request()).await;
    }
    (bench, faulty, other)
}

fn submissions(bench: &Bench) -> impl Fn(Owner, Request) -> Submission {
    |owner, request| {
        let handle = bench.handle.clone();
        Box::pin(async move { handle.submit(&owner, vec![request], false, None).await.map(drop) })
    }
}

type Submission = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

#[tokio::test(start_paused = true)]
async fn a_project_whose_submissions_wait_for_the_disk_leaves_room_for_another_one() {
    let (bench, _, other) = standing_still().await;
    let submit = submissions(&bench);
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

#[tokio::test(start_paused = true)]
async fn small_submissions_wait_for_few_large_ones_of_another_project() {
    let (bench, store, other) = standing_still().await;
    let submit = submissions(&bench);
    let before = store.commits();
    let mut flood = JoinSet::new();
    for _ in 0..40 {
        flood.spawn(submit(owner(), large()));
    }
    let small: JoinSet<_> = (0..10).map(|_| submit(other.clone(), request())).collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(store.commits() - before, 12, "two large ones and all small ones");
    drop(small);
}
