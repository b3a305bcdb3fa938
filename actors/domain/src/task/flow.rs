//! Flow control of tasks: keys that few tasks share at a time, and keys that take turns.
//!
//! A concurrency key bounds the tasks that run with it; its conflict rule decides about one more
//! task. A fairness key takes turns with others of the same priority, by weight
//! ([`crate::queue`]). Both are texts of the caller's choice, shared by all accounts of an environment.
//! Deliberately absent: the count of running tasks, and the order of a queue.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::id::TaskId;
use crate::names::names;

/// The longest key, in characters.
pub const MAX_KEY: usize = 128;
/// The highest `concurrencyLimit`.
pub const MAX_KEY_LIMIT: u32 = 10_000;
/// The highest weight.
pub const MAX_WEIGHT: u8 = 100;

names! {
    /// The fate of one more task with a concurrency key that is used up.
    OnConflict {
        /// The task waits until another one ends.
        Queue = "queue",
        /// The task is refused; that of a step is cancelled.
        Reject = "reject",
        /// The oldest tasks of the key are cancelled.
        CancelRunning = "cancel_running",
    }
}

/// The flow control of a task.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// The key that few tasks share at a time.
    pub concurrency: Option<Concurrency>,
    /// The key that takes turns.
    pub fairness: Option<Fairness>,
}

/// A concurrency key and its rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Concurrency {
    /// The key.
    pub key: String,
    /// The task runs only while fewer tasks of the key do.
    pub limit: u32,
    /// The fate of this task, or of others, in a conflict.
    pub on_conflict: OnConflict,
}

/// A fairness key and its weight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fairness {
    /// The key.
    pub key: String,
    /// The share of the turns: 1 to 100.
    pub weight: u8,
}

/// The source of flow control: the members that the client set; also the stored form of a step's.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FlowSource {
    /// The concurrency key.
    pub concurrency_key: Option<String>,
    /// The most tasks of the key that may run at the same time; 1 by default.
    pub concurrency_limit: Option<u32>,
    /// The fate of one more task; it waits by default.
    pub on_conflict: Option<OnConflict>,
    /// The fairness key.
    pub fairness_key: Option<String>,
    /// The share of the turns; 1 by default.
    pub weight: Option<u8>,
}

impl From<&Flow> for FlowSource {
    fn from(Flow { concurrency, fairness }: &Flow) -> Self {
        let (concurrency, fairness) = (concurrency.as_ref(), fairness.as_ref());
        Self {
            concurrency_key: concurrency.map(|it| it.key.clone()),
            concurrency_limit: concurrency.map(|it| it.limit),
            on_conflict: concurrency.map(|it| it.on_conflict),
            fairness_key: fairness.map(|it| it.key.clone()),
            weight: fairness.map(|it| it.weight),
        }
    }
}

impl FlowSource {
    /// True if no member is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The members of this source, and those of `defaults` for the members that it leaves out.
    #[must_use]
    pub fn or(&self, defaults: &Self) -> Self {
        Self {
            concurrency_key: self.concurrency_key.clone().or(defaults.concurrency_key.clone()),
            concurrency_limit: self.concurrency_limit.or(defaults.concurrency_limit),
            on_conflict: self.on_conflict.or(defaults.on_conflict),
            fairness_key: self.fairness_key.clone().or(defaults.fairness_key.clone()),
            weight: self.weight.or(defaults.weight),
        }
    }

    /// The flow control that the source asks for; `None` without a key.
    #[must_use]
    pub fn flow(&self) -> Option<Flow> {
        let concurrency = self.concurrency_key.clone().map(|key| Concurrency {
            key,
            limit: self.concurrency_limit.unwrap_or(1),
            on_conflict: self.on_conflict.unwrap_or(OnConflict::Queue),
        });
        let fairness =
            self.fairness_key.clone().map(|key| Fairness { key, weight: self.weight.unwrap_or(1) });
        (concurrency.is_some() || fairness.is_some()).then_some(Flow { concurrency, fairness })
    }

    /// The keys that are missing beside members which mean nothing without them, each with its fault.
    #[must_use]
    pub fn missing(&self) -> Vec<(&'static str, &'static str)> {
        let mut missing = Vec::new();
        if self.concurrency_key.is_none() {
            if self.concurrency_limit.is_some() {
                missing.push(("concurrencyKey", "is required where concurrencyLimit is given"));
            } else if self.on_conflict.is_some() {
                missing.push(("concurrencyKey", "is required where onConflict is given"));
            }
        }
        if self.fairness_key.is_none() && self.weight.is_some() {
            missing.push(("fairnessKey", "is required where weight is given"));
        }
        missing
    }
}

/// A task that waits or runs with a concurrency key; one whose output waits for a reviewer is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The task.
    pub task: TaskId,
    /// The limit that the task names.
    pub limit: u32,
    /// The rule that the task names.
    pub on_conflict: OnConflict,
    /// True for a task of a step, whose submission cannot be refused.
    pub is_step: bool,
}

/// The tasks of one key to cancel; `members` ascend by creation. The newest task with the rule
/// `cancel_running` and those after it stay, and so do as many before it as its limit has room for,
/// the newest first. A step's task with the rule `reject` goes if as many stand before it as its limit.
#[must_use]
pub fn excess(members: &[Member]) -> Vec<TaskId> {
    let cancels = |member: &Member| member.on_conflict == OnConflict::CancelRunning;
    let newest = members.iter().rposition(cancels);
    let oldest = newest.map_or(0, |at| {
        let limit = usize::try_from(members[at].limit).unwrap_or(usize::MAX);
        (at + 1).saturating_sub(limit.max(1))
    });
    let (gone, rest) = members.split_at(oldest);
    let mut excess: Vec<_> = gone.iter().map(|member| member.task).collect();
    let mut kept = 0;
    for member in rest {
        if member.is_step && member.on_conflict == OnConflict::Reject && kept >= member.limit {
            excess.push(member.task);
        } else {
            kept += 1;
        }
    }
    excess
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn member(number: u128, limit: u32, on_conflict: OnConflict) -> Member {
        Member { task: TaskId::from_u128(number << 10), limit, on_conflict, is_step: false }
    }

    fn numbers(tasks: &[TaskId]) -> Vec<u128> {
        tasks.iter().map(|task| task.as_u128() >> 10).collect()
    }

    #[test]
    fn the_oldest_go_for_one_that_cancels_and_nobody_for_one_that_waits() {
        use OnConflict::{CancelRunning, Queue, Reject};
        let of = |rules: &[OnConflict], limit| {
            let members = (1..).zip(rules).map(|(number, rule)| member(number, limit, *rule));
            numbers(&excess(&members.collect::<Vec<_>>()))
        };
        assert_eq!(of(&[Queue, Queue, Queue], 1), []);
        assert_eq!(of(&[Queue, Queue, CancelRunning], 1), [1, 2]);
        assert_eq!(of(&[Queue, Queue, CancelRunning], 2), [1]);
        assert_eq!(of(&[CancelRunning, Queue, Queue], 1), [], "those after it wait");
        assert_eq!(of(&[CancelRunning, Reject, CancelRunning], 1), [1, 2]);
    }

    #[test]
    fn a_step_that_rejects_goes_itself_if_the_key_is_used_up() {
        let step = |number| Member { is_step: true, ..member(number, 2, OnConflict::Reject) };
        let members = [member(1, 1, OnConflict::Queue), step(2), step(3), step(4)];
        assert_eq!(numbers(&excess(&members)), [3, 4]);
    }

    #[test]
    fn members_without_their_key_are_faults() {
        let source = |concurrency_limit, weight| FlowSource {
            concurrency_limit,
            weight,
            ..FlowSource::default()
        };
        let fields = |source: &FlowSource| {
            source.missing().into_iter().map(|(field, _)| field).collect::<Vec<_>>()
        };
        assert_eq!(fields(&source(Some(1), None)), ["concurrencyKey"]);
        assert_eq!(fields(&source(None, Some(1))), ["fairnessKey"]);
        let keys = FlowSource {
            concurrency_key: Some("c".into()),
            fairness_key: Some("f".into()),
            ..source(None, Some(7))
        };
        assert!(keys.missing().is_empty());
        let flow = keys.flow().expect("it has keys");
        assert_eq!(
            flow.concurrency.map(|it| (it.limit, it.on_conflict)),
            Some((1, OnConflict::Queue))
        );
        assert_eq!(flow.fairness.map(|it| it.weight), Some(7));
        assert_eq!(FlowSource::default().flow(), None);
    }

    proptest! {
        #[test]
        fn after_the_excess_is_gone_nothing_more_goes(
            rules in prop::collection::vec((1_u32..4, 0_usize..3, any::<bool>()), 0..20),
        ) {
            let mut members: Vec<_> = (1..)
                .zip(rules)
                .map(|(number, (limit, rule, is_step))| Member {
                    is_step,
                    ..member(number, limit, OnConflict::ALL[rule])
                })
                .collect();
            let gone = excess(&members);
            members.retain(|member| !gone.contains(&member.task));
            prop_assert_eq!(excess(&members), []);
        }
    }
}
