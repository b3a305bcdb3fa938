//! Submissions: what is to be made durable, what was made, and the messages of their actor.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::access::{Caller, Role};
use callboard_domain::batch::RowOf;
use callboard_domain::digest::Digest;
use callboard_domain::execution::program::{CompiledPlan, ReviewPolicy};
use callboard_domain::execution::{Execution, ForkedFrom, Template};
use callboard_domain::id::{BatchId, Environment, FileId, PlanId, TaskId};
use callboard_domain::plan::PlanSource;
use callboard_domain::schedule::Occurrence;
use callboard_domain::task::{Request, Task};
use callboard_domain::trace::TraceContext;
use callboard_domain::unit::MAX_RENDERED;
use callboard_domain::{Error, Timestamp, template};
use callboard_store::Op;
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use crate::kernel::project_pool::PoolPermit;
use crate::kernel::removal_locks::UseGuard;
use crate::tables::Deployed;
pub use crate::tables::work::{Named, Options};

/// The owner of tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The user's or the key's identifier.
    pub id: String,
    /// Production or sandbox.
    pub environment: Environment,
    /// The role of the account.
    pub role: Role,
    /// The request, in the trace of its caller.
    pub trace: Option<TraceContext>,
    /// The queues that a worker's key is bound to; none if it may serve every queue.
    pub bound: Arc<[String]>,
}

impl Owner {
    /// The owner of what a caller makes, in the trace of its request.
    #[must_use]
    pub fn of(caller: &Caller, trace: Option<TraceContext>) -> Self {
        let (id, environment) = (caller.account.to_string(), caller.environment);
        Self { id, environment, role: caller.role, trace, bound: caller.queues.as_slice().into() }
    }

    /// The owner as a reader of templates.
    pub(crate) fn caller(&self) -> template::Caller<'_> {
        template::Caller { account: &self.id, role: self.role }
    }
}

/// The time for which a key is remembered, at least until its items have ended.
pub(crate) const KEPT: Duration = Duration::from_hours(24);

/// The approximate size of a submission besides its texts, in KiB.
const OVERHEAD: usize = 2;

/// A key that has served its time and whose work has ended.
#[derive(Debug)]
pub(crate) struct OldKey {
    pub(crate) environment: Environment,
    pub(crate) scope: [u8; 32],
    /// The instant of its use.
    pub(crate) at: Timestamp,
    /// The deletions that go with its row.
    pub(crate) ops: Vec<Op>,
}

/// Something to be made durable, whole or not at all.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) environment: Environment,
    pub(crate) account: String,
    pub(crate) trace: Option<Box<TraceContext>>,
    pub(crate) order: NewWork,
    pub(crate) key: Option<Key>,
    /// The partition that the submission lives in: that of the key, if there is one.
    pub(crate) partition: u8,
    /// The submission's share of the KiB that may be on their way to the disk.
    pub(crate) admitted: PoolPermit,
    /// The files of the tasks, which stay until the submission is durable.
    pub(crate) files: Vec<UseGuard<(Environment, FileId)>>,
    /// The occurrence of a schedule, or the row of a batch, that the submission is.
    pub(crate) scheduled: Option<Box<Scheduled>>,
}

/// An occurrence of a schedule or a row of a batch: the number of its work, and its own rows.
#[derive(Debug)]
pub(crate) struct Scheduled {
    pub(crate) number: u128,
    pub(crate) rows: Vec<Op>,
}

impl NewWork {
    /// The plan that an execution is started of.
    pub(crate) fn plan(&self) -> Option<PlanId> {
        match self {
            Self::Execution(begin) => match begin.runs {
                Runs::Plan(id, _) => Some(id),
                Runs::Deployed(_) => None,
            },
            Self::Tasks(..) | Self::Retry(..) | Self::Plan(..) => None,
        }
    }

    /// The approximate memory of the submission, in KiB.
    pub(crate) fn weight(&self) -> usize {
        let task = |request: &Request| {
            let context =
                request.inputs.context.as_ref().map_or(0, |context| length(context.values()));
            OVERHEAD + (request.inputs.length() + context) / 1024
        };
        match self {
            Self::Tasks(requests, _) => requests.iter().map(task).sum(),
            Self::Retry(request, _) => task(request),
            Self::Plan(source, _) => OVERHEAD * (1 + source.steps.len()) + source.size() / 1024,
            Self::Execution(begin) => {
                let (steps, input) = (begin.compiled.graph.len(), length(begin.input.values()));
                // Each step may render the whole input, until a commit is full.
                let rendered = begin.compiled.plan.source().size() + steps * input;
                OVERHEAD * (1 + steps) + (input + rendered.min(MAX_RENDERED)) / 1024
            }
        }
    }
}

/// The approximate length of values as JSON, in bytes.
pub(crate) fn length<'v>(values: impl Iterator<Item = &'v Value>) -> usize {
    values
        .map(|value| match value {
            Value::String(text) => text.len(),
            Value::Array(items) => length(items.iter()),
            Value::Object(members) => {
                members.keys().map(String::len).sum::<usize>() + length(members.values())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        })
        .sum()
}

/// The items to create.
#[derive(Debug)]
pub(crate) enum NewWork {
    /// Tasks; as a batch with an identifier of its own, or one alone.
    Tasks(Vec<Request>, bool),
    /// A task that repeats another one, which has ended.
    Retry(Box<Request>, TaskId),
    Plan(Box<PlanSource>, Arc<CompiledPlan>),
    Execution(Box<StartExecution>),
}

/// An execution to be started.
#[derive(Debug)]
pub(crate) struct StartExecution {
    pub(crate) runs: Runs,
    pub(crate) compiled: Arc<CompiledPlan>,
    pub(crate) review: ReviewPolicy,
    pub(crate) input: Map<String, Value>,
    pub(crate) options: Options,
    pub(crate) start_at: Option<Timestamp>,
    pub(crate) forked_from: Option<Box<ForkedFrom>>,
    pub(crate) occurrence: Option<Box<Occurrence>>,
    pub(crate) row_of: Option<Box<RowOf>>,
    pub(crate) named: Named,
}

/// The plan of an execution.
#[derive(Debug)]
pub(crate) enum Runs {
    Plan(PlanId, Option<Template>),
    /// The plan of a deploy, made with the execution.
    Deployed(Deployed),
}

impl Runs {
    /// The id of the template, if the plan is one's.
    pub(crate) fn template(&self) -> Option<String> {
        match self {
            Self::Plan(_, template) => template.as_ref().map(|template| template.id.clone()),
            Self::Deployed(deployed) => Some(deployed.template.clone()),
        }
    }
}

/// An idempotency key.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    /// A digest of environment, account, endpoint and key.
    pub(crate) scope: [u8; 32],
    /// A digest of the parsed body.
    pub(crate) body: String,
    /// The key.
    pub(crate) text: Box<str>,
}

impl Key {
    /// The digest of the body under a salt.
    pub(crate) fn salted(&self, salt: &str) -> String {
        Digest::of(&format!("{salt} {}", self.body)).to_string()
    }
}

/// The created items, as they were at their creation, by this request or an earlier one with its key.
#[derive(Debug, Clone)]
pub struct Submitted {
    /// The items.
    pub made: Created,
    /// True if an earlier request created them.
    pub replayed: bool,
    /// The work that no connected worker takes now, one sentence for each model and queue.
    pub warnings: Vec<String>,
}

/// The created items.
#[derive(Debug, Clone)]
pub enum Created {
    /// Tasks, in order, and the batch, if they are one.
    Tasks(Vec<Task>, Option<BatchId>),
    /// A plan.
    Plan(PlanId, Timestamp),
    /// An execution, before its first steps were decided.
    Execution(Box<Execution>),
}

impl Created {
    /// The tasks, if tasks were created.
    #[must_use]
    pub fn tasks(&self) -> &[Task] {
        match self {
            Self::Tasks(tasks, _) => tasks,
            Self::Plan(..) | Self::Execution(_) => &[],
        }
    }

    /// The batch, if one was created.
    #[must_use]
    pub const fn batch(&self) -> Option<BatchId> {
        match self {
            Self::Tasks(_, batch) => *batch,
            Self::Plan(..) | Self::Execution(_) => None,
        }
    }
}

pub(crate) type Reply = oneshot::Sender<Result<Submitted, Error>>;

/// A message to the actor.
#[derive(Debug)]
pub(crate) enum Message {
    /// Make this durable.
    Submit(Box<Submission>, Reply),
    /// The submission with this key is durable, or has failed.
    Finished([u8; 32]),
    /// These keys are over, unless they were used again since.
    Forget(Vec<OldKey>),
}
