//! The rows by which operators control the work: settings of queues, and budgets.

use callboard_domain::Timestamp;
use callboard_domain::budget::Money;
use callboard_domain::id::{BudgetId, Environment};
use callboard_domain::queue::QueueSettings;
use callboard_domain::spending::Budget;
use callboard_store::Op;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::QUEUES;

/// A queue with settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QueueRow {
    /// The queue's name.
    pub(crate) name: String,
    /// The queue's settings.
    pub(crate) settings: QueueSettings,
}

/// A queue as a change of its settings left it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueChanged {
    /// The queue's name.
    #[serde(rename = "q")]
    pub name: String,
    /// The queue's settings.
    #[serde(rename = "s")]
    pub settings: QueueSettings,
}

/// A budget, and the amount spent since the beginning of a period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct BudgetRow {
    pub(crate) budget: Budget,
    /// The beginning of the period.
    pub(crate) since: Timestamp,
    /// The costs, except those that stand in rows of their own.
    pub(crate) spent: Money,
}

/// The cost of one result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpentRow {
    /// The time of the result.
    #[serde(rename = "t")]
    pub(crate) at: Timestamp,
    #[serde(rename = "c")]
    pub(crate) cost: Money,
    /// The budgets that the cost counts for.
    #[serde(rename = "b")]
    pub(crate) budgets: Vec<BudgetId>,
}

/// A budget of which a threshold was passed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BudgetEvent {
    /// The budget.
    pub budget: Budget,
    /// The beginning of the period.
    pub since: Timestamp,
    /// The costs in the period.
    pub spent: Money,
    /// The share of the limit that was passed; `None` for the limit itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}

/// The row of a queue; settings that change nothing have none.
pub(crate) fn queue_row(environment: Environment, name: &str, settings: QueueSettings) -> Op {
    let (number, key) = (environment.number(), key(name));
    if settings.is_default() {
        return QUEUES.delete(number, &key);
    }
    QUEUES.put(number, &key, &QueueRow { name: name.to_owned(), settings }, None)
}

fn key(name: &str) -> [u8; 16] {
    let mut key = [0; 16];
    key.copy_from_slice(&Sha256::digest(name.as_bytes())[..16]);
    key
}
