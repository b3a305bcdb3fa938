//! Every interleaving of a task's commits, their reports, and the reads.

use callboard_domain::Timestamp;
use callboard_domain::approval::GateOutcome;

use super::*;

const TASK: TaskId = TaskId::from_u128(7);
const AT: Timestamp = Timestamp::from_millis(1_000);

fn record(fate: GateOutcome) -> Record {
    Record {
        template: None,
        step: Some("s".into()),
        confidence: Some(0.7),
        method: None,
        model: None,
        sampled: false,
        since: AT,
        escalated: false,
        fate,
    }
}

fn reviewed() -> Vec<Record> {
    let open = record(GateOutcome::Open { expired: false });
    let escalated = Record { escalated: true, ..open.clone() };
    let fate = GateOutcome::Approved { by: "usr_a".into(), at: AT, edited: false };
    vec![open, escalated.clone(), Record { fate, ..escalated }]
}

/// How far the reading of a kind of rows is.
#[derive(Debug, Clone)]
enum Reading {
    Ahead,
    /// The record that was found, and is not counted yet.
    Read(Option<Record>),
    Counted,
}

/// A task and its progress.
#[derive(Debug, Clone)]
struct World {
    life: Vec<Record>,
    committed: usize,
    reported: usize,
    open: Reading,
    ended: Reading,
    sums: Sums,
}

impl World {
    /// As at a start: earlier commits are never reported.
    fn new(life: Vec<Record>, committed: usize) -> Self {
        let (open, ended) = (Reading::Ahead, Reading::Ahead);
        Self { life, committed, reported: committed, open, ended, sums: Sums::default() }
    }

    fn stored(&self, open: bool) -> Option<Record> {
        let last = self.committed.checked_sub(1).map(|last| &self.life[last])?;
        (matches!(last.fate, GateOutcome::Open { .. }) == open).then(|| last.clone())
    }

    /// All that may happen next.
    fn next(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut then = |happens: &dyn Fn(&mut Self)| {
            let mut world = self.clone();
            happens(&mut world);
            all.push(world);
        };
        if self.reported < self.committed {
            then(&|world| {
                let before = world.reported.checked_sub(1).map(|before| &world.life[before]);
                world.sums.changed(TASK, before, &world.life[world.reported]);
                world.reported += 1;
            });
        } else if self.committed < self.life.len() {
            then(&|world| world.committed += 1);
        }
        match &self.open {
            Reading::Ahead => then(&|world| world.open = Reading::Read(world.stored(true))),
            Reading::Read(found) => then(&|world| {
                world.open = Reading::Counted;
                if let Some(record) = found.clone() {
                    world.sums.found_open(TASK, &record);
                }
            }),
            Reading::Counted => {}
        }
        match &self.ended {
            Reading::Ahead => then(&|world| world.ended = Reading::Read(world.stored(false))),
            Reading::Read(found) => then(&|world| {
                world.ended = Reading::Counted;
                if let Some(record) = found.clone() {
                    world.sums.found_ended(TASK, &record);
                }
            }),
            Reading::Counted => {}
        }
        let read = matches!((&self.open, &self.ended), (Reading::Counted, Reading::Counted));
        if read && self.reported == self.committed && self.sums.loading.is_some() {
            then(&|world| world.sums.finish_loading());
        }
        all
    }

    fn explore(&self, ends: &mut usize) {
        let next = self.next();
        if next.is_empty() {
            *ends += 1;
            let mut expected = Sums::default();
            expected.replace(None, self.life.last().expect("a life"));
            assert_eq!(self.sums.statistics, expected.statistics);
            assert_eq!(self.sums.counts, expected.counts);
        }
        for world in next {
            world.explore(ends);
        }
    }
}

#[test]
fn in_whatever_order_things_happen_each_record_is_counted_once() {
    let mut ends = 0;
    let passed = record(GateOutcome::Passed);
    let requested = Record { sampled: true, ..record(GateOutcome::Open { expired: false }) };
    let fate = GateOutcome::Rejected { by: "usr_a".into(), at: AT };
    let decided = Record { fate, ..requested.clone() };
    for life in [reviewed(), vec![passed.clone()], vec![passed, requested, decided]] {
        for committed in 0..=life.len() {
            World::new(life.clone(), committed).explore(&mut ends);
        }
    }
    assert!(ends > 1_000, "only {ends} orders");
}

#[test]
fn an_end_that_is_never_told_of_counts_if_it_is_read() {
    let [open, _, approved] = <[Record; 3]>::try_from(reviewed()).expect("three");
    let mut sums = Sums::default();
    sums.found_open(TASK, &open);
    sums.found_ended(TASK, &approved);
    sums.finish_loading();
    let mut expected = Sums::default();
    expected.replace(None, &approved);
    assert_eq!(sums.statistics, expected.statistics);
}
