//! Long computations on callers' data, on threads that no request waits for.
//!
//! A condition, a schema, a prompt of a megabyte: each is bounded (`callboard_domain::fuel`), and work of
//! more than about a millisecond runs here, a few at a time, in the order of arrival. The
//! actor that needs the result waits for it and handles nothing meanwhile, so the order of its events
//! stays. Deliberately absent: the bounds, which are the domain's.

use std::sync::Arc;
use std::thread::available_parallelism;

use callboard_domain::execution::Due;
use callboard_domain::execution::program::{Effort, Evaluation, Outputs, Program, check_output};
use callboard_domain::schema::Schema;
use callboard_domain::task::{OutputFault, Task};
use callboard_domain::unit::{self, Joint};
use tokio::sync::Semaphore;
use tokio::task::JoinError;

/// The threads of long computations.
#[derive(Debug)]
pub(crate) struct Compute(Semaphore);

impl Default for Compute {
    /// All processors but one, which is left to requests.
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        Self(Semaphore::new((processors - 1).max(1)))
    }
}

impl Compute {
    /// Runs a computation on a thread of its own, once it is its turn.
    ///
    /// # Errors
    /// The computation panicked, or the process is stopping.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        computation: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let _turn = self.0.acquire().await.expect("the semaphore is never closed");
        tokio::task::spawn_blocking(computation).await
    }

    /// Runs a computation here and now if it is brief, else on a thread of its own.
    ///
    /// # Errors
    /// Those of [`Self::run`].
    pub(crate) async fn run_unless<T: Send + 'static>(
        &self,
        is_brief: bool,
        computation: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        if is_brief { Ok(computation()) } else { self.run(computation).await }
    }

    /// Checks an output against a schema, as [`check_output`] does: here and now if that is brief,
    /// else on a thread of its own.
    ///
    /// # Errors
    /// Those of [`Self::run`].
    pub(crate) async fn check(
        &self,
        schema: &Schema,
        output: &str,
    ) -> Result<Result<Option<String>, String>, JoinError> {
        if let Some(checked) = check_output(schema, output, Effort::Brief) {
            return Ok(checked);
        }
        let (schema, output) = (schema.clone(), output.to_owned());
        let work = self.run(move || check_output(&schema, &output, Effort::Full));
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
        schema: &Schema,
        task: &Task,
        event: unit::Event,
        longest: Option<u64>,
    ) -> Result<(unit::Event, Option<OutputFault>), JoinError> {
        let Some(answer) = event.answer_to_check(task) else { return Ok((event, None)) };
        if answer.is_cut {
            return Ok((event, Some(OutputFault::truncated(task.max_tokens(), longest))));
        }
        Ok(match self.check(schema, answer.output).await? {
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
        program: &Arc<Program>,
        joint: &mut Joint<'_>,
        due: Due,
        outputs: &mut Outputs,
    ) -> Result<Evaluation, JoinError> {
        if let Some(evaluation) = joint.evaluate(due, outputs) {
            return Ok(evaluation);
        }
        joint.evaluated_fully();
        let (program, state) = (Arc::clone(program), joint.state().clone());
        let lent = std::mem::take(outputs);
        let work = self.run(move || (program.evaluate(due, &state, &lent, Effort::Full), lent));
        // Boxed: most evaluations are brief.
        let (evaluation, lent) = Box::pin(work).await?;
        *outputs = lent;
        Ok(evaluation.expect("a full evaluation always ends"))
    }
}
