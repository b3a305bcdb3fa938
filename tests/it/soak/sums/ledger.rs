//! What the outside world knows: the work that was acknowledged, the calls that workers made and what the server said
//! of them, and the ends that webhooks told.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Money in ten-thousandths of a dollar, in which every price of this test is a whole number.
pub(super) type Ticks = u64;

/// The models of this test, with the prices of a token that is read and of one that is written.
pub(super) const MODELS: [(&str, Ticks, Ticks); 3] =
    [("cheap", 1, 2), ("dear", 10, 20), ("free", 0, 0)];

/// The first line of every prompt, from which a worker knows whose call it is and how it is to end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct About {
    /// The number of the account.
    pub(super) account: usize,
    pub(super) tags: Vec<String>,
    /// True for a step of the template.
    pub(super) deployed: bool,
    pub(super) does: Does,
}

/// The fate of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Does {
    Well,
    /// Fails for good.
    Fails,
    /// Fails once, and the next attempt is well.
    Retries,
    /// Takes a second and a half.
    Slow,
    /// Takes longer than the task's time.
    Late,
}

impl About {
    /// The prompt.
    pub(super) fn line(&self) -> String {
        serde_json::to_string(self).expect("it is JSON")
    }
}

/// What is known of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// No result was sent, or none was acknowledged yet.
    Open,
    /// The server has counted it.
    Counted,
    /// The server has thrown it away.
    Refused,
    /// It was sent twice, since the first acknowledgement was lost, and the second time it came too late: whether it
    /// was counted is only seen at its task.
    Doubtful,
}

/// A call of a worker.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) task: String,
    pub(super) execution: Option<String>,
    pub(super) about: About,
    pub(super) model: String,
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) fate: Fate,
}

impl Call {
    pub(super) fn cost(&self) -> Ticks {
        let price = MODELS.iter().find(|(name, ..)| *name == self.model);
        let (_, input, output) = price.expect("a model of this test");
        self.input * input + self.output * output
    }
}

/// The least and the most that some calls may have cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) least: Ticks,
    pub(super) most: Ticks,
}

impl Sum {
    pub(super) fn of<'a>(calls: impl Iterator<Item = &'a Call>) -> Self {
        let mut sum = Self::default();
        for call in calls {
            match call.fate {
                Fate::Counted => {
                    sum.least += call.cost();
                    sum.most += call.cost();
                }
                Fate::Doubtful => sum.most += call.cost(),
                Fate::Open | Fate::Refused => {}
            }
        }
        sum
    }

    /// True if it may be this amount in USD.
    pub(super) fn is(self, usd: &Value) -> bool {
        let ticks = usd.as_f64().unwrap_or(f64::NAN) * 10_000.0;
        let (least, most) =
            (crate::soak::gauges::count(self.least), crate::soak::gauges::count(self.most));
        ticks > least - 0.01 && ticks < most + 0.01
    }
}

/// Everything that was told to somebody outside the server.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The tasks and executions whose submission was acknowledged, by identifier.
    pub(super) made: BTreeSet<String>,
    pub(super) batches: usize,
    /// The last webhook about the end of each item.
    pub(super) ends: BTreeMap<String, Value>,
    /// By lease.
    pub(super) calls: HashMap<String, Call>,
    /// Refusals by status and code.
    pub(super) refusals: BTreeMap<String, usize>,
    /// What the server did that it must not do.
    pub(super) faults: Vec<String>,
    pub(super) counts: BTreeMap<&'static str, usize>,
}

impl Ledger {
    pub(super) fn fault(&mut self, what: String) {
        eprintln!("fault: {what}");
        self.faults.push(what);
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// The server's word about a result; `again` if the result was sent more than once.
    pub(super) fn acknowledged(&mut self, lease: &str, result: &str, again: bool) {
        let Some(call) = self.calls.get_mut(lease) else {
            return self.fault(format!("an acknowledgement of {lease}, which nobody holds"));
        };
        let fate = match (result, again) {
            ("applied", _) | ("duplicate", true) => Fate::Counted,
            ("stale", true) => Fate::Doubtful,
            ("stale", false) => Fate::Refused,
            other => return self.fault(format!("{other:?} of a result under {lease}")),
        };
        let (before, task) = (call.fate, call.task.clone());
        // The first acknowledgement may have been on its way when the result was sent again.
        if before == Fate::Open || (before, fate) == (Fate::Doubtful, Fate::Counted) {
            call.fate = fate;
        } else if result == "applied" {
            self.fault(format!("a second result of {task} was applied under {lease}"));
        }
    }

    /// The sum of the calls of an item, whose identifier is that of a task or of an execution.
    pub(super) fn sums(&self) -> HashMap<&str, Sum> {
        let mut of: HashMap<&str, Vec<&Call>> = HashMap::new();
        for call in self.calls.values() {
            of.entry(&call.task).or_default().push(call);
            if let Some(execution) = &call.execution {
                of.entry(execution).or_default().push(call);
            }
        }
        of.into_iter().map(|(id, calls)| (id, Sum::of(calls.into_iter()))).collect()
    }
}
