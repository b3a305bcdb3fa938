//! The shown form of one step of an execution.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

/// The sign of a step that a reviewer must see.
pub(super) const WAITS: &str = "waits for approval";

/// The steps that wait for approval, according to events, and the beginning of each wait.
pub(super) type Held = BTreeMap<String, Option<Timestamp>>;

/// The sign of a step that waits for a signal.
const AWAITS: &str = "waits for signal";

/// The shown form of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// The step's id.
    pub(super) id: String,
    /// The step's status, or the sign that it waits for approval.
    pub(super) status: String,
    /// The step's duration, so far if it runs.
    pub(super) duration: Option<String>,
    /// The reason of the step's failure.
    pub(super) error: Option<String>,
    /// The beginning of the status, if the execution gives it.
    pub(super) since: Option<Timestamp>,
    /// The command that shows the output which waits for a reviewer.
    pub(super) next: Option<String>,
}

/// The steps of an execution, in its order; `held` are those that wait for approval, according to
/// events.
pub(super) fn steps(execution: &Value, held: &Held, now: Timestamp) -> Vec<Step> {
    let items = |id: &str| {
        let execution = execution["id"].as_str().unwrap_or_default();
        format!("callboard executions items {execution} {id} --status pending")
    };
    let steps = execution["steps"].as_object().into_iter().flatten();
    steps
        .map(|(id, step)| {
            let mut shown = Step::read(id, step, held.contains_key(id), now);
            if shown.status == WAITS {
                shown.since = held.get(id).copied().flatten();
                let task = step["taskId"].as_str();
                shown.next = task.map(|task| format!("callboard hitl show {task}"));
            } else if step["items"]["awaitingApproval"].as_u64().is_some_and(|count| count > 0) {
                shown.next = Some(items(id));
            }
            shown
        })
        .collect()
}

/// The number of steps that wait for approval, according to the execution.
pub(super) fn waiting(execution: &Value) -> u64 {
    execution["progress"]["awaitingApproval"].as_u64().unwrap_or(0)
}

/// The execution in one line.
pub(super) fn summary(execution: &Value) -> String {
    let text = |name: &str| execution[name].as_str().unwrap_or_default();
    let count = |name: &str| execution["progress"][name].as_u64().unwrap_or(0);
    let mut line = format!(
        "{} {}: {} of {} steps completed",
        text("id"),
        text("status"),
        count("completed"),
        count("total")
    );
    for name in ["running", "failed", "cancelled", "skipped"] {
        if count(name) > 0 {
            line = format!("{line}, {} {name}", count(name));
        }
    }
    if let Some(total) = execution["usage"]["total"].as_u64() {
        line = format!("{line}, {total} tokens");
    }
    if let Some(cost) = execution["usage"]["totalCost"].as_f64().filter(|cost| *cost > 0.0) {
        line = format!("{line}, {cost:.4} USD");
    }
    line
}

impl Step {
    fn read(id: &str, step: &Value, held: bool, now: Timestamp) -> Self {
        let status = step["status"].as_str().unwrap_or("unknown");
        let items = &step["items"];
        if let (Some(completed), Some(total)) =
            (items["completed"].as_u64(), items["total"].as_u64())
        {
            let mut shown = Self::read_alone(id, step, status, now);
            shown.status = format!("{status} {completed}/{total}");
            return shown;
        }
        let waits = step["awaitingApproval"] == true || status == "awaiting_approval";
        let status =
            if waits || (held && matches!(status, "pending" | "running")) { WAITS } else { status };
        Self::read_alone(id, step, status, now)
    }

    fn read_alone(id: &str, step: &Value, status: &str, now: Timestamp) -> Self {
        let status = if step["waitingFor"] == "signal" { AWAITS } else { status };
        let instant = |name: &str| step[name].as_str()?.parse::<Timestamp>().ok();
        let so_far = || {
            let start = instant("startedAt").filter(|_| status == "running")?;
            u64::try_from(now.as_millisecond() - start.as_millisecond()).ok()
        };
        let millis = step["durationMs"].as_u64().or_else(so_far);
        let since = match status {
            "running" => instant("startedAt"),
            _ => instant("completedAt"),
        };
        let error = &step["error"];
        let error = error["message"].as_str().or(error["code"].as_str());
        Self {
            id: id.to_owned(),
            status: status.to_owned(),
            duration: millis.map(duration),
            error: error.map(str::to_owned),
            since,
            next: None,
        }
    }
}

/// `0.3 s`, `12.0 s`, `2 min 05 s`.
fn duration(millis: u64) -> String {
    let tenths = millis.saturating_add(50) / 100;
    match tenths / 600 {
        0 => format!("{}.{} s", tenths / 10, tenths % 10),
        minutes => format!("{minutes} min {:02} s", tenths / 10 % 60),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_are_short() {
        let shown: Vec<_> = [0, 340, 12_000, 59_949, 59_950, 125_400].map(duration).into();
        assert_eq!(shown, ["0.0 s", "0.3 s", "12.0 s", "59.9 s", "1 min 00 s", "2 min 05 s"]);
    }

    #[test]
    fn a_step_says_how_long_it_runs_and_that_it_waits_for_approval() {
        let execution = json!({"steps": {
            "b": {"status": "running", "startedAt": "2026-11-21T10:00:00.000Z"},
            "a": {"status": "pending", "awaitingApproval": true, "durationMs": 2000,
                  "taskId": "dt_task_1", "startedAt": "2026-11-21T09:59:00.000Z"},
            "c": {"status": "pending"},
            "d": {"status": "running", "items": {"completed": 120, "total": 1000}},
        }});
        let now = "2026-11-21T10:00:03Z".parse().unwrap();
        let since = "2026-11-21T10:00:02Z".parse().ok();
        let shown = steps(&execution, &Held::from([("c".into(), since)]), now);
        assert_eq!(shown[1].next.as_deref(), Some("callboard hitl show dt_task_1"));
        let times: Vec<_> = shown.iter().map(|step| step.since).collect();
        assert_eq!(times, ["2026-11-21T10:00:00Z".parse().ok(), None, since, None]);
        let shown: Vec<_> = shown
            .into_iter()
            .map(|step| (step.id, step.status, step.duration.unwrap_or_default()))
            .collect();
        let line = |id: &str, status: &str, time: &str| (id.into(), status.into(), time.into());
        assert_eq!(
            shown,
            [
                line("b", "running", "3.0 s"),
                line("a", WAITS, "2.0 s"),
                line("c", WAITS, ""),
                line("d", "running 120/1000", ""),
            ]
        );
    }
}
