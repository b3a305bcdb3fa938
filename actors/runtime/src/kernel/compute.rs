//! Long computations on callers' data: a few threads, which the projects share, and in each its accounts.
//!
//! ```text
//!   project 1: account A  ▢▢▢▢▢▢▢▢ ─┐
//!              account B  ▢ ────────┼─▶ the project that used the least time lately, and of its accounts
//!   project 2: account C  ▢▢ ───────┘   the one that did ─▶ thread, thread, …
//! ```
//!
//! A condition, a schema, a body of megabytes: each is bounded (`callboard_domain::fuel`, `callboard_domain::cost`),
//! and work of more than about a millisecond runs here, a few at a time. An account that computes seldom waits for the
//! computation that runs, and for none of those that wait of an account with many. The actor that needs a result waits
//! for it and handles nothing meanwhile, so the order of its events stays.

mod pool;

use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::execution::Due;
use callboard_domain::execution::program::{Effort, Evaluation, Outputs, Program, check_output};
use callboard_domain::id::Environment;
use callboard_domain::schema::Schema;
use callboard_domain::task::{OutputFault, Task};
use callboard_domain::unit::{self, UnitBuilder};
use tokio::task::JoinError;

use crate::kernel::environments::Environments;

pub(crate) use pool::Weight;
use pool::{ComputePermit, Pool};

/// The threads of long computations; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Compute(Arc<Pool>);

impl Compute {
    pub(crate) fn new(environments: Arc<Environments>) -> Self {
        Self(Arc::new(Pool::of_processors(environments)))
    }

    /// Runs a computation for what was accepted before, on a thread of its own once it is the turn of
    /// `account`.
    ///
    /// # Errors
    /// The computation panicked, or the process is stopping.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        environment: Environment,
        account: &str,
        computation: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        on_thread(self.0.owed(environment.slot(), account).await, computation).await
    }

    /// Runs a computation that a request asks for, on a thread of its own once it is the turn of
    /// `account`; or here and now, if it is brief and `weight` is `None`.
    ///
    /// # Errors
    /// [`Error::TooMuchWaits`] if the account has too much that waits, [`Error::Unavailable`] if all
    /// accounts together have; [`Error::Internal`] if the computation panicked.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        environment: Environment,
        account: &str,
        weight: Option<impl Into<Weight>>,
        computation: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let Some(weight) = weight else { return Ok(computation()) };
        let turn = self.0.asked(environment.slot(), account, weight)?.await;
        on_thread(turn, computation).await.map_err(|_| Error::Internal)
    }

    /// Checks an output against a schema, as [`check_output`] does: here and now if that is brief,
    /// else on a thread of its own.
    ///
    /// # Errors
    /// Those of [`Self::run`].
    pub(crate) async fn check(
        &self,
        environment: Environment,
        account: &str,
        schema: &Schema,
        output: &str,
    ) -> Result<Result<Option<String>, String>, JoinError> {
        if let Some(checked) = check_output(schema, output, Effort::Brief) {
            return Ok(checked);
        }
        let (schema, output) = (schema.clone(), output.to_owned());
        let work =
            self.run(environment, account, move || check_output(&schema, &output, Effort::Full));
        let checked = Box::pin(work).await?;
        Ok(checked.expect("a full check always ends"))
    }

    /// Checks the answer that an event is for a task whose output must match `schema`. Returns the
    /// event, with a repaired output if one was needed, and the fault. `longest` is the longest output
    /// of another attempt ([`Task::longest_of_attempt`]).
    ///
    /// # Errors
    /// Those of [`Self::run`].
    pub(crate) async fn check_answer(
        &self,
        environment: Environment,
        schema: &Schema,
        task: &Task,
        event: unit::Event,
        longest: Option<u64>,
    ) -> Result<(unit::Event, Option<OutputFault>), JoinError> {
        let Some(answer) = event.answer_to_check(task) else { return Ok((event, None)) };
        if answer.is_cut {
            return Ok((event, Some(OutputFault::truncated(task.max_tokens(), longest))));
        }
        Ok(match self.check(environment, &task.spec.account, schema, answer.output).await? {
            Ok(None) => (event, None),
            Ok(Some(text)) => (event.repaired(text), None),
            Err(mismatch) => (event, Some(OutputFault::Mismatch(mismatch))),
        })
    }

    /// Evaluates a due step or item: here and now if that is brief, else on a thread of its own.
    ///
    /// # Errors
    /// Those of [`Self::run`].
    pub(crate) async fn evaluate(
        &self,
        environment: Environment,
        program: &Arc<Program>,
        builder: &mut UnitBuilder<'_>,
        due: Due,
        outputs: &mut Outputs,
    ) -> Result<Evaluation, JoinError> {
        if let Some(evaluation) = builder.evaluate(due, outputs) {
            return Ok(evaluation);
        }
        builder.evaluated_fully();
        let (program, state) = (Arc::clone(program), builder.state().clone());
        let (spec, lent) = (Arc::clone(&state.head.spec), std::mem::take(outputs));
        let work = move || (program.evaluate(due, &state, &lent, Effort::Full), lent);
        // Boxed: most evaluations are brief.
        let (evaluation, lent) = Box::pin(self.run(environment, &spec.account, work)).await?;
        *outputs = lent;
        Ok(evaluation.expect("a full evaluation always ends"))
    }
}

/// The niceness of computations: threads that answer requests come first.
const NICE: i32 = 5;

/// Runs a computation on a thread. The computation holds its turn, not the caller, who may leave before
/// the end.
async fn on_thread<T: Send + 'static>(
    turn: ComputePermit,
    computation: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    let held = move || {
        let _turn = turn;
        computation()
    };
    tokio::task::spawn_blocking(move || giving_way(held)).await
}

/// Runs a computation on a thread that gives way to others. It is a new one, as a thread cannot go back.
fn giving_way<T: Send>(computation: impl FnOnce() -> T + Send) -> T {
    let nice = move || {
        // Without it, the computation is as quick as requests.
        let _ = rustix::process::setpriority_process(None, NICE);
        computation()
    };
    std::thread::scope(|threads| match threads.spawn(nice).join() {
        Ok(computed) => computed,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
