//! Figures of the live environment: counters and distributions since the start of the process.
//!
//! ```text
//!   durable ─ facts of a committed unit ─▶ Metrics (atomics) ─┐
//!   task ─ the end of an attempt ─────────▶                   ├─▶ Figures, at each scrape
//!   queues, workers, store ─ as they are ────────────────────▶┘
//! ```
//!
//! Counting takes no lock that all tasks share, and no allocation once a label is known. Figures that show a state (a
//! queue's depth, the undecided approvals) are never counted up and down: each scrape asks their owner.

mod labels;
pub(crate) mod numbers;

use std::time::{Duration, Instant};

use callboard_domain::Timestamp;
use callboard_domain::approval::{GateOutcome, Record};
use callboard_domain::budget::Money;
use callboard_domain::delivery;
use callboard_domain::execution;
use callboard_domain::id::Environment;
use callboard_domain::machine::Step;
use callboard_domain::schedule;
use callboard_domain::task::{self, EndingCode, Request, Status, Task};
use callboard_domain::unit::Change;

use crate::kernel::environments::PerEnvironment;
use labels::Labels;
use numbers::{Counter, Summary};
pub use numbers::{Distribution, Histogram};

/// The quantiles of durations.
pub const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
/// The window of the quantiles: the last five to ten minutes.
pub const WINDOW: Duration = Duration::from_mins(10);
/// The wait of a scrape for the queues.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The bounds of waits and runs of tasks, in milliseconds.
const TASK_BOUNDS: &[u64] = &[
    10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000,
    900_000, 3_600_000,
];
/// The bounds of commits, in microseconds.
const COMMIT_BOUNDS: &[u64] = &[
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];

/// The decisions on outputs.
pub(crate) const DECISIONS: [&str; 3] = ["approved", "edited", "rejected"];
/// The kinds of message.
pub(crate) const NOTIFICATIONS: [&str; 2] = ["mail", "webhook"];
/// The ends of an attempt of a delivery.
pub(crate) const OUTCOMES: [&str; 4] = ["delivered", "failed", "dead", "dropped"];

/// The kind of message that a delivery carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotificationKind {
    /// A mail to a reviewer.
    Mail,
    Webhook,
}

/// The figures of the process.
pub(crate) struct Metrics {
    pub(crate) models: Labels<ModelFigures>,
    pub(crate) queues: Labels<QueueFigures>,
    pub(crate) projects: PerEnvironment<ProjectFigures>,
    pub(crate) executions: [Counter; execution::Status::ALL.len()],
    pub(crate) retries: [Counter; EndingCode::ALL.len()],
    pub(crate) failures: [Counter; EndingCode::ALL.len()],
    pub(crate) decisions: [Counter; DECISIONS.len()],
    pub(crate) deliveries: [[Counter; OUTCOMES.len()]; NOTIFICATIONS.len()],
    /// Occurrences of schedules of production, by outcome.
    pub(crate) occurrences: [Counter; schedule::Outcome::ALL.len()],
    pub(crate) commits: Histogram,
}

/// The figures of one project's production.
#[derive(Default)]
pub(crate) struct ProjectFigures {
    pub(crate) entries: [Counter; Status::ALL.len()],
    pub(crate) input: Counter,
    pub(crate) output: Counter,
    pub(crate) cost: Counter,
    pub(crate) webhooks: [Counter; OUTCOMES.len()],
}

/// The figures of one model's tasks.
pub(crate) struct ModelFigures {
    pub(crate) entries: [Counter; Status::ALL.len()],
    pub(crate) durations: Summary,
    pub(crate) runs: Histogram,
    pub(crate) input: Counter,
    pub(crate) output: Counter,
    pub(crate) cost: Counter,
}

/// The figures of one queue's tasks.
pub(crate) struct QueueFigures {
    pub(crate) waits: Histogram,
    /// Leases that ended because their worker was lost.
    pub(crate) lost: Counter,
}

impl Default for ModelFigures {
    fn default() -> Self {
        Self {
            entries: Default::default(),
            durations: Summary::default(),
            runs: Histogram::new(TASK_BOUNDS),
            input: Counter::default(),
            output: Counter::default(),
            cost: Counter::default(),
        }
    }
}

impl Default for QueueFigures {
    fn default() -> Self {
        Self { waits: Histogram::new(TASK_BOUNDS), lost: Counter::default() }
    }
}

impl Metrics {
    /// Nothing has happened; the default model and queue have their series from the start.
    pub(crate) fn new(default_model: &str) -> Self {
        let (models, queues) = (Labels::default(), Labels::<QueueFigures>::default());
        let _: &ModelFigures = models.of(default_model);
        queues.of(Request::DEFAULT_QUEUE);
        Self {
            models,
            queues,
            projects: PerEnvironment::default(),
            executions: Default::default(),
            retries: Default::default(),
            failures: Default::default(),
            decisions: Default::default(),
            deliveries: Default::default(),
            occurrences: Default::default(),
            commits: Histogram::new(COMMIT_BOUNDS),
        }
    }

    /// Counts the changes of a unit that was decided at `now`.
    pub(crate) fn count(&self, environment: Environment, change: &Change, now: Timestamp) {
        match change {
            Change::Task(step, _) | Change::NewTask(step, _) => self.task(environment, step, now),
            Change::Execution(_, step) => {
                for fact in &step.facts {
                    if let Some(status) = entered(*fact) {
                        self.executions[status as usize].add(1);
                    }
                }
            }
            Change::Review(_, before, after) => self.review(before.as_ref(), after),
            Change::Approval(..) | Change::Signal(..) | Change::Delivery(_) => {}
        }
    }

    fn task(&self, environment: Environment, step: &Step<Task>, now: Timestamp) {
        let (task, project) = (&step.next, self.projects.of(environment));
        for fact in &step.facts {
            let model = self.models.of(task.model());
            if *fact != task::Fact::Reprioritized {
                model.entries[task.status() as usize].add(1);
                project.entries[task.status() as usize].add(1);
            }
            match fact {
                task::Fact::Started => {
                    // The wait for a further attempt is not a queue's alone.
                    if task.started_at == Some(now) {
                        let waits = &self.queues.of(&task.spec.queue).waits;
                        waits.record(millis(now.since(task.eligible_since())));
                    }
                }
                task::Fact::Failed => {
                    if let Some(error) = &task.error {
                        self.failures[error.code as usize].add(1);
                    }
                    model.durations.record(now.since(task.eligible_since()), now);
                }
                task::Fact::Completed | task::Fact::Rejected => {
                    model.durations.record(now.since(task.eligible_since()), now);
                }
                task::Fact::Created
                | task::Fact::Reprioritized
                | task::Fact::Retrying
                | task::Fact::AwaitingApproval
                | task::Fact::Reopened
                | task::Fact::Cancelled => {}
            }
        }
    }

    fn review(&self, before: Option<&Record>, after: &Record) {
        // A correction comes after a decision, and its opening changes nothing.
        let is_decided = before.is_some_and(|it| it.is_open() || it.is_decided() && it != after);
        if !is_decided {
            return;
        }
        let decision = match after.fate {
            GateOutcome::Approved { edited: false, .. } => 0,
            GateOutcome::Approved { edited: true, .. } => 1,
            GateOutcome::Rejected { .. } => 2,
            GateOutcome::Passed | GateOutcome::Open { .. } | GateOutcome::Cancelled => return,
        };
        self.decisions[decision].add(1);
    }

    /// Counts an attempt that is over: a task was with a worker before, and is not any more.
    pub(crate) fn attempt_ended(
        &self,
        environment: Environment,
        (before, after): (&Task, &Task),
        run: Duration,
    ) {
        let (model, project) = (self.models.of(before.model()), self.projects.of(environment));
        model.runs.record(millis(run));
        if after.losses > before.losses {
            self.queues.of(&before.spec.queue).lost.add(1);
        }
        if let Some(failure) = before.failure_before(after) {
            self.retries[failure.code as usize].add(1);
        }
        // Answers that did not count were paid for too, each at the model that gave it.
        let (earlier, all) = (before.paid(), after.paid());
        let [cost_before, cost] =
            [earlier, all].map(|it| Money::from_usd(it.total_cost).as_nanos());
        for (counters, added) in [
            ([&model.input, &project.input], all.input.saturating_sub(earlier.input)),
            ([&model.output, &project.output], all.output.saturating_sub(earlier.output)),
            ([&model.cost, &project.cost], cost.saturating_sub(cost_before)),
        ] {
            for counter in counters {
                counter.add(added);
            }
        }
    }

    /// Counts an attempt of a delivery that is over, by the state that it led to.
    pub(crate) fn delivered(
        &self,
        environment: Environment,
        kind: NotificationKind,
        state: &delivery::State,
    ) {
        let outcome = match state {
            delivery::State::Delivered { .. } => 0,
            delivery::State::Pending { .. } => 1,
            delivery::State::Dead { .. } => 2,
            delivery::State::Dropped { .. } => 3,
        };
        self.deliveries[kind as usize][outcome].add(1);
        if kind == NotificationKind::Webhook {
            self.projects.of(environment).webhooks[outcome].add(1);
        }
    }

    /// Counts a commit that a caller waited for.
    pub(crate) fn committed(&self, begun: Instant) {
        self.commits.record(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
}

/// The status that an execution enters with this fact.
const fn entered(fact: execution::Fact) -> Option<execution::Status> {
    use execution::Fact as F;
    match fact {
        F::Scheduled => Some(execution::Status::Pending),
        F::Started => Some(execution::Status::Running),
        F::Completed => Some(execution::Status::Completed),
        F::Failed => Some(execution::Status::Failed),
        F::Cancelled => Some(execution::Status::Cancelled),
        F::Progressed
        | F::StepSkipped(_)
        | F::StepRetrying(_)
        | F::StepCompleted(_)
        | F::StepFailed(_)
        | F::StepCancelled(_)
        | F::StepWaiting(_)
        | F::StepSignalled(_)
        | F::ItemRetrying(..)
        | F::ItemCompleted(..)
        | F::ItemFailed(..)
        | F::ItemCancelled(..) => None,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// All figures at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// The figures by model; models beyond the 200th count together, as `other`.
    pub models: Vec<(String, Model)>,
    /// The figures by queue; queues beyond the 200th count together, as `other`.
    pub queues: Vec<(String, Queue)>,
    /// The figures by the name of the project.
    pub projects: Vec<(String, Project)>,
    /// Executions' entries into each status.
    pub executions: Vec<(&'static str, u64)>,
    /// Failed attempts that another attempt follows, by code.
    pub retries: Vec<(&'static str, u64)>,
    /// Tasks that failed for good, by code.
    pub failures: Vec<(&'static str, u64)>,
    /// Leases whose worker was lost.
    /// Decisions about held outputs: approved, edited, rejected.
    pub decisions: Vec<(&'static str, u64)>,
    /// Attempts of deliveries, by kind and result.
    pub deliveries: Vec<(&'static str, &'static str, u64)>,
    /// Occurrences of schedules, by outcome.
    pub occurrences: Vec<(&'static str, u64)>,
    /// The time that each awaited commit took.
    pub commits: Distribution,
    /// Approvals that wait for a decision, expired ones too.
    pub approvals_pending: u64,
    /// Connected workers that are not silent.
    pub workers_active: u64,
    /// True if no task is leased: everything is paused.
    pub paused: bool,
    /// Queues that are paused.
    pub paused_queues: u64,
    /// The keys that end next, and those that ended within the last day.
    pub key_ends: Vec<KeyEnd>,
    /// Subscribers of events.
    pub subscribers: u64,
    /// Awake actors of tasks, executions and approvals.
    pub awake: u64,
    /// Batches that the store committed.
    pub store_batches: u64,
    /// Syncs of the store.
    pub store_syncs: u64,
}

/// An API key and its end.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyEnd {
    /// The identifier.
    pub id: String,
    /// The name that its maker gave it.
    pub name: String,
    /// The role.
    pub role: &'static str,
    /// The time left, in seconds; negative once it is over.
    pub left_seconds: f64,
}

/// The figures of one project.
#[derive(Debug, Clone, PartialEq)]
pub struct Project {
    /// Tasks' entries into each status.
    pub entries: Vec<(&'static str, u64)>,
    /// Tasks that are ready and wait for a worker.
    pub depth: u64,
    /// Tasks that are with a worker.
    pub running: u64,
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Costs in USD.
    pub cost: f64,
    /// Attempts to deliver a webhook, by result.
    pub webhooks: Vec<(&'static str, u64)>,
}

/// The figures of one model.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Tasks' entries into each status.
    pub entries: Vec<(&'static str, u64)>,
    /// The time from the moment a task could first run to its end, of tasks that completed, failed or were
    /// rejected: the [`QUANTILES`] within the [`WINDOW`], none without such a task.
    pub quantiles: Option<[Duration; QUANTILES.len()]>,
    /// The sum of these times.
    pub duration: Duration,
    /// The number of these tasks.
    pub ended: u64,
    /// The time of each attempt with its worker.
    pub runs: Distribution,
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Costs in USD.
    pub cost: f64,
}

/// The figures of one queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Queue {
    /// Tasks that are ready and wait for a worker.
    pub depth: u64,
    /// The longest time since one of the ready tasks could first run: its creation, or its `startAt`.
    pub oldest: Duration,
    /// The thing that the ready tasks wait for: worker, or an obstacle of the whole queue.
    pub waiting_for: &'static str,
    /// Tasks that wait for a budget.
    pub unaffordable: u64,
    /// The longest time since the creation of one of these.
    pub oldest_unaffordable: Duration,
    /// The time from the moment each task could first run to its first lease.
    pub waits: Distribution,
    /// Leases that ended because their worker was lost.
    pub lost: u64,
    /// Connected workers that serve the queue and are not silent.
    pub workers: u64,
}

/// A queue as it is.
#[derive(Debug)]
pub(crate) struct Depth {
    pub(crate) environment: Environment,
    pub(crate) queue: std::sync::Arc<str>,
    pub(crate) ready: usize,
    pub(crate) oldest: Option<Timestamp>,
}
