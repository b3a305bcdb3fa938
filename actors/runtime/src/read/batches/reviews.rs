//! The outputs of a batch that have passed, and that no review was asked for: those to ask about, in an order.

use callboard_domain::Error as Refusal;
use callboard_domain::batch::{Batch, ReviewOrder, shuffled};
use callboard_domain::id::{Environment, TaskId};

use super::rows::{detail, unknown_field};
use super::{LOADED, Reader, survey};
use crate::read::{together, unreadable};
use crate::tables::batches;

/// The rows whose output of a step has passed without a review.
#[derive(Debug)]
pub(crate) struct Unreviewed {
    /// The number of the step.
    step: u16,
    /// The rows, those to ask about first.
    pub(crate) rows: Vec<u32>,
}

impl Unreviewed {
    /// The rows of a batch. `seed` shuffles them, if the order is a random one.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] for an unknown step or field; [`Refusal::Unavailable`] while the rows are read for the
    /// first time.
    pub(crate) async fn of(
        reader: Reader<'_>,
        environment: Environment,
        batch: &Batch,
        (step, field): (Option<&str>, Option<&str>),
        (order, seed): (ReviewOrder, u128),
    ) -> Result<Self, Refusal> {
        let step = survey::step_of(reader.node, environment, batch, step).await?;
        if let Some(field) = field {
            let known = reader.node.plan(environment, batch.plan).await;
            let known = known.map_err(|error| unreadable(&error))?.ok_or(Refusal::Internal)?;
            let declared = known.compiled.schema_of(step).and_then(|it| it.declared().ok());
            if let Some(declared) = declared.filter(|it| !it.is_empty() && !it.contains(&field)) {
                return Err(unknown_field(field, &declared));
            }
        }
        let survey = survey::of(reader, environment, batch, step).await?;
        let mut found: Vec<(Option<f64>, u32)> = {
            let survey = survey.result();
            let rows = survey.rows.iter().filter(|row| row.is_unreviewed);
            rows.map(|row| (row.confidence, row.number)).collect()
        };
        let rows = match order {
            ReviewOrder::Confidence => {
                // The least sure first, and those without a confidence last.
                let key = |of: Option<f64>| of.map_or(f64::INFINITY, |confidence| confidence);
                found.sort_by(|a, b| key(a.0).total_cmp(&key(b.0)).then(a.1.cmp(&b.1)));
                found.into_iter().map(|(_, row)| row).collect()
            }
            ReviewOrder::Random => shuffled(found.into_iter().map(|(_, row)| row).collect(), seed),
        };
        Ok(Self { step, rows })
    }

    /// The tasks whose outputs these rows have.
    ///
    /// # Errors
    /// [`Refusal::Unavailable`].
    pub(crate) async fn tasks(
        &self,
        reader: Reader<'_>,
        environment: Environment,
        batch: &Batch,
        rows: &[u32],
    ) -> Result<Vec<TaskId>, Refusal> {
        let node = reader.node;
        let read = async |number: &u32| {
            let row = batches::row(node.store(), environment, (batch.id, *number)).await?;
            let Some(row) = row else { return Ok(None) };
            let detail = detail(node, environment, batch, *number, row).await?;
            let found = detail.tasks.get(&self.step).filter(|found| found.approval.is_none());
            Ok(found.map(|found| found.task.spec.id))
        };
        together(LOADED, rows.iter().map(read)).await.map_err(|error| unreadable(&error))
    }
}
