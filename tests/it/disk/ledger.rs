//! A list, kept outside the server, of all that it acknowledged or let out; and of whatever it said or
//! did that goes against that.
//!
//! What a read shows is no acknowledgement: it may be ahead of the disk.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use callboard_disk::Random;

use crate::support::Answer;

/// Something that was acknowledged, or that nobody may see before it is durable.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fact {
    Key(String),
    Plan(String),
    Task {
        id: String,
        prompt: String,
    },
    /// A worker was given this task.
    Given {
        id: String,
    },
    Output {
        id: String,
    },
    Execution {
        id: String,
        input: String,
    },
    Decision {
        id: String,
        verdict: &'static str,
        edit: Option<String>,
    },
}

/// All that was acknowledged or let out, with the length of the shim's log at that time.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    log: Option<PathBuf>,
    facts: Mutex<Vec<(u64, Fact)>>,
    refusals: Mutex<BTreeMap<u16, usize>>,
    rules: Mutex<Rules>,
}

/// What later frames and answers are held against.
#[derive(Debug, Default)]
struct Rules {
    /// Tasks whose submission was acknowledged.
    submitted: HashSet<String>,
    /// Tasks whose output was acknowledged.
    applied: HashSet<String>,
    decided: HashSet<String>,
    /// How often the server was started again.
    life: u32,
    /// The newest lease of tasks without an acknowledged output, and the life that gave it out.
    leases: HashMap<String, (u32, String)>,
    /// About how many tasks are unfinished, and how many the server said there were.
    backlog: i64,
    told_backlog: i64,
    replaced: usize,
    broken: Vec<String>,
}

impl Ledger {
    /// A list beside this log of the shim.
    pub(super) fn beside(log: PathBuf) -> Arc<Self> {
        Arc::new(Self { log: Some(log), ..Self::default() })
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().expect("no holder panics")
    }

    /// Adds an acknowledgement. A second output or decision of the same item is a broken rule.
    pub(super) fn note(&self, fact: Fact) {
        let again = match &fact {
            Fact::Output { id } => {
                let mut rules = self.rules();
                rules.leases.remove(id);
                rules.backlog -= 1;
                !rules.applied.insert(id.clone())
            }
            Fact::Decision { id, .. } => !self.rules().decided.insert(id.clone()),
            Fact::Task { id, .. } => {
                let mut rules = self.rules();
                rules.backlog += 1;
                !rules.submitted.insert(id.clone())
            }
            Fact::Execution { .. } => {
                self.rules().backlog += 1;
                false
            }
            Fact::Given { .. } | Fact::Key(_) | Fact::Plan(_) => false,
        };
        if again {
            self.broken(format!("acknowledged twice: {fact:?}"));
        }
        self.add(fact);
    }

    fn add(&self, fact: Fact) {
        let length = |log| std::fs::metadata(log).expect("the shim's log").len();
        let at = self.log.as_ref().map_or(0, length);
        self.facts.lock().expect("no holder panics").push((at, fact));
    }

    /// A worker was given `task` under `lease`. Returns a lease of an earlier life of the server,
    /// which this one replaces.
    pub(super) fn assigned(&self, task: &str, lease: &str) -> Option<String> {
        let mut rules = self.rules();
        if rules.applied.contains(task) {
            rules.broken.push(format!("{task} is run again after its output was acknowledged"));
            return None;
        }
        let life = rules.life;
        let before = rules.leases.insert(task.to_owned(), (life, lease.to_owned()));
        if before.is_none() && !rules.submitted.contains(task) {
            drop(rules);
            self.add(Fact::Given { id: task.to_owned() });
            return None;
        }
        let replaced = before.filter(|(given, before)| *given < life && before != lease);
        rules.replaced += usize::from(replaced.is_some());
        replaced.map(|(_, lease)| lease)
    }

    /// The server was started again, and nobody still reads what the last one sent.
    pub(super) fn next_life(&self) {
        let mut rules = self.rules();
        rules.life += 1;
        // What ended without an acknowledgement would add up.
        rules.backlog = rules.told_backlog;
    }

    /// The server says that so many tasks are unfinished.
    pub(super) fn unfinished(&self, tasks: i64) {
        let mut rules = self.rules();
        rules.backlog = tasks;
        rules.told_backlog = tasks;
    }

    /// The server did what it must not.
    pub(super) fn broken(&self, what: String) {
        self.rules().broken.push(what);
    }

    /// All that the server must not have done.
    pub(super) fn all_broken(&self) -> Vec<String> {
        self.rules().broken.clone()
    }

    /// An answer that was neither 2xx nor 409.
    pub(super) fn refused(&self, answer: &Answer) {
        let mut refusals = self.refusals.lock().expect("no holder panics");
        *refusals.entry(answer.status.as_u16()).or_default() += 1;
    }

    pub(super) fn all(&self) -> Vec<(u64, Fact)> {
        self.facts.lock().expect("no holder panics").clone()
    }

    /// All but what follows from others.
    pub(super) fn facts(&self) -> Vec<Fact> {
        self.since(0)
    }

    /// All but the first `known`, and but what follows from others.
    pub(super) fn since(&self, known: usize) -> Vec<Fact> {
        let (facts, rules) = (self.facts.lock().expect("no holder panics"), self.rules());
        let follows = |fact: &Fact| {
            let Fact::Given { id } = fact else { return false };
            rules.submitted.contains(id) || rules.applied.contains(id)
        };
        let facts = facts[known..].iter().filter(|(_, fact)| !follows(fact));
        facts.map(|(_, fact)| fact.clone()).collect()
    }

    /// Some of the first `known`.
    pub(super) fn some(&self, known: usize, count: usize, random: &mut Random) -> Vec<Fact> {
        let facts = self.facts.lock().expect("no holder panics");
        let count = count.min(known);
        (0..count).map(|_| facts[random.below(known)].1.clone()).collect()
    }

    /// How many leases of an earlier life were replaced.
    pub(super) fn replaced(&self) -> usize {
        self.rules().replaced
    }

    /// About how many tasks are unfinished.
    pub(super) fn backlog(&self) -> i64 {
        self.rules().backlog
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.facts.lock().expect("no holder panics").len()
    }

    /// Statuses that were neither 2xx nor 409, and how often.
    pub(super) fn refusals(&self) -> BTreeMap<u16, usize> {
        self.refusals.lock().expect("no holder panics").clone()
    }
}
