//! `callboard executions show`, and the form of an execution in every command.

use std::fmt::Write as _;

use callboard_client::{Call, Client};
use clap::Args;
use serde_json::{Value, json};

use super::super::access::Access;
use super::super::failure::Failure;
use super::super::hitl;
use super::super::input;
use super::super::output::{Column, Format, Only, details, escaped, table};

const FIELDS: [Column; 20] = [
    ("id", "id"),
    ("status", "status"),
    ("error", "error.code"),
    ("", "error.message"),
    ("failed step", "error.stepId"),
    ("plan", "planId"),
    ("template", "templateId"),
    ("starts", "waitingUntil"),
    ("started", "startedAt"),
    ("completed", "completedAt"),
    ("steps", "progress.total"),
    ("  completed", "progress.completed"),
    ("  running", "progress.running"),
    ("  pending", "progress.pending"),
    ("  wait for approval", "progress.awaitingApproval"),
    ("  failed", "progress.failed"),
    ("  cancelled", "progress.cancelled"),
    ("  skipped", "progress.skipped"),
    ("tokens", "usage.total"),
    ("cost (USD)", "usage.totalCost"),
];

const STEPS: [Column; 8] = [
    ("STEP", "id"),
    ("STATUS", "status"),
    ("ITEMS", "shownItems"),
    ("WAITS FOR", "waitingFor"),
    ("MS", "durationMs"),
    ("ATTEMPT", "attempt"),
    ("TASK", "taskId"),
    ("ERROR", "error.message"),
];

/// The execution to show, and the part of it.
#[derive(Debug, Clone, Args)]
pub struct Show {
    /// The execution.
    #[arg(value_parser = input::id)]
    id: String,
    /// The step whose output --output-only prints; needed if several steps have one.
    #[arg(long, requires = "output_only", value_name = "ID")]
    step: Option<String>,
    #[command(flatten)]
    only: Only,
}

impl Show {
    pub(super) async fn run(&self, client: &Client, access: &Access) -> Result<(), Failure> {
        let mut execution = client.data(Call::get(&["plans", "executions", &self.id])).await?;
        if self.only.output_only {
            return self.output(client, access, &execution).await;
        }
        if access.output == Format::Table {
            enrich(client, &mut execution).await;
        }
        show(access, &execution)
    }

    /// Prints the output of the chosen step, whole.
    async fn output(
        &self,
        client: &Client,
        access: &Access,
        execution: &Value,
    ) -> Result<(), Failure> {
        let id = chosen(execution, self.step.as_deref())?;
        let mut step = execution["steps"][id].clone();
        if step["outputTruncated"] == true {
            let task = step["taskId"].as_str().unwrap_or_default();
            step["output"] = client.data(Call::get(&["tasks", task])).await?["output"].clone();
        }
        let item = json!({"id": id, "status": step["status"], "output": step["output"]});
        access.output.text_only(true).item(&item, |_| String::new())
    }
}

/// The requested step, else the only one that has an output.
fn chosen<'a>(execution: &'a Value, step: Option<&'a str>) -> Result<&'a str, Failure> {
    let steps = || execution["steps"].as_object().into_iter().flatten();
    let names = |ids: &[&str]| ids.join(", ");
    if let Some(step) = step {
        let ids: Vec<_> = steps().map(|(id, _)| id.as_str()).collect();
        let unknown = || format!("no step {step}; the steps are {}", names(&ids));
        return ids.contains(&step).then_some(step).ok_or_else(|| Failure::Missing(unknown()));
    }
    let has_output = |step: &Value| !step["output"].is_null();
    let ids: Vec<_> =
        steps().filter(|(_, step)| has_output(step)).map(|(id, _)| id.as_str()).collect();
    match ids[..] {
        [id] => Ok(id),
        [] => Err(Failure::Other("no step of the execution has an output".into())),
        _ => Err(Failure::Usage(format!(
            "several steps have an output; add --step ID with one of {}",
            names(&ids)
        ))),
    }
}

/// The most steps of an execution that are looked up.
const LOOKED_UP: usize = 20;

/// Adds the item of each step whose output waits for a reviewer, and the output of each that failed because
/// of it, if the caller may see them.
async fn enrich(client: &Client, execution: &mut Value) {
    let steps = execution["steps"].as_object_mut().into_iter().flatten();
    let missed = |step: &Value| {
        matches!(step["error"]["code"].as_str(), Some("OUTPUT_INVALID" | "OUTPUT_TRUNCATED"))
    };
    let wanted = steps.filter(|(_, step)| step["awaitingApproval"] == true || missed(step));
    for (_, step) in wanted.take(LOOKED_UP) {
        let Some(task) = step["taskId"].as_str() else { continue };
        if !missed(step) {
            step["review"] = client.data(Call::get(&["hitl", task])).await.unwrap_or_default();
        } else if step["output"].is_null() {
            let task = client.data(Call::get(&["tasks", task])).await.unwrap_or_default();
            step["missed"] = task["output"].clone();
        }
    }
}

/// The outputs that wait for a reviewer, each with the command that shows it.
fn held(execution: &str, steps: &[Value]) -> String {
    let mut shown = String::new();
    for step in steps {
        let id = escaped(step["id"].as_str().unwrap_or_default());
        let items = step["items"]["awaitingApproval"].as_u64().unwrap_or(0);
        if let (true, Some(task)) = (step["awaitingApproval"] == true, step["taskId"].as_str()) {
            let waits = hitl::in_short(&step["review"]);
            let task = escaped(task);
            let _ = writeln!(shown, "{id} waits for a reviewer{waits}: callboard hitl show {task}");
        } else if items > 0 {
            let wait = if items == 1 { "item of {id} waits" } else { "items of {id} wait" };
            let wait = wait.replace("{id}", &id);
            let _ = writeln!(
                shown,
                "{items} {wait} for a reviewer: callboard executions items {execution} \
                 {id} --status pending"
            );
        }
    }
    if !shown.is_empty() {
        shown.push_str("callboard hitl review goes through all that waits\n");
    }
    shown
}

/// The items whose outputs are shown whole, at most.
const FEW_ITEMS: u64 = 20;

/// Shows an execution.
pub(crate) fn show(access: &Access, execution: &Value) -> Result<(), Failure> {
    access.output.item(execution, |execution| {
        let mut shown = details(execution, &FIELDS, &[]);
        let steps: Vec<Value> = execution["steps"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(id, step)| {
                let mut step = step.clone();
                step["id"] = id.clone().into();
                step["shownItems"] = counted(&step["items"]);
                step
            })
            .collect();
        if !steps.is_empty() {
            shown = format!("{shown}\n{}", table(&STEPS, &steps));
        }
        let held = held(&escaped(execution["id"].as_str().unwrap_or_default()), &steps);
        if !held.is_empty() {
            shown = format!("{shown}\n{held}");
        }
        for step in &steps {
            let total = step["items"]["total"].as_u64().unwrap_or(0);
            if let (Some(id), true) = (step["id"].as_str(), total > FEW_ITEMS) {
                let (id, execution) = (escaped(id), execution["id"].as_str().unwrap_or_default());
                let see = format!("callboard executions items {} {id}", escaped(execution));
                shown = format!("{shown}\n{id} has the outputs of {total} items: {see}\n");
            } else if let (Some(id), true) = (step["id"].as_str(), step["output"].is_string()) {
                shown = format!("{shown}\n{}", details(step, &[], &[(id, "output")]));
            }
            if let (Some(id), true) = (step["id"].as_str(), step["missed"].is_string()) {
                let heading = format!("{id} (does not count)");
                shown = format!("{shown}\n{}", details(step, &[], &[(&heading, "missed")]));
            }
        }
        shown
    })
}

/// The items of a step in a few words: `120 of 1000, 8 running, 2 failed`; null for a step without
/// items.
fn counted(items: &Value) -> Value {
    let (Some(completed), Some(total)) = (items["completed"].as_u64(), items["total"].as_u64())
    else {
        return Value::Null;
    };
    let mut shown = format!("{completed} of {total}");
    let others = ["running", "awaitingApproval", "failed", "rejected", "cancelled"];
    for name in others {
        let count = items[name].as_u64().filter(|count| *count > 0);
        let name = if name == "awaitingApproval" { "awaiting approval" } else { name };
        if let Some(count) = count {
            shown = format!("{shown}, {count} {name}");
        }
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_one_line_with_counts() {
        let items = json!({"total": 1000, "completed": 120, "running": 8, "pending": 870,
            "awaitingApproval": 3, "failed": 2, "rejected": 0, "cancelled": 0});
        assert_eq!(counted(&items), "120 of 1000, 8 running, 3 awaiting approval, 2 failed");
        assert_eq!(counted(&Value::Null), Value::Null);
    }

    #[test]
    fn the_output_of_the_only_step_that_has_one_needs_no_name() {
        let one = json!({"steps": {"a": {"status": "skipped"}, "b": {"output": "B"}}});
        let two = json!({"steps": {"a": {"output": "A"}, "b": {"output": "B"}}});
        let refused = |execution: &Value, step| format!("{:?}", chosen(execution, step));
        assert_eq!(chosen(&one, None).unwrap(), "b");
        assert_eq!(chosen(&two, Some("a")).unwrap(), "a");
        assert!(refused(&two, None).contains("--step ID with one of a, b"));
        assert!(refused(&two, Some("c")).contains("no step c; the steps are a, b"));
        assert!(refused(&json!({"steps": {}}), None).contains("no step"));
    }

    #[test]
    fn what_waits_for_a_reviewer_is_named_with_the_next_command() {
        let overdue = json!({"status": "expired", "waitingMs": 3_900_000});
        let steps = [
            json!({"id": "a", "status": "completed"}),
            json!({"id": "b", "awaitingApproval": true, "taskId": "dt_task_1", "review": overdue}),
            json!({"id": "c", "awaitingApproval": true, "taskId": "dt_task_2"}),
            json!({"id": "d", "items": {"awaitingApproval": 3}}),
            json!({"id": "e", "items": {"awaitingApproval": 1}}),
        ];
        let expected = "\
b waits for a reviewer, 1 h 05 min, overdue: callboard hitl show dt_task_1
c waits for a reviewer: callboard hitl show dt_task_2
3 items of d wait for a reviewer: callboard executions items dt_exec_1 d --status pending
1 item of e waits for a reviewer: callboard executions items dt_exec_1 e --status pending
callboard hitl review goes through all that waits
";
        assert_eq!(held("dt_exec_1", &steps), expected);
        assert_eq!(held("dt_exec_1", &steps[..1]), "");
    }
}
