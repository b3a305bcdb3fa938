use proptest::prelude::*;

use super::*;

fn budget(period: Period, timezone: &str) -> Budget {
    Budget {
        id: BudgetId::from_u128(1 << 10),
        matches: Match::default(),
        limit: Money::from_usd(10.0),
        period,
        timezone: timezone.into(),
        alert_at: vec![0.5, 0.8],
        on_exceed: OnExceed::Wait,
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("an instant")
}

fn period(period: Period, zone: &str, now: &str) -> (String, Option<String>) {
    let (start, end) = budget(period, zone).period(at(now));
    (start.to_string(), end.map(|end| end.to_string()))
}

#[test]
fn periods_begin_at_the_midnights_of_their_zone() {
    let of = |start: &str, end: &str| (start.to_owned(), Some(end.to_owned()));
    for (what, zone, now, expected) in [
        (
            Period::Day,
            "UTC",
            "2026-11-23T22:00:00.000Z",
            of("2026-11-23T00:00:00.000Z", "2026-11-24T00:00:00.000Z"),
        ),
        (
            Period::Day,
            "Europe/Berlin",
            "2026-11-23T23:30:00.000Z",
            of("2026-11-23T23:00:00.000Z", "2026-11-24T23:00:00.000Z"),
        ),
        // The clock is set an hour on: the day has 23 hours.
        (
            Period::Day,
            "Europe/Berlin",
            "2026-03-29T12:00:00.000Z",
            of("2026-03-28T23:00:00.000Z", "2026-03-29T22:00:00.000Z"),
        ),
        (
            Period::Week,
            "America/New_York",
            "2026-11-23T03:00:00.000Z",
            of("2026-11-16T05:00:00.000Z", "2026-11-23T05:00:00.000Z"),
        ),
        (
            Period::Month,
            "Asia/Tokyo",
            "2026-12-31T15:00:00.000Z",
            of("2026-12-31T15:00:00.000Z", "2027-01-31T15:00:00.000Z"),
        ),
    ] {
        assert_eq!(period(what, zone, now), expected, "{what} {zone} {now}");
    }
    assert_eq!(period(Period::Total, "UTC", "2026-11-23T22:00:00.000Z").1, None);
    assert_eq!(check_zone("Europe/Berlin"), Ok(()));
    for wrong in ["", "Mars/Olympus", "../etc/passwd"] {
        assert!(check_zone(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_task_matches_if_it_has_everything_that_is_named() {
    let tags = ["a".to_owned(), "b".to_owned()];
    let subject = Subject { tags: &tags, account: "usr_1", template: Some("t-v1"), model: "m" };
    let some = |text: &str| Some(text.to_owned());
    let all = Match {
        tags: vec!["b".into()],
        account: some("usr_1"),
        template: some("t-v1"),
        model: some("m"),
    };
    assert!(all.matches(subject) && Match::default().matches(subject));
    for other in [
        Match { tags: vec!["b".into(), "c".into()], ..all.clone() },
        Match { account: some("usr_2"), ..all.clone() },
        Match { template: some("t-v2"), ..all.clone() },
        Match { model: some("n"), ..all.clone() },
    ] {
        assert!(!other.matches(subject), "{other:?}");
    }
    assert!(!all.matches(Subject { template: None, ..subject }));
}

const NOW: &str = "2026-11-23T22:00:00.000Z";

fn ledger(budget: Budget) -> Ledger {
    Ledger::new(budget, at("2026-11-23T00:00:00.000Z"), Money::ZERO, at(NOW))
}

#[test]
fn what_is_spent_and_reserved_and_promised_leaves_the_rest() {
    let mut ledger = ledger(budget(Period::Day, "UTC"));
    let usd = Money::from_usd;
    ledger.spend(usd(4.0), at(NOW));
    ledger.reserved += usd(3.0);
    assert_eq!(ledger.fit(Some(usd(2.0)), usd(1.0)), Fit::Now);
    assert_eq!(ledger.fit(Some(usd(2.1)), usd(1.0)), Fit::Exceeds);
    assert_eq!(ledger.fit(None, Money::ZERO), Fit::Unpriced);
    ledger.release(usd(3.0));
    assert_eq!(ledger.fit(Some(usd(6.0)), Money::ZERO), Fit::Now);
    let alerting = Budget { on_exceed: OnExceed::Alert, ..(*ledger.budget).clone() };
    let alerting = Ledger { budget: Arc::new(alerting), ..ledger };
    assert_eq!(alerting.fit(Some(usd(99.0)), Money::ZERO), Fit::Now);
    assert_eq!(alerting.fit(None, Money::ZERO), Fit::Unpriced);
}

#[test]
fn each_threshold_is_told_once_in_a_period() {
    let mut ledger = ledger(budget(Period::Day, "UTC"));
    let usd = Money::from_usd;
    assert_eq!(ledger.spend(usd(4.9), at(NOW)), []);
    assert_eq!(ledger.spend(usd(0.1), at(NOW)), [Passed::Alert(0.5)]);
    assert_eq!(ledger.spend(usd(7.0), at(NOW)), [Passed::Alert(0.8), Passed::Exceeded]);
    assert_eq!(ledger.spend(usd(1.0), at(NOW)), []);
    let tomorrow = at("2026-11-24T00:00:00.000Z");
    assert_eq!(ledger.spend(usd(5.0), tomorrow), [Passed::Alert(0.5)]);
    assert_eq!((ledger.spent, ledger.since), (usd(5.0), tomorrow));
}

#[test]
fn a_period_that_is_over_begins_anew_and_a_clock_that_goes_back_changes_nothing() {
    let mut ledger = ledger(budget(Period::Day, "UTC"));
    ledger.spend(Money::from_usd(9.0), at(NOW));
    assert!(!ledger.roll(at("2026-11-23T23:59:59.999Z")));
    assert!(!ledger.roll(at("2026-11-22T12:00:00.000Z")));
    assert_eq!(ledger.spent, Money::from_usd(9.0));
    assert!(ledger.roll(at("2026-11-24T00:00:00.000Z")));
    assert_eq!(ledger.spent, Money::ZERO);
    let stored = Ledger::new(
        budget(Period::Day, "UTC"),
        at("2026-11-22T00:00:00.000Z"),
        Money::from_usd(9.0),
        at(NOW),
    );
    assert_eq!(stored.spent, Money::ZERO, "what was stored is of another period");
}

proptest! {
    #[test]
    fn tasks_that_fit_never_spend_more_than_the_limit(
        tasks in prop::collection::vec((1_u64..4_000_000_000, 0.0_f64..=1.0, any::<bool>()), 1..60),
    ) {
        let mut ledger = ledger(budget(Period::Day, "UTC"));
        let mut running = Vec::new();
        for (worst, share, ends) in tasks {
            let worst = Money::from_nanos(worst);
            if ledger.fit(Some(worst), Money::ZERO) == Fit::Now {
                ledger.reserved += worst;
                running.push((worst, Money::from_usd(worst.as_usd() * share)));
            }
            if ends && let Some((reserved, cost)) = running.pop() {
                ledger.release(reserved);
                ledger.spend(cost, at(NOW));
            }
            prop_assert!(ledger.spent + ledger.reserved <= ledger.budget.limit);
        }
        for (reserved, cost) in running {
            ledger.release(reserved);
            ledger.spend(cost, at(NOW));
        }
        prop_assert!(ledger.spent <= ledger.budget.limit);
        prop_assert!(ledger.reserved.is_zero());
    }
}
