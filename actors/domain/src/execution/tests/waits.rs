//! Waits and their signals.

use super::*;
use crate::execution::signal::Sent;
use crate::graph::StepSet;
use crate::id::SignalId;

fn sent(steps: &[u16], number: u128) -> Sent {
    let steps: StepSet = steps.iter().copied().collect();
    let signal = Signal { id: SignalId::from_u128(number << 10), at: NOW };
    Sent { steps, signal, replace: false }
}

fn signal(steps: &[u16], number: u128) -> Event {
    Event::Signalled(sent(steps, number))
}

fn wait(step: u16, timeout_ms: Option<u64>) -> Event {
    Event::Decided { step, decision: StepDecision::Await { timeout_ms } }
}

fn stage(execution: &Execution, step: u16) -> Stage {
    execution.step(step).expect("it is there").stage
}

#[test]
fn a_wait_goes_on_with_its_signal() {
    let waiting = execution(CHAIN).on(wait(0, None));
    assert_eq!(waiting.facts, [Fact::StepWaiting(0)]);
    assert!(waiting.next.only_awaits() && waiting.next.outstanding().is_empty());
    let step = waiting.next.on(signal(&[0], 1));
    assert_eq!(step.facts, [Fact::StepSignalled(0), Fact::StepCompleted(0), Fact::Progressed]);
    assert_eq!(step.effects, [Effect::Decide(1)]);
    let output = step.next.step(0).and_then(StepState::output_source);
    assert_eq!(output, Some(OutputSource::Signal(SignalId::from_u128(1 << 10))));
}

#[test]
fn a_signal_that_comes_before_its_wait_is_kept() {
    let early = execution(CHAIN).on(signal(&[1], 1));
    assert_eq!(early.facts, [Fact::StepSignalled(1)]);
    let done = early.next.after([run(0), completed(0), wait(1, Some(5))]);
    assert_eq!((stage(&done, 1), stage(&done, 2)), (Completed, Ready));
    assert_eq!(done.wakes_at(), None);
}

#[test]
fn one_signal_serves_every_wait_of_its_name() {
    let both = execution(APART).after([wait(0, None), signal(&[0, 1], 1)]);
    assert_eq!((stage(&both, 0), stage(&both, 1)), (Completed, Ready));
    assert_eq!(stage(&both.on(wait(1, None)).next, 1), Completed);
}

#[test]
fn a_wait_that_a_retry_begins_again_has_the_signal_that_another_wait_has_used() {
    let failed = StepDecision::Fail(ending(EndingCode::ConditionFailed, "no"));
    let failed = Event::Decided { step: 1, decision: failed };
    let done = execution(APART).after([wait(0, None), failed, signal(&[0, 1], 1), skip(2)]);
    assert_eq!(
        (done.status(), stage(&done, 0), stage(&done, 1)),
        (Status::Failed, Completed, Failed)
    );
    let again = done.reloaded().after([Event::RetryRequested]);
    assert_eq!(again.refused(signal(&[0, 1], 2)), Refusal::Signalled);
    assert_eq!(again.on(wait(1, None)).next.status(), Status::Completed);
}

#[test]
fn another_signal_is_refused_unless_it_replaces_an_unused_one() {
    let kept = execution(CHAIN).after([signal(&[1], 1)]);
    assert_eq!(kept.refused(signal(&[1], 2)), Refusal::Signalled);
    let replacing = Event::Signalled(Sent { replace: true, ..sent(&[1], 2) });
    let replaced = kept.on(replacing.clone()).next;
    assert_eq!(replaced.kept_signal([1].into_iter().collect()), Some(SignalId::from_u128(2 << 10)));
    let used = replaced.after([run(0), completed(0), wait(1, None)]);
    assert_eq!(used.refused(replacing), Refusal::Signalled);
}

#[test]
fn a_wait_without_a_signal_fails_in_time_and_is_tried_again_by_a_retry() {
    let waiting = execution(CHAIN).after([wait(0, Some(5_000))]);
    let at = NOW.after(Duration::from_secs(5));
    assert_eq!(waiting.outstanding(), [Effect::WakeAt(at)]);
    assert_eq!(waiting.refused(Event::TimePassed), Refusal::NotDue);
    let failed = waiting.transition(Event::TimePassed, at).expect("it is due").next;
    assert_eq!((failed.status(), stage(&failed, 1)), (Status::Failed, Cancelled));
    let error = failed.step(0).and_then(|row| row.error.clone()).expect("it failed");
    assert_eq!(error.code, EndingCode::TaskTimeout);
    assert_eq!(failed.refused(signal(&[0], 1)), Refusal::Finished(Status::Failed));
    let again = failed.after([Event::RetryRequested, signal(&[0], 1), wait(0, None)]);
    assert_eq!(stage(&again, 0), Completed);
}

#[test]
fn a_wait_that_has_ended_takes_no_signal() {
    let skipped = execution(APART).after([skip(0)]);
    assert_eq!(skipped.refused(signal(&[0], 1)), Refusal::WaitOver);
}

#[test]
fn the_first_end_of_a_wait_or_of_the_whole_is_the_alarm() {
    let spec = Spec { timeout_ms: Some(60_000), ..spec() };
    let waiting = started(spec, APART).after([wait(0, Some(90_000))]);
    assert_eq!(waiting.wakes_at(), Some(DEADLINE));
    let step = waiting.on(wait(1, Some(1_000)));
    let first = NOW.after(Duration::from_secs(1));
    assert_eq!(step.effects, [Effect::WakeAt(first)]);
    let step = step.next.on(signal(&[1], 1));
    assert_eq!(step.effects, [Effect::WakeAt(DEADLINE)]);
}
