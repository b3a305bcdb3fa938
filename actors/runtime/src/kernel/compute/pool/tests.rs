//! The order of turns, and the bounds of what waits.

use futures_util::FutureExt;

use super::*;

async fn take(turn: ComputePermit, time: Duration) {
    tokio::time::advance(time).await;
    drop(turn);
}

const SECOND: Duration = Duration::from_secs(1);
const A: Slot = Slot::DEFAULT;
const B: Slot = Slot::new(1).expect("a slot");

/// A pool of one thread for `default` and other projects.
fn pool(others: &[Slot]) -> Arc<Pool> {
    let environments = Arc::new(Environments::default());
    for project in others {
        environments.put(*project);
    }
    Arc::new(Pool::new(1, environments))
}

#[tokio::test(start_paused = true)]
async fn a_project_does_not_wait_for_the_many_accounts_of_another_one() {
    let pool = pool(&[B]);
    take(pool.owed(B, "of b").await, SECOND / 10).await;
    let running = pool.owed(A, "0").await;
    let mut flood: Vec<_> = (1..200).map(|n| Box::pin(pool.owed(A, &n.to_string()))).collect();
    let mut of_b: Vec<_> = (0..3).map(|_| Box::pin(pool.owed(B, "of b"))).collect();
    take(running, SECOND).await;
    for turn in of_b.drain(..) {
        take(turn.now_or_never().expect("its project has used little"), SECOND / 10).await;
    }
    assert!(flood.remove(0).now_or_never().is_some(), "nobody else waits");
}

#[tokio::test(start_paused = true)]
async fn a_project_s_requests_that_wait_leave_room_for_another_one() {
    let pool = pool(&[B]);
    let ask = |project, account: &str| pool.asked(project, account, 8 << 20).ok();
    let flood: Vec<_> = (0..20).map_while(|n| ask(A, &n.to_string())).collect();
    assert_eq!(flood.len() << 23, MAX_BYTES * 3 / 4);
    assert!(ask(A, "one more").is_none());
    assert!(ask(B, "of b").is_some());
}

#[tokio::test(start_paused = true)]
async fn an_account_waits_for_what_runs_and_for_nothing_that_waits_of_others() {
    let pool = pool(&[]);
    let mut flood: Vec<_> =
        (0..40).map(|_| Box::pin(pool.asked(A, "flood", 1).expect("room"))).collect();
    let running = flood.remove(0).now_or_never().expect("a thread is free");
    let mut twenty: Vec<_> = (0..20)
        .map(|n| Box::pin(pool.asked(A, &format!("one of many {n}"), 1).expect("room")))
        .collect();
    take(running, SECOND).await;
    for turn in twenty.drain(..) {
        take(turn.now_or_never().expect("each used nothing"), SECOND / 10).await;
    }
    let second = flood.remove(0).now_or_never().expect("nobody else waits");
    let other = Box::pin(pool.asked(A, "other", 1).expect("room"));
    let mut again = Box::pin(pool.asked(A, "one of many 3", 1).expect("room"));
    take(second, SECOND).await;
    let again = again.as_mut().now_or_never().expect("its computations are brief");
    take(again, SECOND / 10).await;
    let other = other.now_or_never().expect("it used nothing");
    take(other, SECOND / 5).await;
    assert!(flood.remove(0).now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn brief_ones_do_not_wait_for_many_accounts_that_begin_with_long_ones() {
    let pool = pool(&[]);
    take(pool.owed(A, "long").await, SECOND).await;
    take(pool.owed(A, "brief").await, SECOND / 100).await;
    let running = pool.owed(A, "long").await;
    let ask = |account: String| Box::pin(pool.asked(A, &account, 1).expect("room"));
    let mut new: Vec<_> = (0..20).map(|n| ask(format!("new {n}"))).collect();
    let brief = ask("brief".into());
    take(running, SECOND).await;
    drop(brief.now_or_never().expect("it is over before any of them"));
    assert!(new.remove(0).now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_first_brief_one_does_not_wait_for_first_long_ones() {
    let pool = pool(&[]);
    let running = pool.owed(A, "any").await;
    let ask = |account: String, takes| {
        let weight = Weight { bytes: 1, takes: Some(takes) };
        Box::pin(pool.asked(A, &account, weight).expect("room"))
    };
    let mut long: Vec<_> = (0..20).map(|n| ask(format!("long {n}"), SECOND)).collect();
    let brief = ask("brief".into(), SECOND / 10);
    take(running, SECOND).await;
    drop(brief.now_or_never().expect("it is over before any of them"));
    assert!(long.remove(0).now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_use_of_an_account_is_forgotten() {
    let pool = pool(&[]);
    take(pool.owed(A, "a").await, 10 * SECOND).await;
    assert_eq!(pool.state().projects[&A].lines["a"].used.at(Instant::now()), 10 * SECOND);
    tokio::time::advance(HALF_LIFE).await;
    assert_eq!(pool.state().projects[&A].lines["a"].used.at(Instant::now()), 5 * SECOND);
    tokio::time::advance(20 * HALF_LIFE).await;
    drop(pool.owed(A, "b").await);
    assert!(pool.state().projects.is_empty());
}

#[tokio::test(start_paused = true)]
async fn callers_who_leave_give_up_their_places_and_threads() {
    let pool = pool(&[]);
    let first = pool.asked(A, "a", 5).expect("room");
    let second = pool.asked(A, "a", 5).expect("room");
    let third = pool.asked(A, "a", 5).expect("room");
    drop(second);
    assert_eq!(pool.state().bytes, 10);
    // The first has its turn already, though it was never looked at.
    drop(first);
    drop(third.now_or_never().expect("the thread is free"));
    let state = pool.state();
    assert_eq!((state.running, state.bytes, state.projects.len()), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_bounded_for_each_account_and_for_all() {
    let pool = pool(&[]);
    let many: Vec<_> = (0..MAX_ASKED).map(|_| pool.asked(A, "a", 1).expect("room")).collect();
    let refused = pool.asked(A, "a", 1).err();
    assert_eq!(refused, Some(Error::TooMuchWaits { what: "requests", limit: MAX_ASKED }));
    drop(many);
    let large = pool.asked(A, "a", MAX_BYTES_OF_ONE + 1).expect("one always fits");
    let refused = pool.asked(A, "a", 1).err();
    assert_eq!(refused, Some(Error::TooMuchWaits { what: "bytes", limit: MAX_BYTES_OF_ONE }));
    let owed = pool.owed(A, "a");
    let all: Vec<_> = (0..10).map(|n| pool.asked(A, &format!("{n}"), 8 << 20)).collect();
    let taken = all.iter().filter(|one| one.is_ok()).count();
    assert_eq!(taken, 5, "{MAX_BYTES} bytes in all");
    drop((large, all));
    assert!(owed.now_or_never().is_some(), "what was accepted is not refused");
}
