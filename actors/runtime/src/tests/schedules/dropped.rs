//! No occurrence is lost in silence: it runs, or its record says why it does not.

use callboard_domain::schedule::{DELETED, MAX_JITTER_MS};
use callboard_store::Outcome::Committed;
use callboard_store::{Batch, BatchId, Store};

use super::*;
use crate::observers::events::{StreamItem, Transient};
use crate::tables::{Subject, schedules};

fn delayed(cron: &str, catch_up: CatchUp) -> Timed {
    Timed { jitter_ms: MAX_JITTER_MS, ..settings_of(cron, Overlap::Allow, catch_up) }
}

impl Bench {
    /// A schedule whose first occurrence, in an hour at most, is delayed by ten to fifty minutes.
    async fn long_delayed(&self) -> ScheduleId {
        loop {
            let id = self.scheduled(delayed("0 * * * *", CatchUp::None)).await;
            let row = self.row(id).await;
            let (next, starts) = (row.schedule.next.unwrap(), row.schedule.wakes_at().unwrap());
            let delay = starts.since(next);
            if delay > Duration::from_mins(10) && delay < Duration::from_mins(50) {
                return id;
            }
            self.handle.delete_schedule(Environment::LIVE, id).await.expect("it is there");
        }
    }

    async fn row(&self, id: ScheduleId) -> ScheduleRow {
        self.handle.schedule(Environment::LIVE, id).await.expect("it is there").row
    }

    /// Five minutes into the delay of the next occurrence.
    async fn to_the_delay(&self, id: ScheduleId) -> Timestamp {
        let next = self.row(id).await.schedule.next.expect("there is one");
        let until = next.after(Duration::from_mins(5)).since(self.handle.now());
        tokio::time::sleep(until).await;
        next
    }

    async fn change(&self, id: ScheduleId, change: impl FnOnce(&mut Timed)) {
        let change = |mut settings: Timed| {
            change(&mut settings);
            Ok(settings)
        };
        self.handle.change_schedule(&owner(), id, change, None).await.expect("it is there");
    }

    /// The outcomes with their reasons, the oldest first.
    async fn reasons(&self, id: ScheduleId) -> Vec<(Outcome, Option<String>)> {
        self.runs(id).await.into_iter().map(|run| (run.outcome, run.error)).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn with_a_delay_longer_than_the_interval_each_occurrence_runs_also_over_a_restart() {
    for catch_up in CatchUp::ALL {
        let bench = Bench::new().await;
        let id = bench.scheduled(delayed("*/2 * * * *", catch_up)).await;
        tokio::time::sleep(Duration::from_secs(475)).await;
        let bench = bench.restart().await;
        // Until the longest delay of the seventh has ended.
        tokio::time::sleep(Duration::from_secs(490)).await;
        let outcomes = bench.outcomes(id).await;
        assert!(outcomes.len() >= 7, "{outcomes:?}");
        assert_eq!(outcomes, vec![Outcome::Started; outcomes.len()], "{catch_up}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_says_so_in_the_record_of_each_occurrence_that_waited() {
    let bench = Bench::new().await;
    let id = bench.scheduled(settings_of("* * * * *", Overlap::Queue, CatchUp::None)).await;
    tokio::time::sleep(Duration::from_secs(185)).await;
    let waiting = [Outcome::Started, Outcome::Queued, Outcome::Queued];
    assert_eq!(bench.outcomes(id).await, waiting);
    let mut events =
        bench.handle.subscribe(Environment::LIVE, None, Transient::default()).await.expect("read");
    bench.change(id, |settings| settings.enabled = false).await;
    let why = "the schedule was paused while the occurrence waited for an earlier run";
    let skipped = (Outcome::Skipped, Some(why.to_owned()));
    let expected = [(Outcome::Started, None), skipped.clone(), skipped];
    assert_eq!(bench.reasons(id).await, expected);
    for expected in ["schedule.skipped", "schedule.skipped", "schedule.updated"] {
        let Some(StreamItem::Stored(_, event)) = events.next().await.expect("readable") else {
            panic!("the stream ends");
        };
        assert_eq!(event.event, expected);
    }
    // Nothing of them runs after the pause.
    bench.change(id, |settings| settings.enabled = true).await;
    assert_eq!(bench.row(id).await.schedule.queued, []);
}

#[tokio::test(start_paused = true)]
async fn a_change_during_a_delay_keeps_the_occurrence_unless_it_moves_or_pauses_it() {
    let bench = Bench::new().await;
    let (named, paused, moved) =
        (bench.long_delayed().await, bench.long_delayed().await, bench.long_delayed().await);
    let at = bench.to_the_delay(named).await;
    bench.change(named, |settings| settings.name = "other".into()).await;
    bench.change(paused, |settings| settings.enabled = false).await;
    let timing = Timing::Cron { cron: "1 1 1 1 *".into(), zone: "UTC".into() };
    bench.change(moved, |settings| settings.timing = timing).await;
    tokio::time::sleep(Duration::from_mins(54)).await;
    let runs = bench.runs(named).await;
    assert_eq!((runs[0].at, runs[0].outcome), (at, Outcome::Started));
    let skipped = |why: &str| vec![(Outcome::Skipped, Some(why.to_owned()))];
    let of_pause = "the schedule was paused during the occurrence's delay (jitterMs)";
    let of_move = "cron, at or timezone was changed during the occurrence's delay (jitterMs)";
    assert_eq!(bench.reasons(paused).await, skipped(of_pause));
    assert_eq!(bench.reasons(moved).await, skipped(of_move));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_schedule_reports_the_occurrences_that_it_leaves_over() {
    let bench = Bench::new().await;
    let id = bench.scheduled(settings_of("* * * * *", Overlap::Queue, CatchUp::None)).await;
    tokio::time::sleep(Duration::from_secs(130)).await;
    let mut events =
        bench.handle.subscribe(Environment::LIVE, None, Transient::default()).await.expect("read");
    bench.handle.delete_schedule(Environment::LIVE, id).await.expect("it is there");
    let mut found = Vec::new();
    for _ in 0..2 {
        let Some(StreamItem::Stored(_, event)) = events.next().await.expect("readable") else {
            panic!("the stream ends");
        };
        let Subject::Schedule(of) = &event.subject else { panic!("{event:?}") };
        let reason = of.1.as_ref().and_then(|run| run.error.clone());
        found.push((event.event.to_string(), reason));
    }
    let skipped = ("schedule.skipped".to_owned(), Some(DELETED.to_owned()));
    assert_eq!(found, [skipped, ("schedule.deleted".to_owned(), None)]);
}

#[tokio::test(start_paused = true)]
async fn after_a_start_the_next_occurrence_is_by_the_time_zones_of_the_program() {
    let bench = Bench::new().await;
    let id = bench.scheduled(settings_of("*/10 * * * *", Overlap::Allow, CatchUp::None)).await;
    let right = bench.row(id).await;
    // As a program with other data would have computed it.
    let mut stale = right.clone();
    stale.schedule.next = right.schedule.next.map(|next| next.after(Duration::from_hours(1)));
    let store = Arc::new(bench.store.reopen());
    bench.system.stop().await;
    let ops = schedules::put(Environment::LIVE, &stale);
    let batch = Batch { id: BatchId(1), guards: Vec::new(), ops };
    assert!(matches!(store.commit(batch).await, Committed));
    let bench = Bench::at((bench.started, bench.wall), settings(), store.clone(), store).await;
    let pauses = Pauses::begin();
    while bench.row(id).await != right {
        pauses.one().await;
    }
    tokio::time::sleep(Duration::from_secs(605)).await;
    assert_eq!(bench.outcomes(id).await, [Outcome::Started]);
}
