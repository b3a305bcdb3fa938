//! The usage of tasks, in groups.
//!
//! The figures come from the stored tasks, so removed tasks do not count. Deliberately absent:
//! sums that are kept; a task that no query asks about pays nothing.

use std::collections::{BTreeMap, BTreeSet};

use callboard_domain::budget::Money;
use callboard_domain::id::{Environment, TaskId};
use callboard_domain::query::Instants;
use callboard_domain::spending::day_of;
use callboard_domain::task::Task;
use callboard_domain::{Error, Rule, Timestamp};
use callboard_store::{Filter, Order, Query, Store};

use super::{TOGETHER, approvals, together};
use crate::read::unreadable;
use crate::tables::{self, sort, term};

/// The most tasks that one request looks at.
pub const MAX_TASKS: u64 = if cfg!(test) { 5 } else { 100_000 };
/// The most groups of an answer: those of the highest cost.
pub const MAX_GROUPS: usize = 1_000;
/// The number of tasks that are read before others have their turn.
const PAGE: usize = 200;

/// The property by which tasks are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupBy {
    /// Each tag; a task counts for all of its own.
    Tag,
    /// The account that submitted the task.
    Account,
    /// The template of the task's execution.
    Template,
    /// The model that answered.
    Model,
    /// The day of the spending, in a time zone.
    Day,
    /// The rest of each tag that begins with a text and a colon.
    TagKey,
}

/// A question after usage.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The property.
    pub group_by: GroupBy,
    /// The time zone of the days.
    pub zone: String,
    /// The beginning of the tags, without the colon, for [`GroupBy::TagKey`].
    pub tag_key: String,
    /// The first instant.
    pub from: Timestamp,
    /// The end of the instants, exclusive.
    pub to: Timestamp,
}

impl GroupBy {
    /// Every property.
    pub const ALL: [Self; 6] =
        [Self::Tag, Self::Account, Self::Template, Self::Model, Self::Day, Self::TagKey];

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tag => "tag",
            Self::Account => "account",
            Self::Template => "template",
            Self::Model => "model",
            Self::Day => "day",
            Self::TagKey => "tagKey",
        }
    }
}

impl Asked {
    /// The groups of a task; `None` for a task that has no tag or template.
    fn keys(&self, task: &Task, spent_at: Timestamp) -> Vec<Option<String>> {
        let spec = &task.spec;
        match self.group_by {
            GroupBy::Tag => each(spec.tags.iter().map(String::as_str)),
            GroupBy::TagKey => {
                let of_key = |tag: &'_ str| {
                    let rest = tag.strip_prefix(self.tag_key.as_str())?.strip_prefix(':')?;
                    Some(rest.to_owned())
                };
                let rests: Vec<_> = spec.tags.iter().filter_map(|tag| of_key(tag)).collect();
                each(rests.iter().map(String::as_str))
            }
            GroupBy::Account => vec![Some(spec.account.clone())],
            GroupBy::Template => vec![spec.origin.template.clone()],
            GroupBy::Model => vec![Some(task.model().to_owned())],
            GroupBy::Day => vec![Some(day_of(spent_at, &self.zone))],
        }
    }
}

/// Each of some texts once; `None` if there is none.
fn each<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<Option<String>> {
    let texts: BTreeSet<_> = texts.map(str::to_owned).collect();
    if texts.is_empty() { vec![None] } else { texts.into_iter().map(Some).collect() }
}

/// The sum of some tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum {
    /// Tasks with a result.
    pub tasks: u64,
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Costs.
    pub cost: Money,
    /// True if a model had no price: its costs are missing.
    pub price_unknown: bool,
}

/// The usage, in groups.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usages {
    /// The groups, the highest cost first.
    pub groups: Vec<(Option<String>, Sum)>,
    /// True if groups are missing, because there are too many.
    pub truncated: bool,
    /// All tasks, each once.
    pub total: Sum,
}

impl Sum {
    fn add(&mut self, task: &Task) {
        let Some(usage) = task.result.as_ref().map(|result| result.usage) else { return };
        self.tasks += 1;
        self.input = self.input.saturating_add(usage.input);
        self.output = self.output.saturating_add(usage.output);
        self.cost += Money::from_usd(usage.total_cost);
        self.price_unknown |= usage.price_unknown;
    }
}

/// The usage of the calls whose results came within a time. A result that a reviewer holds counts from the
/// moment of the hold.
pub(crate) async fn of(
    store: &dyn Store,
    environment: Environment,
    asked: &Asked,
) -> Result<Usages, Error> {
    let Asked { from, to, .. } = *asked;
    let found =
        candidates(store, environment, from, to).await.map_err(|error| unreadable(&error))?;
    if found.len() as u64 > MAX_TASKS {
        let says = format!(
            "from and to must leave at most {MAX_TASKS} tasks, and leave {}: choose a shorter time",
            found.len()
        );
        return Err(Error::invalid("from", Rule::Range, says));
    }
    let (mut groups, mut total) = (BTreeMap::<_, Sum>::new(), Sum::default());
    for ids in found.chunks(PAGE) {
        let read = async |id: &u128| spent(store, environment, TaskId::from_u128(*id)).await;
        let found = together(TOGETHER, ids.iter().map(read)).await;
        for (task, at) in found.map_err(|error| unreadable(&error))? {
            if at < from || at >= to {
                continue;
            }
            total.add(&task);
            for key in asked.keys(&task, at) {
                groups.entry(key).or_default().add(&task);
            }
        }
        tokio::task::yield_now().await;
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.cost));
    let truncated = groups.len() > MAX_GROUPS;
    groups.truncate(MAX_GROUPS);
    Ok(Usages { groups, truncated, total })
}

/// The tasks that may have spent within a time: those that ended in it, those whose result was held in it, and those
/// that were cancelled after a paid attempt, of which the index does not know when.
async fn candidates(
    store: &dyn Store,
    environment: Environment,
    from: Timestamp,
    to: Timestamp,
) -> Result<Vec<u128>, callboard_store::Error> {
    let within = Instants { after: Some(from), before: Some(to) };
    let of_time = |value| tables::instants_filter(value, within).into_iter().collect();
    let tasks = tables::task_list(environment);
    let cancelled = vec![Filter::AnyOf(term::CANCELLED_PAID, vec![Box::from([])])];
    let mut found = BTreeSet::new();
    for (list, filters) in [
        (tasks, of_time(sort::COMPLETED_AT)),
        (tables::approval_list(environment), of_time(approvals::SINCE)),
        (tasks, cancelled),
    ] {
        let query = Query {
            list,
            filters,
            order: Order::Document,
            descending: false,
            offset: 0,
            limit: usize::try_from(MAX_TASKS).map_or(usize::MAX, |most| most + 1),
        };
        found.extend(store.query(&query).await?.documents);
    }
    Ok(found.into_iter().collect())
}

/// A task with a result, and the time of the result.
async fn spent(
    store: &dyn Store,
    environment: Environment,
    id: TaskId,
) -> Result<Option<(Task, Timestamp)>, callboard_store::Error> {
    let Some(task) = tables::task(store, environment, id).await?.map(|found| found.task) else {
        return Ok(None);
    };
    if task.result.is_none() {
        return Ok(None);
    }
    // A decision comes later than the result.
    let held = match task.spec.gate {
        Some(_) => tables::approvals::row(store, environment, id).await?,
        None => None,
    };
    let at = held.map(|row| row.held_at()).or_else(|| task.state.ended_at());
    Ok(at.map(|at| (task, at)))
}
