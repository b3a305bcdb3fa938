//! The tables: their numbers, and the index terms of listed rows.
//!
//! An unfinished task's row stands in `LIVE_TASKS` and moves to `ENDED_TASKS` with its last
//! transition: a start reads the unfinished tasks only. Both tables share one list. A task's row holds
//! only the changing part; the task's request is written once, beside the row.
//!
//! Deliberately absent: the rows themselves, each kind in a file of its own.

pub(crate) mod approvals;
pub(crate) mod batches;
pub mod chat_batches;
mod control;
pub(crate) mod copies;
pub(crate) mod deliveries;
mod erasure;
pub(crate) mod event_words;
pub(crate) mod events;
pub(crate) mod executions;
pub(crate) mod files;
pub(crate) mod items;
pub(crate) mod kinds;
pub(crate) mod log;
mod long;
pub(crate) mod plans;
pub(crate) mod schedules;
mod tasks;
pub(crate) mod views;
mod words;
pub mod work;

use callboard_domain::Timestamp;
use callboard_domain::account::{User, WorkLeft};
use callboard_domain::approval::{self, Record};
use callboard_domain::audit;
use callboard_domain::batch::{Batch, Row};
use callboard_domain::bulk;
use callboard_domain::cell::Cell;
use callboard_domain::chat_batch::ChatBatch;
use callboard_domain::credential::ApiKey;
use callboard_domain::credential::invitation::Invitation;
use callboard_domain::delivery::Delivery;
use callboard_domain::execution::{OutputSource, StepState};
use callboard_domain::file::File;
use callboard_domain::id::{Environment, ExecutionId, TaskId, TemplateBatchId};
use callboard_domain::model_limits::{Closure, ModelLimits};
use callboard_domain::moving::Part;
use callboard_domain::pause::Pause;
use callboard_domain::project::Project;
use callboard_domain::query::{Instants, OfBatch};
use callboard_domain::search::{asked, words_of};
use callboard_domain::session::Session;
use callboard_domain::unit::{Change, Unit};
use callboard_store::table::{Chunks, Records, Table, Texts};
use callboard_store::{Error, Filter, LogId, Op, Store};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;
use sha2::{Digest, Sha256};

pub(crate) use approvals::ApprovalRow;
pub use control::{BudgetEvent, QueueChanged};
pub(crate) use control::{BudgetRow, QueueRow, SpentRow, queue_row};
pub(crate) use erasure::erased;
pub(crate) use events::EventRow;
pub use events::{Event, Subject, WorkerRow};
pub(crate) use executions::HeadRow;
pub(crate) use files::ContentRow;
use long::LongTable;
use plans::{ChoiceRow, NameRow, TemplateRow};
pub use plans::{Deployed, PlanRow};
pub use schedules::{RunRow, ScheduleRow};
pub(crate) use tasks::{
    Ended, LoadedTask, TaskRow, copy_rows, files_of, inputs, is_removed, made, status_terms, task,
    unfinished, unfinished_row, unfinished_state,
};

/// The rows of a unit of work. Takes the texts that only rows need.
pub(crate) fn rows(environment: Environment, unit: &mut Unit) -> Vec<Op> {
    let (now, number) = (unit.now, environment.number());
    let mut ops = Vec::with_capacity(8);
    for change in &mut unit.changes {
        match change {
            Change::Task(step, output) => {
                ops.extend(tasks::rows(environment, now, step, output.take()));
            }
            Change::NewTask(step, inputs) => {
                ops.extend(tasks::first_rows(environment, &step.next, inputs));
                ops.extend(tasks::rows(environment, now, step, None));
            }
            Change::Approval(step, texts) => {
                let texts = std::mem::take(texts);
                ops.extend(approvals::rows(environment, now, step, texts));
            }
            Change::Execution(before, step) => {
                ops.extend(executions::rows(environment, before.as_deref(), step, now));
            }
            Change::Signal(id, payload) => {
                ops.extend(TEXTS.put(number, id.as_u128(), text::OUTPUT, payload));
            }
            Change::Delivery(step) => ops.extend(deliveries::rows(environment, now, step)),
            Change::Review(task, before, after) => {
                if !after.is_open() {
                    ops.push(REVIEW_RECORDS.put(number, &task.as_u128(), after, None));
                } else if before.as_ref().is_some_and(|before| !before.is_open()) {
                    // A review was asked for of an output that had passed, or a decision was taken back.
                    ops.push(REVIEW_RECORDS.delete(number, &task.as_u128()));
                }
            }
        }
    }
    for list in unit.lists.drain(..) {
        ops.extend(items::list_rows(environment, &list));
    }
    ops
}

/// The bytes of texts among some rows: long ones, and ended tasks with their short outputs.
pub(crate) fn text_bytes(ops: &[Op]) -> u64 {
    let is_text = |table| matches!(table, Some(TEXTS_NUMBER | ENDED_TASKS_NUMBER));
    let length = |op: &Op| {
        let Op::Put { key, value, .. } = op else { return 0 };
        if is_text(key.table()) { value.len() as u64 } else { 0 }
    };
    ops.iter().map(length).sum()
}

/// The bytes of the long texts of an item.
pub(crate) async fn stored_texts(
    store: &dyn Store,
    environment: Environment,
    id: u128,
) -> Result<u64, Error> {
    let mut bytes = 0;
    for field in text::MADE..=text::ROW {
        let length = TEXTS.stored_length(store, environment.number(), id, field).await?;
        bytes += u64::from(length.unwrap_or_default());
    }
    Ok(bytes)
}

/// The output of a completed step; `None` if it was removed.
pub(crate) async fn output(
    store: &dyn Store,
    environment: Environment,
    source: OutputSource,
) -> Result<Option<String>, Error> {
    match source {
        OutputSource::Task(id) => match task(store, environment, id).await? {
            Some(found) if found.task.erased_at.is_some() => Ok(None),
            Some(mut found) => {
                found.output(store, environment).await.map(Option::unwrap_or_default).map(Some)
            }
            None => Ok(None),
        },
        OutputSource::Signal(id) => {
            TEXTS.get(store, environment.number(), id.as_u128(), text::OUTPUT).await
        }
    }
}

const TEXTS_NUMBER: u8 = 0x10;
const STARTS_NUMBER: u8 = 0x45;
const ENDED_TASKS_NUMBER: u8 = 0x81;

/// The settings of queues that have any, by a digest of the queue's name.
pub(crate) const QUEUES: Table<[u8; 16], QueueRow> = Table::new(0x40, 1);
pub(crate) const BULKS: Table<u128, bulk::Job> = Table::new(0x41, 1);
/// The items that bulk jobs have not acted on yet, by job and part.
pub(crate) const BULK_PARTS: Table<(u128, u16), Vec<bulk::Item>> = Table::new(0x42, 1);
/// Budgets of many tasks, with the spent amount as far as it is summed up.
pub(crate) const BUDGETS: LongTable<BudgetRow> = LongTable::new(0x43, 1);
/// Costs that are not summed up yet, by task and the last digits of its version.
pub(crate) const SPENT: Table<(u128, u16), SpentRow> = Table::new(0x44, 1);
/// The pause of everything, under the key 0.
pub(crate) const PAUSES: Table<u128, Pause> = Table::new(0x6a, 1);
/// The starts of the server, each by the number of the first record of events that was written under it, with a
/// random mark.
pub(crate) const STARTS: Table<u128, u32> = Table::new(STARTS_NUMBER, 1);
/// Long texts, by task and field.
pub(crate) const TEXTS: Texts = Texts::new(TEXTS_NUMBER).compressed_with(words::OF_TEXTS);
/// Idempotency keys, by a digest of their scope.
pub(crate) const IDEMPOTENCY: Table<[u8; 32], IdempotencyRow> = Table::new(0x11, 1);
/// Users, by identifier.
pub(crate) const USERS: Table<u128, User> = Table::new(0x12, 1);
/// Projects, by identifier.
pub(crate) const PROJECTS: LongTable<Project> = LongTable::new(0x6b, 1);
/// The highest number that a project had, in one row.
pub(crate) const PROJECT_NUMBER: Table<u128, u32> = Table::new(0x6c, 1);
/// The cells besides home, in one row.
pub(crate) const CELLS: LongTable<Vec<Cell>> = LongTable::new(0x6d, 1);
/// The parts of this cell in moves of projects, by the number of the project's place here.
pub(crate) const MOVES: LongTable<Part> = LongTable::new(0x6e, 1);
/// The fate of the work of deleted users, by identifier.
pub(crate) const LEFT_WORK: Table<u128, WorkLeft> = Table::new(0x47, 1);
/// Open invitations, by identifier.
pub(crate) const INVITATIONS: Table<u128, Invitation> = Table::new(0x4a, 1);
/// API keys, by identifier.
pub(crate) const KEYS: LongTable<ApiKey> = LongTable::new(0x13, 1);
/// Sessions that can be gone on with, by identifier.
pub(crate) const SESSIONS: Table<u128, Session> = Table::new(0x14, 1);
/// The time of a key's last use, by the key's identifier; written at most once a minute.
pub(crate) const KEY_USES: Table<u128, Timestamp> = Table::new(0x21, 1);
/// The ends of the audit log, under the key 0.
pub(crate) const AUDIT_ENDS: Table<u128, audit::Ends> = Table::new(0x22, 1);
/// The entries of the audit log, by identifier.
pub(crate) const AUDIT: Table<u128, audit::Entry> = Table::new(0x88, 1);
/// Models with limits or a closure of their own, by a digest of the name.
pub(crate) const MODELS: Table<[u8; 32], ModelRow> = Table::new(0x30, 1);
/// The events, in the order of commit; one log per environment.
pub(crate) const EVENTS: Records<EventRow> = Records::new(1);
/// The steps of executions that do not stand in their head's row, by execution and number.
pub(crate) const STEPS: Table<(u128, u16), StepState> =
    Table::new(0x18, 1).compressed_with(words::OF_STEPS);
/// The items of steps, by execution, and by the number of the step and that of the item.
pub(crate) const ITEMS: Table<(u128, u32), StepState> =
    Table::new(0x2a, 1).compressed_with(words::OF_STEPS);
/// The places of deliveries before they were listed: first those that have not ended. A start moves them.
pub(crate) const UNLISTED_DELIVERIES: [Table<u128, Delivery>; 2] =
    [Table::new(0x1c, 1), Table::new(0x1d, 1)];
/// Tasks that have not ended. Only those that wait for a reviewer are compressed: others move on soon.
pub(crate) const LIVE_TASKS: Table<u128, TaskRow> =
    Table::new(0x80, 1).compressed_with(words::OF_TASKS);
/// Tasks that have ended.
pub(crate) const ENDED_TASKS: Table<u128, Ended> =
    Table::new(ENDED_TASKS_NUMBER, 1).compressed_with(words::OF_TASKS);

/// Executions that have not ended, or whose tasks have not.
pub(crate) const LIVE_EXECUTIONS: Table<u128, HeadRow> =
    Table::new(0x82, 2).upgraded_by(with_no_steps);
/// Executions that have ended.
pub(crate) const ENDED_EXECUTIONS: Table<u128, HeadRow> =
    Table::new(0x83, 2).upgraded_by(with_no_steps).compressed_with(words::OF_EXECUTIONS);

pub(crate) const PLANS: LongTable<PlanRow> = LongTable::new(0x84, 1);
/// The different names and descriptions of plans, by a digest.
pub(crate) const PLAN_NAMES: Table<[u8; 16], NameRow> = Table::new(0x19, 1);
/// The versions of templates, by a digest of identifier and version.
pub(crate) const TEMPLATES: Table<u128, TemplateRow> = Table::new(0x1a, 1);

/// The latest and the retired versions of templates, by a digest of the identifier.
pub(crate) const TEMPLATE_CHOICES: LongTable<ChoiceRow> = LongTable::new(0x7d, 1);

/// The outcome of each output at its gate, by task; kept for good.
pub(crate) const REVIEW_RECORDS: Table<u128, Record> = Table::new(0x1b, 1);

/// The history of approvals: the entries that one step added, by task and the number of its first entry.
pub(crate) const HISTORY: Table<(u128, u16), Vec<approval::Entry>> =
    Table::new(0x1e, 2).upgraded_by(one_alone).compressed_with(words::OF_HISTORIES);
/// Items that were removed and of which something is left: texts, or steps.
pub(crate) const REMOVALS: Table<u128, ()> = Table::new(0x20, 1);
/// Approvals that are undecided.
pub(crate) const LIVE_APPROVALS: Table<u128, ApprovalRow> =
    Table::new(0x86, 1).compressed_with(words::OF_APPROVALS);
/// Approvals that were decided or cancelled.
pub(crate) const ENDED_APPROVALS: Table<u128, ApprovalRow> =
    Table::new(0x87, 1).compressed_with(words::OF_APPROVALS);

/// The fields of a task, an execution, a plan or a template in [`TEXTS`].
pub(crate) mod text {
    /// The request; its input too if that is short.
    pub(crate) const MADE: u8 = 0;
    /// The model's answer, if it is long or a reviewer is to see it.
    pub(crate) const OUTPUT: u8 = 1;
    /// A task's prompt, system prompt and context, as one object, or an execution's input, if they are
    /// long.
    pub(crate) const INPUTS: u8 = 2;
    /// A reviewer's text that replaces a task's output.
    const EDIT: u8 = 3;
    /// A reviewer's text about a decision: the comment, or the reason of a rejection.
    const REMARK: u8 = 4;
    /// The salt of the history of an approval.
    pub(crate) const SALT: u8 = 5;
    /// The model's thinking before its answer.
    pub(crate) const THINKING: u8 = 6;
    /// The row of an item that is too long for a row.
    pub(crate) const ROW: u8 = 7;
    /// The salt of the digest of a body that was submitted with an idempotency key; empty once it is erased.
    pub(crate) const KEY_SALT: u8 = 8;
    /// The input of a row of a batch, under the number of its execution, until that is started.
    pub(crate) const ROW_INPUT: u8 = 9;
    /// The reason why the reviewers were given more time for the n-th time is `EXTENSION + n`.
    pub(crate) const EXTENSION: u8 = 32;
    /// The texts of the decision after the n-th opening again are `EDIT_AGAIN + n` and `REMARK_AGAIN + n`.
    const EDIT_AGAIN: u8 = 64;
    const REMARK_AGAIN: u8 = 96;
    /// The first list of an execution's `forEach` steps; the list of number n is `LIST + n`.
    pub(crate) const LIST: u8 = 16;

    /// The field of the text that replaces the output, after so many openings again.
    pub(crate) const fn edit(round: u8) -> u8 {
        if round == 0 { EDIT } else { EDIT_AGAIN + round }
    }

    /// The field of the text about a decision, after so many openings again.
    pub(crate) const fn comment(round: u8) -> u8 {
        if round == 0 { REMARK } else { REMARK_AGAIN + round }
    }
}

pub(crate) const SCHEDULES: LongTable<ScheduleRow> = LongTable::new(0x90, 1);
/// The outcomes of occurrences, by schedule and instant.
pub(crate) const SCHEDULE_RUNS: Table<[u8; 24], RunRow> = Table::new(0x31, 1);

pub(crate) const BATCHES: LongTable<Batch> = LongTable::new(0x91, 1);
/// The rows of batches, by batch and number.
pub(crate) const BATCH_ROWS: Table<(u128, u32), Row> = Table::new(0x48, 1);

/// Batches in the form of OpenAI's interface.
pub(crate) const CHAT_BATCHES: LongTable<ChatBatch> = LongTable::new(0x92, 1);
/// The lines of such batches that are durable, by batch and number.
pub(crate) const CHAT_LINES: Table<(u128, u32), chat_batches::ChatLine> = Table::new(0x49, 1);

/// Uploaded files.
pub(crate) const FILES: Table<u128, File> = Table::new(0x94, 1);
/// The contents of files, by digest: the same bytes are stored once.
pub(crate) const CONTENTS: Table<[u8; 32], ContentRow> = Table::new(0x60, 1);
/// The bytes of contents.
pub(crate) const FILE_CHUNKS: Chunks = Chunks::new(0x61);
/// The chunks that belong to no content: of an upload under way, or of a content that was removed.
pub(crate) const LOOSE_CHUNKS: Table<u128, ()> = Table::new(0x62, 1);

/// The tasks that refer to files, by file and task. A row stays when its task goes, and counts no more.
pub(crate) const FILE_USES: Table<(u128, u128), ()> = Table::new(0x63, 1);

/// Deliveries that have not ended.
pub(crate) const LIVE_DELIVERIES: Table<u128, Delivery> = Table::new(0x89, 1);
/// Deliveries that have ended; kept for a while.
pub(crate) const ENDED_DELIVERIES: Table<u128, Delivery> = Table::new(0x8a, 1);

pub(crate) const fn task_list(environment: Environment) -> [u8; 2] {
    [0x80, environment.number()]
}

pub(crate) const fn execution_list(environment: Environment) -> [u8; 2] {
    [0x82, environment.number()]
}

pub(crate) const fn approval_list(environment: Environment) -> [u8; 2] {
    [0x86, environment.number()]
}

pub(crate) const fn plan_list(environment: Environment) -> [u8; 2] {
    [0x84, environment.number()]
}

/// The list of deliveries of an environment.
pub(crate) const fn delivery_list(environment: Environment) -> [u8; 2] {
    [0x89, environment.number()]
}

pub(crate) const fn schedule_list(environment: Environment) -> [u8; 2] {
    [0x90, environment.number()]
}

pub(crate) const fn batch_list(environment: Environment) -> [u8; 2] {
    [0x91, environment.number()]
}

pub(crate) const fn chat_batch_list(environment: Environment) -> [u8; 2] {
    [0x92, environment.number()]
}

pub(crate) const fn file_list(environment: Environment) -> [u8; 2] {
    [0x94, environment.number()]
}

/// The filter of the items that follow one in the order of their creation, or in the other.
fn behind(item: u128, ascending: bool) -> Filter {
    if ascending {
        Filter::Documents { from: Some(item.saturating_add(1)), to: None }
    } else {
        Filter::Documents { from: None, to: Some(item) }
    }
}

/// The list of the audit log, which both environments share.
pub(crate) const AUDIT_LIST: [u8; 2] = [0x88, 0];

/// The terms of the audit log's list.
pub(crate) mod audit_term {
    pub(crate) const ACTOR: u8 = 0;
    /// The action's name.
    pub(crate) const ACTION: u8 = 1;
}

/// The row of an entry of the audit log.
pub(crate) fn audit_row(entry: &audit::Entry) -> Op {
    let terms = vec![
        (audit_term::ACTOR, term_of(&entry.actor)),
        (audit_term::ACTION, term_of(entry.action.as_str())),
    ];
    let listed = callboard_store::Entry { list: AUDIT_LIST, terms, sort: [None; 2] };
    AUDIT.put(Environment::LIVE.number(), &entry.id.as_u128(), entry, Some(listed))
}

/// The log of an environment's events.
pub(crate) const fn event_log(environment: Environment) -> LogId {
    LogId(environment.number())
}

/// The environment whose events are in a log.
pub(crate) const fn environment_of(LogId(number): LogId) -> Environment {
    Environment::from_number(number)
}

/// The index terms of tasks.
pub(crate) mod term {
    /// The status on the wire.
    pub(crate) const STATUS: u8 = 0;
    /// The model's name.
    pub(crate) const MODEL: u8 = 1;
    /// The queue's name.
    pub(crate) const QUEUE: u8 = 2;
    /// A tag; a task has any number of them.
    pub(crate) const TAG: u8 = 3;
    /// Set while a reviewer is waited for.
    pub(crate) const HELD: u8 = 4;
    /// The batch that the task is of, by its number.
    pub(crate) const BATCH: u8 = 5;
    /// Set if the task was cancelled, and an earlier attempt was paid for: it has no `completedAt`.
    pub(crate) const CANCELLED_PAID: u8 = 6;
}

/// The index terms of executions.
pub(crate) mod execution_term {
    /// The status on the wire.
    pub(crate) const STATUS: u8 = 0;
    pub(crate) const PLAN: u8 = 1;
    pub(crate) const TEMPLATE: u8 = 2;
    pub(crate) const TAG: u8 = 3;
    /// The code of the error with which it ended.
    pub(crate) const ERROR: u8 = 4;
    /// The version of the template, by its number; absent from executions that an earlier version of the server
    /// wrote last.
    pub(crate) const VERSION: u8 = 5;
    /// [`OF_BATCH`] for a row of a batch, and [`REUSED`] too for one that took over all its answers.
    pub(crate) const ROW: u8 = 6;
    pub(crate) const OF_BATCH: &[u8] = b"row";
    pub(crate) const REUSED: &[u8] = b"reused";
}

/// The sort keys of executions, besides their creation.
pub(crate) mod execution_sort {
    /// Milliseconds; absent from executions that ended under a version without it.
    pub(crate) const COMPLETED_AT: usize = 0;
}

/// The index terms of batches.
pub(crate) mod batch_term {
    /// The status on the wire.
    pub(crate) const STATUS: u8 = 0;
    pub(crate) const TEMPLATE: u8 = 1;
    pub(crate) const VERSION: u8 = 2;
    pub(crate) const TAG: u8 = 3;
    /// The plan that the rows run, by its number.
    pub(crate) const PLAN: u8 = 4;
    /// The idempotency key, as a digest.
    pub(crate) const KEY: u8 = 5;
}

/// The index terms of approvals.
pub(crate) mod approval_term {
    /// The status on the wire.
    pub(crate) const STATUS: u8 = 0;
    /// The queue of the task.
    pub(crate) const QUEUE: u8 = 1;
    /// A tag of the task; it has any number of them.
    pub(crate) const TAG: u8 = 2;
    /// The assigned reviewer, or the decider.
    pub(crate) const REVIEWER: u8 = 3;
    /// The batch that the task is of, by its number.
    pub(crate) const BATCH: u8 = 4;
    /// Of a requested review: [`REQUESTED_TERM`], and the step.
    pub(crate) const REQUESTED: u8 = 5;
    /// The term of every requested review.
    pub(crate) const REQUESTED_TERM: &[u8] = b"1";
}

/// The terms of work of a batch: the batch, and one that all such work has.
fn batch_terms(field: u8, batch: Option<TemplateBatchId>) -> impl Iterator<Item = (u8, Box<[u8]>)> {
    let terms = batch.map(|id| [number_term(id.as_u128()), execution_term::OF_BATCH.into()]);
    terms.into_iter().flatten().map(move |term| (field, term))
}

/// The filter of work of a batch, or of none.
pub(crate) fn batch_filter(field: u8, batch: Option<OfBatch>) -> Option<Filter> {
    Some(match batch? {
        OfBatch::Only(id) => Filter::AnyOf(field, vec![number_term(id.as_u128())]),
        OfBatch::None => Filter::NoneOf(field, vec![execution_term::OF_BATCH.into()]),
    })
}

/// The index terms of deliveries.
pub(crate) mod delivery_term {
    /// The status on the wire.
    pub(crate) const STATUS: u8 = 0;
    /// The task or the execution, by its number.
    pub(crate) const SUBJECT: u8 = 1;
}

/// The index terms of plans.
pub(crate) mod plan_term {
    /// Name and description, by a digest.
    pub(crate) const NAME: u8 = 0;
    /// A tag; a plan has any number of them.
    pub(crate) const TAG: u8 = 1;
    /// The version of the template that a deploy made the plan of, by its number.
    pub(crate) const TEMPLATE: u8 = 2;
}

/// The sort keys of tasks, besides their creation.
pub(crate) mod sort {
    /// 1 to 10.
    pub(crate) const PRIORITY: usize = 0;
    /// Milliseconds.
    pub(crate) const COMPLETED_AT: usize = 1;
}

/// Heads of version 1 hold no steps, as does a head that leaves them out.
fn with_no_steps(_: u8, head: Value) -> Value {
    head
}

/// Rows of version 1 hold one entry each.
fn one_alone(_: u8, entry: Value) -> Value {
    Value::Array(vec![entry])
}

/// A model's limits, and the end of its closure.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ModelRow {
    pub(crate) name: String,
    /// The limits that an admin set; `None` leaves them to the settings.
    pub(crate) limits: Option<ModelLimits>,
    /// The instant until which the model is closed.
    pub(crate) closed_until: Option<Timestamp>,
    /// The reason.
    #[serde(default, skip_serializing_if = "Closure::is_default")]
    pub(crate) closed_because: Closure,
}

/// The use of an idempotency key.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IdempotencyRow {
    /// The digest of the parsed body, defaults filled in, salted if `salted_by` is given.
    pub(crate) body: String,
    /// The item, execution or batch whose texts the salt goes with.
    pub(crate) salted_by: Option<u128>,
    /// The instant.
    pub(crate) at: Timestamp,
    /// The tasks that the request made, in order.
    pub(crate) tasks: Vec<TaskId>,
    /// The execution that the request made.
    pub(crate) execution: Option<ExecutionId>,
}

/// The longest term that stands for itself in the index; a longer one is replaced by its digest.
const PLAIN_TERM: usize = 15;

/// A number as a term of the index.
pub(crate) fn number_term(number: u128) -> Box<[u8]> {
    Box::from(number.to_be_bytes())
}

/// The field of words, in every list that is searched.
pub(crate) const WORD: u8 = Filter::WORDS;

/// The terms by which an item is found.
pub(crate) fn word_terms<'t>(
    texts: impl Iterator<Item = &'t str>,
) -> impl Iterator<Item = (u8, Box<[u8]>)> {
    words_of(texts).into_iter().map(|word| (WORD, word.into_bytes().into()))
}

/// The filters of a search; `id` is the identifier that the search is, if it is one.
pub(crate) fn search_filters(search: Option<&str>, id: Option<u128>) -> Vec<Filter> {
    if let Some(id) = id {
        return vec![Filter::Documents { from: Some(id), to: id.checked_add(1) }];
    }
    let starts = asked(search.unwrap_or_default()).into_iter();
    starts.map(|start| Filter::Prefix(WORD, start.into_bytes().into())).collect()
}

/// The filter of a range of instants, which are the sort value of this number.
pub(crate) fn instants_filter(value: usize, range: Instants) -> Option<Filter> {
    let millis = |at: Option<Timestamp>| at.map(Timestamp::as_millis);
    let (from, to) = (millis(range.after), millis(range.before));
    (range != Instants::default()).then(|| Filter::Sorted {
        value,
        from: from.unwrap_or(0),
        to: to.unwrap_or(u64::MAX),
    })
}

/// The terms of an item's tags, each once.
pub(crate) fn tag_terms(term: u8, tags: &[String]) -> Vec<(u8, Box<[u8]>)> {
    let mut terms: Vec<_> = tags.iter().map(|tag| (term, term_of(tag))).collect();
    terms.sort_unstable();
    terms.dedup();
    terms
}

/// A text as a term of the index.
pub(crate) fn term_of(text: &str) -> Box<[u8]> {
    if text.len() <= PLAIN_TERM {
        return text.as_bytes().into();
    }
    Sha256::digest(text.as_bytes())[..=PLAIN_TERM].into()
}

#[cfg(test)]
pub(crate) mod golden;
