mod simulation;

use proptest::prelude::*;

use super::*;

const NONE: ModelLimits = ModelLimits {
    requests_per_minute: None,
    input_tokens_per_minute: None,
    output_tokens_per_minute: None,
    tokens_per_minute: None,
    concurrent: None,
};

const QUEUE: &str = "default";
const TASK: (TaskId, &str) = (TaskId::from_u128(1), QUEUE);

fn at(ms: u64) -> Monotonic {
    Monotonic(ms)
}

fn requests(limit: u64) -> Meter {
    Meter::new(ModelLimits { requests_per_minute: Some(limit), ..NONE })
}

fn until(ms: u64) -> Result<(), NoRoom> {
    Err(NoRoom { until: Some(at(ms)) })
}

fn refused(retry_after_ms: Option<u64>) -> CallEnd {
    CallEnd::Refused { cause: Closure::RateLimited, retry_after_ms, queues: Arc::default() }
}

fn answered() -> CallEnd {
    CallEnd::Used { input: 10, output: 5 }
}

#[test]
fn requests_of_a_minute_are_counted_and_leave_half_a_second_after_it() {
    let mut meter = requests(2);
    let first = meter.begin(QUEUE, at(0)).unwrap();
    meter.begin(QUEUE, at(30_000)).unwrap();
    meter.settle(first, answered(), at(1_000));
    assert_eq!(meter.room(QUEUE, at(30_000)), until(60_510));
    assert_eq!(meter.room(QUEUE, at(60_509)), until(60_510));
    assert_eq!(meter.room(QUEUE, at(60_510)), Ok(()));
}

#[test]
fn tokens_are_reserved_by_estimate_and_settled_by_the_result() {
    let limits = ModelLimits { output_tokens_per_minute: Some(1_000), ..NONE };
    let mut meter = Meter::new(limits);
    let demand = meter.demand(10, Some(600));
    assert_eq!((demand.input, demand.output), (10, 600));
    let call = meter.begin_with(TASK, demand, at(0)).unwrap();
    let second = meter.demand(10, Some(600));
    assert_eq!(meter.begin_with(TASK, second, at(0)), Err(NoRoom { until: Some(at(60_510)) }));
    meter.settle(call, CallEnd::Used { input: 10, output: 100 }, at(2_000));
    assert!(meter.begin_with(TASK, second, at(2_000)).is_ok());
    assert_eq!(meter.status(at(2_000)).output_tokens, 700);
}

#[test]
fn a_task_that_found_too_little_room_goes_before_smaller_ones() {
    let mut meter = Meter::new(ModelLimits { tokens_per_minute: Some(1_100), ..NONE });
    let call = meter.begin_with(TASK, meter.demand(400, Some(400)), at(0)).unwrap();
    meter.settle(call, CallEnd::Used { input: 400, output: 400 }, at(10));
    let large = meter.demand(400, Some(100));
    assert_eq!(meter.room(QUEUE, at(20)), Ok(()), "a smaller call would fit");
    let begun = meter.begin(QUEUE, at(20)).unwrap();
    assert!(meter.begin(QUEUE, at(20)).is_err(), "the usual demand is reserved until it is known");
    assert!(meter.resize(TASK, begun, large, at(20)).is_err());
    assert_eq!(meter.room(QUEUE, at(30)), until(60_510));
    assert_eq!(meter.begin(QUEUE, at(60_510)).map(|call| call.demand), Ok(large));
}

#[test]
fn a_call_keeps_the_room_that_it_has_whatever_others_reserve_meanwhile() {
    let mut meter = Meter::new(ModelLimits { input_tokens_per_minute: Some(1_000), ..NONE });
    let first = meter.begin_with(TASK, meter.demand(600, None), at(0)).unwrap();
    meter.settle(first, CallEnd::Used { input: 600, output: 1 }, at(10));
    let large = meter.demand(700, None);
    assert!(meter.begin_with(TASK, large, at(20)).is_err());
    let begun = meter.begin(QUEUE, at(60_510)).unwrap();
    // The usual demand of another call takes more than there is until that call's own is known.
    let other = meter.begin(QUEUE, at(60_510)).unwrap();
    assert!(meter.resize(TASK, begun, large, at(60_511)).is_ok());
    assert!(meter.resize(TASK, other, meter.demand(10, None), at(60_511)).is_ok());
}

#[test]
fn a_demand_above_the_limit_goes_once_nothing_else_counts() {
    let mut meter = Meter::new(ModelLimits { input_tokens_per_minute: Some(100), ..NONE });
    let small = meter.begin_with(TASK, meter.demand(10, None), at(0)).unwrap();
    let large = meter.demand(5_000, None);
    assert!(meter.begin_with(TASK, large, at(0)).is_err());
    meter.abandon(small);
    assert!(meter.begin_with(TASK, large, at(0)).is_ok());
}

#[test]
fn calls_in_flight_are_limited_until_one_ends() {
    let mut meter = Meter::new(ModelLimits { concurrent: Some(1), ..NONE });
    let call = meter.begin(QUEUE, at(0)).unwrap();
    assert_eq!(meter.room(QUEUE, at(0)), Err(NoRoom { until: None }));
    meter.settle(call, answered(), at(5));
    assert_eq!(meter.room(QUEUE, at(5)), Ok(()));
}

#[test]
fn one_refusal_closes_the_model_and_one_probe_opens_it() {
    let mut meter = Meter::new(NONE);
    let (first, second) = (meter.begin(QUEUE, at(0)).unwrap(), meter.begin(QUEUE, at(0)).unwrap());
    assert!(meter.settle(first, refused(Some(5_000)), at(100)));
    assert_eq!(meter.room(QUEUE, at(100)), until(5_100));
    // One that was on its way already neither doubles nor shortens the wait.
    assert!(!meter.settle(second, refused(None), at(200)));
    assert_eq!(meter.room(QUEUE, at(5_099)), until(5_100));
    let probe = meter.begin(QUEUE, at(5_100)).unwrap();
    assert_eq!(meter.room(QUEUE, at(5_200)), Err(NoRoom { until: None }));
    meter.settle(probe, answered(), at(6_000));
    assert_eq!(meter.room(QUEUE, at(6_000)), Ok(()));
    assert!(!meter.is_idle(), "it opens slowly");
    assert_eq!(meter.room(QUEUE, at(66_000)), Ok(()));
    assert!(meter.is_idle());
}

/// The calls that begin at once.
fn crowd(meter: &mut Meter, now: u64) -> Vec<Call> {
    std::iter::from_fn(|| meter.begin(QUEUE, at(now)).ok()).take(200).collect()
}

#[test]
fn a_model_that_was_closed_opens_to_one_call_then_two_then_four() {
    let mut meter = Meter::new(NONE);
    meter.refused_uncounted(&[], (Closure::RateLimited, Some(2_000)), at(0));
    let mut sizes = Vec::new();
    for round in 0..8 {
        let now = 2_000 + round * 100;
        let calls = crowd(&mut meter, now);
        sizes.push(calls.len());
        for call in calls {
            meter.settle(call, answered(), at(now + 50));
        }
    }
    assert_eq!(sizes, [1, 2, 4, 8, 16, 32, 200, 200]);
}

#[test]
fn a_refusal_while_a_model_opens_closes_it_and_older_answers_count_no_more() {
    let mut meter = Meter::new(NONE);
    meter.refused_uncounted(&[], (Closure::RateLimited, Some(2_000)), at(0));
    let probe = crowd(&mut meter, 2_000);
    meter.settle(probe[0].clone(), answered(), at(2_100));
    let two = crowd(&mut meter, 2_200);
    assert_eq!(two.len(), 2);
    assert!(meter.settle(two[0].clone(), refused(Some(3_000)), at(2_300)));
    assert_eq!(meter.room(QUEUE, at(2_300)), until(5_300));
    let probe = crowd(&mut meter, 5_300);
    assert_eq!(probe.len(), 1);
    meter.settle(two[1].clone(), answered(), at(5_400));
    assert_eq!(crowd(&mut meter, 5_400).len(), 0, "the answer of an earlier time opens nothing");
    meter.settle(probe[0].clone(), answered(), at(5_500));
    assert_eq!(crowd(&mut meter, 5_500).len(), 2);
}

#[test]
fn no_pause_is_longer_than_five_minutes_whatever_a_worker_says() {
    let mut meter = Meter::new(NONE);
    assert!(meter.refused_uncounted(&[], (Closure::RateLimited, Some(86_400_000)), at(0)));
    assert_eq!(meter.room(QUEUE, at(1)), until(300_000));
    let probe = crowd(&mut meter, 300_000);
    meter.settle(probe[0].clone(), refused(Some(u64::MAX)), at(300_000));
    assert_eq!(meter.room(QUEUE, at(300_001)), until(600_000));
    meter.reopen();
    assert_eq!(meter.room(QUEUE, at(300_001)), Ok(()));
}

#[test]
fn a_worker_whose_key_is_bound_to_queues_closes_the_model_for_these_alone() {
    let mut meter = Meter::new(NONE);
    let bound = ["own".to_owned(), "other".to_owned()];
    assert!(
        !meter.refused_uncounted(&bound, (Closure::RateLimited, Some(2_000)), at(0)),
        "nothing that all share"
    );
    assert_eq!(meter.room(QUEUE, at(1)), Ok(()));
    assert_eq!(meter.room("own", at(1)), until(2_000));
    assert_eq!(meter.closed_until(), None);
    let queues: Vec<_> = meter.status(at(1)).closed_queues;
    assert_eq!(queues, [("other".into(), at(2_000)), ("own".into(), at(2_000))]);
    let probe = meter.begin("own", at(2_000)).unwrap();
    assert!(meter.room("own", at(2_001)).is_err());
    assert_eq!(meter.room("other", at(2_001)), Ok(()));
    let end = CallEnd::Refused {
        cause: Closure::RateLimited,
        retry_after_ms: None,
        queues: bound.into(),
    };
    meter.settle(probe, end, at(2_100));
    assert_eq!(meter.room("own", at(2_100)), until(4_100));
    let probe = meter.begin("own", at(4_100)).unwrap();
    meter.settle(probe, answered(), at(4_200));
    assert_eq!(meter.room("own", at(4_200)), Ok(()));
    assert!(meter.room("own", at(65_000)).is_ok() && meter.room("other", at(65_000)).is_ok());
    // A refusal by a worker that serves every queue counts for this one too.
    meter.refused_uncounted(&[], (Closure::RateLimited, Some(1_000)), at(65_000));
    assert_eq!(meter.room("own", at(65_001)), until(66_000));
}

#[test]
fn a_refused_probe_doubles_the_wait_up_to_a_minute() {
    let mut meter = Meter::new(NONE);
    let (mut now, mut waits) = (0, Vec::new());
    for _ in 0..9 {
        let call = meter.begin(QUEUE, at(now)).unwrap();
        meter.settle(call, refused(None), at(now));
        let end = meter.closed_until().unwrap().0;
        waits.push((end - now) / 1_000);
        now = end;
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
}

#[test]
fn a_lost_probe_lets_another_one_try() {
    let mut meter = Meter::new(NONE);
    meter.refused_uncounted(&[], (Closure::RateLimited, None), at(0));
    let probe = meter.begin(QUEUE, at(1_000)).unwrap();
    meter.settle(probe, CallEnd::Unknown, at(2_000));
    let probe = meter.begin(QUEUE, at(2_000)).unwrap();
    meter.abandon(probe);
    let probe = meter.begin(QUEUE, at(2_000)).unwrap();
    assert_eq!(meter.room(QUEUE, at(2_000)), Err(NoRoom { until: None }));
    meter.settle(probe, CallEnd::Failed, at(3_000));
    assert_eq!(meter.room(QUEUE, at(3_000)), Ok(()));
}

#[test]
fn a_provider_that_has_less_left_is_believed_until_its_reset() {
    let mut meter = requests(60);
    let call = meter.begin(QUEUE, at(0)).unwrap();
    meter.settle(call, answered(), at(10));
    let allowance = Allowance { limit: 60, remaining: 0, reset_ms: Some(4_000) };
    meter.report(Reported { requests: Some(allowance), ..Reported::default() }, at(10));
    assert_eq!(meter.room(QUEUE, at(10)), until(4_010));
    assert_eq!(meter.room(QUEUE, at(4_010)), Ok(()));
    // A report without any use by others takes the correction back.
    let allowance = Allowance { remaining: 59, ..allowance };
    meter.report(Reported { requests: Some(allowance), ..Reported::default() }, at(20));
    assert_eq!(meter.room(QUEUE, at(20)), Ok(()));
}

#[test]
fn the_lower_limit_counts_of_the_configured_and_the_reported_one() {
    let mut meter = requests(60);
    let allowance = Allowance { limit: 1, remaining: 1, reset_ms: None };
    meter.report(Reported { requests: Some(allowance), ..Reported::default() }, at(0));
    meter.begin(QUEUE, at(0)).unwrap();
    assert!(meter.room(QUEUE, at(0)).is_err());
    let mut unlimited = Meter::new(NONE);
    unlimited.report(Reported { requests: Some(allowance), ..Reported::default() }, at(0));
    unlimited.begin(QUEUE, at(0)).unwrap();
    assert_eq!(
        unlimited.room(QUEUE, at(0)),
        Ok(()),
        "what is not limited here is not limited by a report"
    );
}

#[test]
fn estimates_follow_the_results() {
    let mut meter = Meter::new(ModelLimits { tokens_per_minute: Some(1_000_000), ..NONE });
    for n in 0..40 {
        let call = meter.begin_with(TASK, meter.demand(100, Some(4_000)), at(n)).unwrap();
        meter.settle(call, CallEnd::Used { input: 150, output: 200 }, at(n));
    }
    let demand = meter.demand(100, Some(4_000));
    assert!((150..=151).contains(&demand.input), "{demand:?}");
    assert!((200..=210).contains(&demand.output), "{demand:?}");
    assert_eq!(meter.demand(100, Some(50)).output, 50);
}

#[test]
fn an_adopted_call_is_in_flight_and_counts_from_its_beginning() {
    let mut meter = requests(1);
    let call = meter.adopt(at(1_000), at(31_000));
    assert_eq!(meter.room(QUEUE, at(31_000)), until(61_510));
    meter.settle(call, CallEnd::Unknown, at(32_000));
    assert_eq!(meter.status(at(32_000)).in_flight, 0);
    assert_eq!(meter.room(QUEUE, at(32_000)), until(61_510));
    meter.count(at(40_000), 5, 5, at(70_000));
    assert_eq!(meter.room(QUEUE, at(70_000)), until(100_510));
}

proptest! {
    /// Any calls at any times: no span of a minute has more than the limit, and the instant that a
    /// refusal names is the first at which there is room.
    #[test]
    fn no_minute_has_more_than_the_limit(
        steps in prop::collection::vec((0_u64..20_000, 1_u64..300, any::<bool>()), 1..80),
        limit in 1_u64..6, tokens in 300_u64..900,
    ) {
        let limits = ModelLimits {
            requests_per_minute: Some(limit), input_tokens_per_minute: Some(tokens), ..NONE
        };
        let mut meter = Meter::new(limits);
        let (mut now, mut begun): (u64, Vec<(u64, u64)>) = (0, Vec::new());
        for (pause, input, is_patient) in steps {
            now += pause;
            let demand = Demand { further: 0, input, output: 0, plain: 0 };
            let begin = match meter.begin_with(TASK, demand, at(now)) {
                Err(NoRoom { until: Some(until) }) if is_patient => {
                    prop_assert!(until.0 > now && until.0 <= now + 60_510);
                    let early = Monotonic(until.0 - 1);
                    prop_assert!(meter.begin_with(TASK, demand, early).is_err());
                    now = until.0;
                    meter.begin_with(TASK, demand, until)
                }
                other => other,
            };
            if let Ok(call) = begin {
                begun.push((now, input));
                meter.settle(call, CallEnd::Used { input, output: 0 }, at(now));
            } else {
                prop_assert!(!is_patient);
            }
        }
        for (end, _) in &begun {
            let minute = begun.iter().filter(|(at, _)| at <= end && at + 60_000 > *end);
            let (count, sum) = minute.fold((0, 0), |(count, sum), (_, input)| (count + 1, sum + input));
            prop_assert!(count <= limit && sum <= tokens);
        }
    }

    /// After any history of calls, the number in flight is right, and a model without calls opens.
    #[test]
    fn every_end_gives_back_its_place(
        ends in prop::collection::vec((0_u8..5, prop::option::of(0_u64..90_000), 0_u64..5_000), 0..60),
    ) {
        let mut meter = Meter::new(ModelLimits { concurrent: Some(3), ..NONE });
        let (mut now, mut calls) = (0, Vec::new());
        for (end, retry_after_ms, pause) in ends {
            now += pause;
            calls.extend(meter.begin(QUEUE, at(now)));
            prop_assert!(calls.len() <= 3);
            let end = match end {
                0 => continue,
                1 => refused(retry_after_ms),
                2 => answered(),
                3 => CallEnd::Failed,
                _ => CallEnd::Unknown,
            };
            if let Some(call) = calls.pop() {
                meter.settle(call, end, at(now));
            }
        }
        for call in calls {
            meter.settle(call, answered(), at(now));
        }
        let status = meter.status(at(now));
        prop_assert_eq!(status.in_flight, 0);
        prop_assert!(meter.room(QUEUE, at(status.closed_until.map_or(now, |until| until.0))).is_ok());
    }
}

#[test]
fn the_samples_of_an_attempt_are_requests_too() {
    let mut meter = requests(6);
    let demand = meter.demand(10, Some(20)).times(4);
    assert_eq!((demand.input, demand.output), (40, 80));
    let call = meter.begin_with(TASK, demand, at(0)).unwrap();
    assert_eq!(meter.status(at(0)).requests, 4);
    assert!(meter.begin_with(TASK, demand, at(0)).is_err(), "four more are too many");
    meter.settle(call, CallEnd::Used { input: 44, output: 60 }, at(10));
    let status = meter.status(at(10));
    assert_eq!((status.requests, status.input_tokens, status.output_tokens), (4, 44, 60));
    meter.count_now(2, 5, 5, at(20));
    assert_eq!(meter.room(QUEUE, at(20)), until(60_510), "a judge's calls count as well");
}
