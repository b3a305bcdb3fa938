//! Steps that run once for each item of a list.

use super::*;
use crate::execution::items::{Expansion, ItemCounts};
use crate::execution::{Due, ItemDecision};

/// `a` with a list, before `b`.
const MAP: &[&[u16]] = &[&[], &[0]];

const fn expansion(items: u16, min_success: u16) -> Expansion {
    Expansion { items, concurrency: None, min_success, worst_cost: None }
}

fn expand(expansion: Expansion) -> Event {
    Event::Decided { step: 0, decision: StepDecision::Expand(expansion) }
}

const fn item_task(item: u16, run: u16) -> TaskId {
    TaskId::from_u128((1 << 40 | (item as u128) << 8 | run as u128) << 10)
}

fn go_at_worst(item: u16, run: u16, cents: f64) -> Event {
    let worst_cost = Some(Money::from_usd(cents * CENT));
    let decision = ItemDecision::Run { task: item_task(item, run), worst_cost };
    Event::ItemDecided { step: 0, item, decision }
}

fn go(item: u16) -> Event {
    let decision = ItemDecision::Run { task: item_task(item, 1), worst_cost: None };
    Event::ItemDecided { step: 0, item, decision }
}

fn of_item(item: u16, run: u16, cents: f64) -> Report {
    Report { item: Some(item), ..costing(item_task(item, run), cents) }
}

fn item_completed(item: u16) -> Event {
    Event::StepCompleted { step: 0, report: of_item(item, 1, 0.0) }
}

fn item_failed(item: u16) -> Event {
    let ending = ending(EndingCode::ProviderError, "503");
    Event::StepFailed { step: 0, report: of_item(item, 1, 0.0), ending }
}

fn item_cancelled(item: u16) -> Event {
    Event::StepCancelled { step: 0, report: of_item(item, 1, 0.0) }
}

impl Execution {
    fn item_stages(&self) -> Vec<Stage> {
        self.items(0).map(|(_, row)| row.stage).collect()
    }

    fn counts(&self) -> ItemCounts {
        self.item_counts(0, |_| DispatchState::Running).expect("it has a list")
    }
}

#[test]
fn each_item_runs_and_the_step_completes_with_the_last() {
    let step = execution(MAP).on(expand(expansion(3, 3)));
    assert_eq!(step.next.stages(), [Dispatched, Waiting]);
    assert_eq!((step.facts, step.effects), (vec![], vec![Effect::Decide(0)]));
    assert_eq!(step.next.next_due(), Some(Due { step: 0, item: Some(0) }));
    let out = step.next.after([go(0), go(1), go(2)]);
    assert_eq!((out.item_stages(), out.next_due()), (vec![Dispatched; 3], None));
    let step = out.on(item_completed(1));
    assert_eq!(step.facts, [Fact::ItemCompleted(0, 1)]);
    assert_eq!(
        step.next.counts(),
        ItemCounts { total: 3, completed: 1, running: 2, ..ItemCounts::default() }
    );
    let last = step.next.after([item_completed(0)]).on(item_completed(2));
    assert_eq!(last.facts, [Fact::ItemCompleted(0, 2), Fact::StepCompleted(0), Fact::Progressed]);
    assert_eq!(last.next.stages(), [Completed, Ready]);
    assert_eq!(last.effects, [Effect::Decide(1)]);
}

#[test]
fn an_empty_list_completes_its_step_at_once() {
    let step = execution(MAP).on(expand(expansion(0, 0)));
    assert_eq!(step.next.stages(), [Completed, Ready]);
    assert_eq!(step.next.counts(), ItemCounts::default());
}

#[test]
fn no_more_items_are_out_than_the_step_allows() {
    let two = Expansion { concurrency: Some(2), ..expansion(4, 4) };
    let out = execution(MAP).after([expand(two), go(0), go(1)]);
    assert_eq!(out.next_due(), None);
    assert_eq!(out.refused(go(2)), Refusal::NotReady);
    let step = out.on(item_completed(0));
    assert_eq!(step.effects, [Effect::Decide(0)]);
    assert_eq!(step.next.next_due(), Some(Due { step: 0, item: Some(2) }));
}

#[test]
fn the_first_failure_ends_a_step_that_tolerates_none() {
    let out = execution(MAP).after([expand(expansion(4, 4)), go(0), go(1), item_completed(0)]);
    let step = out.on(item_failed(1));
    assert_eq!(step.next.stages(), [Failed, Cancelled]);
    let error = step.next.step(0).and_then(|row| row.error.clone()).expect("a reason");
    assert_eq!((error.code, &*error.message), (EndingCode::ProviderError, "item 1: 503"));
    let expected =
        ItemCounts { total: 4, completed: 1, failed: 1, cancelled: 2, ..ItemCounts::default() };
    assert_eq!(step.next.counts(), expected);
    // Dispatched items are cancelled; an item that was not begun has no row.
    let two = execution(MAP).after([expand(expansion(4, 4)), go(0), go(1)]).on(item_failed(1));
    assert_eq!(two.effects, [Effect::CancelTask { step: 0, task: item_task(0, 1) }]);
    assert_eq!(two.next.item_stages(), [Cancelled, Failed, Waiting, Waiting]);
    assert!(!two.next.is_finished());
    assert!(two.next.on(item_cancelled(0)).next.is_finished());
}

#[test]
fn a_step_that_tolerates_failures_ends_once_too_few_items_can_complete() {
    let all = [expand(expansion(4, 2)), go(0), go(1), go(2), go(3)];
    let out = execution(MAP).after(all);
    let two = out.after([item_failed(0), item_failed(1), item_completed(2)]);
    assert_eq!(two.stages(), [Dispatched, Waiting]);
    assert_eq!(two.on(item_completed(3)).next.stages(), [Completed, Ready]);
    let failed = two.on(item_failed(3)).next;
    assert_eq!(failed.stages(), [Failed, Cancelled]);
    let message = failed.step(0).and_then(|row| row.error.clone()).expect("a reason").message;
    let says = "at most 1 of 4 items can complete, and minSuccess asks for 2; item 3: 503";
    assert_eq!(message, says);
}

#[test]
fn a_retry_keeps_what_is_completed_and_the_list() {
    let out = execution(MAP).after([expand(expansion(3, 3)), go(0), go(1), item_completed(0)]);
    let cancelled = out.after([Event::CancelRequested, item_cancelled(1)]);
    assert_eq!(cancelled.item_stages(), [Completed, Cancelled, Waiting]);
    let step = cancelled.on(Event::RetryRequested);
    assert_eq!(step.next.stages(), [Dispatched, Waiting]);
    assert_eq!(step.next.item_stages(), [Completed, Waiting, Waiting]);
    assert_eq!(step.effects, [Effect::Decide(0)]);
    assert_eq!(step.next.next_due(), Some(Due { step: 0, item: Some(1) }));
}

#[test]
fn an_output_of_an_item_that_does_not_match_is_corrected_once() {
    let checked = started(Spec { output_checked: Some(0), ..spec() }, MAP);
    let mismatched = |run| Event::OutputMismatched {
        step: 0,
        report: of_item(0, run, 0.0),
        fault: OutputFault::Mismatch("`total` is missing".into()),
    };
    let first = checked.after([expand(expansion(2, 1)), go(0), go(1)]).on(mismatched(1));
    assert_eq!(first.facts, [Fact::ItemRetrying(0, 0)]);
    assert_eq!(first.next.item_stages(), [Waiting, Dispatched]);
    let correction = first.next.item(0, 0).and_then(|row| row.correction.as_deref());
    assert_eq!(correction, Some("`total` is missing"));
    let second = first.next.after([go_at_worst(0, 2, 0.0)]).on(mismatched(2));
    assert_eq!(second.next.item_stages(), [Failed, Dispatched]);
    assert_eq!(second.next.stages(), [Dispatched, Waiting]);
}

#[test]
fn what_all_items_cost_at_worst_is_set_aside_before_the_first() {
    let at_worst = |cents: f64| Expansion {
        worst_cost: Some(Money::from_usd(cents * CENT)),
        ..expansion(3, 3)
    };
    let dear = capped(2.0, MAP).on(expand(at_worst(3.0)));
    assert_eq!(
        (dear.next.stages(), dear.next.code(0)),
        (vec![Failed, Cancelled], Some(EndingCode::BudgetExceeded))
    );
    let begun = capped(3.0, MAP).after([expand(at_worst(3.0))]);
    assert_eq!(begun.head.budget.reserved(), Money::from_usd(3.0 * CENT));
    let out = begun.after([go_at_worst(0, 1, 1.0), go_at_worst(1, 1, 1.0)]);
    assert_eq!(out.head.budget.reserved(), Money::from_usd(3.0 * CENT));
    let paid = out.after([Event::StepCompleted { step: 0, report: of_item(0, 1, 0.5) }]);
    assert_eq!(paid.head.budget.reserved(), Money::from_usd(2.0 * CENT));
    let ended = paid.after([item_failed(1)]);
    assert_eq!(ended.head.budget.reserved(), Money::ZERO);
}

#[test]
fn a_change_of_one_item_writes_that_row_and_the_steps() {
    let before = execution(MAP).after([expand(expansion(1_000, 1_000)), go(0), go(999)]);
    let after = before.after([item_completed(999)]);
    let items: Vec<_> = after.items_changed_since(Some(&before)).map(|(_, item, _)| item).collect();
    let steps: Vec<_> = after.changed_since(&before).map(|(step, _)| step).collect();
    assert_eq!((items, steps), (vec![999], vec![0]));
    let rows = after.steps().map(|(_, row)| row.clone()).collect::<Vec<_>>();
    let loaded =
        Execution::loaded(after.head.clone(), Arc::clone(after.graph()), rows).expect("all");
    let map = loaded.step(0).and_then(|row| row.map.as_ref()).expect("it has a list");
    assert_eq!(map.completed, 1);
    let rows = after.items_changed_since(None).map(|(step, item, row)| (step, item, row.clone()));
    assert_eq!(loaded.with_items(rows.collect::<Vec<_>>()), Ok(after));
}

#[test]
fn the_counts_sum_to_the_total_although_the_items_are_of_a_later_instant_than_the_step() {
    let before = execution(MAP).after([expand(expansion(4, 1)), go(0), go(1)]);
    let after = before.after([item_completed(0), go(2), go(3), item_failed(1), item_completed(3)]);
    let steps = before.steps().map(|(_, row)| row.clone()).collect::<Vec<_>>();
    let read = Execution::loaded(before.head.clone(), Arc::clone(before.graph()), steps);
    let items = after.items_changed_since(None).map(|(step, item, row)| (step, item, row.clone()));
    let read = read.expect("all steps").with_items(items.collect::<Vec<_>>()).expect("its items");
    let expected =
        ItemCounts { total: 4, completed: 2, failed: 1, running: 1, ..ItemCounts::default() };
    assert_eq!(read.counts(), expected);
    let held = read.item_counts(0, |_| DispatchState::AwaitingApproval).expect("it has a list");
    assert_eq!((held.pending, held.awaiting_approval, held.running), (1, 1, 0));
}
