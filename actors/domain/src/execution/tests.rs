mod budget;
mod items;
mod laws;
mod reopens;
mod tries;
mod waits;

use std::time::Duration;

use super::*;
use crate::budget::Money;
use crate::id::{ExecutionId, PlanId};
use crate::task::{Ending, OutputFault};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);
const DEADLINE: Timestamp = Timestamp::from_millis(1_060_000);
const CENT: f64 = 0.01;

/// `a ─▶ b ─▶ c`
const CHAIN: &[&[u16]] = &[&[], &[0], &[1]];
/// `a`, `b`, `c`: nobody waits for anybody.
const APART: &[&[u16]] = &[&[], &[], &[]];
/// `a` before `b` and `c`, and both before `d`.
const DIAMOND: &[&[u16]] = &[&[], &[0], &[0], &[1, 2]];

fn graph(lists: &[&[u16]]) -> Arc<Graph> {
    let steps = ["a", "b", "c", "d"].into_iter().zip(lists.iter().map(|list| list.to_vec()));
    Arc::new(Graph::new(steps).expect("no cycle"))
}

fn spec() -> Spec {
    Spec {
        id: ExecutionId::from_u128(1 << 10),
        plan: PlanId::from_u128(2 << 10),
        template: None,
        account: "usr_1".into(),
        tags: Vec::new(),
        callback_url: None,
        labels: None,
        fail_fast: false,
        timeout_ms: None,
        max_cost: None,
        output_checked: None,
        start_at: None,
        forked_from: None,
        occurrence: None,
        row_of: None,
        idempotency_key: None,
        created_at: NOW,
        trace: None,
    }
}

fn started(spec: Spec, lists: &[&[u16]]) -> Execution {
    Execution::started(spec, graph(lists), NOW).next
}

fn execution(lists: &[&[u16]]) -> Execution {
    started(spec(), lists)
}

fn capped(cents: f64, lists: &[&[u16]]) -> Execution {
    started(Spec { max_cost: Some(Money::from_usd(cents * CENT)), ..spec() }, lists)
}

/// The task of a step's `run`.
const fn task(step: u16, run: u16) -> TaskId {
    TaskId::from_u128(((step as u128) << 8 | run as u128) << 10)
}

fn costing(task: TaskId, cents: f64) -> Report {
    let usage = Usage { input: 10, output: 5, total_cost: cents * CENT, ..Usage::default() };
    Report {
        task,
        item: None,
        started_at: Some(NOW),
        attempt: 2,
        usage,
        confidence: Some(0.5),
        finish_reason: None,
        fallback: None,
    }
}

fn report(step: u16) -> Report {
    costing(task(step, 1), 0.0)
}

fn ending(code: EndingCode, message: &str) -> Ending {
    Ending { code, message: message.into() }
}

fn run_at_worst(step: u16, task: TaskId, cents: f64) -> Event {
    let worst_cost = Some(Money::from_usd(cents * CENT));
    Event::Decided { step, decision: StepDecision::Run { task, worst_cost } }
}

fn run(step: u16) -> Event {
    Event::Decided { step, decision: StepDecision::Run { task: task(step, 1), worst_cost: None } }
}

fn skip(step: u16) -> Event {
    Event::Decided { step, decision: StepDecision::Skip }
}

fn completed(step: u16) -> Event {
    Event::StepCompleted { step, report: report(step) }
}

fn failed(step: u16) -> Event {
    let ending = ending(EndingCode::ProviderError, "503");
    Event::StepFailed { step, report: report(step), ending }
}

fn rejected(step: u16, retried_as: Option<Retry>) -> Event {
    let ending = ending(EndingCode::Rejected, "too vague");
    Event::StepRejected { step, report: report(step), ending, retried_as }
}

fn mismatched(step: u16, run: u16) -> Event {
    let report = costing(task(step, run), 0.0);
    Event::OutputMismatched {
        step,
        report,
        fault: OutputFault::Mismatch("`total` is missing".into()),
    }
}

impl Execution {
    fn on(&self, event: Event) -> Step<Self> {
        self.transition(event, NOW).expect("the event applies")
    }

    fn after(&self, events: impl IntoIterator<Item = Event>) -> Self {
        events.into_iter().fold(self.clone(), |execution, event| execution.on(event).next)
    }

    fn refused(&self, event: Event) -> Refusal {
        self.transition(event, NOW).expect_err("the event is refused")
    }

    fn stages(&self) -> Vec<Stage> {
        self.steps().map(|(_, row)| row.stage).collect()
    }

    fn code(&self, step: u16) -> Option<EndingCode> {
        self.step(step).and_then(|row| row.error.as_ref()).map(|error| error.code)
    }

    fn cause(&self) -> Option<(EndingCode, Option<u16>)> {
        self.head.error.as_ref().map(|cause| (cause.ending.code, cause.step))
    }

    fn reloaded(&self) -> Self {
        let head = serde_json::to_string(&self.head).expect("a head is written");
        let head = serde_json::from_str(&head).expect("and read");
        let rows = self.steps().map(|(_, row)| {
            let row = serde_json::to_string(row).expect("a row is written");
            serde_json::from_str::<StepState>(&row).expect("and read")
        });
        Self::loaded(head, Arc::clone(&self.graph), rows).expect("a row for each step")
    }
}

use Stage::{Cancelled, Completed, Dispatched, Failed, Ready, Rejected, Skipped, Waiting};

#[test]
fn the_steps_that_wait_for_nothing_are_decided_first() {
    let step = Execution::started(spec(), graph(DIAMOND), NOW);
    assert_eq!(step.next.stages(), [Ready, Waiting, Waiting, Waiting]);
    assert_eq!(step.facts, [Fact::Started]);
    assert_eq!(step.effects, [Effect::Decide(0)]);
}

#[test]
fn a_step_is_ready_once_all_its_dependencies_ended_well() {
    let step = execution(DIAMOND).after([run(0)]).on(completed(0));
    assert_eq!(step.next.stages(), [Completed, Ready, Ready, Waiting]);
    assert_eq!(step.facts, [Fact::StepCompleted(0), Fact::Progressed]);
    assert_eq!(step.effects, [Effect::Decide(1), Effect::Decide(2)]);
    let one = step.next.after([run(1), run(2), completed(1)]);
    assert_eq!(one.stages()[3], Waiting);
    assert_eq!(one.on(completed(2)).effects, [Effect::Decide(3)]);
}

#[test]
fn it_is_completed_when_every_step_is_completed_or_skipped() {
    let step = execution(CHAIN).after([run(0), completed(0), skip(1), run(2)]).on(completed(2));
    assert_eq!(step.next.stages(), [Completed, Skipped, Completed]);
    assert_eq!(step.facts, [Fact::StepCompleted(2), Fact::Completed]);
    assert_eq!(step.next.head.state, State::Completed { at: NOW });
    assert!(step.next.is_finished() && step.effects.is_empty());
    assert_eq!(step.next.refused(Event::RetryRequested), Refusal::Finished(Status::Completed));
}

#[test]
fn a_skipped_step_does_not_skip_what_stands_behind_it() {
    let step = execution(CHAIN).on(skip(0));
    assert_eq!(step.next.stages(), [Skipped, Ready, Waiting]);
    assert_eq!(step.facts, [Fact::StepSkipped(0), Fact::Progressed]);
}

#[test]
fn a_row_keeps_what_is_shown_of_its_step() {
    let event = Event::StepCompleted { step: 0, report: costing(task(0, 1), 2.0) };
    let execution = execution(CHAIN).after([run(0), event]);
    let report = costing(task(0, 1), 2.0);
    let expected = StepState {
        stage: Completed,
        runs: 1,
        task: Some(task(0, 1)),
        started_at: Some(NOW),
        completed_at: Some(NOW),
        attempt: 2,
        usage: report.usage,
        confidence: Some(0.5),
        ..StepState::default()
    };
    assert_eq!(execution.step(0), Some(&expected));
    assert_eq!(execution.usage(), report.usage);
}

#[test]
fn a_failure_cancels_what_stands_behind_it_and_nothing_else() {
    let execution = started(spec(), &[&[], &[0], &[1], &[]]).after([run(0), run(3)]);
    let step = execution.on(failed(0));
    assert_eq!(step.next.stages(), [Failed, Cancelled, Cancelled, Dispatched]);
    assert_eq!(
        step.facts,
        [Fact::StepFailed(0), Fact::StepCancelled(1), Fact::StepCancelled(2), Fact::Progressed]
    );
    let error = step.next.step(2).and_then(|row| row.error.clone());
    let message = "step `a`, which is upstream, failed";
    assert_eq!(error, Some(ending(EndingCode::DependencyFailed, message)));
    let end = step.next.on(completed(3));
    assert_eq!(end.facts, [Fact::StepCompleted(3), Fact::Failed]);
    assert_eq!(end.next.cause(), Some((EndingCode::ProviderError, Some(0))));
}

#[test]
fn the_first_of_two_failures_is_the_one_that_is_told() {
    let unrendered = StepDecision::Fail(ending(EndingCode::RenderFailed, "no value"));
    let second = Event::Decided { step: 1, decision: unrendered };
    let end = execution(APART).after([skip(2), run(0), second, failed(0)]);
    assert_eq!(end.status(), Status::Failed);
    assert_eq!(end.cause(), Some((EndingCode::RenderFailed, Some(1))));
}

#[test]
fn fail_fast_cancels_all_at_once() {
    let execution = started(Spec { fail_fast: true, ..spec() }, APART).after([run(0), run(1)]);
    let step = execution.on(failed(0));
    assert_eq!(step.next.stages(), [Failed, Cancelled, Cancelled]);
    assert_eq!(step.next.head.state, State::Failed { at: NOW });
    assert_eq!(step.effects, [Effect::CancelTask { step: 1, task: task(1, 1) }]);
    assert_eq!(step.next.cause(), Some((EndingCode::ProviderError, Some(0))));
    assert_eq!(step.next.code(2), Some(EndingCode::Cancelled));
}

#[test]
fn a_cancel_is_final_when_it_is_acknowledged() {
    let step = execution(APART).after([run(0), completed(0), run(1)]).on(Event::CancelRequested);
    assert_eq!(step.next.stages(), [Completed, Cancelled, Cancelled]);
    assert_eq!(step.effects, [Effect::CancelTask { step: 1, task: task(1, 1) }]);
    let refusal = Refusal::Finished(Status::Cancelled);
    for event in [run(2), skip(2), Event::CancelRequested, Event::TimePassed, Event::GivenUp] {
        assert_eq!(step.next.refused(event), refusal);
    }
}

#[test]
fn tasks_that_were_out_are_owed_a_cancel_until_their_end_is_known() {
    let execution = execution(APART).after([run(0), run(1), Event::CancelRequested]).reloaded();
    assert!(!execution.is_finished());
    let owed = [0, 1].map(|step| Effect::CancelTask { step, task: task(step, 1) });
    assert_eq!(execution.outstanding(), owed);
    let late = Event::StepCompleted { step: 0, report: costing(task(0, 1), 1.0) };
    let one = execution.on(late.clone());
    assert_eq!(one.next.stages(), [Cancelled; 3]);
    assert_eq!(one.next.head.budget.spent(), Money::from_usd(CENT));
    assert_eq!((one.facts, one.next.outstanding()), (vec![], owed[1..].to_vec()));
    assert_eq!(one.next.refused(late), Refusal::StaleTask);
    let all = one.next.on(Event::StepCancelled { step: 1, report: report(1) }).next;
    assert!(all.is_finished());
}

#[test]
fn an_execution_that_takes_too_long_fails_and_lets_go_of_its_tasks() {
    let first = Execution::started(Spec { timeout_ms: Some(60_000), ..spec() }, graph(CHAIN), NOW);
    assert_eq!(first.effects, [Effect::WakeAt(DEADLINE), Effect::Decide(0)]);
    let execution = first.next.after([run(0)]);
    assert_eq!(execution.refused(Event::TimePassed), Refusal::NotDue);
    let step = execution.transition(Event::TimePassed, DEADLINE).expect("it is due");
    assert_eq!(step.next.stages(), [Cancelled; 3]);
    assert_eq!(step.next.cause(), Some((EndingCode::ExecutionTimeout, None)));
    let cancel = Effect::CancelTask { step: 0, task: task(0, 1) };
    assert_eq!(step.effects, [cancel, Effect::ForgetWake]);
}

#[test]
fn an_actor_that_breaks_too_often_fails_it() {
    let end = execution(CHAIN).on(Event::GivenUp).next;
    assert_eq!(end.cause(), Some((EndingCode::InternalError, None)));
    assert_eq!((end.status(), end.stages()), (Status::Failed, vec![Cancelled; 3]));
}

#[test]
fn a_task_that_is_cancelled_alone_cancels_its_step_and_what_stands_behind_it() {
    let cancelled = Event::StepCancelled { step: 0, report: report(0) };
    let end = execution(CHAIN).after([run(0)]).on(cancelled).next;
    assert_eq!((end.status(), end.stages()), (Status::Failed, vec![Cancelled; 3]));
    assert_eq!(end.cause(), Some((EndingCode::Cancelled, Some(0))));
    assert_eq!(
        (end.code(0), end.code(1)),
        (Some(EndingCode::Cancelled), Some(EndingCode::DependencyFailed))
    );
}

#[test]
fn a_rejected_step_counts_as_failed() {
    let step = execution(CHAIN).after([run(0)]).on(rejected(0, None));
    assert_eq!(step.next.stages(), [Rejected, Cancelled, Cancelled]);
    assert_eq!(step.facts[0], Fact::StepFailed(0));
    assert_eq!(step.next.cause(), Some((EndingCode::Rejected, Some(0))));
    assert_eq!(step.next.progress(|_| DispatchState::Running).failed, 1);
}

#[test]
fn an_erased_output_bars_a_retry_and_the_erased_texts_of_a_failed_step_do_not() {
    let failed = execution(CHAIN).after([run(0)]).on(rejected(0, None)).next;
    let erased = failed.without_texts_of(task(0, 1)).expect("it has ended").next;
    assert_eq!(erased.on(Event::RetryRequested).next.status(), Status::Running);

    let half = execution(CHAIN).after([run(0), completed(0), run(1)]).on(rejected(1, None)).next;
    let erased = half.without_texts_of(task(0, 1)).expect("it has ended").next;
    assert_eq!(erased.refused(Event::RetryRequested), Refusal::TextsErased);
}

#[test]
fn the_end_of_another_task_and_a_decision_out_of_turn_change_nothing() {
    let execution = execution(CHAIN).after([run(0)]);
    let other = Event::StepCompleted { step: 0, report: costing(task(0, 9), 0.0) };
    assert_eq!(execution.refused(other), Refusal::StaleTask);
    assert_eq!(execution.refused(completed(77)), Refusal::StaleTask);
    for step in [0, 1, 77, u16::MAX] {
        assert_eq!(execution.refused(skip(step)), Refusal::NotReady);
    }
    assert_eq!(execution.after([completed(0)]).refused(completed(0)), Refusal::StaleTask);
}

#[test]
fn several_transitions_make_one_commit() {
    let before = execution(DIAMOND).after([run(0)]);
    let mut step = before.on(completed(0));
    step.and_then(skip(1), NOW).expect("it is ready");
    step.and_then(run(2), NOW).expect("it is ready");
    assert_eq!(step.and_then(run(3), NOW), Err(Refusal::NotReady));
    assert_eq!(step.facts, [Fact::StepCompleted(0), Fact::StepSkipped(1), Fact::Progressed]);
    assert_eq!(step.effects, [Effect::Watch { step: 2, task: task(2, 1) }]);
    let written: Vec<u16> = step.next.changed_since(&before).map(|(step, _)| step).collect();
    assert_eq!(written, [0, 1, 2]);
}

#[test]
fn a_commit_that_ends_it_tells_no_progress() {
    let mut step = execution(CHAIN).on(skip(0));
    step.and_then(Event::CancelRequested, NOW).expect("it runs");
    assert_eq!(
        step.facts,
        [Fact::StepSkipped(0), Fact::StepCancelled(1), Fact::StepCancelled(2), Fact::Cancelled]
    );
    assert_eq!(step.effects, []);
}

#[test]
fn progress_asks_the_tasks_that_are_out_and_sums_to_the_total() {
    let execution = execution(DIAMOND).after([run(0), completed(0), run(1), run(2)]);
    let held = task(1, 1);
    let live =
        |task| if task == held { DispatchState::AwaitingApproval } else { DispatchState::Running };
    let expected = Progress {
        total: 4,
        completed: 1,
        running: 1,
        pending: 2,
        awaiting_approval: 1,
        ..Progress::default()
    };
    assert_eq!(execution.progress(live), expected);
}

#[test]
fn rows_of_another_plan_are_no_execution() {
    let head = execution(CHAIN).head;
    let rows = vec![StepState::default(); 2];
    let loaded = Execution::loaded(head, graph(CHAIN), rows);
    assert_eq!(loaded, Err(Mismatch { rows: 2, steps: 3 }));
}

#[test]
fn a_scheduled_execution_begins_at_its_instant_and_not_before() {
    let at = Timestamp::from_millis(1_030_000);
    let spec = Spec { start_at: Some(at), timeout_ms: Some(60_000), ..spec() };
    let step = Execution::started(spec, graph(CHAIN), NOW);
    let scheduled = step.next;
    assert_eq!((scheduled.status(), scheduled.has_due()), (Status::Pending, false));
    assert_eq!((step.facts, step.effects), (vec![Fact::Scheduled], vec![Effect::WakeAt(at)]));
    assert_eq!(scheduled.outstanding(), [Effect::WakeAt(at)]);
    assert_eq!(scheduled.transition(Event::TimePassed, NOW), Err(Refusal::NotDue));
    assert_eq!(scheduled.transition(run(0), at), Err(Refusal::NotReady));
    let begun = scheduled.transition(Event::TimePassed, at).expect("it is due");
    let deadline = at.after(Duration::from_mins(1));
    assert_eq!(begun.facts, [Fact::Started]);
    assert_eq!(begun.effects, [Effect::WakeAt(deadline), Effect::Decide(0)]);
    assert_eq!((begun.next.status(), begun.next.head.started_at), (Status::Running, at));
    let cancelled = scheduled.transition(Event::CancelRequested, NOW).expect("it is open").next;
    assert_eq!((cancelled.status(), cancelled.head.has_begun()), (Status::Cancelled, false));
    let again = cancelled.transition(Event::RetryRequested, NOW).expect("it has ended").next;
    assert_eq!((again.status(), again.head.has_begun()), (Status::Running, true));
}
