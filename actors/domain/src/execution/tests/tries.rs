//! Steps and executions that go again.

use super::*;

#[test]
fn a_rejected_step_with_another_try_goes_on_as_that_task() {
    let second = task(0, 2);
    let retry = Retry { task: second, worst_cost: None };
    let step = execution(CHAIN).after([run(0)]).on(rejected(0, Some(retry)));
    assert_eq!(step.next.stages(), [Dispatched, Waiting, Waiting]);
    assert_eq!(step.facts, [Fact::StepRetrying(0)]);
    assert_eq!(step.effects, [Effect::Watch { step: 0, task: second }]);
    assert_eq!(step.next.refused(completed(0)), Refusal::StaleTask);
    let event = Event::StepCompleted { step: 0, report: costing(second, 0.0) };
    assert_eq!(step.next.on(event).next.stages(), [Completed, Ready, Waiting]);
}

#[test]
fn another_try_after_a_cancel_is_cancelled_too() {
    let second = task(0, 2);
    let execution = execution(CHAIN).after([run(0), Event::CancelRequested]);
    let retry = Retry { task: second, worst_cost: None };
    let step = execution.on(rejected(0, Some(retry)));
    assert_eq!(step.effects, [Effect::CancelTask { step: 0, task: second }]);
    assert_eq!(step.next.outstanding(), step.effects);
}

#[test]
fn an_output_that_does_not_match_is_corrected_once() {
    let execution = execution(APART).after([run(0)]);
    let first = execution.on(mismatched(0, 1));
    assert_eq!(first.next.stages()[0], Ready);
    assert_eq!(first.facts, [Fact::StepRetrying(0)]);
    assert_eq!(first.effects, [Effect::Decide(0)]);
    let correction = first.next.step(0).and_then(|row| row.correction.as_deref());
    assert_eq!(correction, Some("`total` is missing"));
    let again = first.next.after([run_at_worst(0, task(0, 2), 1.0)]);
    let second = again.on(mismatched(0, 2)).next;
    assert_eq!((second.stages()[0], second.code(0)), (Failed, Some(EndingCode::OutputInvalid)));
}

#[test]
fn an_output_that_was_cut_is_tried_once_with_more_tokens() {
    let cut = |run, max_tokens| Event::OutputMismatched {
        step: 0,
        report: costing(task(0, run), 0.0),
        fault: OutputFault::Truncated { max_tokens },
    };
    let execution = execution(APART).after([run(0)]);
    let first = execution.on(cut(1, Some(200))).next;
    assert_eq!(first.stages()[0], Ready);
    assert_eq!(first.step(0).and_then(|row| row.max_tokens), Some(200));
    let again = first.after([run_at_worst(0, task(0, 2), 1.0)]);
    let second = again.on(cut(2, Some(400))).next;
    assert_eq!((second.stages()[0], second.code(0)), (Failed, Some(EndingCode::OutputTruncated)));
    assert_eq!(second.step(0).and_then(|row| row.max_tokens), None);
    let hopeless = execution.on(cut(1, None)).next;
    assert_eq!(hopeless.code(0), Some(EndingCode::OutputTruncated));
}

#[test]
fn a_retry_keeps_what_ended_well_and_runs_the_rest_again() {
    let spec = Spec { timeout_ms: Some(60_000), ..spec() };
    let failed_once =
        started(spec, DIAMOND).after([run(0), completed(0), skip(1), run(2), failed(2)]);
    assert_eq!(failed_once.stages(), [Completed, Skipped, Failed, Cancelled]);
    let later = Timestamp::from_millis(5_000_000);
    let step = failed_once.transition(Event::RetryRequested, later).expect("it failed");
    assert_eq!(step.next.stages(), [Completed, Skipped, Ready, Waiting]);
    assert_eq!(step.facts, [Fact::Started]);
    let deadline = Timestamp::from_millis(5_060_000);
    assert_eq!(step.effects, [Effect::WakeAt(deadline), Effect::Decide(2)]);
    assert_eq!((step.next.head.run, step.next.cause()), (2, None));
    assert_eq!(step.next.step(2).map(|row| (row.runs, row.error.clone())), Some((1, None)));
    assert_eq!(step.next.refused(Event::RetryRequested), Refusal::Running);
    assert_eq!(step.next.refused(failed(2)), Refusal::StaleTask);
}

#[test]
fn a_retry_right_after_a_cancel_does_not_forget_the_tasks_of_before() {
    let cancelled = execution(CHAIN).after([run(0), Event::CancelRequested]);
    let again = cancelled.after([Event::RetryRequested, run_at_worst(0, task(0, 2), 0.0)]);
    let owed = [
        Effect::CancelTask { step: 0, task: task(0, 1) },
        Effect::Watch { step: 0, task: task(0, 2) },
    ];
    assert_eq!(again.reloaded().outstanding(), owed);
    let late = again.on(completed(0)).next;
    assert_eq!(late.stages(), [Dispatched, Waiting, Waiting]);
}

#[test]
fn tasks_that_are_being_stopped_do_not_pile_up_without_end() {
    let mut execution = execution(APART);
    for run in 0..16 {
        execution = execution.after([run_at_worst(0, task(0, run), 0.0), Event::CancelRequested]);
        if run < 15 {
            execution = execution.on(Event::RetryRequested).next;
        }
    }
    assert_eq!(execution.refused(Event::RetryRequested), Refusal::StillStopping);
    let one = execution.on(Event::StepCancelled { step: 0, report: costing(task(0, 3), 0.0) });
    assert_eq!(one.next.on(Event::RetryRequested).next.status(), Status::Running);
}
