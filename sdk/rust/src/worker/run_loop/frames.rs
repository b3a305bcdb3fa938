//! The frames between a worker and the server (docs/reference/workers.md), as far as the protocol goes.
//!
//! A task and a result are JSON: their members belong to those who run the tasks. Members that this version
//! does not know are passed over. `Debug` shows no prompt, no context and no output.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The bytes of the longest frame that the server takes.
pub const MAX_FRAME: usize = 32 << 20;

/// The name of a server's member for the frame `return`.
const RETURN: &str = "return";
/// The members of a result that earlier servers refuse.
const LATER: [&str; 2] = ["thinking", "limited"];
/// The members of a failure that earlier servers refuse.
const LATER_OF_FAILURES: [&str; 1] = ["usage"];
/// The member of a usage that earlier servers refuse.
const CALLS: &str = "calls";

/// A frame of the worker.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FromWorker {
    Register(Register),
    /// The leases that the worker holds, results not yet acknowledged included.
    Heartbeat {
        leases: Vec<String>,
    },
    Delta(Delta),
    Result(Report),
    Drain,
    Return {
        leases: Vec<String>,
    },
}

/// The worker's identity and the tasks that it takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Register {
    /// The worker's name, for people.
    pub name: String,
    /// The version of the worker's program.
    pub version: String,
    /// The queues from which the worker takes tasks.
    pub queues: Vec<String>,
    /// The models that the worker runs: exact names, `gpt-*`, or `*`. None if it runs functions alone.
    pub models: Vec<String>,
    /// The functions that the worker runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<Function>,
    /// The greatest number of leases at once.
    pub concurrency: u32,
    /// The leases that the worker held before its connection broke. The session fills it in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
}

/// A function that a worker announces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Function {
    /// The name: `^[a-z][a-z0-9_.-]{0,63}$`.
    pub name: String,
    /// The description, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of the args, for people: the worker checks the args.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// The JSON Schema of the output, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

/// The leases that a worker held before its connection broke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resume {
    /// The worker's earlier identifier.
    pub worker_id: String,
    /// The worker's leases.
    pub leases: Vec<String>,
}

/// A piece of an output.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub(super) struct Delta {
    pub(super) lease: String,
    pub(super) text: String,
}

/// The result of a lease, or the reason why it has none.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The frame that carries it.
    #[serde(rename = "type")]
    pub of: Of,
    /// The lease.
    pub lease: String,
    /// The further members of the frame.
    #[serde(flatten)]
    pub members: Map<String, Value>,
}

/// The frame of a [`Report`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// `complete`.
    Complete,
    /// `fail`.
    Fail,
}

/// A frame of the server.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(super) enum ToWorker {
    Registered(Registered),
    Assign(Box<Assign>),
    Leases {
        #[serde(default)]
        lost: Vec<String>,
    },
    Ack {
        lease: String,
        of: Of,
        /// `applied`, `duplicate` or `stale`: either way the result is not wanted any more.
        #[serde(default)]
        result: String,
    },
    Cancel {
        lease: String,
        #[serde(default)]
        reason: String,
    },
    #[serde(rename_all = "camelCase")]
    Drain {
        deadline_ms: u64,
    },
    Error {
        error: ErrorBody,
    },
}

/// The server's words about a frame.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct ErrorBody {
    pub(super) code: String,
    pub(super) message: String,
}

/// The terms of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Registered {
    pub(super) worker_id: String,
    pub(super) heartbeat_ms: u64,
    #[serde(default)]
    pub(super) kept: Vec<String>,
    #[serde(default)]
    pub(super) lost: Vec<String>,
    #[serde(default)]
    pub(super) takes: Vec<String>,
}

/// A leased task.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Assign {
    /// The lease, which every frame about this attempt names.
    pub lease: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The end of the attempt's time by the server's clock: ISO 8601, UTC.
    pub deadline_at: String,
    /// The time of the attempt, from this frame on, in milliseconds.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// The task, a JSON object.
    pub task: Value,
}

impl FromWorker {
    /// The frame's text.
    pub(super) fn text(&self) -> String {
        #[derive(Serialize)]
        #[serde(tag = "type", rename_all = "camelCase")]
        enum Tagged<'a> {
            Register(&'a Register),
            Heartbeat { leases: &'a [String] },
            Delta(&'a Delta),
            Drain {},
            Return { leases: &'a [String] },
        }
        let text = match self {
            Self::Register(register) => serde_json::to_string(&Tagged::Register(register)),
            Self::Heartbeat { leases } => serde_json::to_string(&Tagged::Heartbeat { leases }),
            Self::Delta(delta) => serde_json::to_string(&Tagged::Delta(delta)),
            Self::Result(report) => serde_json::to_string(report),
            Self::Drain => serde_json::to_string(&Tagged::Drain {}),
            Self::Return { leases } => serde_json::to_string(&Tagged::Return { leases }),
        };
        text.expect("a frame always serialises")
    }
}

impl Registered {
    /// True if the server takes the frame `return`.
    pub(super) fn takes_return(takes: &[String]) -> bool {
        takes.iter().any(|member| member == RETURN)
    }
}

impl Report {
    /// The result without members that a server that names these members in `takes` would refuse.
    pub(super) fn taken(mut self, takes: &[String]) -> Self {
        let takes = |name: &str| takes.iter().any(|member| member == name);
        let later: &[&str] = match self.of {
            Of::Complete => &LATER,
            Of::Fail => &LATER_OF_FAILURES,
        };
        for name in later.iter().filter(|name| !takes(name)) {
            self.members.shift_remove(*name);
        }
        if !takes(CALLS) {
            self.members.get_mut("usage").into_iter().for_each(without_calls);
            let judge = self.members.get_mut("judge").and_then(|judge| judge.get_mut("usage"));
            judge.into_iter().for_each(without_calls);
        }
        self
    }
}

fn without_calls(usage: &mut Value) {
    if let Value::Object(usage) = usage {
        usage.shift_remove(CALLS);
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Report");
        shown.field("of", &self.of).field("lease", &self.lease).finish_non_exhaustive()
    }
}

impl fmt::Debug for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delta").field("lease", &self.lease).finish_non_exhaustive()
    }
}

impl fmt::Debug for Assign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Assign");
        shown.field("lease", &self.lease).field("attempt", &self.attempt).finish_non_exhaustive()
    }
}
