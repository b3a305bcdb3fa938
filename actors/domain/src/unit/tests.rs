mod announce;
mod decisions;
mod map;

use serde_json::{Map, json};

use super::*;
use crate::approval::MailCause;
use crate::execution::program::{
    About, CompiledPlan, Effort, Evaluation, Outputs, Program, ReviewPolicy, check_output,
};
use crate::execution::{self, Due, Execution, Stage};
use crate::id::{ExecutionId, PlanId, UserId, WorkerId};
use crate::labels::{CallbackEvent, Labels};
use crate::plan::{Plan, PlanSource, StepSource};
use crate::retry;
use crate::schema::Schema;
use crate::task::{
    Chance, Channels, Completion, Ending, EndingCode, Gate, LeaseId, Message, OutputFault, Role,
    Spec, Status,
};
use crate::usage::Usage;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);
const TASK: TaskId = TaskId::from_u128(1 << 10);
const LEASE: LeaseId = LeaseId::from_random(1);
const OTHER_LEASE: LeaseId = LeaseId::from_random(2);
const FIRST: Due = Due { step: 0, item: None };
const ANN: UserId = UserId::from_u128(3 << 10);

/// Numbers identifiers from 100, and always asks Ann.
struct Fake {
    next: u128,
}

impl Sources for Fake {
    fn task_id(&mut self, _: Timestamp) -> TaskId {
        self.next += 1;
        TaskId::from_u128(self.next << 10)
    }

    fn delivery_id(&mut self, _: Timestamp) -> DeliveryId {
        self.next += 1;
        DeliveryId::from_u128(self.next << 10)
    }

    fn salt(&mut self) -> Salt {
        Salt::of(5)
    }

    fn ask(&mut self, _: &Spec, _: ReviewerPool) -> Assignee {
        Assignee { reviewer: Some(ANN), by_mail: true }
    }

    fn policy(&self) -> Policy {
        Policy { escalate_after: 0.5, rejects: true, four_eyes: false }
    }

    fn announces(&self, event: EventName) -> bool {
        event == EventName::TaskCompleted || event == EventName::TaskRejected
    }

    fn worst_cost(&self, _: Called<'_>, _: &Inputs, _: Option<u64>) -> Option<Money> {
        Some(Money::ZERO)
    }
}

const fn sources() -> Fake {
    Fake { next: 99 }
}

fn spec(gate: Option<Gate>) -> Spec {
    Spec {
        id: TASK,
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
        gate,
        retry: retry::Policy::default(),
        origin: Origin::default(),
        checked: false,
        routing: None,
        flow: None,
        start_at: None,
    }
}

const MAILED: Gate = Gate { notify: Channels { email: true, dashboard: false }, ..Gate::ALWAYS };

fn running(task: &Task) -> Task {
    let leased = task::Event::Leased { lease: LEASE, worker: WorkerId::from_u128(7 << 10) };
    task.transition(leased, NOW).expect("it is ready").next
}

fn completed(lease: LeaseId, output: &str) -> Event {
    let completion = Completion {
        usage: Usage { input: 3, output: 4, total_cost: 0.5, ..Usage::default() },
        confidence: Some(0.7),
        confidence_source: None,
        finish_reason: None,
        service_tier: None,
        judge: None,
        thinking: None,
    };
    let event = task::Event::Completed { lease, completion, chance: Chance(u32::MAX) };
    Event::Task { event, output: Some(output.into()) }
}

fn alone(task: &Task, event: Event) -> Result<Unit, Refusal> {
    decide(Items { task: Some(task), approval: None }, event, NOW, &mut sources())
}

/// A held task and its approval.
fn held() -> (Task, Approval) {
    let task = running(&Task::submitted(spec(Some(MAILED))).next);
    let unit = alone(&task, completed(LEASE, "an output")).expect("it runs");
    let mut items = (None, None);
    for change in unit.changes {
        if let Some(step) = change.task() {
            items.0 = Some(step.next.clone());
        } else if let Change::Approval(step, _) = change {
            items.1 = Some(step.next);
        }
    }
    (items.0.expect("the task changes"), items.1.expect("an approval opens"))
}

/// The names of the changes, in order.
fn names(unit: &Unit) -> Vec<&'static str> {
    let name = |change: &Change| match change {
        Change::Task(step, _) => step.next.status().as_str(),
        Change::NewTask(..) => "new task",
        Change::Approval(step, _) => step.next.state.as_str(),
        Change::Execution(_, step) => step.next.status().as_str(),
        Change::Delivery(_) => "delivery",
        Change::Review(..) => "review",
        Change::Signal(..) => "signal",
    };
    unit.changes.iter().map(name).collect()
}

#[test]
fn an_answer_without_a_gate_changes_the_task_alone() {
    let task = running(&Task::submitted(spec(None)).next);
    let unit = alone(&task, completed(LEASE, "an output")).expect("it runs");
    assert_eq!((names(&unit), unit.now, unit.ahead), (vec!["completed"], NOW, false));
    assert!(matches!(&unit.changes[0], Change::Task(_, Some(output)) if output == "an output"));
}

fn called_back(gate: Option<Gate>) -> Task {
    let callback_url = Some("https://example.com/hook".to_owned());
    running(&Task::submitted(Spec { callback_url, ..spec(gate) }).next)
}

/// The events of the webhooks that a unit orders.
fn webhooks(unit: &Unit) -> Vec<EventName> {
    let event = |change: &Change| match change {
        Change::Delivery(step) => match &step.next.notification {
            Notification::Webhook(webhook) => {
                assert_eq!(
                    (webhook.task, webhook.url.as_str()),
                    (TASK, "https://example.com/hook")
                );
                assert_eq!(step.effects, [delivery::Effect::Begin]);
                Some(webhook.event)
            }
            Notification::Mail(_) | Notification::KeyEnd(_) | Notification::ExecutionWebhook(_) => {
                None
            }
        },
        Change::Task(..)
        | Change::NewTask(..)
        | Change::Approval(..)
        | Change::Execution(..)
        | Change::Signal(..)
        | Change::Review(..) => None,
    };
    unit.changes.iter().filter_map(event).collect()
}

#[test]
fn the_unit_that_completes_a_task_orders_its_webhook() {
    let unit = alone(&called_back(None), completed(LEASE, "an output")).expect("it runs");
    assert_eq!(names(&unit), ["completed", "delivery"]);
    assert_eq!(webhooks(&unit), [EventName::TaskCompleted]);
}

#[test]
fn an_end_that_no_setting_lists_orders_none_and_neither_does_a_task_without_an_address() {
    let cancel = || Event::Task { event: task::Event::CancelRequested, output: None };
    assert_eq!(webhooks(&alone(&called_back(None), cancel()).expect("it runs")), []);
    let plain = running(&Task::submitted(spec(None)).next);
    assert_eq!(webhooks(&alone(&plain, completed(LEASE, "an output")).expect("it runs")), []);
}

#[test]
fn the_events_that_a_task_names_take_the_place_of_the_settings() {
    let named = |events: &[CallbackEvent], gate| {
        let task = called_back(gate);
        let labels = Labels { callback_events: Some(events.to_vec()), ..Labels::default() };
        let spec = Spec { labels: labels.boxed(), ..(*task.spec).clone() };
        Task { spec: Arc::new(spec), ..task }
    };
    let cancel = || Event::Task { event: task::Event::CancelRequested, output: None };
    let cancelled = alone(&named(&[CallbackEvent::Cancelled], None), cancel()).expect("it runs");
    assert_eq!(webhooks(&cancelled), [EventName::TaskCancelled]);
    let completes = |task: &Task| alone(task, completed(LEASE, "an output")).expect("it runs");
    assert_eq!(webhooks(&completes(&named(&[CallbackEvent::Cancelled], None))), []);
    let held = completes(&named(&[CallbackEvent::AwaitingApproval], Some(MAILED)));
    assert_eq!(webhooks(&held), [EventName::TaskAwaitingApproval]);
}

#[test]
fn an_attempt_that_fails_orders_none() {
    let ending = Ending { code: EndingCode::ProviderError, message: "no".into() };
    let failure = task::Failure::new(ending, true);
    let jitter = retry::Jitter(0);
    let event = task::Event::AttemptFailed {
        lease: LEASE,
        failure,
        patience: std::time::Duration::ZERO,
        jitter,
    };
    let unit = alone(&called_back(None), Event::Task { event, output: None }).expect("it runs");
    assert_eq!((names(&unit), webhooks(&unit)), (vec!["pending"], vec![]));
}

#[test]
fn a_held_output_orders_none_until_it_is_decided() {
    let task = called_back(Some(MAILED));
    let unit = alone(&task, completed(LEASE, "an output")).expect("it runs");
    assert_eq!(webhooks(&unit), []);
    let (mut task, mut approval) = (None, None);
    for change in unit.changes {
        if let Some(step) = change.task() {
            task = Some(step.next.clone());
        } else if let Change::Approval(step, _) = change {
            approval = Some(step.next);
        }
    }
    let items = Items { task: task.as_ref(), approval: approval.as_ref() };
    let by = Decider { account: "usr_1".into(), reviewer: None, bulk: None };
    let approve = Event::Approve { by: by.clone(), edit: Some("better".into()), comment: None };
    let unit = decide(items, approve, NOW, &mut sources()).expect("it waits");
    assert_eq!(webhooks(&unit), [EventName::TaskCompleted]);
    let reject = Event::Reject { by, reason: "no".into(), retry: Some(again(false)) };
    let unit = decide(items, reject, NOW, &mut sources()).expect("it waits");
    assert_eq!(webhooks(&unit), [EventName::TaskRejected]);
    let retried = unit.changes.iter().find_map(|change| match change {
        Change::NewTask(step, _) => step.next.spec.callback_url.clone(),
        Change::Task(..)
        | Change::Approval(..)
        | Change::Execution(..)
        | Change::Delivery(_)
        | Change::Signal(..)
        | Change::Review(..) => None,
    });
    assert_eq!(retried.as_deref(), Some("https://example.com/hook"));
}

#[test]
fn only_a_lease_may_take_effect_ahead_of_its_commit() {
    let leased = task::Event::Leased { lease: LEASE, worker: WorkerId::from_u128(7 << 10) };
    let event = Event::Task { event: leased, output: None };
    assert!(alone(&Task::submitted(spec(None)).next, event).expect("it is ready").ahead);
}

#[test]
fn an_output_that_passes_its_gate_is_recorded_for_calibration() {
    let gate = Gate::of_task(task::Asks { threshold: Some(0.5), ..task::Asks::default() }, false);
    let unit = alone(&running(&Task::submitted(spec(gate)).next), completed(LEASE, "an output"));
    assert_eq!(names(&unit.expect("it runs")), ["completed", "review"]);
}

#[test]
fn a_held_output_opens_its_approval_and_orders_the_mail_in_the_same_unit() {
    let task = running(&Task::submitted(spec(Some(MAILED))).next);
    let unit = alone(&task, completed(LEASE, "an output")).expect("it runs");
    assert_eq!(names(&unit), ["pending", "assigned", "review", "delivery"]);
    let Some(Change::Delivery(step)) = unit.changes.last() else { panic!("a mail is ordered") };
    let Notification::Mail(mail) = step.next.notification.clone() else { panic!("a mail") };
    assert_eq!((mail.task, mail.to, mail.cause), (TASK, ANN, MailCause::Assigned));
}

#[test]
fn a_stale_answer_changes_nothing() {
    let task = running(&Task::submitted(spec(Some(MAILED))).next);
    let refused = alone(&task, completed(OTHER_LEASE, "an output"));
    assert_eq!(refused.err(), Some(Refusal::Task(task::Refusal::StaleLease)));
}

fn again(rewritten: bool) -> NextTry {
    NextTry { inputs: Inputs { prompt: "again".into(), ..Inputs::default() }, rewritten }
}

fn by() -> Decider {
    Decider { account: "usr_1".into(), reviewer: None, bulk: None }
}

fn reviewed(event: Event) -> Result<Unit, Refusal> {
    let (task, approval) = held();
    let items = Items { task: Some(&task), approval: Some(&approval) };
    decide(items, event, NOW, &mut sources())
}

#[test]
fn an_approval_and_its_task_end_in_one_unit() {
    let event = Event::Approve { by: by(), edit: Some("better".into()), comment: None };
    let unit = reviewed(event).expect("it waits");
    assert_eq!(names(&unit), ["approved", "review", "completed"]);
    let Change::Approval(_, texts) = &unit.changes[0] else { panic!("the approval comes first") };
    assert_eq!(texts.edit.as_deref(), Some("better"));
}

#[test]
fn a_rejection_with_a_retry_creates_the_next_task() {
    let event = Event::Reject { by: by(), reason: "no".into(), retry: Some(again(false)) };
    let unit = reviewed(event).expect("it waits");
    assert_eq!(names(&unit), ["rejected", "review", "new task", "rejected"]);
    let Change::NewTask(step, inputs) = &unit.changes[2] else { panic!("it retries") };
    assert_eq!((step.next.spec.origin.retry_of, &*inputs.prompt), (Some(TASK), "again"));
    let Change::Approval(approval, _) = &unit.changes[0] else { panic!("it comes first") };
    assert_eq!(approval.facts[1].details.retry, Some(step.next.spec.id));
}

#[test]
fn whoever_writes_the_next_prompt_submits_it_and_the_first_submitter_stays_known() {
    let retried = |task: &Task, by: Decider, rewritten| {
        let (_, approval) = held();
        let items = Items { task: Some(task), approval: Some(&approval) };
        let event = Event::Reject { by, reason: "no".into(), retry: Some(again(rewritten)) };
        let unit = decide(items, event, NOW, &mut sources()).expect("it waits");
        let spec = unit.changes.iter().find_map(|change| match change {
            Change::NewTask(step, _) => Some(Arc::clone(&step.next.spec)),
            Change::Task(..)
            | Change::Approval(..)
            | Change::Execution(..)
            | Change::Delivery(_)
            | Change::Signal(..)
            | Change::Review(..) => None,
        });
        spec.expect("it retries")
    };
    let (task, _) = held();
    let of = |spec: &Spec| (spec.account.clone(), spec.origin.first_account.clone());
    let own = task.spec.account.clone();
    assert_eq!(of(&retried(&task, by(), false)), (own.clone(), None), "the reason is no prompt");
    let eve = || Decider { account: "usr_eve".into(), ..by() };
    let eves = retried(&task, eve(), true);
    assert_eq!(of(&eves), ("usr_eve".into(), Some(own.clone())));
    let next = |spec: Arc<Spec>, by: Decider, rewritten| {
        retried(&Task { spec, ..task.clone() }, by, rewritten)
    };
    assert_eq!(of(&next(Arc::clone(&eves), by(), false)), of(&eves), "her words stay");
    let carol = Decider { account: "usr_carol".into(), ..by() };
    assert_eq!(of(&next(Arc::clone(&eves), carol, true)), ("usr_carol".into(), Some(own.clone())));
    let bob = Decider { account: own.clone(), ..by() };
    assert_eq!(of(&next(eves, bob, true)), (own, None));
}

#[test]
fn a_cancelled_task_takes_its_approval_along() {
    let event = Event::EndHeld { by: "usr_9".into(), event: task::Event::CancelRequested };
    assert_eq!(names(&reviewed(event).expect("it waits")), ["cancelled", "review", "cancelled"]);
}

#[test]
fn the_time_escalates_and_then_rejects_with_the_task() {
    let (task, approval) = held();
    let items = |approval| Items { task: Some(&task), approval: Some(approval) };
    let at = |approval, now| decide(items(approval), Event::ReviewTimePassed, now, &mut sources());
    let early = at(&approval, NOW);
    assert_eq!(early.err(), Some(Refusal::Approval(approval::Refusal::NotDue)));
    let escalated = at(&approval, approval.opening.escalates_at).expect("it is due");
    assert_eq!(names(&escalated), ["escalated", "review", "delivery"]);
    let Change::Approval(step, _) = &escalated.changes[0] else { panic!("it comes first") };
    let rejected = at(&step.next, approval.opening.expires_at).expect("it is due");
    assert_eq!(names(&rejected), ["rejected", "review", "rejected"]);
}

/// Two steps, the second of which shows the output of the first and has a schema.
fn program() -> (Program, Step<Execution>) {
    let step = |id: &str, prompt: &str, depends_on: &[&str]| StepSource {
        id: id.into(),
        prompt: prompt.into(),
        depends_on: depends_on.iter().map(|&id| id.into()).collect(),
        ..StepSource::default()
    };
    let mut steps = vec![step("one", "go", &[]), step("two", "after {{one.output}}", &["one"])];
    steps[1].messages =
        vec![Message { role: Role::Assistant, content: "so {{one.output}}".into() }];
    let source = PlanSource { name: "A plan".into(), steps, ..PlanSource::default() };
    let plan = Plan::compile(source, &[]).expect("a good plan");
    let schema = Schema::compile("outputSchema", &json!({"type": "number"})).expect("a schema");
    let compiled = Arc::new(CompiledPlan::new(plan, Some(schema)));
    let id = ExecutionId::from_u128(5 << 10);
    let spec = execution::Spec {
        id,
        plan: PlanId::from_u128(6 << 10),
        template: None,
        account: "usr_1".into(),
        tags: Vec::new(),
        callback_url: None,
        labels: None,
        fail_fast: false,
        timeout_ms: None,
        max_cost: None,
        output_checked: compiled.checked(),
        start_at: None,
        forked_from: None,
        occurrence: None,
        row_of: None,
        idempotency_key: None,
        created_at: NOW,
        trace: None,
    };
    let first = Execution::started(spec, Arc::clone(&compiled.graph), NOW);
    let (review, input) = (ReviewPolicy::default(), Map::new());
    (Program::new(About::new(id, NOW, None), compiled, review, input, Arc::default()), first)
}

/// The event as the owner hands it on after the check.
fn checked(schema: Option<&Schema>, task: &Task, event: Event) -> (Event, Option<OutputFault>) {
    let (Some(answer), Some(schema)) = (event.answer_to_check(task), schema) else {
        return (event, None);
    };
    if answer.is_cut {
        let fault = OutputFault::truncated(task.max_tokens(), None);
        return (event, Some(fault));
    }
    match check_output(schema, answer.output, Effort::Brief).expect("a small schema") {
        Ok(Some(text)) => (event.repaired(text), None),
        Ok(None) => (event, None),
        Err(mismatch) => (event, Some(OutputFault::Mismatch(mismatch))),
    }
}

/// Plays an event of the newest task, and decides everything that is due; returns the unit.
fn play(program: &Program, state: &Execution, task: &Task, event: Event) -> Unit {
    let (mut outputs, mut sources) = (Outputs::default(), Fake { next: 200 });
    let mut builder = UnitBuilder::of(program, state, NOW);
    let items = Items { task: Some(task), approval: None };
    let (event, fault) = checked(builder.schema_of(task), task, event);
    builder.join(items, event, fault, &mut outputs, &mut sources).expect("the task is current");
    while let Some(step) = builder.due() {
        for (missing, _) in outputs.missing(builder.state(), step.step) {
            outputs.keep(missing, "an output that was read");
        }
        let evaluation = builder.evaluate(step, &outputs).expect("a brief evaluation");
        builder.decide(step, evaluation, &mut outputs, &mut sources);
    }
    builder.done(&mut Fake { next: 900 })
}

/// The task that a unit created, running, and the execution's state.
fn created(unit: &Unit) -> (Task, &Execution) {
    let (mut task, mut state) = (None, None);
    for change in &unit.changes {
        if let Change::NewTask(step, _) = change {
            task = Some(running(&step.next));
        } else if let Change::Execution(_, step) = change {
            state = Some(&step.next);
        }
    }
    (task.expect("a task is created"), state.expect("the execution changes"))
}

fn begun(program: &Program, first: Step<Execution>) -> Unit {
    let mut builder = UnitBuilder::first(program, first, NOW);
    while let Some(step) = builder.due() {
        let evaluation = builder.evaluate(step, &Outputs::default()).expect("a brief evaluation");
        builder.decide(step, evaluation, &mut Outputs::default(), &mut sources());
    }
    builder.done(&mut Fake { next: 900 })
}

#[test]
fn a_steps_end_and_the_next_task_are_one_unit() {
    let (program, first) = program();
    let start = begun(&program, first);
    assert_eq!(names(&start), ["new task", "running"]);
    let (task, state) = created(&start);
    let unit = play(&program, state, &task, completed(LEASE, "an output"));
    assert_eq!(names(&unit), ["completed", "new task", "running"]);
    let Change::NewTask(_, inputs) = &unit.changes[1] else { panic!("the next step runs") };
    assert_eq!(inputs.prompt, "after an output");
    let said = Message { role: Role::Assistant, content: "so an output".into() };
    assert_eq!(inputs.messages, [said]);
}

#[test]
fn messages_that_are_too_long_in_all_once_rendered_fail_the_step() {
    let message = || Message { content: "{{input.x}}".into(), ..Message::default() };
    let (program, first) = wide(1, |step| step.messages = vec![message()]);
    let full = program.evaluate(FIRST, &first.next, &Outputs::default(), Effort::Full);
    assert!(matches!(full, Some(Evaluation::Run(..))), "a megabyte fits");
    let (program, first) = wide(1, |step| step.messages = vec![message(), message()]);
    let full = program.evaluate(FIRST, &first.next, &Outputs::default(), Effort::Full);
    let Some(Evaluation::Fail(ending)) = full else { panic!("two do not") };
    assert_eq!(ending.code, EndingCode::RenderFailed);
}

#[test]
fn an_output_that_misses_the_schema_fails_its_task_and_asks_once_more() {
    let (program, first) = program();
    let start = begun(&program, first);
    let (task, state) = created(&start);
    let second = play(&program, state, &task, completed(LEASE, "an output"));
    let (task, state) = created(&second);
    assert!(task.spec.checked);
    let unit = play(&program, state, &task, completed(LEASE, "no number"));
    assert_eq!(names(&unit), ["failed", "new task", "running"]);
    let Change::Task(step, output) = &unit.changes[0] else { panic!("it comes first") };
    assert_eq!(output.as_deref(), Some("no number"), "it is kept, to be shown");
    let code = step.next.error.as_ref().map(|error| error.code);
    assert_eq!((code, step.next.status()), (Some(EndingCode::OutputInvalid), Status::Failed));
    assert!(step.next.result.is_some(), "the answer is paid for");
    let (task, state) = created(&unit);
    let last = play(&program, state, &task, completed(LEASE, "7"));
    assert_eq!(names(&last), ["completed", "completed"]);
}

#[test]
fn a_fenced_output_counts_without_its_fence() {
    let (program, first) = program();
    let start = begun(&program, first);
    let (task, state) = created(&start);
    let second = play(&program, state, &task, completed(LEASE, "an output"));
    let (task, state) = created(&second);
    let last = play(&program, state, &task, completed(LEASE, "```json\n7\n```"));
    assert_eq!(names(&last), ["completed", "completed"]);
    let Change::Task(_, output) = &last.changes[0] else { panic!("it comes first") };
    assert_eq!(output.as_deref(), Some("7"));
}

#[test]
fn an_output_that_was_cut_is_asked_for_again_with_twice_the_tokens() {
    let (program, first) = program();
    let start = begun(&program, first);
    let (mut task, state) = created(&start);
    task.spec = Arc::new(Spec { max_tokens: Some(50), ..(*task.spec).clone() });
    let second = play(&program, state, &task, completed(LEASE, "an output"));
    let (mut task, state) = created(&second);
    task.spec = Arc::new(Spec { max_tokens: Some(50), ..(*task.spec).clone() });
    let mut cut = completed(LEASE, "7");
    if let Event::Task { event: task::Event::Completed { completion, .. }, .. } = &mut cut {
        completion.finish_reason = Some("length".into());
    }
    let unit = play(&program, state, &task, cut);
    assert_eq!(names(&unit), ["failed", "new task", "running"]);
    let (task, _) = created(&unit);
    assert_eq!(task.spec.max_tokens, Some(100));
}

#[test]
fn a_task_that_the_execution_let_go_of_changes_alone() {
    let (program, first) = program();
    let start = begun(&program, first);
    let (task, state) = created(&start);
    let failed = state.transition(execution::Event::GivenUp, NOW).expect("it runs").next;
    assert_eq!(failed.step(0).map(|row| row.stage), Some(Stage::Cancelled));
    let unit = play(&program, &failed, &task, completed(LEASE, "late"));
    assert_eq!(names(&unit), ["completed", "failed"]);
    let Some(Change::Execution(Some(_), step)) = unit.changes.last() else { panic!("it is swept") };
    assert!(step.next.stopping().next().is_none());
    assert_eq!(step.next.usage().total(), 7, "the late answer is paid for");
}

/// As many steps as given that wait for nothing, with both texts of a megabyte.
fn wide(steps: u16, change: impl Fn(&mut StepSource)) -> (Program, Step<Execution>) {
    let step = |number: u16| {
        let mut step = StepSource {
            id: format!("s{number}"),
            prompt: "{{input.x}}".into(),
            system_prompt: Some("{{input.x}}".into()),
            ..StepSource::default()
        };
        change(&mut step);
        step
    };
    let steps = (0..steps).map(step).collect();
    let source = PlanSource { name: "A plan".into(), steps, ..PlanSource::default() };
    let plan = Plan::compile(source, &[]).expect("a good plan");
    let compiled = Arc::new(CompiledPlan::new(plan, None));
    let id = ExecutionId::from_u128(5 << 10);
    let spec = execution::Spec {
        id,
        plan: PlanId::from_u128(6 << 10),
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
    };
    let first = Execution::started(spec, Arc::clone(&compiled.graph), NOW);
    let input = Map::from_iter([("x".to_owned(), json!("x".repeat(1 << 20)))]);
    (
        Program::new(
            About::new(id, NOW, None),
            compiled,
            ReviewPolicy::default(),
            input,
            Arc::default(),
        ),
        first,
    )
}

/// Tried on a server before: 500 such steps took four gigabytes.
#[test]
fn one_unit_renders_at_most_six_mebibytes_and_the_next_goes_on() {
    let (program, first) = wide(100, |_| {});
    let mut builder = UnitBuilder::first(&program, first, NOW);
    let (mut units, mut created, mut sources) = (0, 0, sources());
    loop {
        while let Some(step) = builder.due() {
            assert!(builder.evaluate(step, &Outputs::default()).is_none(), "it is not brief");
            let full = program.evaluate(step, builder.state(), &Outputs::default(), Effort::Full);
            builder.decide(step, full.expect("it ends"), &mut Outputs::default(), &mut sources);
        }
        let unit = builder.done(&mut Fake { next: 900 });
        units += 1;
        let mut rendered = 0;
        for change in &unit.changes {
            if let Change::NewTask(_, inputs) = change {
                created += 1;
                rendered += inputs.prompt.len();
                rendered += inputs.system_prompt.as_ref().map_or(0, String::len);
            }
        }
        assert!((1..=MAX_RENDERED).contains(&rendered), "{rendered}");
        let Some(Change::Execution(_, step)) = unit.changes.last() else { panic!("it changes") };
        if !step.next.has_due() {
            break;
        }
        builder = UnitBuilder::of(&program, &step.next, NOW);
    }
    assert_eq!((units, created), (50, 100));
}

#[test]
fn a_condition_that_takes_long_is_not_evaluated_briefly() {
    let condition = "[1, 2, 3].all(n, !input.x.contains('xxxxxxxy'))";
    let (program, first) = wide(1, |step| step.condition = Some(condition.to_owned()));
    let brief = program.evaluate(FIRST, &first.next, &Outputs::default(), Effort::Brief);
    assert!(brief.is_none());
    let full = program.evaluate(FIRST, &first.next, &Outputs::default(), Effort::Full);
    assert!(matches!(full, Some(Evaluation::Run(..))));
}
