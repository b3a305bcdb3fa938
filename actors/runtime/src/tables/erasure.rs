//! The rows by which the texts of an ended task are erased.

use std::sync::Arc;

use callboard_domain::Timestamp;
use callboard_domain::id::Environment;
use callboard_domain::machine::Step;
use callboard_domain::task::Task;
use callboard_store::{Error, Op, Store};

use super::{TEXTS, approvals, event_words, tasks, text};

/// The rows that erase the texts of an ended task: its row without an output, its request
/// without its inputs, and no text beside them. `step` is [`Task::erased`]'s.
pub(crate) async fn erased(
    store: &dyn Store,
    environment: Environment,
    now: Timestamp,
    step: &Step<Task>,
) -> Result<Vec<Op>, Error> {
    let (number, spec) = (environment.number(), Arc::clone(&step.next.spec));
    let id = spec.id.as_u128();
    let mut ops = TEXTS.delete_all(store, number, id).await?;
    ops.extend(event_words::removal(store, environment, id, None).await?);
    // Nobody can tell any more whether a guess is what was submitted with an idempotency key.
    if let Some(batch) = spec.origin.batch {
        ops.extend(TEXTS.delete_all(store, number, batch.as_u128()).await?);
    }
    if let Some((execution, _)) = spec.origin.step {
        ops.extend(TEXTS.put(number, execution.as_u128(), text::KEY_SALT, ""));
    }
    ops.extend(approvals::relisted(store, environment, &spec).await?);
    let made = serde_json::to_string(&tasks::InputsRow { spec, inputs: None })
        .expect("it has a JSON form");
    ops.extend(TEXTS.put(number, id, text::MADE, &made));
    ops.extend(tasks::rows(environment, now, step, None));
    Ok(ops)
}
