use proptest::prelude::*;

use super::*;
use crate::Timestamp;

const AT: Timestamp = Timestamp::from_millis(1_000);

fn record(confidence: impl Into<Option<f64>>, fate: GateOutcome) -> Record {
    Record {
        template: Some("t-v1".into()),
        step: Some("s".into()),
        confidence: confidence.into(),
        method: None,
        model: None,
        sampled: false,
        since: AT,
        escalated: false,
        fate,
    }
}

fn sampled(record: Record) -> Record {
    Record { sampled: true, ..record }
}

fn approved() -> GateOutcome {
    GateOutcome::Approved { by: "usr_a".into(), at: AT, edited: false }
}

fn edited() -> GateOutcome {
    GateOutcome::Approved { by: "usr_a".into(), at: AT, edited: true }
}

fn rejected() -> GateOutcome {
    GateOutcome::Rejected { by: "usr_a".into(), at: AT }
}

fn timed_out() -> GateOutcome {
    GateOutcome::Rejected { by: SYSTEM.into(), at: AT }
}

fn fold(records: impl IntoIterator<Item = Record>) -> Counts {
    let mut counts = Counts::default();
    for record in records {
        counts.replace(None, &record);
    }
    counts
}

/// So many of a kind.
fn times(count: usize, record: Record) -> impl Iterator<Item = Record> {
    std::iter::repeat_n(record, count)
}

fn threshold(hundredths: u8) -> Threshold {
    Threshold::hundredths(hundredths).unwrap()
}

fn tried(counts: &Counts, hundredths: u8) -> Backtest {
    let query = Query { thresholds: vec![threshold(hundredths)], ..Query::default() };
    counts.view(&query).thresholds[0]
}

#[track_caller]
fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-4, "{found} is not {expected}");
}

#[test]
fn an_output_is_on_the_side_of_a_threshold_where_a_gate_puts_it() {
    for hundredths in 0..=100 {
        let at = threshold(hundredths).value();
        for confidence in [at, at.next_down().max(0.0), at.next_up().min(1.0)] {
            let held = confidence < at;
            assert_eq!(bin_of(confidence) < hundredths, held, "{confidence} at {at}");
        }
    }
    assert_eq!((bin_of(0.0), bin_of(0.999), bin_of(1.0), bin_of(0.29)), (0, 99, 100, 29));
}

#[test]
fn fates_are_told_by_decile_and_those_without_a_confidence_apart() {
    let counts = fold([
        record(0.05, approved()),
        record(0.85, edited()),
        sampled(record(0.9, rejected())),
        sampled(record(0.95, approved())),
        record(1.0, GateOutcome::Passed),
        record(0.99, GateOutcome::Open { expired: false }),
        sampled(record(0.99, GateOutcome::Open { expired: true })),
        record(0.91, timed_out()),
        record(0.92, GateOutcome::Cancelled),
        record(None, rejected()),
        record(None, GateOutcome::Passed),
    ]);
    let found = counts.view(&Query::default());
    let mut expected = [Outcomes::default(); 10];
    expected[0].approved = 1;
    expected[8].edited = 1;
    expected[9] = Outcomes {
        approved: 1,
        rejected: 1,
        passed: 1,
        undecided: 4,
        sampled: 2,
        sampled_rejected: 1,
        ..Outcomes::default()
    };
    assert_eq!(found.deciles, expected);
    assert_eq!(found.unknown, Outcomes { rejected: 1, passed: 1, ..Outcomes::default() });
    assert_eq!(found.thresholds, []);
}

#[test]
fn only_what_is_asked_for_is_counted() {
    let from = |template: Option<&str>, step: Option<&str>| Record {
        template: template.map(Into::into),
        step: step.map(Into::into),
        ..record(0.5, approved())
    };
    let counts = fold([
        from(Some("a"), Some("x")),
        from(Some("a"), Some("y")),
        from(Some("b"), Some("x")),
        from(None, Some("x")),
        from(None, None),
    ]);
    let count = |template: Option<&str>, step: Option<&str>| {
        let (template, step) = (template.map(Into::into), step.map(Into::into));
        let query = Query { template, step, ..Query::default() };
        counts.view(&query).deciles[5].approved
    };
    assert_eq!((count(None, None), count(Some("a"), None), count(None, Some("x"))), (5, 2, 3));
    assert_eq!((count(Some("a"), Some("x")), count(Some("c"), None)), (1, 0));
}

#[test]
fn where_everything_was_reviewed_nothing_is_estimated() {
    let records = times(3, record(0.5, rejected()))
        .chain(times(1, record(0.85, rejected())))
        .chain(times(6, record(0.85, approved())))
        .chain(times(2, record(0.2, approved())))
        // Neither says anything of a threshold.
        .chain(times(9, record(None, rejected())));
    let counts = fold(records);
    let expected = Backtest {
        threshold: threshold(80),
        reviews: 5,
        reviews_saved: 7,
        rejections: 4,
        rejections_missed: 1,
        missed_share: MissRate { low: 0.25, expected: Some(0.25), high: 0.25 },
        unreviewed: 0,
        unknown_unreviewed: 0,
    };
    assert_eq!(tried(&counts, 80), expected);
    let none = MissRate { low: 0.0, expected: Some(0.0), high: 0.0 };
    assert_eq!(tried(&counts, 86).missed_share, none);
    assert_eq!((tried(&counts, 86).reviews, tried(&counts, 0).reviews_saved), (12, 12));
    assert_eq!(tried(&counts, 0).missed_share.expected, Some(1.0));
}

#[test]
fn a_deciles_rate_stands_for_its_unreviewed_outputs() {
    // 1 of 10 reviewed was rejected; 40 passed: 4 expected, at most 40 × 0.4042 = 16.166.
    let records = times(9, record(0.85, approved()))
        .chain(times(1, record(0.85, rejected())))
        .chain(times(40, record(0.87, GateOutcome::Passed)))
        .chain(times(5, record(0.3, rejected())));
    let found = tried(&fold(records), 80);
    assert_eq!((found.reviews, found.reviews_saved, found.unreviewed), (5, 10, 40));
    assert_eq!((found.rejections, found.rejections_missed, found.unknown_unreviewed), (6, 1, 0));
    close(found.missed_share.low, 1.0 / 6.0);
    close(found.missed_share.expected.unwrap(), 5.0 / 10.0);
    close(found.missed_share.high, 17.166 / 22.166);
}

#[test]
fn sampled_reviews_stand_for_what_passed_and_the_others_do_not() {
    // All 8 held below some threshold were rejected, none of the 10 sampled ones was.
    let records = times(8, record(0.81, rejected()))
        .chain(times(10, sampled(record(0.88, approved()))))
        .chain(times(90, record(0.88, GateOutcome::Passed)));
    let found = tried(&fold(records), 85);
    assert_eq!((found.rejections_missed, found.reviews_saved, found.unreviewed), (0, 10, 90));
    assert_eq!((found.missed_share.low, found.missed_share.expected), (0.0, Some(0.0)));
    close(found.missed_share.high, 90.0 * 0.2775 / (90.0 * 0.2775 + 8.0));
}

#[test]
fn a_decile_that_nobody_reviewed_leaves_no_expectation() {
    let records = times(2, record(0.95, GateOutcome::Passed))
        .chain(times(3, record(0.75, GateOutcome::Cancelled)))
        .chain(times(1, record(0.75, approved())))
        .chain(times(4, record(0.5, rejected())));
    let counts = fold(records);
    let found = tried(&counts, 70);
    assert_eq!((found.unreviewed, found.unknown_unreviewed), (5, 2));
    assert_eq!(found.missed_share.expected, None);
    close(found.missed_share.high, (2.0 + 3.0 * 0.7935) / (6.0 + 3.0 * 0.7935));
    // Above all of them nothing can be missed.
    let found = tried(&counts, 96);
    assert_eq!(found.missed_share, MissRate { low: 0.0, expected: Some(0.0), high: 0.0 });
}

#[test]
fn a_share_of_no_rejections_is_unknown_unless_nothing_can_be_missed() {
    let records =
        times(20, record(0.9, approved())).chain(times(5, record(0.9, GateOutcome::Passed)));
    let found = tried(&fold(records), 50).missed_share;
    assert_eq!(found, MissRate { low: 0.0, expected: None, high: 1.0 });
    let nothing = tried(&Counts::default(), 50).missed_share;
    assert_eq!(nothing, MissRate { low: 0.0, expected: None, high: 1.0 });
}

#[test]
fn hidden_rejections_below_a_threshold_lower_the_share_that_it_misses() {
    // At 0.9, the 10 that passed at 0.5 would be held: up to 10 × 0.7935 more are caught.
    let records = times(1, record(0.95, rejected()))
        .chain(times(1, record(0.55, approved())))
        .chain(times(10, record(0.5, GateOutcome::Passed)));
    let found = tried(&fold(records), 90).missed_share;
    close(found.low, 1.0 / (1.0 + 7.935));
    assert_eq!((found.expected, found.high), (Some(1.0), 1.0));
}

#[test]
fn invented_steps_do_not_fill_the_memory_and_are_still_counted() {
    let step =
        |number: usize, fate| Record { step: Some(format!("s{number}")), ..record(0.5, fate) };
    let mut counts = Counts::default();
    let open = GateOutcome::Open { expired: false };
    for number in 0..=MAX_SERIES {
        counts.replace(None, &step(number, open.clone()));
    }
    assert_eq!((counts.series.len(), counts.others.len()), (MAX_SERIES, 1));
    for number in 0..=MAX_SERIES {
        counts.replace(Some(&step(number, open.clone())), &step(number, approved()));
    }
    let whole = counts.view(&Query::default()).deciles[5];
    let all = u32::try_from(MAX_SERIES + 1).unwrap();
    assert_eq!(whole, Outcomes { approved: all, ..Outcomes::default() });
}

fn records() -> impl Strategy<Value = Record> {
    let fate = prop_oneof![
        Just(GateOutcome::Passed),
        any::<bool>().prop_map(|expired| GateOutcome::Open { expired }),
        Just(approved()),
        Just(edited()),
        Just(rejected()),
        Just(timed_out()),
        Just(GateOutcome::Cancelled),
    ];
    let confidence = proptest::option::of(prop_oneof![0.0..=1.0_f64, Just(1.0), Just(0.8)]);
    (fate, confidence, any::<bool>())
        .prop_map(|(fate, confidence, sampled)| Record { sampled, ..record(confidence, fate) })
}

proptest! {
    #[test]
    fn after_any_changes_the_counts_are_those_of_the_records_as_they_are_now(
        changes in prop::collection::vec((0..12_usize, records()), 0..80),
    ) {
        let mut now: Vec<Option<Record>> = vec![None; 12];
        let mut counts = Counts::default();
        for (which, after) in changes {
            counts.replace(now[which].as_ref(), &after);
            now[which] = Some(after);
        }
        prop_assert_eq!(counts, fold(now.into_iter().flatten()));
    }

    #[test]
    fn every_threshold_shares_out_all_outputs_and_its_bounds_are_in_order(
        records in prop::collection::vec(records(), 0..120),
    ) {
        let thresholds = (0..=100).map(threshold).collect();
        let counts = fold(records.clone());
        let found = counts.view(&Query { thresholds, ..Query::default() });
        let confident = records.iter().filter(|record| record.confidence.is_some());
        let all = u32::try_from(confident.count()).unwrap();
        for one in &found.thresholds {
            prop_assert_eq!(one.reviews + one.reviews_saved + one.unreviewed, all);
            prop_assert!(one.unknown_unreviewed <= one.unreviewed);
            let MissRate { low, expected, high } = one.missed_share;
            let middle = expected.unwrap_or(low);
            let slack = 1e-12;
            prop_assert!(0.0 <= low && low <= middle + slack && middle <= high + slack && high <= 1.0);
            prop_assert!(one.unknown_unreviewed == 0 || expected.is_none());
        }
        for pair in found.thresholds.windows(2) {
            prop_assert!(pair[0].reviews <= pair[1].reviews);
            prop_assert!(pair[0].rejections_missed >= pair[1].rejections_missed);
            prop_assert_eq!(pair[0].rejections, pair[1].rejections);
        }
    }
}
