//! Forks of executions.

use std::sync::Arc;

use callboard_domain::estimate::{DryRun, KnownFork};
use callboard_domain::execution::program::{About, Outputs, Program};
use callboard_domain::execution::{Execution, ForkedFrom, Spec, Stage, StepState};
use callboard_domain::id::{ExecutionId, PlanId};
use callboard_domain::schedule::Occurrence;
use callboard_domain::template::Caller;
use callboard_domain::unit::{Change, UnitBuilder};
use callboard_domain::{Error, Rule};
use serde::Serialize;
use serde_json::{Map, Value};

use super::runs::Prepared;
use super::{Deploy, Handle, Start};
use crate::commit::sources::NodeSources;
use crate::items::execution::fork;
use crate::items::submission::{Named, NewWork, Options, Runs, StartExecution, Submitted};
use crate::limits::reservation::Reservation;
use crate::messages::submission::Owner;
use crate::read::unreadable;
use crate::tables::executions;

/// The most units of work that a preview plays.
const MOST_UNITS: usize = 64;

/// The changes of a fork against its original.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Fork {
    /// The step that runs anew in any case.
    pub from_step: Option<String>,
    /// The input in place of the original's.
    pub input: Option<Map<String, Value>>,
    /// Another version of the template.
    pub version: Option<String>,
}

/// A fork that passed every check.
struct Checked {
    runs: Runs,
    prepared: Prepared,
    options: Options,
    forked_from: Box<ForkedFrom>,
    occurrence: Option<Box<Occurrence>>,
    named: Named,
}

impl Handle {
    /// Starts an execution that takes over each completed step of another one whose prompt, model and
    /// settings are the same. After `Ok` the execution survives a power cut.
    ///
    /// # Errors
    /// Those of an execute and a deploy; [`Error::Invalid`] for a step that does not exist, and
    /// for a version if no template was deployed.
    pub async fn fork(
        &self,
        owner: &Owner,
        caller: Caller<'_>,
        id: ExecutionId,
        fork: Fork,
        idempotency_key: Option<&str>,
    ) -> Result<Submitted, Error> {
        self.admit()?;
        let endpoint = format!("executions/{id}/fork");
        let key = idempotency_key.map(|key| self.scoped_key(owner, &endpoint, key, &fork));
        let Checked { runs, prepared, options, forked_from, occurrence, mut named } =
            self.checked_fork(owner, caller, id, fork).await?;
        let forked_from = Some(forked_from);
        if prepared.compiled.plan.title().is_some() {
            // The title is that of the fork's input.
            named.labels.title = None;
        }
        let begin = prepared.begin(runs, options, named);
        let begin = StartExecution { forked_from, occurrence, ..begin };
        self.make(owner, NewWork::Execution(Box::new(begin)), key).await
    }

    /// The preview of a fork; nothing is stored or started. The steps that are taken over cost nothing.
    ///
    /// # Errors
    /// Those of [`Self::fork`].
    pub async fn dry_fork(
        &self,
        owner: &Owner,
        caller: Caller<'_>,
        id: ExecutionId,
        fork: Fork,
    ) -> Result<DryRun, Error> {
        let checked = self.checked_fork(owner, caller, id, fork).await?;
        let known = self.known(owner, &checked).await?;
        let Checked { prepared, options, occurrence, .. } = checked;
        let who = (owner.environment, &*owner.id);
        self.would_forking(who, prepared, options.max_cost, (known, occurrence)).await
    }

    async fn checked_fork(
        &self,
        owner: &Owner,
        caller: Caller<'_>,
        id: ExecutionId,
        fork: Fork,
    ) -> Result<Checked, Error> {
        let (store, environment) = (self.node.store(), owner.environment);
        let missing = || Error::not_found("execution", id);
        let head = executions::head(store, environment, id).await;
        let head = head.map_err(|error| unreadable(&error))?.ok_or_else(missing)?;
        let whole = crate::read::runs::whole(&self.node, environment, id, head).await;
        let whole = whole.map_err(|error| unreadable(&error))?;
        let (execution, mut begun, _) = whole.ok_or_else(missing)?;
        let spec = Arc::clone(&execution.head.spec);
        if execution.head.erased_at.is_some() {
            let why = format!("the texts of execution {id} were erased: there is nothing to fork");
            return Err(Error::InvalidState(why));
        }
        let input = if let Some(input) = fork.input {
            input
        } else {
            let input = begun.take_input(store, environment).await;
            input.map_err(|error| unreadable(&error))?
        };
        let Spec { fail_fast, timeout_ms, max_cost, .. } = *spec;
        let options = Options { timeout_ms, max_cost, fail_fast };
        let plan = self.plan(environment, caller, spec.plan).await?;
        let named = Named {
            tags: spec.tags.clone(),
            callback_url: spec.callback_url.clone(),
            labels: spec.labels.as_deref().cloned().unwrap_or_default(),
        };
        let hitl = begun.terms.hitl.clone();
        let start = Start { input, hitl, options, start_at: None, named: named.clone() };
        let (runs, prepared) = match (fork.version, plan.deployed.clone()) {
            (None, _) => {
                let prepared = self.of_plan(owner, plan, start).await?;
                (Runs::Plan(spec.plan, prepared.template.clone()), prepared)
            }
            (Some(version), Some(deployed)) => {
                let (models, queues) = (deployed.models.clone(), deployed.queues.clone());
                let start = Start { hitl: deployed.hitl.clone(), ..start };
                let deploy = Deploy { start, version: Some(version), models, queues };
                let template = deployed.template.clone();
                let (deployed, prepared) =
                    self.prepared(environment, caller, &template, deploy).await?;
                (Runs::Deployed(deployed), prepared)
            }
            (Some(_), None) => {
                let message = "version applies to the execution of a template only";
                return Err(Error::invalid("version", Rule::Unknown, message));
            }
        };
        if let Some(step) = &fork.from_step
            && prepared.compiled.plan.position(step).is_none()
        {
            let message = format!("fromStep names no step of the plan: {step}");
            return Err(Error::invalid("fromStep", Rule::Step, message));
        }
        let forked_from = Box::new(ForkedFrom { execution: id, from_step: fork.from_step });
        let occurrence = spec.occurrence.clone();
        Ok(Checked { runs, prepared, options, forked_from, occurrence, named })
    }

    /// The steps that a fork would take over whole, and the texts of those that would begin at once. Plays
    /// its first units, and keeps nothing.
    async fn known(
        &self,
        owner: &Owner,
        Checked { prepared, options, forked_from, occurrence, named, .. }: &Checked,
    ) -> Result<KnownFork, Error> {
        let (node, environment, now) = (&*self.node, owner.environment, self.node.now());
        let Prepared { compiled, review, input, template, .. } = prepared;
        let (partition, number) = (0, node.fresh_id(now, 0));
        let id = ExecutionId::from_u128(number);
        let spec = Spec {
            id,
            plan: PlanId::from_u128(number),
            template: template.clone(),
            account: owner.id.clone(),
            tags: named.tags.clone(),
            callback_url: None,
            labels: None,
            idempotency_key: None,
            fail_fast: options.fail_fast,
            timeout_ms: None,
            max_cost: None,
            output_checked: compiled.checked(),
            start_at: None,
            forked_from: None,
            occurrence: occurrence.clone(),
            row_of: None,
            created_at: now,
            trace: None,
        };
        let original = fork::Original::of(node, environment, forked_from).await;
        let original = original.map_err(|_| Error::Unavailable("the store cannot be read"))?;
        let defaults = node.task_defaults(environment);
        let (compiled, review, input) = (Arc::clone(compiled), review.clone(), input.clone());
        let about = About::from(&spec);
        let first = Execution::started(spec, Arc::clone(&compiled.graph), now);
        let program = Arc::new(Program::new(about, compiled, review, input, defaults));
        let sources = NodeSources::of(node, environment, partition);
        let mut sources = NodeSources { reserved: Reservation::dry(), ..sources };
        let mut outputs = Outputs::default();
        let (mut state, mut known) = (first.next.clone(), KnownFork::default());
        let mut builder = UnitBuilder::first(&program, first, now);
        for _ in 0..MOST_UNITS {
            while let Some(due) = builder.due() {
                let mut records = Vec::new();
                let (of, out) = ((&program, original.as_ref()), (&mut outputs, &mut records));
                fork::decide(node, environment, of, (&mut builder, due), out, &mut sources)
                    .await
                    .map_err(|_| Error::Internal)?;
            }
            state = builder.state().clone();
            for change in builder.done(&mut sources).changes {
                let Change::NewTask(step, inputs) = change else { continue };
                let spec = &step.next.spec;
                if let (Some((_, name)), None) = (&spec.origin.step, spec.origin.item) {
                    known.asked.insert(name.clone(), inputs.tokens());
                }
            }
            if !state.has_due() {
                break;
            }
            builder = UnitBuilder::of(&program, &state, now);
        }
        let is_over = |row: &StepState| row.stage == Stage::Completed;
        let over = state.steps().filter(|(_, row)| is_over(row));
        known.reused = over.map(|(step, _)| state.graph().name(step).to_owned()).collect();
        Ok(known)
    }
}
