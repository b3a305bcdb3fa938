//! The usage of tasks, in groups.
//!
//! The figures come from the stored tasks, so removed tasks do not count. Deliberately absent:
//! sums that are kept; a task that no query asks about pays nothing.

use std::collections::BTreeMap;

use callboard_domain::budget::Money;
use callboard_domain::id::{Environment, TaskId, first_at};
use callboard_domain::task::Task;
use callboard_domain::{Error, Rule, Timestamp};
use callboard_store::{Filter, Order, Query, Store};

use super::{TOGETHER, together};
use crate::handle::unreadable;
use crate::tables;

/// The most tasks that one request looks at.
pub const MAX_TASKS: u64 = 100_000;
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
    /// The day of the task's creation, in UTC.
    Day,
}

impl GroupBy {
    /// Every property.
    pub const ALL: [Self; 5] = [Self::Tag, Self::Account, Self::Template, Self::Model, Self::Day];

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tag => "tag",
            Self::Account => "account",
            Self::Template => "template",
            Self::Model => "model",
            Self::Day => "day",
        }
    }

    /// The groups of a task; `None` for a task that has no tag or template.
    fn keys(self, task: &Task) -> Vec<Option<String>> {
        let spec = &task.spec;
        match self {
            Self::Tag if spec.tags.is_empty() => vec![None],
            Self::Tag => {
                let mut tags = spec.tags.clone();
                tags.sort_unstable();
                tags.dedup();
                tags.into_iter().map(Some).collect()
            }
            Self::Account => vec![Some(spec.account.clone())],
            Self::Template => vec![spec.origin.template.clone()],
            Self::Model => vec![Some(task.model().to_owned())],
            Self::Day => vec![Some(spec.id.created_at().to_string()[..10].to_owned())],
        }
    }
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

pub(crate) async fn of(
    store: &dyn Store,
    environment: Environment,
    group_by: GroupBy,
    from: Timestamp,
    to: Timestamp,
) -> Result<Usages, Error> {
    let query = Query {
        list: tables::task_list(environment),
        filters: vec![Filter::Documents { from: Some(first_at(from)), to: Some(first_at(to)) }],
        order: Order::Document,
        descending: false,
        offset: 0,
        limit: usize::try_from(MAX_TASKS).unwrap_or(usize::MAX),
    };
    let page = store.query(&query).await.map_err(|error| unreadable(&error))?;
    if page.total > MAX_TASKS {
        let says = format!(
            "from and to must leave at most {MAX_TASKS} tasks, and leave {}: choose a shorter time",
            page.total
        );
        return Err(Error::invalid("from", Rule::Range, says));
    }
    let (mut groups, mut total) = (BTreeMap::<_, Sum>::new(), Sum::default());
    for ids in page.documents.chunks(PAGE) {
        let read = async |id: &u128| tables::task(store, environment, TaskId::from_u128(*id)).await;
        let found = together(TOGETHER, ids.iter().map(read)).await;
        let found = found.map_err(|error| unreadable(&error))?;
        for task in found.into_iter().map(|found| found.task).filter(|it| it.result.is_some()) {
            total.add(&task);
            for key in group_by.keys(&task) {
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
