//! Signals to executions.

use std::sync::Arc;

use callboard_domain::execution::program::CompiledPlan;
use callboard_domain::fuel::{Fuel, OutOfFuel};
use callboard_domain::id::{Environment, ExecutionId};
use callboard_domain::plan::payload_text;
use callboard_domain::problem::{Problem, Problems};
use callboard_domain::schema;
use callboard_domain::{Error, Rule};
use serde_json::Value;
use tokio::sync::oneshot;

use super::{COMMAND, Handle, within};
use crate::items::execution::{Address, Message};
use crate::messages::execution::Sending;
use crate::read::runs::Overview;
use crate::read::unreadable;
use crate::tables::executions;

/// A signal to an execution.
#[derive(Debug, Clone, PartialEq)]
pub struct SendSignal {
    /// The signal's name.
    pub name: String,
    /// The payload.
    pub payload: Value,
    /// True if the signal takes the place of a kept one that no step has used.
    pub replace: bool,
    /// The idempotency key.
    pub key: Option<String>,
}

impl Handle {
    /// Sends a signal of the account `by` to an execution; returns true if the signal had been sent
    /// before. After `Ok` the signal survives a power cut, and its wait goes on, or finds it when it
    /// begins.
    ///
    /// # Errors
    /// [`Error::NotFound`] for the execution, or if no step of it waits for such a signal,
    /// [`Error::InvalidDefinition`] if the payload does not match the schema of a wait,
    /// [`Error::InvalidState`], [`Error::IdempotencyKeyReused`], [`Error::Unavailable`].
    pub async fn signal(
        &self,
        environment: Environment,
        id: ExecutionId,
        by: &str,
        signal: SendSignal,
    ) -> Result<(Overview, bool), Error> {
        self.admit()?;
        let SendSignal { name, payload, replace, key } = signal;
        let compiled = self.plan_of_execution(environment, id).await?;
        if compiled.waits_for(&name).is_empty() {
            return Err(Error::not_found("signal", &name));
        }
        let text = payload_text(&payload);
        let key = key.map(|key| {
            let endpoint = format!("executions/{id}/signals/{name}");
            let mut key = self.key_of((environment, by), &endpoint, &key, &payload);
            // The row stands beside those of the execution, so that one commit holds both.
            key.scope[0] = id.partition();
            key
        });
        self.check_payload((environment, by), compiled, name.clone(), payload).await?;
        let (reply, answer) = oneshot::channel();
        let sending = Sending { name, payload: text, key, replace, reply };
        let address = Address { environment, execution: id };
        let executions = &self.node.shard(id.partition()).executions;
        executions.send(address, Message::Signal(Box::new(sending)));
        let replayed = within(COMMAND, answer).await??;
        Ok((self.overview(environment, id).await?, replayed))
    }

    async fn plan_of_execution(
        &self,
        environment: Environment,
        id: ExecutionId,
    ) -> Result<Arc<CompiledPlan>, Error> {
        let begun = executions::begun(self.node.store(), environment, id).await;
        let begun = begun.map_err(|error| unreadable(&error))?;
        let plan = begun.ok_or_else(|| Error::not_found("execution", id))?.spec.plan;
        let plan = self.node.plan(environment, plan).await.map_err(|error| unreadable(&error))?;
        plan.map(|known| Arc::clone(&known.compiled))
            .ok_or_else(|| Error::not_found("execution", id))
    }

    /// Checks a payload by the schema of every wait of the name, and by the output schema if a wait is
    /// the last step.
    async fn check_payload(
        &self,
        (environment, account): (Environment, &str),
        compiled: Arc<CompiledPlan>,
        name: String,
        payload: Value,
    ) -> Result<(), Error> {
        let is_checked = compiled.waits_for(&name).iter().any(|step| {
            let wait = compiled.plan.steps().get(usize::from(step)).and_then(|it| it.wait());
            let by_plan = compiled.output_schema.is_some() && compiled.checked() == Some(step);
            by_plan || wait.is_some_and(|wait| wait.schema.is_some())
        });
        if !is_checked {
            return Ok(());
        }
        let bytes = payload_text(&payload).len();
        let check = move || {
            let mut fuel = Fuel::new(schema::FUEL);
            for step in compiled.waits_for(&name) {
                let wait = compiled.plan.steps().get(usize::from(step)).and_then(|it| it.wait());
                let Some(wait) = wait else { continue };
                if let Err(faults) = wait.check(&payload, &mut fuel)? {
                    return Ok(Err(faults));
                }
                if let Some(output) = compiled.output_schema.as_ref()
                    && compiled.checked() == Some(step)
                    && let Err(fault) = output.check_output(&payload_text(&payload), &mut fuel)?
                {
                    let says = format!("must match the outputSchema: {fault}");
                    return Ok(Err(vec![Problem::rule(Rule::Format, "payload", says)]));
                }
            }
            Ok(Ok(()))
        };
        let checked: Result<Result<(), Vec<Problem>>, OutOfFuel> =
            self.ask(environment, account, Some(bytes), check).await?;
        let message = "payload takes too many steps to check against its schema";
        let checked =
            checked.map_err(|OutOfFuel| Error::invalid("payload", Rule::Length, message))?;
        match checked {
            Ok(()) => Ok(()),
            Err(faults) => Problems::none_of(faults).map_err(Error::InvalidDefinition),
        }
    }
}
