use proptest::prelude::*;

use super::*;

/// Noon of a day that is as good as any.
const NOON: Timestamp = Timestamp::from_millis(20_000 * DAY_MS + DAY_MS / 2);

fn days_ago(days: u64) -> Timestamp {
    Timestamp::from_millis(NOON.as_millis() - days * DAY_MS)
}

fn record(since: Timestamp, fate: GateOutcome) -> Record {
    Record {
        template: None,
        step: None,
        confidence: None,
        method: None,
        model: None,
        sampled: false,
        since,
        escalated: false,
        fate,
    }
}

fn after_ms(since: Timestamp, wait: u64) -> Timestamp {
    Timestamp::from_millis(since.as_millis() + wait)
}

fn approved(by: &str, since: Timestamp, wait: u64) -> Record {
    record(since, GateOutcome::Approved { by: by.into(), at: after_ms(since, wait), edited: false })
}

fn rejected(by: &str, since: Timestamp, wait: u64) -> Record {
    record(since, GateOutcome::Rejected { by: by.into(), at: after_ms(since, wait) })
}

fn fold<'a>(records: impl IntoIterator<Item = &'a Record>) -> Totals {
    let mut statistics = Totals::default();
    for record in records {
        statistics.replace(None, record);
    }
    statistics
}

fn reviewer(id: &str, approvals: u64, rejections: u64) -> Reviewer {
    Reviewer { id: id.into(), approvals, rejections }
}

#[test]
fn of_nothing_everything_is_zero() {
    assert_eq!(Totals::default().view(NOON), Summary::default());
}

#[test]
fn what_is_told_is_what_was_counted_by_hand() {
    let confident = |confidence, record| Record { confidence: Some(confidence), ..record };
    let escalated = |record| Record { escalated: true, ..record };
    let records = [
        record(NOON, GateOutcome::Open { expired: false }),
        escalated(record(days_ago(3), GateOutcome::Open { expired: true })),
        record(days_ago(1), GateOutcome::Cancelled),
        record(NOON, GateOutcome::Passed),
        confident(0.9, approved("usr_a", NOON, 1_000)),
        confident(0.4, rejected("usr_a", NOON, 2_000)),
        approved("usr_b", days_ago(1), 4_000),
        escalated(rejected(SYSTEM, NOON, 9_000)),
    ];
    let expected = Summary {
        pending: 1,
        approved_today: 1,
        rejected_today: 2,
        avg_wait_ms: 4_000,
        avg_confidence: 0.65,
        escalation_rate: 2.0 / 7.0,
        decided: 4,
        created: 7,
        top_reviewers: vec![reviewer("usr_a", 1, 1), reviewer("usr_b", 1, 0)],
    };
    assert_eq!(fold(&records).view(NOON), expected);
}

#[test]
fn a_wait_counts_on_the_day_of_its_decision_and_an_escalation_on_that_of_its_creation() {
    let midnight = Timestamp::from_millis(20_000 * DAY_MS);
    let before = Timestamp::from_millis(midnight.as_millis() - 1);
    let late = Record { escalated: true, ..approved("usr_a", before, 1) };
    let statistics = fold([&late]);
    assert_eq!(statistics.view(before).approved_today, 0);
    assert_eq!(statistics.view(before).created, 1);
    assert_eq!(statistics.view(midnight).approved_today, 1);
    let last_of_creation = after_ms(before, 29 * DAY_MS);
    let seen = |at| {
        let Summary { created, escalation_rate, decided, .. } = statistics.view(at);
        (created, escalation_rate, decided)
    };
    assert_eq!(seen(last_of_creation), (1, 1.0, 1));
    assert_eq!(seen(after_ms(last_of_creation, 1)), (0, 0.0, 1));
    assert_eq!(seen(after_ms(midnight, 30 * DAY_MS)), (0, 0.0, 0));
}

#[test]
fn ten_reviewers_are_told_those_with_the_most_decisions_first() {
    let by = |name: &str| approved(name, NOON, 1);
    let names = ["l", "k", "j", "i", "h", "g", "f", "e", "d", "c", "b", "a", "l"];
    let records: Vec<_> = names.iter().map(|name| by(name)).collect();
    let reviewers: Vec<_> = fold(&records).view(NOON).top_reviewers;
    let ids: Vec<_> = reviewers.iter().map(|reviewer| reviewer.id.as_str()).collect();
    assert_eq!(ids, ["l", "a", "b", "c", "d", "e", "f", "g", "h", "i"]);
    assert_eq!(reviewers[0].approvals, 2);
}

#[test]
fn long_past_days_are_forgotten_and_those_asked_for_are_not() {
    let mut statistics = Totals::default();
    for ago in (0..500).rev() {
        statistics.replace(None, &approved("usr_a", days_ago(ago), 1));
    }
    assert_eq!((statistics.days.len(), statistics.view(NOON).decided), (KEPT_DAYS, 30));
    // A later change of a forgotten day has no effect.
    let old = record(days_ago(400), GateOutcome::Open { expired: true });
    let before = statistics.clone();
    statistics.replace(None, &old);
    statistics.replace(Some(&old), &Record { fate: GateOutcome::Cancelled, ..old.clone() });
    assert_eq!(statistics, before);
    // A clock that was far ahead for a moment costs one of the days to spare.
    statistics.replace(None, &approved("usr_a", Timestamp::MAX, 0));
    assert_eq!(statistics.view(NOON), before.view(NOON));
}

fn fates() -> impl Strategy<Value = (GateOutcome, u64)> {
    let who = prop_oneof![Just("usr_a"), Just("usr_b"), Just(SYSTEM)];
    (0..6_u8, who, 0..2 * DAY_MS, any::<bool>()).prop_map(|(kind, by, wait, flag)| {
        let (by, at) = (by.to_owned(), Timestamp::default());
        let fate = match kind {
            0 => GateOutcome::Passed,
            1 | 2 => GateOutcome::Open { expired: flag },
            3 => GateOutcome::Approved { by, at, edited: flag },
            4 => GateOutcome::Rejected { by, at },
            _ => GateOutcome::Cancelled,
        };
        (fate, wait)
    })
}

fn records() -> impl Strategy<Value = Record> {
    let confidence = proptest::option::of(0.0..=1.0_f64);
    (fates(), 0..35 * DAY_MS, confidence, any::<bool>()).prop_map(
        |((mut fate, wait), ago, confidence, escalated)| {
            let since = Timestamp::from_millis(NOON.as_millis() - ago);
            if let GateOutcome::Approved { at, .. } | GateOutcome::Rejected { at, .. } = &mut fate {
                *at = after_ms(since, wait);
            }
            Record { confidence, escalated, ..record(since, fate) }
        },
    )
}

proptest! {
    #[test]
    fn after_any_changes_they_are_those_of_the_records_as_they_are_now(
        changes in prop::collection::vec((0..12_usize, records()), 0..80),
        later in 0..40 * DAY_MS,
    ) {
        let mut now: Vec<Option<Record>> = vec![None; 12];
        let mut statistics = Totals::default();
        for (which, after) in changes {
            statistics.replace(now[which].as_ref(), &after);
            now[which] = Some(after);
        }
        let fresh = fold(now.iter().flatten());
        prop_assert_eq!(&statistics, &fresh);
        let summary = statistics.view(after_ms(NOON, later));
        prop_assert!((0.0..=1.0).contains(&summary.avg_confidence));
        prop_assert!((0.0..=1.0).contains(&summary.escalation_rate));
    }
}
