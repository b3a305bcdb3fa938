//! The rows of the items of `forEach` steps, and their lists.
//!
//! ```text
//!   a list   one text of the execution, written in the commit in which the step begins
//!   an item  one row, written when it changes; none before it is dispatched
//! ```
//!
//! Deliberately absent: the counts of the items, which stand in their step's row.

use callboard_domain::execution::{Execution, StepState};
use callboard_domain::id::{Environment, ExecutionId};
use callboard_domain::plan::MAX_MAPS;
use callboard_domain::unit::FrozenList;
use callboard_store::{Error, Op, Store};
use serde_json::Value;

use super::{ITEMS, TEXTS, text};

/// The number of an item among all of its execution.
const fn number(step: u16, item: u16) -> u32 {
    (step as u32) << 16 | item as u32
}

/// The step and the item of a number.
#[expect(clippy::cast_possible_truncation, reason = "each half is taken")]
const fn place(number: u32) -> (u16, u16) {
    ((number >> 16) as u16, number as u16)
}

/// The rows of the items that changed since `before`.
pub(super) fn rows<'e>(
    environment: Environment,
    before: Option<&'e Execution>,
    next: &'e Execution,
) -> impl Iterator<Item = Op> + 'e {
    let id = next.head.spec.id.as_u128();
    next.items_changed_since(before).map(move |(step, item, row)| {
        ITEMS.put(environment.number(), &(id, number(step, item)), row, None)
    })
}

pub(super) fn list_rows(environment: Environment, list: &FrozenList) -> Vec<Op> {
    let id = list.execution.as_u128();
    TEXTS.put(environment.number(), id, text::LIST + list.number, &list.items)
}

/// The list of this number, as it was when its step began.
pub(crate) async fn list(
    store: &dyn Store,
    environment: Environment,
    id: ExecutionId,
    number: u8,
) -> Result<Vec<Value>, Error> {
    let damaged =
        |reason: String| Error::Corrupt { path: format!("list {number} of {id}"), reason };
    let list = TEXTS.get(store, environment.number(), id.as_u128(), text::LIST + number).await?;
    let list = list.ok_or_else(|| damaged("it is missing".into()))?;
    serde_json::from_str(&list).map_err(|error| damaged(error.to_string()))
}

/// The execution with its items.
pub(crate) async fn with_items(
    store: &dyn Store,
    environment: Environment,
    execution: Execution,
) -> Result<Execution, Error> {
    if !execution.has_items() {
        return Ok(execution);
    }
    let id = execution.head.spec.id;
    let rows = all(store, environment, id).await?;
    whole(execution, rows)
}

/// The execution with these rows of its items.
pub(crate) fn whole(
    execution: Execution,
    rows: Vec<(u16, u16, StepState)>,
) -> Result<Execution, Error> {
    let id = execution.head.spec.id;
    execution.with_items(rows).map_err(|error| Error::Corrupt {
        path: format!("items of {id}"),
        reason: error.to_string(),
    })
}

/// The rows of all items of an execution: step, item, row.
pub(crate) async fn all(
    store: &dyn Store,
    environment: Environment,
    id: ExecutionId,
) -> Result<Vec<(u16, u16, StepState)>, Error> {
    let (first, last) = ((id.as_u128(), 0), (id.as_u128(), u32::MAX));
    let rows = ITEMS.range(store, environment.number(), &first, &last).await?;
    let whole = |((_, number), row): ((u128, u32), StepState)| {
        let (step, item) = place(number);
        (step, item, row)
    };
    Ok(rows.into_iter().map(whole).collect())
}

/// The bytes of the lists of an execution.
pub(crate) async fn stored_lists(
    store: &dyn Store,
    environment: Environment,
    id: ExecutionId,
) -> Result<usize, Error> {
    let mut bytes = 0;
    if all(store, environment, id).await?.is_empty() {
        return Ok(bytes);
    }
    for number in (0..).take(MAX_MAPS) {
        let (environment, field) = (environment.number(), text::LIST + number);
        let length = TEXTS.stored_length(store, environment, id.as_u128(), field).await?;
        bytes += length.unwrap_or_default() as usize;
    }
    Ok(bytes)
}

/// The removal of all items of an execution.
pub(crate) async fn removal(
    store: &dyn Store,
    environment: Environment,
    id: u128,
) -> Result<Vec<Op>, Error> {
    let number = environment.number();
    let rows = ITEMS.range(store, number, &(id, 0), &(id, u32::MAX)).await?;
    Ok(rows.iter().map(|(key, _)| ITEMS.delete(number, key)).collect())
}
