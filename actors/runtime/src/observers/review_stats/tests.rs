use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use callboard_domain::approval::GateOutcome;
use callboard_store::testing::memory::MemoryStore;
use callboard_store::{Batch, BatchId, Outcome, Partition};

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn record(fate: GateOutcome) -> Record {
    Record {
        template: Some("t-v1".into()),
        step: None,
        confidence: Some(0.95),
        method: None,
        model: None,
        sampled: false,
        since: NOW,
        escalated: false,
        fate,
    }
}

async fn stored(records: impl IntoIterator<Item = (Environment, u128, Record)>) -> MemoryStore {
    let store = MemoryStore::new();
    let put = |(environment, task, record): (Environment, u128, Record)| {
        REVIEW_RECORDS.put(environment.number(), &task, &record, None)
    };
    let ops = records.into_iter().map(put).collect();
    let guards = vec![(Partition(0), store.epoch(Partition(0)).unwrap())];
    let outcome = store.commit(Batch { id: BatchId(1), guards, ops }).await;
    assert!(matches!(outcome, Outcome::Committed), "{outcome:?}");
    store
}

#[tokio::test(start_paused = true)]
async fn what_is_stored_is_told_by_environment_once_all_of_it_is_read() {
    let many = (0..2_500).map(|task| (Environment::LIVE, task, record(GateOutcome::Passed)));
    let rejected = record(GateOutcome::Rejected { by: "usr_a".into(), at: NOW });
    let test = [(Environment::TEST, 1, rejected)];
    let store = stored(many.chain(test)).await;
    let track = ReviewStats::default();
    let open = record(GateOutcome::Open { expired: false });
    track.found(Environment::LIVE, [(TaskId::from_u128(5_000), open.clone())]);

    let mut asked = pin!(track.statistics(Environment::LIVE, NOW));
    poll_fn(|cx| {
        assert!(asked.as_mut().poll(cx).is_pending(), "it is not read yet");
        Poll::Ready(())
    })
    .await;
    track.load(&store, &[Environment::LIVE, Environment::TEST]).await;
    let summary = asked.await.expect("it is read");
    assert_eq!((summary.pending, summary.created, summary.decided), (1, 1, 0));
    let query = Query::default();
    let live = track.calibration(Environment::LIVE, &query).await.expect("it is read");
    assert_eq!((live.deciles[9].passed, live.deciles[9].undecided), (2_500, 1));
    let test = track.calibration(Environment::TEST, &query).await.expect("it is read");
    assert_eq!((test.deciles[9].passed, test.deciles[9].rejected), (0, 1));

    let ended = record(GateOutcome::Cancelled);
    track.changed(Environment::LIVE, TaskId::from_u128(5_000), Some(&open), &ended);
    let summary = track.statistics(Environment::LIVE, NOW).await.expect("it is read");
    assert_eq!((summary.pending, summary.created), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_refused_and_nobody_waits_for_it() {
    let store = MemoryStore::new();
    let ops = vec![callboard_store::Op::Put {
        key: REVIEW_RECORDS.key(0, &1),
        value: b"nonsense"[..].into(),
        entry: None,
    }];
    let guards = vec![(Partition(0), store.epoch(Partition(0)).unwrap())];
    let outcome = store.commit(Batch { id: BatchId(1), guards, ops }).await;
    assert!(matches!(outcome, Outcome::Committed), "{outcome:?}");
    let track = ReviewStats::default();
    track.load(&store, &[Environment::LIVE, Environment::TEST]).await;
    let refused = track.statistics(Environment::LIVE, NOW).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
}

#[tokio::test]
async fn a_start_reads_what_was_stored_before() {
    let decided = GateOutcome::Approved { by: "usr_a".into(), at: NOW, edited: true };
    let store = stored([(Environment::LIVE, 1, record(decided))]).await;
    let on_break = Box::new(|why| panic!("the system broke: {why}"));
    let (settings, ports) =
        (crate::tests::settings(), crate::kernel::ports::Ports::of_this_machine());
    let system = crate::System::start(std::sync::Arc::new(store), settings, ports, on_break);
    let system = system.await.expect("it starts");
    let query = Query::default();
    let found = system.handle().calibration(Environment::LIVE, &query).await.expect("it is read");
    assert_eq!(found.deciles[9].edited, 1);
    let summary = system.handle().statistics(Environment::TEST).await.expect("it is read");
    assert_eq!(summary, Summary::default());
    system.stop().await;
}
