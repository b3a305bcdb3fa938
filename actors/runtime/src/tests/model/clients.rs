//! Clients of the model: each request runs by itself, and its answer goes into the books.
//!
//! A refusal must agree with the books, or nothing that they forbid; "try again later" and "on our side" need an
//! excuse.

use std::sync::{Arc, Mutex, MutexGuard};

use callboard_domain::Error;
use callboard_domain::access::Role;
use callboard_domain::approval::{Approval, Decider, Outcome};
use callboard_domain::id::{ExecutionId, PlanId, TaskId};
use callboard_domain::plan::{PlanSource, StepSource};
use callboard_domain::task::Request;
use callboard_domain::template::Caller;

use super::asks;
use super::disk::Disk;
use super::oracle::{Decided, Planned};
use super::world::{LIVE, Shared, World};
use crate::handle::{Approve, Fork, Reject, SendSignal, Start};
use crate::items::submission::Created;
use crate::tests::approvals::new_user;
use crate::{Handle, Submitted};

/// Where a request hears and writes.
#[derive(Clone)]
pub(super) struct Client {
    handle: Handle,
    shared: Arc<Mutex<Shared>>,
    disk: Disk,
}

impl Client {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("no holder panics")
    }

    /// A refusal that needs an excuse has one.
    pub(super) fn refused(&self, what: &str, error: &Error) {
        let mut shared = self.shared();
        shared.note(format!("{what}: refused: {error}"));
        let excused = !matches!(error, Error::Internal | Error::Unavailable(_))
            || self.disk.was_troubled()
            || self.handle.is_draining();
        if !excused {
            shared.oracle.fault(format!("{what} is refused without a reason: {error}"));
        }
    }
}

/// A key and the number of the body that is sent with it.
pub(super) type Key = (String, u64);

impl World {
    /// A client of the process as it is now.
    pub(super) fn client(&self) -> Client {
        let (handle, shared) = (self.handle.clone(), Arc::clone(&self.shared));
        Client { handle, shared, disk: self.disk.clone() }
    }

    /// There is somebody to ask about held outputs, or nobody.
    pub(super) async fn reviewers(&mut self) {
        for (name, role) in [("ann", Role::Operator), ("ada", Role::Admin)] {
            if self.chance.percent(60) {
                let made = self
                    .handle
                    .create_user(new_user(name, role), callboard_domain::audit::By::SYSTEM)
                    .await;
                made.expect("nothing is wrong yet");
            }
        }
    }

    /// Somebody sends a signal.
    pub(super) fn signal(&mut self, id: ExecutionId, name: String) {
        let (client, payload) = (self.client(), format!("payload {}", self.next()));
        {
            let mut shared = self.shared();
            shared.note(format!("signal {name} to {id}: {payload}"));
            shared.oracle.executions.entry(id).or_default().sent.push(payload.clone());
        }
        let sent = payload.clone().into();
        let signal = SendSignal { name: name.clone(), payload: sent, replace: false, key: None };
        self.clients.spawn(async move {
            match client.handle.signal(LIVE, id, "usr_1", signal).await {
                Ok(_) => {
                    let mut shared = client.shared();
                    shared.note(format!("signal {name} to {id}: taken"));
                    let known = shared.oracle.executions.entry(id).or_default();
                    if let Some(before) = known.signals.insert(name.clone(), payload) {
                        let twice = format!("{id}: two signals {name} are taken: {before}");
                        shared.oracle.fault(twice);
                    }
                }
                Err(error) => client.refused(&format!("signal {name} to {id}"), &error),
            }
        });
    }

    /// Somebody submits tasks.
    pub(super) fn submit(&mut self, requests: Vec<Request>, bounded: bool, key: Option<Key>) {
        let client = self.client();
        let owner = if bounded { self.bounded() } else { asks::account(false, None) };
        let prompts: Vec<_> = requests.iter().map(|one| one.inputs.prompt.clone()).collect();
        {
            let mut shared = self.shared();
            shared.note(format!("submit {prompts:?} with {key:?}"));
            shared.oracle.maybe.extend(prompts.iter().cloned());
            if let Some((name, body)) = &key {
                shared.oracle.keys.entry(name.clone()).or_default().sent.insert(*body);
            }
        }
        self.clients.spawn(async move {
            let name = key.as_ref().map(|(name, _)| name.as_str());
            let as_batch = requests.len() > 1;
            match client.handle.submit(&owner, requests, as_batch, name).await {
                Ok(submitted) => client.submitted(&submitted, &prompts, key),
                Err(error) => client.not_submitted(&error, &prompts, key),
            }
        });
    }

    /// Somebody makes a plan.
    pub(super) fn make_plan(&mut self, source: PlanSource, depends_on: Vec<Vec<u16>>) {
        let client = self.client();
        let has_list = |(number, step): (u16, &StepSource)| (!step.map.is_none()).then_some(number);
        let lists = (0..).zip(&source.steps).filter_map(has_list).collect();
        self.clients.spawn(async move {
            match client.handle.create_plan(&asks::account(false, None), source).await {
                Ok(plan) => {
                    let mut shared = client.shared();
                    shared.note(format!("there is {}", plan.id));
                    shared.oracle.plans.push(Planned { id: plan.id, depends_on, lists });
                }
                Err(error) => client.refused("a plan", &error),
            }
        });
    }

    /// Somebody runs a plan; with a key, it is always the same one.
    pub(super) fn execute(&mut self, plan: PlanId, start: Start, bounded: bool, keyed: bool) {
        let client = self.client();
        let owner = if bounded { self.bounded() } else { asks::account(false, None) };
        self.note(format!("execute {plan} {:?} {:?}", start.hitl, start.options));
        self.shared().oracle.maybe_begun.insert(plan);
        self.clients.spawn(async move {
            let key = keyed.then_some("run");
            match client.handle.execute(&owner, plan, start, key).await {
                Ok(submitted) => {
                    let Created::Execution(execution) = submitted.made else {
                        return client.shared().oracle.fault("no execution was made".into());
                    };
                    let mut shared = client.shared();
                    let id = execution.head.spec.id;
                    shared.note(format!("{id} runs"));
                    shared.oracle.executions.entry(id).or_default();
                    let before = keyed.then(|| shared.oracle.begun_by_key.insert(plan, id));
                    if let Some(before) = before.flatten().filter(|before| *before != id) {
                        shared.oracle.fault(format!("one key made {before} and {id}"));
                    }
                }
                Err(error) => client.refused("an execution", &error),
            }
        });
    }

    /// Somebody decides about a held output.
    pub(super) fn decide(&mut self, task: TaskId, by: &str, verdict: Ruling) {
        let client = self.client();
        let by = Decider { account: by.into(), reviewer: None, bulk: None };
        self.note(format!("{} decides about {task}: {verdict:?}", by.name()));
        self.clients.spawn(async move {
            let handle = &client.handle;
            let (edit, made) = match verdict {
                Ruling::Approve(edit) => {
                    let (modified_output, comment) = (edit.clone(), None);
                    let approve = Approve { by: by.clone(), modified_output, comment };
                    (edit, handle.approve(LIVE, task, approve).await)
                }
                Ruling::Reject { retry } => {
                    let (by, reason) = (by.clone(), REASON.to_owned());
                    let reject = Reject { by, reason, retry, retry_prompt: None };
                    (None, handle.reject(LIVE, task, reject).await)
                }
            };
            match made {
                Ok(approval) => client.decided(&approval, by.name(), edit),
                Err(Error::AlreadyDecided { by, .. }) => client.decided_before(task, by),
                Err(error) => client.refused("a decision", &error),
            }
        });
    }

    /// Somebody claims a held output, or turns away from it.
    pub(super) fn claim(&mut self, task: TaskId, by: &str, release: bool) {
        let client = self.client();
        let by = Decider { account: by.into(), reviewer: None, bulk: None };
        self.note(format!("{} claims {task}, or not any more: {release}", by.name()));
        self.clients.spawn(async move {
            let answer = if release {
                client.handle.release(LIVE, task, by).await
            } else {
                client.handle.claim(LIVE, task, by).await
            };
            match answer {
                Ok(_) => {}
                Err(Error::AlreadyDecided { by, .. }) => client.decided_before(task, by),
                Err(error) => client.refused("a claim", &error),
            }
        });
    }

    /// Somebody cancels a task.
    pub(super) fn cancel(&mut self, task: TaskId) {
        let client = self.client();
        self.note(format!("cancel {task}"));
        self.clients.spawn(async move {
            match client.handle.cancel(LIVE, task, "usr_c").await {
                Ok(_) => {
                    let mut shared = client.shared();
                    // The earlier assignments stand before this.
                    shared.hear();
                    shared.note(format!("{task} is cancelled"));
                    shared.oracle.known(task).cancelled = true;
                }
                Err(error) => client.refused("a cancel", &error),
            }
        });
    }

    /// Somebody cancels an execution.
    pub(super) fn cancel_execution(&mut self, id: ExecutionId) {
        let client = self.client();
        self.note(format!("cancel {id}"));
        let before = self.shared().oracle.executions.entry(id).or_default().retries;
        self.clients.spawn(async move {
            match client.handle.cancel_execution(LIVE, id).await {
                Ok(_) => {
                    let mut shared = client.shared();
                    shared.hear();
                    shared.note(format!("{id} is cancelled"));
                    let known = shared.oracle.executions.entry(id).or_default();
                    // Nobody knows which came first if somebody wanted it to run again meanwhile.
                    known.cancelled = known.retries == before && before.1 == 0;
                }
                Err(error) => client.refused("a cancel", &error),
            }
        });
    }

    /// Somebody wants what did not end well to run again.
    pub(super) fn retry_execution(&mut self, id: ExecutionId) {
        let client = self.client();
        self.note(format!("retry {id}"));
        {
            let mut shared = self.shared();
            let known = shared.oracle.executions.entry(id).or_default();
            known.cancelled = false;
            known.retries = (known.retries.0 + 1, known.retries.1 + 1);
        }
        self.clients.spawn(async move {
            let answer = client.handle.retry_execution(LIVE, id).await;
            if let Err(error) = &answer {
                client.refused("a retry", error);
            }
            // One that is cut off stays counted: nobody knows whether it was taken, nor when.
            let mut shared = client.shared();
            shared.oracle.executions.entry(id).or_default().retries.1 -= 1;
        });
    }
}

impl World {
    /// Somebody forks an execution; `is_completed` if it is known to be.
    pub(super) fn fork(&mut self, of: ExecutionId, from_step: Option<String>, is_completed: bool) {
        let client = self.client();
        self.note(format!("fork {of} from {from_step:?}"));
        let fork = Fork { from_step, input: None, version: None };
        self.clients.spawn(async move {
            let caller = Caller { account: "usr_1", role: Role::Admin };
            match client.handle.fork(&asks::account(false, None), caller, of, fork, None).await {
                Ok(submitted) => {
                    let Created::Execution(execution) = submitted.made else {
                        return client.shared().oracle.fault("no fork was made".into());
                    };
                    let id = execution.head.spec.id;
                    let mut shared = client.shared();
                    shared.note(format!("{id} is a fork of {of}"));
                    let known = shared.oracle.executions.entry(id).or_default();
                    known.of_completed = is_completed;
                }
                Err(error) => client.refused("a fork", &error),
            }
        });
    }
}

/// The decision of a reviewer.
#[derive(Debug, Clone)]
pub(super) enum Ruling {
    /// It counts, as it is or as this.
    Approve(Option<String>),
    /// It does not, and is tried again or not.
    Reject {
        /// Whether.
        retry: bool,
    },
}

/// Why outputs are rejected here.
pub(super) const REASON: &str = "too vague";

impl Client {
    fn submitted(&self, submitted: &Submitted, prompts: &[String], key: Option<Key>) {
        let ids: Vec<_> = submitted.made.tasks().iter().map(|task| task.spec.id).collect();
        let mut shared = self.shared();
        shared.note(format!("{prompts:?} are {ids:?}, again: {}", submitted.replayed));
        let oracle = &mut shared.oracle;
        if ids.len() != prompts.len() {
            oracle.fault(format!("{} tasks were asked for, {} made", prompts.len(), ids.len()));
        }
        for (id, prompt) in ids.iter().zip(prompts) {
            oracle.known(*id).prompt = Some(prompt.clone());
        }
        let Some((name, body)) = key else {
            if submitted.replayed {
                oracle.fault(format!("{ids:?} are told again, and nobody asked for that"));
            }
            return;
        };
        let known = oracle.keys.entry(name.clone()).or_default();
        let before = (known.body.replace(body), known.made.replace(ids.clone()));
        if before.0.is_some_and(|before| before != body) {
            oracle.fault(format!("the key {name} took two bodies"));
        }
        if let Some(before) = before.1.filter(|before| *before != ids) {
            oracle.fault(format!("the key {name} made {before:?} and {ids:?}"));
        }
    }

    fn not_submitted(&self, error: &Error, prompts: &[String], key: Option<Key>) {
        self.refused(&format!("{prompts:?}"), error);
        let mut shared = self.shared();
        let oracle = &mut shared.oracle;
        match (error, key) {
            (Error::IdempotencyKeyReused, Some((name, body))) => {
                let known = oracle.keys.entry(name.clone()).or_default();
                if known.body == Some(body) || known.sent.len() < 2 {
                    oracle.fault(format!("the key {name} was used with this body only"));
                }
            }
            (Error::IdempotencyKeyReused | Error::IdempotencyKeyInUse, None) => {
                oracle.fault("a key is refused that was not given".into());
            }
            _ => {}
        }
    }

    fn decided(&self, approval: &Approval, by: &str, edit: Option<String>) {
        let mut shared = self.shared();
        shared.note(format!("{by} has decided about {}", approval.id()));
        let verdict = approval.decision.as_ref().map(|decision| decision.outcome);
        let edit = match verdict {
            Some(Outcome::Approved { .. }) => Ok(edit),
            Some(Outcome::Rejected { retry }) => Err(retry),
            None => return shared.oracle.fault(format!("{}: no decision", approval.id())),
        };
        shared.oracle.decided(approval.id(), Decided { by: by.to_owned(), edit });
    }

    fn decided_before(&self, task: TaskId, by: String) {
        let mut shared = self.shared();
        shared.note(format!("{task} was decided by {by}"));
        shared.oracle.known(task).decided_by = Some(by);
    }
}
