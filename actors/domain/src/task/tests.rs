use proptest::prelude::*;

use super::*;
use crate::confidence::ask::{Ask, Expected, Method};
use crate::id::TaskId;
use crate::retry::{Jitter, Policy};
use crate::usage::{Prices, Usage};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);
const LEASE_1: LeaseId = LeaseId::from_random(1);
const LEASE_2: LeaseId = LeaseId::from_random(2);
const WORKER: WorkerId = WorkerId::from_u128(7 << 10);
const JITTER: Jitter = Jitter(u16::MAX / 2 + 1);

fn spec() -> Spec {
    Spec {
        id: TaskId::from_u128(1 << 10),
        account: "usr_1".into(),
        model: "m".into(),
        queue: "default".into(),
        priority: 5,
        timeout_ms: 60_000,
        tags: vec![],
        max_tokens: None,
        temperature: None,
        sampling: None,
        callback_url: None,
        labels: None,
        gate: None,
        retry: Policy::default(),
        origin: Origin::default(),
        checked: false,
        routing: None,
        flow: None,
        start_at: None,
    }
}

fn task() -> Task {
    Task::submitted(spec()).next
}

fn completion(confidence: Option<f64>) -> Completion {
    Completion {
        usage: Usage::default(),
        confidence,
        confidence_source: None,
        finish_reason: None,
        service_tier: None,
        judge: None,
        thinking: None,
    }
}

fn completed(lease: LeaseId) -> Event {
    answered(lease, None)
}

fn answered(lease: LeaseId, confidence: Option<f64>) -> Event {
    Event::Completed { lease, completion: completion(confidence), chance: Chance(u32::MAX) }
}

fn output_invalid(lease: LeaseId) -> Event {
    let fault = OutputFault::Mismatch("no number".into());
    Event::OutputInvalid { lease, completion: completion(None), fault }
}

fn failed(lease: LeaseId, retryable: bool) -> Event {
    let ending = Ending { code: EndingCode::ProviderError, message: "503".into() };
    let failure = Failure::new(ending, retryable);
    Event::AttemptFailed { lease, failure, patience: Duration::ZERO, jitter: JITTER }
}

impl Task {
    fn running(&self, lease: LeaseId) -> Self {
        self.on(Event::Leased { lease, worker: WORKER }).next
    }

    fn on(&self, event: Event) -> Step<Self> {
        self.at(event, NOW)
    }

    fn at(&self, event: Event, now: Timestamp) -> Step<Self> {
        self.transition(event, now).expect("the event applies")
    }

    fn refused(&self, event: Event) -> Refusal {
        self.transition(event, NOW).expect_err("the event is refused")
    }
}

#[test]
fn a_lease_starts_the_first_attempt_and_bounds_it() {
    let step = task().on(Event::Leased { lease: LEASE_1, worker: WORKER });
    let deadline = Timestamp::from_millis(1_060_000);
    assert_eq!(step.facts, [Fact::Started]);
    assert_eq!(
        step.effects,
        [Effect::Assign { lease: LEASE_1, worker: WORKER, deadline }, Effect::WakeAt(deadline)]
    );
    assert_eq!((step.next.attempt, step.next.started_at), (1, Some(NOW)));
    assert_eq!(
        step.next.refused(Event::Leased { lease: LEASE_2, worker: WORKER }),
        Refusal::NotReady
    );
}

#[test]
fn the_current_lease_completes_it() {
    let step = task().running(LEASE_1).on(completed(LEASE_1));
    assert_eq!(step.next.status(), Status::Completed);
    assert_eq!(step.facts, [Fact::Completed]);
    assert_eq!(step.effects, [Effect::ForgetWake]);
}

#[test]
fn late_completion_from_a_lost_worker_is_refused() {
    let task = task().running(LEASE_1).on(Event::LeaseExpired { lease: LEASE_1 }).next;
    assert_eq!(task.refused(completed(LEASE_1)), Refusal::StaleLease);
    let task = task.running(LEASE_2);
    assert_eq!(task.refused(completed(LEASE_1)), Refusal::StaleLease);
    assert_eq!(task.refused(failed(LEASE_1, false)), Refusal::StaleLease);
    assert_eq!(task.refused(Event::LeaseExpired { lease: LEASE_1 }), Refusal::StaleLease);
}

#[test]
fn the_same_result_again_is_a_duplicate() {
    let task = task().running(LEASE_1).on(completed(LEASE_1)).next;
    assert_eq!(task.refused(completed(LEASE_1)), Refusal::Duplicate);
    assert_eq!(task.refused(failed(LEASE_1, true)), Refusal::Duplicate);
    assert_eq!(task.refused(completed(LEASE_2)), Refusal::StaleLease);
}

#[test]
fn a_retryable_failure_waits_and_runs_again_until_the_attempts_are_used_up() {
    let first = task().running(LEASE_1).on(failed(LEASE_1, true));
    let until = NOW.after(Duration::from_secs(1));
    assert_eq!(first.effects, [Effect::WakeAt(until)]);
    assert_eq!(first.facts, [Fact::Retrying]);
    assert_eq!(first.next.refused(Event::TimePassed { jitter: JITTER }), Refusal::NotDue);
    let ready = first.next.at(Event::TimePassed { jitter: JITTER }, until);
    assert_eq!(ready.effects, [Effect::Enqueue]);
    let mut task = ready.next.running(LEASE_2);
    assert_eq!((task.attempt, task.retries), (2, 1));
    let later = until.after(Duration::from_secs(2));
    task = task.on(failed(LEASE_2, true)).next.at(Event::TimePassed { jitter: JITTER }, later).next;
    let last = task.running(LEASE_1);
    assert_eq!(last.attempt, 3);
    let end = last.on(failed(LEASE_1, true)).next;
    assert_eq!(end.status(), Status::Failed);
    assert_eq!(end.error.map(|error| error.code), Some(EndingCode::ProviderError));
}

#[test]
fn what_no_retry_can_help_fails_at_once() {
    let step = task().running(LEASE_1).on(failed(LEASE_1, false));
    assert_eq!((step.next.status(), step.facts), (Status::Failed, vec![Fact::Failed]));
}

#[test]
fn a_lost_worker_uses_up_no_attempt_until_it_happens_five_times() {
    let mut task = task();
    for losses in 1..5 {
        let step = task.running(LEASE_1).on(Event::LeaseExpired { lease: LEASE_1 });
        assert_eq!(step.effects, [Effect::ForgetWake, Effect::Enqueue]);
        task = step.next;
        assert_eq!((task.losses, task.attempt, task.retries), (losses, 1, 0));
    }
    let end = task.running(LEASE_1).on(Event::LeaseExpired { lease: LEASE_1 }).next;
    assert_eq!(end.status(), Status::Failed);
    assert_eq!(end.error.map(|error| error.code), Some(EndingCode::WorkerLost));
}

#[test]
fn a_lease_that_a_restart_kept_from_its_worker_uses_up_nothing() {
    let task = task().running(LEASE_1);
    let step = task.on(Event::Undelivered { lease: LEASE_1 });
    assert_eq!(step.effects, [Effect::ForgetWake, Effect::Enqueue]);
    let next = step.next;
    assert_eq!((next.status(), next.losses, next.attempt), (Status::Pending, 0, 1));
    assert_eq!(next.refused(Event::Undelivered { lease: LEASE_1 }), Refusal::StaleLease);
    let again = next.running(LEASE_2);
    assert_eq!((again.losses, again.attempt), (0, 1));
    assert_eq!(again.refused(Event::Undelivered { lease: LEASE_1 }), Refusal::StaleLease);
}

#[test]
fn an_attempt_that_takes_too_long_is_taken_from_its_worker_and_made_again() {
    let running = task().running(LEASE_1);
    assert_eq!(running.refused(Event::TimePassed { jitter: JITTER }), Refusal::NotDue);
    let step = running.at(Event::TimePassed { jitter: JITTER }, Timestamp::from_millis(1_060_000));
    let revoke = Effect::Revoke { lease: LEASE_1, worker: WORKER, reason: "timeout" };
    assert!(step.effects.contains(&revoke));
    assert_eq!(step.next.status(), Status::Pending);
    assert_eq!(step.next.refused(completed(LEASE_1)), Refusal::StaleLease);
}

#[test]
fn cancelling_takes_it_from_its_queue_or_its_worker() {
    assert!(task().on(Event::CancelRequested).effects.contains(&Effect::Dequeue));
    let step = task().running(LEASE_1).on(Event::CancelRequested);
    let revoke = Effect::Revoke { lease: LEASE_1, worker: WORKER, reason: "cancelled" };
    assert!(step.effects.contains(&revoke));
    assert_eq!(step.next.refused(Event::CancelRequested), Refusal::Finished(Status::Cancelled));
    assert_eq!(step.next.refused(completed(LEASE_1)), Refusal::StaleLease);
}

fn held() -> Task {
    let gate = Some(Gate::ALWAYS);
    Task::submitted(Spec { gate, ..spec() }).next.running(LEASE_1).on(completed(LEASE_1)).next
}

#[test]
fn a_gate_holds_the_output_that_it_was_made_for() {
    let asks = Asks { threshold: Some(0.5), ..Asks::default() };
    let task = Task::submitted(Spec { gate: Gate::of_task(asks, false), ..spec() }).next;
    let task = task.running(LEASE_1);
    let low = task.on(answered(LEASE_1, Some(0.4)));
    assert_eq!(low.facts, [Fact::AwaitingApproval]);
    let why = HoldReason::BelowThreshold;
    assert_eq!(low.next.state, State::AwaitingApproval { since: NOW, why });
    assert_eq!(task.on(answered(LEASE_1, Some(0.6))).facts, [Fact::Completed]);
}

#[test]
fn a_reviewer_lets_a_held_output_pass_or_not_and_nothing_else_does() {
    let approved = held().on(Event::Approved { edited: true });
    assert_eq!((approved.next.status(), approved.next.edited), (Status::Completed, true));
    assert_eq!(approved.facts, [Fact::Completed]);
    let rejected = held().on(Event::Rejected { reason: "wrong".into() });
    assert_eq!((rejected.next.status(), rejected.facts), (Status::Rejected, vec![Fact::Rejected]));
    let ending = Ending { code: EndingCode::Rejected, message: "wrong".into() };
    assert_eq!(rejected.next.error, Some(ending));
    assert_eq!(task().refused(Event::Approved { edited: false }), Refusal::NotHeld);
    let decided = approved.next.refused(Event::Rejected { reason: "late".into() });
    assert_eq!(decided, Refusal::Finished(Status::Completed));
    assert_eq!(held().refused(completed(LEASE_1)), Refusal::Duplicate);
}

fn paid(input: u64) -> Completion {
    let usage = Usage { input, output: 1, total_cost: 0.5, ..Usage::default() };
    Completion { usage, ..completion(None) }
}

fn missed(lease: LeaseId, completion: Completion) -> Event {
    let fault = OutputFault::Mismatch("no number".into());
    Event::OutputInvalid { lease, completion, fault }
}

#[test]
fn an_output_that_misses_its_schema_is_asked_for_once_more_at_once() {
    let step = task().running(LEASE_1).on(missed(LEASE_1, paid(3)));
    assert_eq!((&step.next.state, step.facts), (&State::Ready, vec![Fact::Retrying]));
    assert_eq!(step.effects, [Effect::ForgetWake, Effect::Enqueue]);
    assert_eq!(step.next.result, None, "an answer that does not count is no result");
    let inputs = Inputs { prompt: "How many?".into(), ..Inputs::default() };
    let prompt = step.next.amended(inputs).prompt;
    assert!(prompt.starts_with("How many?\n\n") && prompt.contains("no number"), "{prompt}");
    let again = step.next.running(LEASE_2);
    assert_eq!(again.attempt, 2);
    let good = Event::Completed { lease: LEASE_2, completion: paid(4), chance: Chance(0) };
    let done = again.on(good).next;
    let usage = Usage { input: 7, output: 2, total_cost: 1.0, ..Usage::default() };
    assert_eq!(done.result.map(|result| result.usage), Some(usage), "both calls count");
    assert_eq!((done.correction, done.error), (None, None));
    let bad = again.on(missed(LEASE_2, paid(4))).next;
    assert_eq!(bad.error.as_ref().map(|error| error.code), Some(EndingCode::OutputInvalid));
    assert_eq!(bad.result.map(|result| result.usage), Some(usage));
}

#[test]
fn an_output_that_was_cut_is_asked_for_with_twice_the_tokens() {
    let cut = |lease, max_tokens| Event::OutputInvalid {
        lease,
        completion: paid(1),
        fault: OutputFault::Truncated { max_tokens },
    };
    let task = task().running(LEASE_1).on(cut(LEASE_1, Some(64))).next;
    assert_eq!((task.status(), task.max_tokens()), (Status::Pending, Some(64)));
    let failed = task.running(LEASE_2).on(cut(LEASE_2, Some(128))).next;
    assert_eq!(failed.error.map(|error| error.code), Some(EndingCode::OutputTruncated));
}

#[test]
fn an_answer_that_did_not_count_is_paid_for_though_no_other_comes() {
    let waiting = task().running(LEASE_1).on(missed(LEASE_1, paid(3))).next;
    let cancelled = waiting.on(Event::CancelRequested).next;
    assert_eq!(cancelled.result, Some(Box::new(paid(3))));
    let failed = waiting.running(LEASE_2).on(failed(LEASE_2, false)).next;
    assert_eq!((failed.status(), failed.result), (Status::Failed, Some(Box::new(paid(3)))));
}

#[test]
fn a_steps_output_that_misses_its_schema_fails_the_task_and_is_paid_for() {
    let step = Some((crate::id::ExecutionId::from_u128(3 << 10), "a".to_owned()));
    let spec = Spec { origin: Origin { step, ..Origin::default() }, ..spec() };
    let step = Task::submitted(spec).next.running(LEASE_1).on(output_invalid(LEASE_1));
    assert_eq!((step.next.status(), step.facts), (Status::Failed, vec![Fact::Failed]));
    assert_eq!(step.next.result, Some(Box::new(completion(None))));
    let message = "the output does not match the output schema: no number".into();
    assert_eq!(step.next.error, Some(Ending { code: EndingCode::OutputInvalid, message }));
    assert_eq!(step.next.refused(output_invalid(LEASE_1)), Refusal::Duplicate);
}

fn events() -> impl Strategy<Value = Event> {
    let lease = prop_oneof![Just(LEASE_1), Just(LEASE_2)];
    prop_oneof![
        lease.clone().prop_map(|lease| Event::Leased { lease, worker: WORKER }),
        lease.clone().prop_map(completed),
        lease.clone().prop_map(output_invalid),
        (lease.clone(), any::<bool>()).prop_map(|(lease, retryable)| failed(lease, retryable)),
        lease.clone().prop_map(|lease| Event::LeaseExpired { lease }),
        lease.prop_map(|lease| Event::Undelivered { lease }),
        Just(Event::TimePassed { jitter: JITTER }),
        any::<bool>().prop_map(|edited| Event::Approved { edited }),
        Just(Event::Rejected { reason: "no".into() }),
        Just(Event::CancelRequested),
        Just(Event::GivenUp),
        Just(Event::Unaffordable { reason: "no price".into() }),
        Just(Event::OwnerGone { message: "deleted".into() }),
        (1_u8..=10).prop_map(|priority| Event::Reprioritized { priority }),
    ]
}

proptest! {
    #[test]
    fn any_history_keeps_the_laws_of_a_machine(
        history in prop::collection::vec((events(), 0_u64..120_000), 0..60),
        held: bool,
    ) {
        let gate = held.then_some(Gate::ALWAYS);
        let mut task = Task::submitted(Spec { gate, ..spec() }).next;
        let mut now = NOW;
        for (event, wait) in history {
            now = now.after(Duration::from_millis(wait));
            let before = task.clone();
            if let Ok(step) = task.transition(event.clone(), now) {
                prop_assert!(!before.is_finished(), "finished is final");
                prop_assert_eq!(step.next.version, before.version + 1);
                prop_assert!(before.can_end_by(&event) || !step.next.is_finished());
                prop_assert!(step.next.attempt <= 4 && step.next.losses <= 5);
                let again = before.transition(event, now);
                prop_assert_eq!(&again, &Ok(step.clone()), "replay agrees");
                prop_assert!(!step.next.is_finished() || step.next.outstanding().is_empty());
                task = step.next;
            } else {
                prop_assert_eq!(&before, &task);
            }
            let row = serde_json::to_string(&task).expect("a snapshot is written");
            prop_assert_eq!(&serde_json::from_str::<Task>(&row).expect("and read"), &task);
        }
    }
}

/// The failure of a call whose provider could not be reached, in an attempt that is given `patience`.
fn outage(lease: LeaseId, patience: Duration) -> Event {
    let failure = Failure::of_worker("PROVIDER_UNAVAILABLE", "connection refused".into(), true);
    assert!(failure.is_outage && failure.ending.code == EndingCode::ProviderError);
    Event::AttemptFailed { lease, failure, patience, jitter: JITTER }
}

#[test]
fn an_outage_uses_up_no_attempt_until_patience_ends() {
    let hour = Duration::from_hours(1);
    let retry = Policy { max_attempts: 1, ..Policy::default() };
    let mut task = Task::submitted(Spec { retry, ..spec() }).next;
    let mut now = NOW;
    for times in 1..=60 {
        task = task.running(LEASE_1);
        task = task.transition(outage(LEASE_1, hour), now).expect("it is running").next;
        assert_eq!((&task.state, task.retries), (&State::Ready, 0));
        assert_eq!(task.turned_away.as_deref().map(|it| (it.since, it.times)), Some((NOW, times)));
        now = now.after(Duration::from_mins(1));
    }
    let last = task.running(LEASE_2).transition(outage(LEASE_2, hour), now);
    assert_eq!(last.expect("it is running").next.status(), Status::Failed);
}

#[test]
fn only_what_can_pass_by_itself_is_an_outage() {
    for (code, retryable, is_outage, is) in [
        ("PROVIDER_UNAVAILABLE", true, true, EndingCode::ProviderError),
        ("PROVIDER_OVERLOADED", true, true, EndingCode::ProviderRateLimited),
        ("PROVIDER_UNAVAILABLE", false, false, EndingCode::ProviderError),
        ("PROVIDER_RATE_LIMITED", true, false, EndingCode::ProviderRateLimited),
        ("PROVIDER_ERROR", true, false, EndingCode::ProviderError),
        ("SOMETHING_NEW", true, false, EndingCode::ProviderError),
    ] {
        let failure = Failure::of_worker(code, String::new(), retryable);
        assert_eq!((failure.is_outage, failure.ending.code), (is_outage, is), "{code}");
    }
}

mod fallback {
    use super::*;

    fn failing(lease: LeaseId, code: EndingCode, retryable: bool) -> Event {
        let ending = Ending { code, message: "no".into() };
        let failure = Failure::new(ending, retryable);
        Event::AttemptFailed { lease, failure, patience: Duration::ZERO, jitter: Jitter(0) }
    }

    fn listed(fallback_on: Option<Vec<FailureKind>>) -> Task {
        let models = vec!["a".to_owned(), "b".to_owned()];
        let routing = Some(Box::new(Routing { models, fallback_on, service_tier: None }));
        Task::submitted(Spec { model: "a".into(), routing, ..spec() }).next
    }

    const LIMITED: EndingCode = EndingCode::ProviderRateLimited;

    #[test]
    fn the_next_lease_takes_the_next_model_without_using_up_an_attempt() {
        let task = listed(None).running(LEASE_1);
        assert_eq!((task.model(), task.model_used()), ("a", Some("a")));
        let step = task.on(failing(LEASE_1, LIMITED, true));
        assert_eq!(step.effects, [Effect::ForgetWake, Effect::Enqueue]);
        let task = step.next;
        assert_eq!((&task.state, task.retries, task.model()), (&State::Ready, 0, "b"));
        assert_eq!(task.model_used(), None, "nobody has called it yet");
        let task = task.running(LEASE_2);
        assert_eq!((task.attempt, task.model_used()), (1, Some("b")));
        assert_eq!(task.fallback_reason(), Some(FailureKind::RateLimited));
        let task = task.on(completed(LEASE_2)).next;
        assert_eq!((task.status(), task.model_used()), (Status::Completed, Some("b")));
    }

    #[test]
    fn after_the_last_model_the_attempt_has_failed_and_the_next_begins_with_the_first() {
        let task = listed(None).running(LEASE_1).on(failing(LEASE_1, LIMITED, true)).next;
        let task = task.running(LEASE_2).on(failing(LEASE_2, LIMITED, true)).next;
        assert!(matches!(task.state, State::Backoff { .. }), "{task:?}");
        assert_eq!((task.retries, task.model(), task.fallback_reason()), (1, "a", None));
    }

    #[test]
    fn a_refusal_ends_the_task_at_its_first_model() {
        let task = listed(None).running(LEASE_1);
        let task = task.on(failing(LEASE_1, EndingCode::ProviderError, false)).next;
        assert_eq!((task.status(), task.model_used()), (Status::Failed, Some("a")));
    }

    #[test]
    fn only_the_listed_kinds_go_to_the_next_model() {
        let invalid = |kinds| {
            let task = listed(kinds).running(LEASE_1);
            let task = task.on(failing(LEASE_1, EndingCode::OutputInvalid, false)).next;
            (task.status(), task.model().to_owned())
        };
        assert_eq!(invalid(None), (Status::Failed, "a".into()));
        let kinds = Some(vec![FailureKind::OutputInvalid]);
        assert_eq!(invalid(kinds), (Status::Pending, "b".into()));
    }

    #[test]
    fn a_time_out_goes_to_the_next_model_and_revokes_the_lease() {
        let task = listed(None).running(LEASE_1);
        let State::Running { deadline, .. } = task.state else { panic!("{task:?}") };
        let step = task.transition(Event::TimePassed { jitter: Jitter(0) }, deadline).unwrap();
        assert_eq!((step.next.model(), step.next.retries), ("b", 0));
        assert!(step.effects.iter().any(|effect| matches!(effect, Effect::Revoke { .. })));
    }

    #[test]
    fn a_lost_worker_is_no_failure_of_the_model() {
        let task = listed(None).running(LEASE_1);
        let task = task.on(Event::LeaseExpired { lease: LEASE_1 }).next;
        assert_eq!(task.model(), "a");
    }
}

#[test]
fn a_scheduled_task_enters_its_queue_at_its_instant_and_not_before() {
    let at = Timestamp::from_millis(1_030_000);
    let step = Task::submitted(Spec { start_at: Some(at), ..spec() });
    let scheduled = step.next;
    assert_eq!((scheduled.status(), &scheduled.state), (Status::Pending, &State::Scheduled { at }));
    assert_eq!(step.effects, [Effect::WakeAt(at)]);
    assert_eq!(scheduled.outstanding(), [Effect::WakeAt(at)]);
    let lease = Event::Leased { lease: LEASE_1, worker: WORKER };
    assert_eq!(scheduled.refused(lease), Refusal::NotReady);
    assert_eq!(scheduled.refused(Event::TimePassed { jitter: JITTER }), Refusal::NotDue);
    let due = scheduled.at(Event::TimePassed { jitter: JITTER }, at);
    assert_eq!((due.effects, due.next.state), (vec![Effect::Enqueue], State::Ready));
    assert_eq!(scheduled.on(Event::CancelRequested).next.status(), Status::Cancelled);
    assert_eq!(scheduled.eligible_since(), at);
}

#[test]
fn an_output_that_misses_its_schema_goes_on_to_the_next_model_where_that_is_asked_for() {
    let models = vec!["m".to_owned(), "n".to_owned()];
    let fallback_on = Some(vec![FailureKind::OutputInvalid]);
    let routing = Routing { models, fallback_on, service_tier: None };
    let step_of = Some((crate::id::ExecutionId::from_u128(1 << 10), "a".to_owned()));
    for step in [None, step_of] {
        let origin = Origin { step, ..Origin::default() };
        let routing = Some(Box::new(routing.clone()));
        let task = Task::submitted(Spec { routing, origin, checked: true, ..spec() }).next;
        let second = task.running(LEASE_1).on(output_invalid(LEASE_1));
        assert_eq!(
            (second.facts, second.effects.last()),
            (vec![Fact::Retrying], Some(&Effect::Enqueue))
        );
        let second = second.next;
        assert_eq!((second.model(), second.retries), ("n", 0));
        assert_eq!(second.fallback_reason(), Some(FailureKind::OutputInvalid));
        assert_eq!(second.refused(completed(LEASE_1)), Refusal::Duplicate);
        let inputs = second.amended(Inputs { prompt: "p".into(), ..Inputs::default() });
        assert_eq!(inputs.prompt, "p", "another model is asked the same");
        let last = second.running(LEASE_2).on(output_invalid(LEASE_2)).next;
        // The execution of a step makes another task instead.
        let is_alone = last.spec.origin.step.is_none();
        assert_eq!(last.is_finished(), !is_alone);
        assert!(!is_alone || last.model() == "m" && last.retries == 1, "{last:?}");
    }
}

#[test]
fn the_worst_case_is_the_dearest_model_or_all_of_them_if_each_may_answer() {
    let prices = r#"{"a": {"input_cost_per_token": 1, "output_cost_per_token": 1},
                     "b": {"input_cost_per_token": 10, "output_cost_per_token": 10}}"#;
    let prices = Prices::parse(prices).expect("a table");
    let call = Expected { prompt: 2, max_tokens: Some(1) };
    let models = vec!["a".to_owned(), "b".to_owned()];
    let worst = |kind: FailureKind| {
        let routing =
            Routing { models: models.clone(), fallback_on: Some(vec![kind]), ..Routing::default() };
        let called = Called::by("a", Some(&routing));
        let ask = Ask { method: Method::Samples, n: Some(2), ..Ask::default() };
        let worst = |called: Called<'_>, ask| called.worst_case(call, ask, &prices);
        (worst(called, None), worst(called.once(), None), worst(called, Some(&ask)))
    };
    assert_eq!(worst(FailureKind::Unavailable), (Some(30.0), Some(30.0), Some(90.0)));
    assert_eq!(worst(FailureKind::OutputInvalid), (Some(33.0), Some(30.0), Some(99.0)));
    let alone = |model| Called::by(model, None).worst_case(call, None, &prices);
    assert_eq!((alone("a"), alone("x")), (Some(3.0), None));
}

#[test]
fn an_end_that_is_taken_back_holds_the_same_output_again() {
    let gated = Task::submitted(Spec { gate: Some(Gate::ALWAYS), ..spec() }).next;
    let held = gated.running(LEASE_1).on(completed(LEASE_1)).next;
    let reopened = || Event::Reopened { why: HoldReason::Required };
    assert_eq!(held.refused(reopened()), Refusal::NotHeld);
    for ended in [
        held.on(Event::Approved { edited: true }).next,
        held.on(Event::Rejected { reason: "no".into() }).next,
    ] {
        let step = ended.on(reopened());
        let expected = Task { version: held.version + 2, reopened: 1, ..held.clone() };
        assert_eq!((&step.next, &*step.facts), (&expected, &[Fact::Reopened][..]));
        assert!(step.effects.is_empty() && step.next.outstanding().is_empty());
        let again = step.next.on(Event::Approved { edited: false }).next;
        assert_eq!((again.status(), again.edited), (Status::Completed, false));
        assert_eq!(again.refused(completed(LEASE_1)), Refusal::Duplicate);
        let erased = ended.erased(NOW).expect("it has ended").next;
        assert_eq!(erased.refused(reopened()), Refusal::NotHeld);
    }
    let failed = gated.running(LEASE_1).on(failed(LEASE_1, false)).next;
    assert_eq!(failed.refused(reopened()), Refusal::NotHeld);
}
