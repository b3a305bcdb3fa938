//! The effects of the cap on the cost.

use super::*;

#[test]
fn what_may_fit_later_waits_and_is_decided_again_when_a_task_cost_less() {
    let execution = capped(3.0, APART).after([run_at_worst(0, task(0, 1), 2.0)]);
    let held = execution.on(run_at_worst(1, task(1, 1), 2.0));
    assert_eq!(held.next.stages(), [Dispatched, Ready, Ready]);
    assert!(held.next.waits_for_budget(1) && !held.next.waits_for_budget(2));
    assert_eq!((held.effects, held.next.due().iter().collect()), (vec![], vec![2]));
    let cheap = Event::StepCompleted { step: 0, report: costing(task(0, 1), 1.0) };
    let step = held.next.reloaded().on(cheap);
    assert_eq!(step.effects, [Effect::Decide(1)]);
    let sent = step.next.on(run_at_worst(1, task(1, 1), 2.0)).next;
    assert_eq!(
        (sent.stages()[1], sent.head.budget.reserved()),
        (Dispatched, Money::from_usd(2.0 * CENT))
    );
}

#[test]
fn what_never_fits_fails_the_execution_with_budget_exceeded() {
    let over = capped(3.0, CHAIN).on(run_at_worst(0, task(0, 1), 3.5)).next;
    assert_eq!(
        (over.status(), over.cause()),
        (Status::Failed, Some((EndingCode::BudgetExceeded, Some(0))))
    );
    assert_eq!(capped(3.0, CHAIN).on(run(0)).next.code(0), Some(EndingCode::BudgetExceeded));

    let execution = capped(3.0, APART).after([run_at_worst(0, task(0, 1), 2.0)]);
    let held = execution.after([run_at_worst(1, task(1, 1), 2.0)]);
    let dear = Event::StepCompleted { step: 0, report: costing(task(0, 1), 2.0) };
    let step = held.on(dear);
    assert_eq!(step.effects, [Effect::Decide(1)]);
    let over = step.next.on(run_at_worst(1, task(1, 1), 2.0)).next;
    assert_eq!((over.stages()[1], over.code(1)), (Failed, Some(EndingCode::BudgetExceeded)));
}

#[test]
fn another_try_that_does_not_fit_into_the_budget_is_stopped() {
    let execution = capped(3.0, CHAIN).after([run_at_worst(0, task(0, 1), 2.0)]);
    let second = Retry { task: task(0, 2), worst_cost: Some(Money::from_usd(2.0 * CENT)) };
    let event = Event::StepRejected {
        step: 0,
        report: costing(task(0, 1), 2.0),
        ending: ending(EndingCode::Rejected, "too vague"),
        retried_as: Some(second),
    };
    let step = execution.on(event);
    assert_eq!(
        (step.next.stages()[0], step.next.code(0)),
        (Failed, Some(EndingCode::BudgetExceeded))
    );
    assert_eq!(step.effects, [Effect::CancelTask { step: 0, task: task(0, 2) }]);
}
