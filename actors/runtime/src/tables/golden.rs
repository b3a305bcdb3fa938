//! The bytes of every row, pinned: a change that old data would not survive fails here. An author who
//! changes a row on purpose raises its version, adds an upgrade, and keeps the old file.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use callboard_domain::Timestamp;
use callboard_domain::access::{Account, Role};
use callboard_domain::account::external::ExternalId;
use callboard_domain::account::{Email, PasswordHash, User};
use callboard_domain::approval::{
    self, Approval, Assignee, Decider, Entry, GateOutcome, HeldOutput, Mail, MailCause,
    Policy as Hurry, ReviewWay, Salt,
};
use callboard_domain::audit::{self, By};
use callboard_domain::budget::Money;
use callboard_domain::bulk::{self, Job};
use callboard_domain::chat_batch::{self, ChatBatch};
use callboard_domain::confidence::Source;
use callboard_domain::credential::ApiKey;
use callboard_domain::credential::invitation::Invitation;
use callboard_domain::delivery::{Delivery, Notification, Webhook};
use callboard_domain::digest::Digest;
use callboard_domain::event::EventName;
use callboard_domain::execution::{
    Event as Happened, Execution, MapState, Report, Stage, StepDecision, StepState, Template,
};
use callboard_domain::file::{File, Format, Purpose};
use callboard_domain::graph::Graph;
use callboard_domain::id::{
    AuditId, BatchId, ChatBatchId, DeliveryId, Environment, ExecutionId, FileId, KeyId, PlanId,
    SessionId, TaskId, UserId, ViewId, WorkerId,
};
use callboard_domain::id::{BudgetId, BulkId, InvitationId};
use callboard_domain::machine::Machine;
use callboard_domain::plan::{HitlSource, PlanSource, RetrySource, StepSource};
use callboard_domain::queue::{QueueChange, QueueSettings};
use callboard_domain::rate::Tier;
use callboard_domain::retry::Policy;
use callboard_domain::session::signing::SigningKeyId;
use callboard_domain::session::{Replaced, Session, State};
use callboard_domain::spending::{Budget, Match, OnExceed, Period};
use callboard_domain::task::{
    Chance, Channels, Completion, Content, Ending, EndingCode, Event, Gate, HoldReason, Inputs,
    LeaseId, Message, Origin, OutputFault, Part, Sampling, Spec, State as TaskState, Task,
};
use callboard_domain::task::{Concurrency, Fairness, Flow, OnConflict};
use callboard_domain::template::{Choice, Version};
use callboard_domain::trace::TraceContext;
use callboard_domain::usage::Usage;
use callboard_domain::view::{List, View};
use callboard_store::table::Table;
use callboard_store::testing::memory::MemoryStore;
use callboard_store::{Batch, Op, Outcome, Record, Store};

use super::chat_batches::{ChatLine, Refusal};
use super::events::Of;
use super::executions::ExecutionInputsRow;
use super::log::{self, Kind, ProgressRow};
use super::plans::{ChoiceRow, NameRow, TemplateRow};
use super::views;
use super::{
    AUDIT_ENDS, ApprovalRow, BUDGETS, BULK_PARTS, BULKS, BudgetEvent, BudgetRow, CHAT_BATCHES,
    CHAT_LINES, CONTENTS, ContentRow, Deployed, ENDED_APPROVALS, ENDED_DELIVERIES,
    ENDED_EXECUTIONS, ENDED_TASKS, EVENTS, Ended, EventRow, FILE_CHUNKS, FILE_USES, FILES, HISTORY,
    HeadRow, IDEMPOTENCY, INVITATIONS, ITEMS, IdempotencyRow, KEY_USES, KEYS, LIVE_APPROVALS,
    LIVE_DELIVERIES, LIVE_EXECUTIONS, LIVE_TASKS, LOOSE_CHUNKS, PLAN_NAMES, PLANS, PlanRow,
    QueueChanged, REVIEW_RECORDS, SESSIONS, SPENT, STEPS, SpentRow, TEMPLATE_CHOICES, TEMPLATES,
    TaskRow, USERS, WorkerRow, audit_row, event_log, queue_row, tasks::InputsRow, words,
};
use callboard_domain::execution::program::ReviewPolicy;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const ID: u128 = 0x018b_cfe5_6800_0000_0000_0000_0000_0407;

/// A task with every field.
pub(crate) fn full_task() -> Task {
    let spec = Spec {
        id: TaskId::from_u128(ID),
        account: "usr_1".into(),
        model: "m".into(),
        queue: "default".into(),
        priority: 7,
        timeout_ms: 60_000,
        tags: vec!["a".into(), "ü".into()],
        max_tokens: Some(9),
        temperature: Some(0.5),
        sampling: None,
        callback_url: Some("https://example.com/hook".into()),
        labels: None,
        gate: Some(Gate {
            threshold: Some(0.9),
            pass_unknown: true,
            sample_rate: 0.25,
            notify: Channels { email: true, dashboard: true },
            ..Gate::ALWAYS
        }),
        retry: Policy::default(),
        origin: Origin {
            batch: Some(BatchId::from_u128(ID)),
            step: Some((ExecutionId::from_u128(ID), "step-1".into())),
            item: None,
            rows: None,
            template: Some("t-v1".into()),
            retry_of: Some(TaskId::from_u128(ID)),
            first_account: None,
            idempotency_key: None,
            copy_of: None,
            trace: None,
        },
        checked: true,
        routing: None,
        flow: None,
        start_at: None,
    };
    let lease = LeaseId::from_random(42);
    let running = Task::submitted(spec)
        .next
        .transition(Event::Leased { lease, worker: WorkerId::from_u128(ID) }, NOW)
        .expect("it is ready")
        .next;
    let completion = Completion {
        usage: Usage {
            input: 1,
            output: 2,
            total_cost: 0.25,
            price_unknown: true,
            ..Usage::default()
        },
        confidence: Some(0.75),
        confidence_source: Some("logprobs".into()),
        finish_reason: Some("stop".into()),
        service_tier: None,
        judge: None,
        thinking: None,
    };
    let event = Event::Completed { lease, completion, chance: Chance(0) };
    running.transition(event, NOW).expect("it runs").next
}

/// A task whose first output missed its schema.
fn corrected_task() -> Task {
    let (lease, worker) = (LeaseId::from_random(42), WorkerId::from_u128(ID));
    let spec = Spec { origin: Origin::default(), ..(*full_task().spec).clone() };
    let leased = Task::submitted(spec).next.transition(Event::Leased { lease, worker }, NOW);
    let running = leased.expect("it is ready").next;
    let completion = full_task().result.expect("it is completed");
    let fault = OutputFault::Mismatch("output.a is required".into());
    let event = Event::OutputInvalid { lease, completion: *completion, fault };
    running.transition(event, NOW).expect("it runs").next
}

/// A task that waits for a reviewer.
fn held_task() -> Task {
    let (lease, worker) = (LeaseId::from_random(42), WorkerId::from_u128(ID));
    let spec = Spec { gate: Some(Gate::ALWAYS), ..(*full_task().spec).clone() };
    let leased = Task::submitted(spec).next.transition(Event::Leased { lease, worker }, NOW);
    let running = leased.expect("it is ready").next;
    let completion = full_task().result.expect("it is completed");
    let event = Event::Completed { lease, completion: *completion, chance: Chance(0) };
    let held = running.transition(event, NOW).expect("it runs").next;
    assert!(matches!(held.state, TaskState::AwaitingApproval { .. }));
    held
}

/// The one row of a short value.
fn only(mut ops: Vec<Op>) -> Op {
    assert_eq!(ops.len(), 1);
    ops.remove(0)
}

fn bytes(op: Op) -> Vec<u8> {
    match op {
        Op::Put { value, .. } | Op::Insert { value, .. } => value.to_vec(),
        Op::Append { record, .. } => record.to_vec(),
        Op::Delete { .. } | Op::Trim { .. } => panic!("no bytes"),
    }
}

const LIVE: Environment = Environment::LIVE;

/// The record of facts of a subject, as it is read.
fn event_of(of: Of) -> EventRow {
    EventRow { event: Cow::Borrowed(""), at: NOW, of: Some(of), progress: None, items: Vec::new() }
}

/// A record that was written.
fn read(golden: Vec<u8>) -> EventRow {
    let record = Record { log: event_log(LIVE), sequence: 1, bytes: golden.into() };
    EVENTS.read(&record).expect("it is readable")
}

/// Holds `written` against the file; `CALLBOARD_WRITE_GOLDEN=1` writes the file instead.
fn pinned(name: &str, written: &[u8]) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
    if std::env::var_os("CALLBOARD_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, written).expect("it can be written");
    }
    let golden = std::fs::read(&path).expect("the golden file is there");
    assert_eq!(
        written.escape_ascii().to_string(),
        golden.escape_ascii().to_string(),
        "the bytes of {name} changed: raise the version and add an upgrade"
    );
    golden
}

/// A row with the bound of the account, which earlier versions kept in it.
fn of_an_earlier_version<T: serde::de::DeserializeOwned>(name: &str) -> T {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
    let golden = std::fs::read(&path).expect("the golden file is there");
    serde_json::from_slice(&golden).expect("it is readable")
}

#[test]
fn the_rows_of_tasks_are_pinned() {
    let task = full_task();
    let ended = Ended(TaskRow::from(&task), Some("an output".into()));
    pinned("task-ended-v1", &bytes(Table::<u128, Ended>::new(0x81, 1).put(0, &ID, &ended, None)));
    pinned("task-ended-v1-squeezed", &bytes(ENDED_TASKS.put(0, &ID, &ended, None)));
    let fresh = Task::submitted((*task.spec).clone()).next;
    pinned(
        "task-fresh-v1",
        &bytes(LIVE_TASKS.put_uncompressed(0, &ID, &TaskRow::from(&fresh), None)),
    );
    let spec = fresh.spec.as_ref().clone();
    let origin =
        Origin { trace: Some(Box::new(TraceContext::new(ID, 7, true))), ..spec.origin.clone() };
    let traced = Task::submitted(Spec { origin, ..spec }).next;
    pinned(
        "task-fresh-v1-traced",
        &bytes(LIVE_TASKS.put_uncompressed(0, &ID, &TaskRow::from(&traced), None)),
    );
    let corrected = TaskRow::from(&corrected_task());
    pinned(
        "task-fresh-v1-corrected",
        &bytes(LIVE_TASKS.put_uncompressed(0, &ID, &corrected, None)),
    );
    let held = TaskRow::from(&held_task());
    pinned("task-held-v1-squeezed", &bytes(LIVE_TASKS.put(0, &ID, &held, None)));
    let context = serde_json::from_str(r#"{"b":1,"a":[null]}"#).expect("JSON");
    let inputs = Inputs {
        prompt: "p".into(),
        system_prompt: Some("s".into()),
        context,
        ..Inputs::default()
    };
    let mut made = InputsRow { spec: task.spec, inputs: Some(inputs.clone()) };
    pinned("made-v1", serde_json::to_string(&made).expect("JSON").as_bytes());
    assert_eq!(of_an_earlier_version::<InputsRow>("made-v1-with-bound"), made);
    made.inputs = Some(Inputs { messages: messages(), ..inputs });
    let golden =
        pinned("made-v1-with-messages", serde_json::to_string(&made).expect("JSON").as_bytes());
    assert_eq!(serde_json::from_slice::<InputsRow>(&golden).expect("it is readable"), made);
    let shown = InputsRow {
        spec: made.spec.clone(),
        inputs: made.inputs.clone().map(|inputs| Inputs {
            messages: vec![in_parts(0, 1)],
            files: vec![FileId::from_u128(1 << 10), FileId::from_u128(2 << 10)],
            ..inputs
        }),
    };
    let golden =
        pinned("made-v1-with-parts", serde_json::to_string(&shown).expect("JSON").as_bytes());
    assert_eq!(serde_json::from_slice::<InputsRow>(&golden).expect("it is readable"), shown);
    let sampling = Sampling {
        seed: Some(-7),
        top_p: Some(0.25),
        stop: vec!["END".into()],
        frequency_penalty: Some(0.5),
    };
    let spec = Spec { sampling: Some(Box::new(sampling)), ..made.spec.as_ref().clone() };
    let sampled = InputsRow { spec: spec.into(), inputs: made.inputs.clone() };
    let golden =
        pinned("made-v2-with-sampling", serde_json::to_string(&sampled).expect("JSON").as_bytes());
    assert_eq!(serde_json::from_slice::<InputsRow>(&golden).expect("it is readable"), sampled);
    let earlier = of_an_earlier_version::<InputsRow>("made-v1-with-sampling");
    let read = earlier.spec.sampling.as_deref().expect("it has some");
    assert_eq!((read.seed, read.top_p, &*read.stop[0]), (Some(-7), Some(0.25), "END"));
    let schema = serde_json::from_str(r#"{"type":"object"}"#).expect("JSON");
    let inputs = made.inputs.map(|inputs| Inputs { output_schema: Some(schema), ..inputs });
    made.inputs = inputs;
    let golden =
        pinned("made-v1-with-schema", serde_json::to_string(&made).expect("JSON").as_bytes());
    assert_eq!(serde_json::from_slice::<InputsRow>(&golden).expect("it is readable"), made);
    assert!(made.inputs.as_ref().is_some_and(|inputs| inputs.args.is_none()), "it is a prompt");
    let args = serde_json::from_str(r#"{"b":1,"a":[null]}"#).expect("JSON");
    let spec = Spec { model: "function:f".into(), ..made.spec.as_ref().clone() };
    let inputs = Inputs { args: Some(Box::new(args)), ..Inputs::default() };
    let called = InputsRow { spec: spec.into(), inputs: Some(inputs) };
    let golden =
        pinned("made-v3-with-args", serde_json::to_string(&called).expect("JSON").as_bytes());
    assert_eq!(serde_json::from_slice::<InputsRow>(&golden).expect("it is readable"), called);
}

#[test]
fn what_squeezed_rows_are_read_with_is_pinned() {
    pinned("words-v1", &[words::OF_TEXTS, words::OF_STEPS, words::OF_TASKS].join(&b'\n'));
    pinned("words-v2", words::OF_EXECUTIONS);
    pinned("words-v3", &[words::OF_APPROVALS, words::OF_HISTORIES].join(&b'\n'));
}

#[test]
fn the_records_of_events_are_pinned_and_read_back() {
    let id = TaskId::from_u128(ID);
    let life = TaskRow::from(&full_task());
    for (name, life) in [("event-task-ended-v1", None), ("event-task-v1", Some(&life))] {
        let op = log::append(LIVE, ("task.completed", NOW), Kind::Task, (id, life));
        let golden = pinned(name, &bytes(op));
        let (log, sequence) = (event_log(Environment::LIVE), 1);
        let record = Record { log, sequence, bytes: golden.clone().into() };
        let read = EVENTS.read(&record).expect("it is readable");
        assert_eq!(bytes(EVENTS.append(log, &read)), golden);
    }
    let worker = WorkerRow {
        id: WorkerId::from_u128(ID),
        name: Some("w".into()),
        queues: vec!["default".into()],
    };
    let op = log::append(LIVE, ("worker.connected", NOW), Kind::Worker, &worker);
    pinned("event-worker-v1", &bytes(op));
}

#[test]
fn the_rows_of_sessions_are_pinned() {
    let session = Session {
        id: SessionId::from_u128(ID),
        user: UserId::from_u128(ID),
        family: Digest::of("family"),
        signing_key: None,
        parent: None,
        state: State::Open {
            token: Digest::of("token"),
            renewed_at: NOW,
            expires_at: NOW,
            replaced: [Replaced { token: Digest::of("before"), at: NOW }].into(),
        },
    };
    pinned("session-v1", &bytes(SESSIONS.put(0, &ID, &session, None)));
    let session = Session { signing_key: Some(SigningKeyId::of("a key")), ..session };
    pinned("session-v1-with-key", &bytes(SESSIONS.put(0, &ID, &session, None)));
    let session = Session { parent: Some(SessionId::from_u128(ID + (1 << 10))), ..session };
    pinned("session-v1-of-link", &bytes(SESSIONS.put(0, &ID, &session, None)));
    let invitation = Invitation {
        id: InvitationId::from_u128(ID),
        digest: Digest::of("token"),
        email: Some(Email::parse("ann@example.com").expect("an e-mail")),
        name: Some("Ann".into()),
        role: Role::Reviewer,
        created_by: Some(Account::User(UserId::from_u128(ID))),
        expires_at: NOW,
    };
    pinned("invitation-v1", &bytes(INVITATIONS.put(0, &ID, &invitation, None)));
}

#[test]
fn the_rows_of_accounts_and_keys_are_pinned() {
    let user = User {
        id: UserId::from_u128(ID),
        email: Email::parse("Ada@example.com").expect("an e-mail"),
        name: "Ada".into(),
        role: Role::Admin,
        tier: Some(Tier::Pro),
        password_hash: PasswordHash::new("$argon2id$".into()),
        must_change_password: false,
        external: None,
        created_at: NOW,
    };
    pinned("user-v1", &bytes(USERS.put(0, &ID, &user, None)));
    let user = User { must_change_password: true, ..user };
    pinned("user-v1-reset", &bytes(USERS.put(0, &ID, &user, None)));
    let (issuer, subject) = ("https://id.example.com".to_owned(), "42".to_owned());
    let external = Some(ExternalId { issuer, subject });
    let user = User { external, must_change_password: false, ..user };
    pinned("user-v1-external", &bytes(USERS.put(0, &ID, &user, None)));
    let key = ApiKey {
        id: KeyId::from_u128(ID),
        name: "k".into(),
        role: Role::Worker,
        environment: Environment::LIVE,
        tier: None,
        queues: Vec::new(),
        digest: Digest::of("text"),
        prefix: "svc_worker_".into(),
        last4: "abcd".into(),
        created_at: NOW,
        expires_at: NOW,
        revoked_at: Some(NOW),
        created_by: None,
        user: None,
    };
    pinned("key-v1", &bytes(only(KEYS.put(0, ID, &key, None))));
    let created_by = Some(Account::Key(KeyId::from_u128(ID)));
    let key = ApiKey { created_by, user: Some(UserId::from_u128(ID)), ..key };
    pinned("key-v1-of-user", &bytes(only(KEYS.put(0, ID, &key, None))));
    let key = ApiKey { queues: vec!["letters".into()], ..key };
    pinned("key-v1-bound", &bytes(only(KEYS.put(0, ID, &key, None))));
    pinned("key-use-v1", &bytes(KEY_USES.put(0, &ID, &NOW, None)));
    let row = IdempotencyRow {
        body: "ab".into(),
        salted_by: None,
        at: NOW,
        tasks: vec![TaskId::from_u128(ID)],
        execution: Some(ExecutionId::from_u128(ID)),
    };
    pinned("idempotency-v1", &bytes(IDEMPOTENCY.put(0, &[7; 32], &row, None)));
}

#[test]
fn the_rows_by_which_operators_control_the_work_are_pinned() {
    let limits =
        QueueChange { paused: Some(true), concurrent: Some(3), requests_per_minute: Some(60) };
    let settings = QueueSettings::default().with(limits);
    pinned("queue-v1", &bytes(queue_row(LIVE, "default", settings)));
    let changed = QueueChanged { name: "default".into(), settings };
    let op = log::append(LIVE, ("queue.changed", NOW), Kind::Queue, &changed);
    pinned("event-queue-v1", &bytes(op));
    let job = Job {
        id: BulkId::from_u128(ID),
        action: bulk::Action::Reprioritize,
        reason: None,
        kind: bulk::Kind::Tasks,
        priority: Some(9),
        account: "usr_1".into(),
        key: Some(("scope".into(), "body".into())),
        total: 3,
        succeeded: 1,
        skipped: 1,
        failed: 1,
        erased: None,
        ended_at: Some(NOW),
        stopped: None,
        why: None,
    };
    pinned("bulk-v1", &bytes(BULKS.put(0, &ID, &job, None)));
    let view = View {
        name: "Failed".into(),
        page: List::Executions,
        query: "status=failed".into(),
        shared: true,
        created_by: Account::User(UserId::from_u128(ID)),
    };
    pinned("view-v1", &bytes(only(views::put(LIVE, ViewId::from_u128(ID), None, &view))));
    let erasure = Job {
        action: bulk::Action::Erase,
        kind: bulk::Kind::All,
        priority: None,
        reason: Some("request 4711".into()),
        erased: Some(bulk::Erased { executions: 1, tasks: 3, signals: 1 }),
        ended_at: None,
        ..job.clone()
    };
    pinned("bulk-erasure-v1", &bytes(BULKS.put(0, &ID, &erasure, None)));
    let op = log::append(LIVE, ("bulk.completed", NOW), Kind::Bulk, &job);
    pinned("event-bulk-v1", &bytes(op));
    let mut part = vec![bulk::Item::Task(TaskId::from_u128(ID))];
    pinned("bulk-part-v1", &bytes(BULK_PARTS.put(0, &(ID, 7), &part, None)));
    part.push(bulk::Item::Execution(ExecutionId::from_u128(ID)));
    pinned("bulk-part-mixed-v1", &bytes(BULK_PARTS.put(0, &(ID, 7), &part, None)));
    let budget = Budget {
        id: BudgetId::from_u128(ID),
        matches: Match {
            tags: vec!["a".into()],
            account: Some("usr_1".into()),
            template: Some("t-v1".into()),
            model: Some("m".into()),
        },
        limit: Money::from_usd(12.5),
        period: Period::Month,
        timezone: "Europe/Berlin".into(),
        alert_at: vec![0.5],
        on_exceed: OnExceed::Reject,
    };
    let spent = Money::from_usd(7.0);
    let row = BudgetRow { budget: budget.clone(), since: NOW, spent };
    pinned("budget-v1", &bytes(only(BUDGETS.put(0, ID, &row, None))));
    let row = SpentRow { at: NOW, cost: spent, budgets: vec![budget.id] };
    pinned("spent-v1", &bytes(SPENT.put(0, &(ID, 1), &row, None)));
    let passed = BudgetEvent { budget, since: NOW, spent, share: Some(0.5) };
    let op = log::append(LIVE, ("budget.alert", NOW), Kind::Budget, &passed);
    pinned("event-budget-v1", &bytes(op));
    let flow = Flow {
        concurrency: Some(Concurrency {
            key: "k".into(),
            limit: 2,
            on_conflict: OnConflict::CancelRunning,
        }),
        fairness: Some(Fairness { key: "f".into(), weight: 3 }),
    };
    let task = full_task();
    let spec = Arc::new(Spec { flow: Some(Arc::new(flow)), ..(*task.spec).clone() });
    let made = InputsRow { spec, inputs: None };
    let golden =
        pinned("made-v1-with-flow", serde_json::to_string(&made).expect("JSON").as_bytes());
    assert_eq!(serde_json::from_slice::<InputsRow>(&golden).expect("it is readable"), made);
    let urgent = TaskRow::from(&Task { priority: Some(9), ..task });
    pinned("task-v1-reprioritized", &bytes(LIVE_TASKS.put_uncompressed(0, &ID, &urgent, None)));
}

#[test]
fn the_rows_of_chat_batches_are_pinned() {
    let order = chat_batch::Order {
        input: FileId::from_u128(ID),
        hours: 24,
        window: "24h".into(),
        metadata: [("team".to_owned(), "a".to_owned())].into(),
        queue: Some("night".into()),
        priority: Some(2),
    };
    let id = ChatBatchId::from_u128(ID);
    let new = ChatBatch::new(id, "usr_1".into(), order, None);
    let begun = new.on(chat_batch::Event::Validated(3), NOW).expect("it fits");
    let put = |batch: &ChatBatch| CHAT_BATCHES.put(0, ID, batch, None).pop().expect("a row");
    pinned("chat-batch-v1", &bytes(put(&begun)));
    let refusal = Refusal { status: 400, body: "{}".into() };
    let line = ChatLine { custom_id: "r-1".into(), refusal: Some(refusal) };
    pinned("chat-line-v1", &bytes(CHAT_LINES.put(0, &(ID, 1), &line, None)));
}

#[test]
fn the_rows_of_files_are_pinned() {
    let file = File {
        id: FileId::from_u128(ID),
        account: "usr_1".into(),
        name: Some("ü.pdf".into()),
        media_type: "application/pdf".into(),
        format: Some(Format::Pdf),
        bytes: 8,
        digest: Digest::of("%PDF-1.7"),
        purpose: None,
        expires_at: None,
        unused_since: Some(NOW),
    };
    pinned("file-v1", &bytes(FILES.put(0, &ID, &file, None)));
    let named = File { purpose: Some(Purpose::Batch), expires_at: Some(NOW), ..file.clone() };
    pinned("file-v1-with-purpose", &bytes(FILES.put(0, &ID, &named, None)));
    let content = ContentRow { place: ID, files: 2 };
    pinned("content-v1", &bytes(CONTENTS.put(0, file.digest.as_bytes(), &content, None)));
    pinned("file-chunk-v1", &bytes(FILE_CHUNKS.put(0, ID, 3, b"%PDF-1.7")));
    pinned("file-use-v1", &bytes(FILE_USES.put(0, &(ID, ID), &(), None)));
    pinned("loose-chunks-v1", &bytes(LOOSE_CHUNKS.put(0, &ID, &(), None)));
    let inputs = Inputs { prompt: "p".into(), files: vec![file.id], ..Inputs::default() };
    let made = InputsRow { spec: full_task().spec, inputs: Some(inputs) };
    let golden =
        pinned("made-v1-with-files", serde_json::to_string(&made).expect("JSON").as_bytes());
    assert_eq!(serde_json::from_slice::<InputsRow>(&golden).expect("it is readable"), made);
}

#[test]
fn the_rows_of_the_audit_log_are_pinned() {
    let by = By {
        account: Some(Account::User(UserId::from_u128(ID))),
        address: Some([127, 0, 0, 1].into()),
        ..By::SYSTEM
    };
    let record = audit::Record::new(audit::Action::KeyCreated, by).of("key_1").with("name", "k");
    let mut ends = audit::Ends::default();
    let entry = ends.append(AuditId::from_u128(ID), NOW, record);
    pinned("audit-v1", &bytes(audit_row(&entry)));
    ends.trimmed = ends.whole;
    pinned("audit-ends-v1", &bytes(AUDIT_ENDS.put(0, &0, &ends, None)));
}

#[test]
fn the_rows_of_deliveries_are_pinned() {
    let mail = Mail {
        id: DeliveryId::from_u128(ID),
        task: TaskId::from_u128(ID),
        to: UserId::from_u128(ID),
        cause: MailCause::Escalated,
    };
    let webhook = Webhook {
        id: DeliveryId::from_u128(ID),
        task: TaskId::from_u128(ID),
        event: EventName::TaskCompleted,
        url: "https://example.com/hook".into(),
    };
    let webhook = Delivery::created(Notification::Webhook(webhook), NOW).next;
    pinned("delivery-webhook-v1", &bytes(LIVE_DELIVERIES.put(0, &ID, &webhook, None)));
    let webhook = Delivery {
        state: callboard_domain::delivery::State::Delivered { at: NOW },
        attempts: 12,
        last_error: Some("the receiver answered 500".into()),
        last_status: Some(204),
        attempts_before: 10,
        ..webhook
    };
    pinned("delivery-webhook-ended-v1", &bytes(ENDED_DELIVERIES.put(0, &ID, &webhook, None)));
    let op = log::append(LIVE, ("webhook.delivered", NOW), Kind::Delivery, &webhook);
    pinned("event-webhook-v1", &bytes(op));
    let fresh = Delivery::created(Notification::Mail(mail), NOW).next;
    pinned("delivery-v1", &bytes(LIVE_DELIVERIES.put(0, &ID, &fresh, None)));
    let dead = Delivery {
        state: callboard_domain::delivery::State::Dead { at: NOW },
        attempts: 2,
        last_error: Some("no".into()),
        ..fresh
    };
    pinned("delivery-ended-v1", &bytes(ENDED_DELIVERIES.put(0, &ID, &dead, None)));
}

/// An approval that was assigned, escalated, claimed and approved with another text, and the whole
/// of its history.
fn full_approval(salt: Option<Salt>) -> (Approval, Approval, Vec<Entry>) {
    let user = |number: u128| Some(UserId::from_u128(number << 10));
    let held = HeldOutput {
        why: HoldReason::BelowThreshold,
        confidence: Some(0.75),
        method: None,
        model: "m",
        output: "an output",
        salt,
        way: ReviewWay::default(),
    };
    let hurry = Hurry { escalate_after: 0.5, rejects: true, four_eyes: false };
    let asked = |number| Assignee { reviewer: user(number), by_mail: false };
    let by = Decider { account: "key_1".into(), reviewer: Some("ada".into()), bulk: None };
    let commit = |text| Some(Salt::commit(salt, text));
    let (edit, comment) = (commit("an edit"), commit("why"));
    let step = Approval::opened(full_task().spec, &held, hurry, asked(1), NOW);
    let later = step.next.opening.escalates_at;
    let (mut approval, mut history) = (step.next, step.facts);
    let mut open = approval.clone();
    for event in [
        approval::Event::TimePassed { asked: asked(2) },
        approval::Event::Claimed { by: by.clone() },
        approval::Event::Approved { by, edit, comment },
    ] {
        open = approval;
        let step = open.transition(event, later).expect("it is open");
        approval = step.next;
        history.extend(step.facts);
    }
    (open, approval, history)
}

#[test]
fn the_rows_of_approvals_are_pinned() {
    let (open, decided, history) = full_approval(None);
    let plain = Table::<u128, ApprovalRow>::new(0x86, 1);
    let row = ApprovalRow::from(&open);
    pinned("approval-v1", &bytes(plain.put(0, &ID, &row, None)));
    pinned("approval-v1-squeezed", &bytes(LIVE_APPROVALS.put(0, &ID, &row, None)));
    let row = ApprovalRow::from(&decided);
    pinned("approval-ended-v1", &bytes(plain.put(0, &ID, &row, None)));
    pinned("approval-ended-v1-squeezed", &bytes(ENDED_APPROVALS.put(0, &ID, &row, None)));
    for entry in &history {
        let name = format!("history-{}-{}-v1", entry.number, entry.action.as_str());
        let plain = Table::<(u128, u16), Entry>::new(0x1e, 1);
        pinned(&name, &bytes(plain.put(0, &(ID, 1), entry, None)));
        let squeezed =
            Table::<(u128, u16), Entry>::new(0x1e, 1).compressed_with(words::OF_HISTORIES);
        pinned(&format!("{name}-squeezed"), &bytes(squeezed.put(0, &(ID, 1), entry, None)));
    }
    let plain = Table::<(u128, u16), Vec<Entry>>::new(0x1e, 2);
    pinned("history-v2", &bytes(plain.put(0, &(ID, 1), &history, None)));
    pinned("history-v2-squeezed", &bytes(HISTORY.put(0, &(ID, 1), &history, None)));
    let (_, _, salted) = full_approval(Some(Salt::of(7)));
    pinned("history-salted-v2", &bytes(plain.put(0, &(ID, 1), &salted, None)));
    let with_model =
        approval::Record { method: Some(Source::Samples), ..approval::Record::from(&decided) };
    pinned("track-approved-v1-with-model", &bytes(REVIEW_RECORDS.put(0, &ID, &with_model, None)));
    let mut record = approval::Record { method: None, model: None, ..with_model };
    pinned("track-approved-v1", &bytes(REVIEW_RECORDS.put(0, &ID, &record, None)));
    record.fate = GateOutcome::Passed;
    pinned("track-passed-v1", &bytes(REVIEW_RECORDS.put(0, &ID, &record, None)));
    let facts = history.iter().filter_map(|entry| entry.action.event()).map(EventName::as_str);
    let facts: Vec<_> = facts.collect();
    let task = TaskId::from_u128(ID);
    let op = log::append(LIVE, ("", NOW), Kind::Approval, (task, &row, &facts));
    let golden = pinned("event-approval-v1", &bytes(op));
    let facts = facts.into_iter().map(Cow::Borrowed).collect();
    assert_eq!(read(golden), event_of(Of::Approval(task, row, facts)));
}

#[tokio::test]
async fn a_history_that_an_older_program_began_is_read_as_one() {
    let (_, _, history) = full_approval(None);
    let older = Table::<(u128, u16), Entry>::new(0x1e, 1).compressed_with(words::OF_HISTORIES);
    let (first, rest) = history.split_at(3);
    let number = |entry: &Entry| u16::try_from(entry.number).expect("it is small");
    let mut ops: Vec<_> =
        first.iter().map(|entry| older.put(0, &(ID, number(entry)), entry, None)).collect();
    ops.push(HISTORY.put(0, &(ID, number(&rest[0])), &rest.to_vec(), None));
    let store = MemoryStore::new();
    let batch = Batch { id: callboard_store::BatchId(1), guards: Vec::new(), ops };
    assert!(matches!(store.commit(batch).await, Outcome::Committed));
    let read = super::approvals::history(&store, Environment::LIVE, TaskId::from_u128(ID)).await;
    assert_eq!(read.expect("it is readable"), history);
}

fn full_execution() -> Execution {
    let spec = callboard_domain::execution::Spec {
        id: ExecutionId::from_u128(ID),
        plan: PlanId::from_u128(ID),
        template: Some(Template { id: "t-v1".into(), version: "1.0.0".into() }),
        account: "usr_1".into(),
        tags: Vec::new(),
        callback_url: None,
        labels: None,
        fail_fast: true,
        timeout_ms: Some(60_000),
        max_cost: Some(Money::from_usd(0.5)),
        output_checked: Some(1),
        start_at: None,
        forked_from: None,
        occurrence: None,
        row_of: None,
        idempotency_key: None,
        created_at: NOW,
        trace: None,
    };
    let steps = [("a", vec![]), ("b", vec![0])];
    let graph = Arc::new(Graph::new(steps).expect("a graph"));
    let task = TaskId::from_u128(ID);
    let run = StepDecision::Run { task, worst_cost: Some(Money::from_usd(0.25)) };
    let mut step = Execution::started(spec, graph, NOW);
    step.and_then(Happened::Decided { step: 0, decision: run }, NOW).expect("it is ready");
    let usage =
        Usage { input: 1, output: 2, total_cost: 0.25, price_unknown: true, ..Usage::default() };
    let report = Report {
        task,
        item: None,
        started_at: Some(NOW),
        attempt: 2,
        usage,
        confidence: Some(0.75),
        finish_reason: None,
        fallback: None,
    };
    let ending = Ending { code: EndingCode::ProviderError, message: "no".into() };
    step.and_then(Happened::StepFailed { step: 0, report, ending }, NOW).expect("it is out");
    step.next
}

#[test]
fn the_rows_of_executions_are_pinned() {
    let execution = full_execution();
    let head = HeadRow::without_steps(&execution.head);
    let of_version_1 = Table::<u128, HeadRow>::new(0x82, 1);
    pinned("execution-v1", &bytes(of_version_1.put(0, &ID, &head, None)));
    let row = HeadRow::with_steps(&execution);
    pinned("execution-v2", &bytes(LIVE_EXECUTIONS.put(0, &ID, &row, None)));
    pinned("execution-v2-squeezed", &bytes(ENDED_EXECUTIONS.put(0, &ID, &row, None)));
    let step = execution.step(0).expect("a step");
    let plain = Table::<(u128, u16), StepState>::new(0x18, 1);
    pinned("step-v1", &bytes(plain.put(0, &(ID, 0), step, None)));
    pinned("step-v1-squeezed", &bytes(STEPS.put(0, &(ID, 0), step, None)));
    let stopped = StepState { finish_reason: Some("length".into()), ..step.clone() };
    pinned("step-v1-with-finish-reason", &bytes(plain.put(0, &(ID, 0), &stopped, None)));
    let cut = StepState { max_tokens: Some(200), ..step.clone() };
    pinned("step-v1-with-max-tokens", &bytes(plain.put(0, &(ID, 0), &cut, None)));
    let hitl = HitlSource {
        required_for: Some(vec!["a".into()]),
        confidence_threshold: Some(0.5),
        timeout_ms: Some(1_000),
        sample_rate: Some(0.25),
        notify: Some(Channels { email: true, dashboard: false }),
    };
    let terms = ReviewPolicy { hitl: Some(hitl) };
    let begun = ExecutionInputsRow { spec: Arc::clone(&execution.head.spec), terms, input: None };
    pinned("begun-v1", serde_json::to_string(&begun).expect("JSON").as_bytes());
    assert_eq!(of_an_earlier_version::<ExecutionInputsRow>("begun-v1-with-bound"), begun);
    let input = serde_json::from_str(r#"{"b":1,"a":[null]}"#).expect("an object");
    let begun = ExecutionInputsRow { input: Some(input), ..begun };
    pinned("begun-v1-with-input", serde_json::to_string(&begun).expect("JSON").as_bytes());
    let trace = Some(Box::new(TraceContext::new(ID, 7, true)));
    let spec = callboard_domain::execution::Spec { trace, ..(*begun.spec).clone() };
    let traced = ExecutionInputsRow { spec: Arc::new(spec), input: None, ..begun };
    pinned("begun-v1-traced", serde_json::to_string(&traced).expect("JSON").as_bytes());
    let facts = vec![
        ("step.failed".to_owned(), Some("a".to_owned())),
        ("execution.failed".to_owned(), None),
    ];
    let id = execution.head.spec.id;
    let written = |progress: Option<ProgressRow>, items| {
        let of = (id, &head, &facts);
        let record = log::Record { event: "", at: NOW, kind: Kind::Execution, of, progress, items };
        bytes(record.append(LIVE))
    };
    let row = event_of(Of::Execution(id, head.clone(), facts.clone()));
    assert_eq!(read(pinned("event-execution-v1", &written(None, Vec::new()))), row);
    let progress = ProgressRow::of(&execution);
    let row = EventRow { progress: Some(progress.clone()), ..row };
    let golden = pinned("event-execution-v1-with-progress", &written(Some(progress), Vec::new()));
    assert_eq!(read(golden), row);
}

#[test]
fn the_rows_of_steps_with_a_list_and_of_their_items_are_pinned() {
    let map = MapState {
        items: 9,
        concurrency: Some(4),
        min_success: 5,
        dispatched: 1,
        completed: 2,
        failed: 1,
        rejected: 1,
        cancelled: 1,
    };
    let step = StepState {
        stage: Stage::Dispatched,
        runs: 1,
        started_at: Some(NOW),
        reserved: Money::from_usd(0.25),
        map: Some(Box::new(map)),
        ..StepState::default()
    };
    let plain = Table::<(u128, u16), StepState>::new(0x18, 1);
    pinned("step-v1-with-items", &bytes(plain.put(0, &(ID, 0), &step, None)));
    let item = full_execution().step(0).cloned().expect("a step");
    let plain = Table::<(u128, u32), StepState>::new(0x2a, 1);
    pinned("item-v1", &bytes(plain.put(0, &(ID, 0x0001_0002), &item, None)));
    pinned("item-v1-squeezed", &bytes(ITEMS.put(0, &(ID, 0x0001_0002), &item, None)));
    let execution = full_execution();
    let facts = vec![
        ("step.completed".to_owned(), Some("a".to_owned())),
        ("step.completed".to_owned(), Some("a".to_owned())),
    ];
    let head = HeadRow::without_steps(&execution.head);
    let (id, items) = (execution.head.spec.id, vec![Some(8), None]);
    let (kind, of) = (Kind::Execution, (id, &head, &facts));
    let written =
        log::Record { event: "", at: NOW, kind, of, progress: None, items: items.clone() };
    let golden = pinned("event-execution-v1-with-items", &bytes(written.append(LIVE)));
    let row = EventRow { items, ..event_of(Of::Execution(id, head, facts)) };
    assert_eq!(read(golden), row);
    let spec = (*full_task().spec).clone();
    let spec = Spec { origin: Origin { item: Some(7), ..spec.origin.clone() }, ..spec };
    let made = InputsRow { spec: Arc::new(spec), inputs: None };
    pinned("made-v1-of-item", serde_json::to_string(&made).expect("JSON").as_bytes());
}

#[test]
fn the_rows_of_plans_and_templates_are_pinned() {
    let one = |name: &str| BTreeMap::from([(name.to_owned(), "x".to_owned())]);
    let deployed = Deployed {
        template: "t-v1".into(),
        version: "1.0.0".into(),
        models: one("a"),
        queues: one("b"),
        hitl: None,
    };
    let row = PlanRow {
        name: "p".into(),
        description: Some("d".into()),
        tags: vec!["a".into()],
        steps: 2,
        account: "usr_1".into(),
        created_at: NOW,
        deployed: Some(deployed),
    };
    pinned("plan-v1", &bytes(only(PLANS.put(0, ID, &row, None))));
    let hitl = HitlSource { confidence_threshold: Some(0.5), ..HitlSource::default() };
    let deployed = row.deployed.clone().map(|deployed| Deployed { hitl: Some(hitl), ..deployed });
    let row = PlanRow { deployed, ..row };
    pinned("plan-v1-with-gates", &bytes(only(PLANS.put(0, ID, &row, None))));
    let name = NameRow { name: "p".into(), description: Some("d".into()) };
    pinned("plan-name-v1", &bytes(PLAN_NAMES.put(0, &[7; 16], &name, None)));
    let row = TemplateRow {
        id: "t-v1".into(),
        version: "1.0.0".into(),
        author: "ada@example.com".into(),
        account: None,
        created_at: NOW,
        removed_at: None,
    };
    pinned("template-v1", &bytes(TEMPLATES.put(0, &ID, &row, None)));
    let row = TemplateRow { account: Some("usr_1".into()), ..row };
    pinned("template-v1-of-account", &bytes(TEMPLATES.put(0, &ID, &row, None)));
    let row = TemplateRow { removed_at: Some(NOW), ..row };
    pinned("template-v1-removed", &bytes(TEMPLATES.put(0, &ID, &row, None)));
    let version = |minor| Version { major: 1, minor, patch: 0 };
    let choice = Choice::default().retire(version(1), NOW).with_latest(Some(version(0)));
    let row = ChoiceRow { id: "t-v1".into(), choice };
    pinned("template-choice-v1", &bytes(only(TEMPLATE_CHOICES.put(0, ID, &row, None))));
    let step = StepSource {
        id: "a".into(),
        prompt: "p".into(),
        depends_on: vec!["b".into()],
        requires_approval: true,
        retry: Some(RetrySource {
            max_attempts: Some(2),
            backoff_ms: Some(5),
            ..RetrySource::default()
        }),
        max_tokens: Some(9),
        ..StepSource::default()
    };
    let mut source = PlanSource { name: "p".into(), steps: vec![step], ..PlanSource::default() };
    pinned("plan-source-v1", serde_json::to_string(&source).expect("JSON").as_bytes());
    source.steps[0].messages = messages();
    let json = serde_json::to_string(&source).expect("JSON");
    pinned("plan-source-v1-with-messages", json.as_bytes());
    let (image, pdf) = ("{{input.scan}}".to_owned(), "{{input.pdf}}".to_owned());
    source.steps[0].messages = vec![in_parts(image, pdf)];
    let json = serde_json::to_string(&source).expect("JSON");
    pinned("plan-source-v1-with-parts", json.as_bytes());
    assert_eq!(serde_json::from_str::<PlanSource>(&json).expect("it is readable"), source);
    source.steps[0].messages = messages();
    source.steps[0].output_schema = Some(serde_json::json!({"type": "object"}));
    let json = serde_json::to_string(&source).expect("JSON");
    pinned("plan-source-v1-with-schema", json.as_bytes());
}

fn in_parts<F>(image: F, document: F) -> Message<F> {
    let text = "Look:".to_owned();
    let parts =
        vec![Part::Text { text }, Part::Image { file: image }, Part::Document { file: document }];
    Message { role: callboard_domain::task::Role::User, content: Content::Parts(parts) }
}

fn messages<F>() -> Vec<Message<F>> {
    let content = Content::from;
    vec![
        Message { role: callboard_domain::task::Role::User, content: content("u") },
        Message { role: callboard_domain::task::Role::Assistant, content: content("a") },
    ]
}
