//! The words of events that may quote an item's texts: the message of an error, the answer of a webhook's receiver.
//!
//! The records of the event log never change, so the words stand in rows of their own, by the item and its version.
//! An erasure deletes them, and the event then says so. Records of earlier versions hold their words themselves.

use callboard_domain::id::Environment;
use callboard_domain::task::{ERASED, Ending};
use callboard_store::table::Table;
use callboard_store::{Error, Op, Store};
use serde::{Deserialize, Serialize};

const EVENT_WORDS: Table<(u128, u16), Words> = Table::new(0x46, 1);

/// The words of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Words {
    #[serde(rename = "w")]
    text: String,
    /// The step of an execution whose task they may quote.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    step: Option<u16>,
}

/// The place of an event's words: its item, and a number that differs for each of the item's words.
pub(super) type Place = (u128, u64);

const fn key((item, number): Place) -> (u128, u16) {
    (item, (number & 0xffff) as u16)
}

/// Takes the words out of an error, into a row of their own.
pub(super) fn moved(
    environment: Environment,
    place: Place,
    error: &mut Ending,
    step: Option<u16>,
) -> Op {
    row(environment, place, std::mem::take(&mut error.message), step)
}

/// The row of words that stand by themselves.
pub(super) fn row(environment: Environment, place: Place, text: String, step: Option<u16>) -> Op {
    EVENT_WORDS.put(environment.number(), &key(place), &Words { text, step }, None)
}

/// Puts the words back that were moved.
pub(super) async fn put_back(
    store: &dyn Store,
    environment: Environment,
    place: Place,
    message: &mut String,
) -> Result<(), Error> {
    if message.is_empty() {
        let row = EVENT_WORDS.get(store, environment.number(), &key(place)).await?;
        *message = row.map_or_else(|| ERASED.to_owned(), |row| row.text);
    }
    Ok(())
}

/// Deletes the words of an item's events: all of them, or those that quote the task of this step.
pub(crate) async fn removal(
    store: &dyn Store,
    environment: Environment,
    item: u128,
    step: Option<u16>,
) -> Result<Vec<Op>, Error> {
    let number = environment.number();
    let found = EVENT_WORDS.range(store, number, &(item, 0), &(item, u16::MAX)).await?;
    let goes = |words: &Words| step.is_none() || words.step == step;
    let going = found.into_iter().filter(|(_, words)| goes(words));
    Ok(going.map(|(key, _)| EVENT_WORDS.delete(number, &key)).collect())
}
