//! The items of a `forEach` step: one task for each item of a list.
//!
//! ```text
//!   the step:  Ready ──▶ Dispatched ───────────────────────▶ Completed | Failed | …
//!                 Expand │ one row per item                 ▲ too few items can still complete,
//!                        ▼                                  │ or none is open
//!   an item:  Waiting ──▶ Dispatched ──▶ Completed | Failed | Rejected | Cancelled
//!                ▲             │
//!                └─────────────┘ the output did not match, once
//! ```
//!
//! An item's row has the form of a step's row. The step's own row holds the counts, so that a list of
//! executions reads no items. `onItemError: fail` is the case in which every item must complete.
//! Deliberately absent: the items' values, which are frozen beside the rows.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::rows::Rows;
use super::tally::Tally;
use super::{DispatchState, Execution, Stage, StepState};
use crate::budget::{Fit, Money};
use crate::graph::{ITEM_WORDS, StepSet};
use crate::id::TaskId;
use crate::names::names;
use crate::schema::structured_output;

/// The most items of a list.
pub const MAX_ITEMS: u16 = 1_000;

/// The part of a step's row about its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MapState {
    /// The length of the list.
    #[serde(rename = "n")]
    pub items: u16,
    /// The most tasks at once.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u16>,
    /// The number of items that must complete; all of them if no failure is tolerated.
    #[serde(rename = "m")]
    pub min_success: u16,
    /// The number of items that are dispatched.
    #[serde(rename = "o", default, skip_serializing_if = "is_zero")]
    pub dispatched: u16,
    /// The number of items that are completed.
    #[serde(rename = "d", default, skip_serializing_if = "is_zero")]
    pub completed: u16,
    /// The number of items that failed.
    #[serde(rename = "f", default, skip_serializing_if = "is_zero")]
    pub failed: u16,
    /// The number of items whose output a reviewer rejected.
    #[serde(rename = "r", default, skip_serializing_if = "is_zero")]
    pub rejected: u16,
    /// The number of items that were cancelled once they were dispatched.
    #[serde(rename = "x", default, skip_serializing_if = "is_zero")]
    pub cancelled: u16,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(number: &u16) -> bool {
    *number == 0
}

impl MapState {
    /// The most bytes of the row's JSON.
    pub(super) const JSON_BOUND: usize = 90;

    /// The number of items that ended otherwise than completed.
    pub(super) const fn bad(&self) -> u16 {
        self.failed + self.rejected + self.cancelled
    }

    /// True if the items that have not failed suffice for the step to complete.
    pub(super) const fn can_complete(&self) -> bool {
        self.items - self.bad() >= self.min_success
    }

    /// True if every item has ended.
    pub(super) const fn is_done(&self) -> bool {
        self.completed + self.bad() == self.items
    }
}

/// The list of a step that begins, and the settings for its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expansion {
    /// The length of the list; at most [`MAX_ITEMS`].
    pub items: u16,
    /// The most tasks at once.
    pub concurrency: Option<u16>,
    /// The number of items that must complete.
    pub min_success: u16,
    /// The highest cost of all items; `None` if the model has no price.
    pub worst_cost: Option<Money>,
}

/// The number of a step's items in each status; all but `awaiting_approval` sum to `total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ItemCounts {
    /// All items.
    pub total: u32,
    /// Items that have an output.
    pub completed: u32,
    /// Items whose task a worker holds.
    pub running: u32,
    /// Items not dispatched yet, or in a queue, in backoff, or with a reviewer.
    pub pending: u32,
    /// Items that failed for good.
    pub failed: u32,
    /// Items with an output that a reviewer rejected.
    pub rejected: u32,
    /// Items cancelled, or not begun when the step ended.
    pub cancelled: u32,
    /// The part of `pending` that waits for a reviewer.
    pub awaiting_approval: u32,
}

names! {
    /// The status of an item on the wire.
    ItemStatus {
        /// The item is not dispatched yet, or in a queue, in backoff, or with a reviewer.
        Pending = "pending",
        /// A worker holds the item's task.
        Running = "running",
        /// The item has an output.
        Completed = "completed",
        /// The item failed for good.
        Failed = "failed",
        /// The item was cancelled, or not begun when the step ended.
        Cancelled = "cancelled",
        /// A reviewer rejected the item's output.
        Rejected = "rejected",
    }
}

impl ItemStatus {
    /// The status of an item of this row; `has_ended` is of its step, `live` of its task.
    #[must_use]
    pub fn of(row: &StepState, has_ended: bool, live: Option<DispatchState>) -> Self {
        match row.stage {
            Stage::Waiting | Stage::Ready | Stage::Skipped if has_ended => Self::Cancelled,
            Stage::Waiting | Stage::Ready | Stage::Skipped => Self::Pending,
            Stage::Dispatched | Stage::Awaiting => match live {
                Some(DispatchState::Pending | DispatchState::AwaitingApproval) => Self::Pending,
                Some(DispatchState::Running) | None => Self::Running,
            },
            Stage::Completed => Self::Completed,
            Stage::Failed => Self::Failed,
            Stage::Rejected => Self::Rejected,
            Stage::Cancelled => Self::Cancelled,
        }
    }
}

/// A step, or an item of one, that waits for a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// The step.
    pub step: u16,
    /// The item, from 0; `None` for the step itself.
    pub item: Option<u16>,
}

/// The items of one step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Items {
    pub(super) rows: Rows,
    pub(super) tally: Tally<ITEM_WORDS>,
}

impl Items {
    /// A number of items, none of which is dispatched.
    pub(super) fn fresh(count: u16) -> Self {
        let rows: Rows = (0..count).map(|_| StepState::default()).collect();
        Self { tally: Tally::of(&rows), rows }
    }

    /// The row's counts, as the items are.
    pub(super) fn count(&self, map: &mut MapState) {
        let count = |stage| u16::try_from(self.tally.at(stage).len()).unwrap_or(u16::MAX);
        map.dispatched = count(Stage::Dispatched);
        map.completed = count(Stage::Completed);
        map.failed = count(Stage::Failed);
        map.rejected = count(Stage::Rejected);
        map.cancelled = count(Stage::Cancelled);
    }
}

/// A row of an item that no step of the execution has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("item {item} of step {step} is stored, and the step has no such item")]
pub struct UnknownItem {
    /// The step.
    pub step: u16,
    /// The item.
    pub item: u16,
}

impl Execution {
    /// The execution with the stored rows of its items; items without a row are not dispatched yet.
    ///
    /// # Errors
    /// An item that its step does not have.
    pub fn with_items(
        mut self,
        rows: impl IntoIterator<Item = (u16, u16, StepState)>,
    ) -> Result<Self, UnknownItem> {
        for (step, item, row) in rows {
            let items = self.items.get_mut(&step).map(Arc::make_mut);
            let items = items.filter(|items| items.rows.get(item).is_some());
            let items = items.ok_or(UnknownItem { step, item })?;
            self.head.budget.reserve(row.reserved);
            *items.rows.at(item) = row;
        }
        for (step, items) in &mut self.items {
            let items = Arc::make_mut(items);
            items.tally = Tally::of(&items.rows);
            if !items.tally.stopping.is_empty() {
                self.tally.stopping.insert(*step);
            }
        }
        Ok(self)
    }

    /// True if a step has items, whose rows [`Self::with_items`] takes.
    #[must_use]
    pub fn has_items(&self) -> bool {
        !self.items.is_empty()
    }

    /// The row of an item, if there is such an item.
    #[must_use]
    pub fn item(&self, step: u16, item: u16) -> Option<&StepState> {
        self.items.get(&step)?.rows.get(item)
    }

    /// The items of a step with their rows; none if it has no items.
    pub fn items(&self, step: u16) -> impl Iterator<Item = (u16, &StepState)> {
        self.items.get(&step).into_iter().flat_map(|items| items.rows.iter())
    }

    /// The rows of items that a commit has to write which leads here from `before`: step, item, row.
    pub fn items_changed_since<'a>(
        &'a self,
        before: Option<&'a Self>,
    ) -> impl Iterator<Item = (u16, u16, &'a StepState)> {
        self.items.iter().flat_map(move |(step, items)| {
            let known = before.and_then(|before| before.items.get(step));
            let changed = known.map(|known| items.rows.changed_since(&known.rows));
            let fresh = known.is_none().then(|| items.rows.iter());
            let fresh = fresh.into_iter().flatten().filter(|(_, row)| !row.is_untouched());
            changed.into_iter().flatten().chain(fresh).map(|(item, row)| (*step, item, row))
        })
    }

    /// The next step or item to decide; the first due step comes first.
    #[must_use]
    pub fn next_due(&self) -> Option<Due> {
        let step = self.due().first()?;
        Some(Due { step, item: self.due_item(step) })
    }

    /// The steps of which an item is due.
    pub(super) fn with_due_items(&self) -> StepSet {
        self.items.keys().copied().filter(|step| self.due_item(*step).is_some()).collect()
    }

    /// The next item of a step to be decided. An item that waits for budget holds back those after it.
    fn due_item(&self, step: u16) -> Option<u16> {
        let items = self.items.get(&step).filter(|_| self.has_place(step))?;
        match items.tally.held.first() {
            Some(item) => Some(item).filter(|item| !self.item_waits_for_budget(step, *item)),
            None => items.tally.at(Stage::Waiting).first(),
        }
    }

    /// True if one more item of a dispatched step may be dispatched.
    fn has_place(&self, step: u16) -> bool {
        let row = self.step(step).filter(|row| row.stage == Stage::Dispatched);
        let map = row.and_then(|row| row.map.as_ref());
        map.is_some_and(|map| map.concurrency.is_none_or(|most| map.dispatched < most))
    }

    /// True if the item waits for a decision.
    pub(super) fn is_item_open(&self, step: u16, item: u16) -> bool {
        let waits = |row: &StepState| row.stage == Stage::Waiting;
        self.has_place(step) && self.item(step, item).is_some_and(waits)
    }

    /// True if the item's worst case does not fit beside the reservations of running items.
    #[must_use]
    pub fn item_waits_for_budget(&self, step: u16, item: u16) -> bool {
        let held = self.item(step, item).and_then(|row| row.held);
        held.is_some_and(|worst| matches!(self.fit_item(step, Some(worst)).1, Fit::Later(_)))
    }

    /// The part of an item's worst case that is set aside for all items of the step, and the room that
    /// the item has once that is given back.
    pub(super) fn fit_item(&self, step: u16, worst: Option<Money>) -> (Money, Fit) {
        let set_aside = self.step(step).map_or(Money::ZERO, |row| row.reserved);
        let share = worst.map_or(Money::ZERO, |worst| worst.min(set_aside));
        let mut budget = self.head.budget.clone();
        budget.release(share);
        match budget.fit(self.head.spec.max_cost, worst) {
            // Only the end of a task releases a reservation for items of a list.
            Fit::Later(_) if self.out().next().is_none() => (share, Fit::Never),
            fit @ (Fit::Now(_) | Fit::Later(_) | Fit::Never | Fit::Unpriced) => (share, fit),
        }
    }

    /// The task of a dispatched item.
    pub(super) fn current_item(&self, step: u16, item: u16) -> Option<TaskId> {
        self.item(step, item).filter(|row| row.stage == Stage::Dispatched).and_then(|row| row.task)
    }

    /// The dispatched items with their tasks: step, item, task.
    pub(super) fn items_out(&self) -> impl Iterator<Item = (u16, u16, TaskId)> {
        self.items.iter().flat_map(move |(step, items)| {
            let out = items.tally.at(Stage::Dispatched).iter();
            out.filter_map(move |item| Some((*step, item, self.current_item(*step, item)?)))
        })
    }

    /// Tasks of items that were let go of and have not reported their end, with their steps.
    pub(super) fn items_stopping(&self) -> impl Iterator<Item = (u16, TaskId)> {
        self.items.iter().flat_map(|(step, items)| {
            let rows = items.tally.stopping.iter().filter_map(|item| items.rows.get(item));
            rows.flat_map(move |row| row.stopping.iter().map(move |task| (*step, *task)))
        })
    }

    /// The number of a step's items in each status, each counted once by its own row, so that the numbers sum
    /// to `total` although the step's row was read at another instant; `None` if the step has no items. The
    /// items were read ([`Self::with_items`]); `live` gives a task's state.
    #[must_use]
    pub fn item_counts(
        &self,
        step: u16,
        live: impl Fn(TaskId) -> DispatchState,
    ) -> Option<ItemCounts> {
        let row = self.step(step)?;
        let map = row.map.as_ref()?;
        let has_ended = row.stage != Stage::Dispatched;
        let mut counts = ItemCounts { total: map.items.into(), ..ItemCounts::default() };
        for (_, item) in self.items(step) {
            let live = item.task.filter(|_| item.stage == Stage::Dispatched).map(&live);
            let count = match ItemStatus::of(item, has_ended, live) {
                ItemStatus::Pending => &mut counts.pending,
                ItemStatus::Running => &mut counts.running,
                ItemStatus::Completed => &mut counts.completed,
                ItemStatus::Failed => &mut counts.failed,
                ItemStatus::Cancelled => &mut counts.cancelled,
                ItemStatus::Rejected => &mut counts.rejected,
            };
            *count += 1;
            counts.awaiting_approval += u32::from(live == Some(DispatchState::AwaitingApproval));
        }
        Some(counts)
    }
}

/// The most bytes of a step's output that are put together from its items. A prompt and the parsed part of
/// an output are no longer, so the rest is never used.
pub const MAX_OUTPUT: usize = (1 << 20) + 1;

/// The output of a step: the JSON array of its items' outputs, null for those that have none. The value of a
/// function stands as such, and so does an output of a prompt that is a JSON object or array; any other is a string.
#[derive(Debug)]
pub struct ItemOutputs {
    array: String,
    whole: bool,
}

impl Default for ItemOutputs {
    fn default() -> Self {
        Self { array: "[".into(), whole: true }
    }
}

impl ItemOutputs {
    /// Adds the value of the next item, as its JSON. False as [`Self::push`] is.
    pub fn push_json(&mut self, json: &str) -> bool {
        if self.array.len() > 1 {
            self.array.push(',');
        }
        self.array.push_str(json);
        self.whole = self.array.len() < MAX_OUTPUT;
        self.whole
    }

    /// Adds the next item's output. False if the array is too long now; later items are not needed.
    pub fn push(&mut self, output: Option<&str>) -> bool {
        let Some(text) = output else { return self.push_json("null") };
        match structured_output(text) {
            Some(structure) => self.push_json(&structure),
            None => self.push_json(&serde_json::Value::from(text).to_string()),
        }
    }

    /// The array; an overlong one is cut at [`MAX_OUTPUT`] bytes or little before, and is no JSON.
    #[must_use]
    pub fn done(mut self) -> String {
        if self.whole {
            self.array.push(']');
        } else {
            let end = self.array.floor_char_boundary(MAX_OUTPUT + 4);
            self.array.truncate(end);
        }
        self.array
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(outputs: &[Option<&str>]) -> String {
        let mut array = ItemOutputs::default();
        for output in outputs {
            array.push(*output);
        }
        array.done()
    }

    #[test]
    fn structures_stand_as_json_and_all_else_as_strings() {
        assert_eq!(array(&[]), "[]");
        let outputs = [Some(" {\"a\": 1}\n"), None, Some("null"), Some("4"), Some("[1"), Some("")];
        let found = array(&outputs);
        assert_eq!(found, r#"[{"a": 1},null,"null","4","[1",""]"#);
        let parsed: serde_json::Value = serde_json::from_str(&found).expect("JSON");
        assert_eq!(parsed.as_array().map(Vec::len), Some(6));
    }

    #[test]
    fn a_structure_is_repaired_and_prose_around_one_is_kept() {
        let fenced = "<think>hm</think>\n```json\n{\"a\": 1,}\n```";
        let prose = "It is {\"a\": 1}";
        assert_eq!(array(&[Some(fenced), Some(prose)]), r#"[{"a": 1},"It is {\"a\": 1}"]"#);
    }

    #[test]
    fn an_array_that_nobody_could_use_is_cut() {
        let mut outputs = ItemOutputs::default();
        let text = "ü".repeat(300_000);
        assert!(outputs.push(Some(&text)));
        assert!(!outputs.push(Some(&text)));
        let cut = outputs.done();
        assert!((MAX_OUTPUT..MAX_OUTPUT + 5).contains(&cut.len()), "{}", cut.len());
    }

    #[test]
    fn the_row_of_a_map_is_short() {
        let all = u16::MAX;
        let map = MapState {
            items: all,
            concurrency: Some(all),
            min_success: all,
            dispatched: all,
            completed: all,
            failed: all,
            rejected: all,
            cancelled: all,
        };
        let json = serde_json::to_string(&map).expect("JSON");
        assert!(json.len() <= MapState::JSON_BOUND, "{json}");
    }
}
