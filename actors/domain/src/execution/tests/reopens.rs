//! Decisions that are taken back, and the uses that bar it.

use super::*;

/// `a` before `c`, and `b` before `d`.
const PAIRS: &[&[u16]] = &[&[], &[], &[0], &[1]];
/// `a` and `b` before `c`.
const JOINED: &[&[u16]] = &[&[], &[], &[0, 1]];

fn reopened(step: u16) -> Event {
    Event::StepReopened { step, task: task(step, 1) }
}

fn kinds(uses: &[Use]) -> Vec<(UseKind, &str)> {
    uses.iter().map(|it| (it.kind, it.id.as_str())).collect()
}

#[test]
fn a_step_whose_dependent_waits_for_another_is_held_again_and_counted_once() {
    let costly = Event::StepCompleted { step: 0, report: costing(task(0, 1), 3.0) };
    let before = execution(JOINED).after([run(0), run(1), costly.clone()]);
    assert_eq!(before.uses(0, task(0, 1), None), []);
    let step = before.on(reopened(0));
    assert_eq!(step.next.stages(), [Dispatched, Dispatched, Waiting]);
    assert_eq!(step.facts, [Fact::Progressed]);
    assert_eq!(step.effects, [Effect::Watch { step: 0, task: task(0, 1) }]);
    assert!(step.next.has_counted(task(0, 1)) && !step.next.has_counted(task(1, 1)));
    assert_eq!(step.next.reloaded(), step.next);
    let again = step.next.on(costly).next;
    assert_eq!((again.stages(), again.usage()), (before.stages(), before.usage()));
    let ended = again.after([completed(1), run(2), completed(2)]);
    assert_eq!((ended.status(), ended.usage().input), (Status::Completed, 30));
}

#[test]
fn a_dependent_that_is_due_and_not_begun_waits_again() {
    let before = capped(5.0, PAIRS)
        .after([run_at_worst(0, task(0, 1), 1.0), run_at_worst(1, task(1, 1), 4.0)]);
    let held = before.after([completed(0), run_at_worst(2, task(2, 1), 4.0)]);
    assert_eq!((held.stages()[2], held.waits_for_budget(2)), (Ready, true));
    let step = held.on(reopened(0));
    assert_eq!(step.next.stages(), [Dispatched, Dispatched, Waiting, Waiting]);
    assert!(!step.next.waits_for_budget(2));
    assert_eq!(step.next.refused(run(2)), Refusal::NotReady);
    assert_eq!(step.next.on(completed(0)).next.stages()[2], Ready);
}

#[test]
fn a_rejected_step_brings_back_what_stands_behind_it_alone() {
    let both = execution(DIAMOND).after([run(0), completed(0), run(1), run(2)]);
    let one = both.on(rejected(1, None)).next;
    assert_eq!(one.stages(), [Completed, Rejected, Dispatched, Cancelled]);
    assert_eq!(one.cause(), Some((EndingCode::Rejected, Some(1))));
    let again = one.on(reopened(1)).next;
    assert_eq!(again.stages(), [Completed, Dispatched, Dispatched, Waiting]);
    assert_eq!((again.cause(), again.code(1), again.code(3)), (None, None, None));
    let ended = again.after([completed(1), completed(2), run(3), completed(3)]);
    assert_eq!(ended.status(), Status::Completed);

    // What stands behind another failure stays cancelled, and that failure is the cause.
    let apart = execution(&[&[], &[], &[0, 1], &[]]).after([run(0), run(1), run(3)]);
    let two = apart.after([rejected(0, None), failed(1)]);
    assert_eq!(two.cause(), Some((EndingCode::Rejected, Some(0))));
    let again = two.on(reopened(0)).next;
    assert_eq!(again.stages(), [Dispatched, Failed, Cancelled, Dispatched]);
    assert_eq!(again.cause(), Some((EndingCode::ProviderError, Some(1))));
}

#[test]
fn a_dependent_that_has_begun_is_named_however_it_went_on() {
    let output = execution(CHAIN).after([run(0), completed(0)]);
    let begun = output.on(run(1)).next;
    assert_eq!(kinds(&begun.uses(0, task(0, 1), None)), [(UseKind::Step, "b")]);
    assert_eq!(begun.refused(reopened(0)), Refusal::NotReopened);
    for event in [
        skip(1),
        Event::Decided {
            step: 1,
            decision: StepDecision::Fail(ending(EndingCode::RenderFailed, "no")),
        },
        Event::Decided { step: 1, decision: StepDecision::Await { timeout_ms: None } },
    ] {
        let begun = output.on(event).next;
        let uses = begun.uses(0, task(0, 1), None);
        assert!(kinds(&uses).contains(&(UseKind::Step, "b")), "{uses:?}");
    }
    let again = begun.on(mismatched(1, 1)).next;
    assert_eq!(again.stages()[1], Ready);
    assert_eq!(kinds(&again.uses(0, task(0, 1), None)), [(UseKind::Step, "b")]);
}

#[test]
fn the_end_of_the_execution_stays_a_use_after_a_retry() {
    let ended =
        execution(APART).after([run(0), completed(0), run(1), completed(1), run(2), failed(2)]);
    let id = ended.head.spec.id.to_string();
    assert_eq!(kinds(&ended.uses(0, task(0, 1), None)), [(UseKind::Execution, &*id)]);
    assert_eq!(ended.refused(reopened(0)), Refusal::NotReopened);
    let later = NOW.after(Duration::from_secs(1));
    let again = ended.transition(Event::RetryRequested, later).expect("it failed").next;
    let uses = again.uses(0, task(0, 1), None);
    assert_eq!((kinds(&uses), uses[0].at), (vec![(UseKind::Execution, &*id)], later));
    assert_eq!(again.refused(reopened(0)), Refusal::NotReopened);
}

#[test]
fn a_task_that_took_the_step_over_is_named() {
    let retry = Retry { task: task(0, 2), worst_cost: None };
    let retried = execution(APART).after([run(0), rejected(0, Some(retry))]);
    let other = task(0, 2).to_string();
    assert_eq!(kinds(&retried.uses(0, task(0, 1), None)), [(UseKind::Task, &*other)]);
    assert_eq!(retried.refused(reopened(0)), Refusal::NotReopened);
    // The step has not ended.
    let out = execution(APART).on(run(0)).next;
    assert_eq!(out.refused(reopened(0)), Refusal::NotReopened);
    assert_eq!(out.refused(reopened(9)), Refusal::NotReopened);
}

#[test]
fn an_item_of_a_list_is_used_by_its_list() {
    let running = execution(APART).on(run(0)).next;
    let uses = running.uses(0, task(0, 1), Some(3));
    assert_eq!(kinds(&uses), [(UseKind::Items, "a")]);
}

#[test]
fn a_step_that_is_held_again_and_cancelled_costs_no_more() {
    let costly = Event::StepCompleted { step: 0, report: costing(task(0, 1), 3.0) };
    let before = execution(APART).after([run(0), costly]);
    let again = before.on(reopened(0)).next;
    let cancelled = again.on(Event::CancelRequested).next;
    let report = costing(task(0, 1), 3.0);
    let swept = cancelled.on(Event::StepCancelled { step: 0, report }).next;
    assert_eq!((swept.usage(), swept.is_finished()), (before.usage(), true));
    assert_eq!(swept.step(0).expect("a row").usage, before.step(0).expect("a row").usage);
}
