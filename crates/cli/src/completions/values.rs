//! The completions of each argument: fixed words, and lists of the server.

use std::ffi::OsStr;

use clap::Command;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use super::server::List;

const TASK: &[&str] = &["pending", "running", "completed", "failed", "cancelled", "rejected"];
const EXECUTION: &[&str] = &["running", "completed", "failed", "cancelled"];
const BATCH: &[&str] = &["loading", "running", "paused", "completed", "cancelled"];
const ROW: &[&str] = &[
    "pending",
    "running",
    "awaiting_approval",
    "completed",
    "failed",
    "rejected",
    "cancelled",
    "invalid",
    "removed",
];
const APPROVAL: &[&str] =
    &["pending", "assigned", "escalated", "overdue", "approved", "rejected", "cancelled"];
const ROLES: &[&str] = &["admin", "operator", "reviewer", "viewer", "worker", "backup"];
const TIERS: &[&str] = &["free", "pro", "enterprise"];

const fn list(path: &'static [&'static str], value: &'static str, help: &'static str) -> Source {
    Source::List(List { path, value, help })
}

const TASKS: Source = list(&["tasks"], "id", "status");
const EXECUTIONS: Source = list(&["plans", "executions"], "id", "status");
const PLANS: Source = list(&["plans"], "id", "name");
const TEMPLATES: Source = list(&["templates"], "id", "name");
const QUEUES: Source = list(&["queues"], "name", "");
const MODELS: Source = list(&["models"], "name", "");
const USERS: Source = list(&["auth", "users"], "email", "role");

/// The source of candidates.
#[derive(Debug, Clone, Copy)]
enum Source {
    Words(&'static [&'static str]),
    List(List),
}

impl Source {
    fn candidates(self, start: &OsStr) -> Vec<CompletionCandidate> {
        let Some(start) = start.to_str() else { return Vec::new() };
        match self {
            Self::Words(words) => words
                .iter()
                .filter(|word| word.starts_with(start))
                .map(CompletionCandidate::new)
                .collect(),
            Self::List(list) => list.candidates(start),
        }
    }
}

/// The source of an argument's values: by its group, command and name.
fn source(group: &str, command: &str, argument: &str) -> Option<Source> {
    let words = |words| Some(Source::Words(words));
    match (group, argument) {
        ("tasks", "id") if command == "batch" => None,
        ("tasks", "id") | ("events" | "webhooks", "task") => Some(TASKS),
        ("executions", "id") | ("events", "execution") => Some(EXECUTIONS),
        ("plans", "id") | ("executions" | "schedules", "plan") => Some(PLANS),
        ("templates", "id")
        | ("executions" | "schedules" | "hitl" | "budgets" | "batches" | "bulk", "template") => {
            Some(TEMPLATES)
        }
        ("users", "id")
        | ("sessions" | "projects", "user")
        | ("keys", "account")
        | ("hitl", "reviewer") => Some(USERS),
        ("queues", "name")
        | ("keys", "queues")
        | ("tasks" | "bulk" | "hitl" | "events", "queue") => Some(QUEUES),
        ("tasks" | "bulk" | "hitl" | "budgets" | "models", "model") => Some(MODELS),
        ("schedules", "id") => Some(list(&["schedules"], "id", "name")),
        ("budgets", "id") => Some(list(&["budgets"], "id", "period")),
        ("files", "id") | ("tasks", "files") => Some(list(&["files"], "id", "name")),
        ("cluster", "id") => Some(list(&["cluster"], "id", "address")),
        ("bulk", "id") => Some(list(&["bulk"], "id", "status")),
        ("keys", "id") => Some(list(&["auth", "keys"], "id", "name")),
        ("sessions", "id") => Some(list(&["auth", "sessions"], "id", "")),
        ("webhooks", "id") => Some(list(&["webhooks", "deliveries"], "id", "event")),
        ("workers", "id") => Some(list(&["workers"], "id", "name")),
        ("hitl", "task") => Some(list(&["hitl", "pending"], "taskId", "stepId")),
        ("tasks" | "bulk", "status") => words(TASK),
        ("bulk", "of") => words(&["tasks", "executions", "all"]),
        ("executions", "status") if command == "items" => words(TASK),
        ("executions", "status") => words(EXECUTION),
        ("hitl", "status") => words(APPROVAL),
        ("webhooks", "status") => words(&["pending", "delivered", "dead", "dropped"]),
        ("batches", "id" | "a" | "b" | "differs_from") => Some(list(&["batches"], "id", "name")),
        ("batches", "status") if matches!(command, "rows" | "export") => words(ROW),
        ("batches", "status") => words(BATCH),
        ("batches", "decision") => words(&["approved", "edited", "rejected", "none"]),
        ("batches", "order_by") => words(&["row", "key", "confidence", "cost", "duration"]),
        ("batches", "outcome") => {
            words(&["equal", "differs", "unfinished", "failed", "onlyA", "onlyB"])
        }
        ("keys" | "users", "role") => words(ROLES),
        ("projects", "project") => Some(list(&["projects"], "name", "role")),
        ("projects", "role") => words(&["admin", "operator", "reviewer", "viewer"]),
        ("keys" | "users", "plan") => words(TIERS),
        ("keys", "environment") => words(&["live", "test"]),
        ("tasks", "order_by") => words(&["createdAt", "completedAt", "priority"]),
        ("tasks", "order") => words(&["asc", "desc"]),
        ("tasks", "confidence") => words(&["auto", "logprobs", "samples", "judge", "none"]),
        ("tasks", "on_conflict") => words(&["queue", "reject", "cancel_running"]),
        ("tasks" | "plans" | "templates", "notify") => words(&["email", "dashboard"]),
        ("schedules", "overlap") => words(&["skip", "queue", "cancel_running", "allow"]),
        ("schedules", "catch_up") => words(&["none", "last", "all"]),
        ("budgets", "period") => words(&["day", "week", "month", "total"]),
        ("budgets", "on_exceed") => words(&["wait", "reject", "alert"]),
        ("usage", "group_by") => words(&["tag", "account", "template", "model", "day"]),
        ("templates", "industry") => {
            words(&["legal", "finance", "devops", "marketing", "healthcare", "custom"])
        }
        ("templates", "visibility") => words(&["private", "organization", "public"]),
        _ => None,
    }
}

/// The command line with the completions of its values.
pub(super) fn known(command: Command) -> Command {
    command.mut_subcommands(|group| {
        let name = group.get_name().to_owned();
        let group = completed(group, &name, "");
        group.mut_subcommands(|command| {
            let own = command.get_name().to_owned();
            completed(command, &name, &own)
        })
    })
}

fn completed(command: Command, group: &str, own: &str) -> Command {
    command.mut_args(|argument| match source(group, own, argument.get_id().as_str()) {
        Some(source) => {
            argument.add(ArgValueCompleter::new(move |start: &OsStr| source.candidates(start)))
        }
        None => argument,
    })
}

#[cfg(test)]
mod tests {
    use clap::Subcommand as _;

    use super::*;

    /// Arguments without completions of their values.
    const OPEN: [&str; 2] = ["tasks batch id", "backup"];

    #[test]
    fn every_id_has_completions() {
        let command = crate::Command::augment_subcommands(Command::new("callboard"));
        for group in command.get_subcommands() {
            for own in group.get_subcommands() {
                for argument in own.get_arguments() {
                    let id = argument.get_id().as_str();
                    let place = format!("{} {} {id}", group.get_name(), own.get_name());
                    let is_open = OPEN.iter().any(|open| place.starts_with(open));
                    if matches!(id, "id" | "status" | "role" | "template" | "queue") && !is_open {
                        let source = source(group.get_name(), own.get_name(), id);
                        assert!(source.is_some(), "{place}");
                    }
                }
            }
        }
    }

    #[test]
    fn words_are_completed_by_their_beginning() {
        let source = source("keys", "create", "role").unwrap();
        let found = source.candidates(OsStr::new("o"));
        let found: Vec<_> = found.iter().map(CompletionCandidate::get_value).collect();
        assert_eq!(found, ["operator"]);
    }
}
