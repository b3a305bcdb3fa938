//! The log against a naive one, and against a clock that goes back.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_250);

fn after(millis: u64) -> Timestamp {
    NOW.after(Duration::from_millis(millis))
}

fn filled(limit: u32) -> SlidingLog {
    let mut log = SlidingLog::default();
    for _ in 0..limit {
        log.admit(limit, NOW).expect("below the limit");
    }
    log
}

#[test]
fn the_headers_count_down_and_say_when_the_oldest_leaves() {
    let mut log = SlidingLog::default();
    let first = log.admit(3, NOW).expect("free");
    let status = |remaining, reset| Status { limit: 3, remaining, reset };
    assert_eq!(first, status(2, 1_800_000_061));
    assert_eq!(log.admit(3, after(10_000)), Ok(status(1, 1_800_000_061)));
    assert_eq!(log.admit(3, after(20_000)), Ok(status(0, 1_800_000_061)));
    let refused = Exceeded { status: status(0, 1_800_000_061), retry_after: 30 };
    assert_eq!(log.admit(3, after(30_000)), Err(refused));
    assert_eq!(log.admit(3, after(60_000)), Ok(status(0, 1_800_000_071)));
}

#[test]
fn the_window_ends_to_the_millisecond() {
    let mut log = filled(2);
    let refused = log.admit(2, after(59_999)).expect_err("both still count");
    assert_eq!(refused.retry_after, 1);
    assert!(log.admit(2, after(60_000)).is_ok());
}

#[test]
fn a_refusal_is_not_counted() {
    let mut log = filled(2);
    for millis in 0..1_000 {
        assert!(log.admit(2, after(millis)).is_err());
    }
    assert!(log.admit(2, after(60_000)).is_ok());
}

#[test]
fn a_peek_is_not_counted_either() {
    let mut log = SlidingLog::default();
    let status = log.peek(1, NOW).expect("free");
    assert_eq!((status.remaining, status.reset), (1, 1_800_000_001));
    assert!(log.admit(1, NOW).is_ok());
    assert!(log.peek(1, NOW).is_err());
}

#[test]
fn a_lower_limit_waits_until_enough_have_left() {
    let mut log = SlidingLog::default();
    for second in 0..10 {
        log.admit(10, after(second * 1_000)).expect("below the limit");
    }
    // Of ten, the eighth has to leave before fewer than three count.
    let refused = log.admit(3, after(10_000)).expect_err("ten count");
    assert_eq!(refused.retry_after, 57);
    assert!(log.admit(3, after(67_000)).is_ok());
}

#[test]
fn a_limit_of_zero_refuses_for_ever() {
    let refused = SlidingLog::default().admit(0, NOW).expect_err("nothing is taken");
    assert_eq!(refused.retry_after, 60);
}

#[test]
fn a_refusal_becomes_the_error_of_the_protocol() {
    let refused = filled(2).admit(2, NOW).expect_err("full");
    let expected = Error::RateLimited { limit: 2, retry_after: 60 };
    assert_eq!(Error::from(refused), expected);
}

#[test]
fn a_million_requests_of_a_millisecond_are_one_entry() {
    let mut log = SlidingLog::default();
    for request in 0..1_000_000 {
        log.admit(u32::MAX, after(request / 500_000)).expect("below the limit");
    }
    assert_eq!(log.entries.len(), 2);
    let status = log.peek(u32::MAX, after(1)).expect("below the limit");
    assert_eq!(status.remaining, u32::MAX - 1_000_000);
}

#[test]
fn a_log_is_idle_once_everything_has_left() {
    assert!(SlidingLog::default().is_idle(NOW));
    let log = filled(1);
    assert!(!log.is_idle(after(59_999)));
    assert!(log.is_idle(after(60_000)));
}

#[test]
fn a_clock_that_goes_back_an_hour_holds_nobody_up_for_more_than_a_minute() {
    let mut log = filled(2);
    let back = |millis| Timestamp::from_millis(NOW.as_millis() - 3_600_000 + millis);
    let refused = log.admit(2, back(0)).expect_err("both still count");
    assert_eq!(refused.retry_after, 60);
    assert_eq!(refused.status.reset, back(60_000).as_millis().div_ceil(1000));
    assert!(log.admit(2, back(59_999)).is_err());
    assert!(log.admit(2, back(60_000)).is_ok());
}

#[test]
fn the_quotas_are_those_of_the_specification() {
    let quotas = Quotas::default();
    let figures = Tier::ALL.map(|tier| {
        let quota = quotas.of(Some(tier));
        (tier.as_str(), quota.requests, quota.concurrent_tasks)
    });
    let expected = [("free", 60, Some(5)), ("pro", 300, Some(50)), ("enterprise", 1000, None)];
    assert_eq!(figures, expected);
}

/// Every request that was taken, one by one.
fn naive(taken: &mut Vec<u64>, limit: u32, now: u64) -> bool {
    taken.retain(|at| now < at + WINDOW_MS);
    let room = taken.len() < limit as usize;
    if room {
        taken.push(now);
    }
    room
}

fn waits() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let wait =
        prop_oneof![4 => Just(0_u64), 3 => 1..500_u64, 2 => 1..20_000_u64, 1 => 50_000..70_000_u64];
    prop::collection::vec((wait, 0..6_u32), 1..200)
}

proptest! {
    #[test]
    fn the_log_decides_as_a_naive_one(steps in waits()) {
        let (mut log, mut taken, mut now) = (SlidingLog::default(), Vec::new(), NOW.as_millis());
        for (wait, limit) in steps {
            now += wait;
            let answer = log.admit(limit, Timestamp::from_millis(now));
            prop_assert_eq!(answer.is_ok(), naive(&mut taken, limit, now));
            let status = answer.unwrap_or_else(|refused| refused.status);
            let left = (limit as usize).saturating_sub(taken.len());
            prop_assert_eq!(status.remaining as usize, left);
            let oldest = taken.first().map_or(now, |at| at + WINDOW_MS);
            prop_assert_eq!(status.reset, oldest.div_ceil(1000));
            prop_assert_eq!(log.is_idle(Timestamp::from_millis(now)), taken.is_empty());
        }
    }

    #[test]
    fn whoever_waits_as_long_as_told_is_taken(steps in waits(), limit in 1..6_u32) {
        let (mut log, mut now) = (SlidingLog::default(), NOW);
        for (wait, _) in steps {
            now = now.after(Duration::from_millis(wait));
            if let Err(refused) = log.admit(limit, now) {
                prop_assert!((1..=60).contains(&refused.retry_after));
                now = now.after(Duration::from_secs(refused.retry_after));
                prop_assert!(log.admit(limit, now).is_ok());
            }
        }
    }

    /// `ticks` are (time that really passes, how far the clock is then set back).
    #[test]
    fn a_clock_set_back_never_lets_more_in_and_refuses_nobody_for_long(
        ticks in prop::collection::vec((0..20_000_u64, prop_oneof![3 => Just(0_u64), 1 => 0..90_000_u64]), 1..200),
        limit in 1..6_u32,
    ) {
        let (mut log, mut real, mut lag) = (SlidingLog::default(), NOW.as_millis(), 0);
        let mut taken: Vec<u64> = Vec::new();
        for (wait, back) in ticks {
            real += wait;
            lag += back;
            if log.admit(limit, Timestamp::from_millis(real - lag)).is_ok() {
                taken.push(real);
                let recent = taken.iter().filter(|at| real < **at + WINDOW_MS).count();
                prop_assert!(recent <= limit as usize);
            }
        }
        real += WINDOW_MS;
        prop_assert!(log.admit(limit, Timestamp::from_millis(real - lag)).is_ok());
    }
}
