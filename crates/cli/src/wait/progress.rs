//! The state of an awaited task, in words: once for each state that lasts.
//!
//! Deliberately absent: the text of a running task, which `tasks submit --stream` prints.

use std::time::Duration;

use callboard_client::{Call, Client};
use serde_json::Value;
use tokio::time::Instant;

/// A state that passes sooner is not worth a line.
const LASTING: Duration = Duration::from_secs(1);

/// The last seen state, its beginning, and true if it was reported.
#[derive(Debug, Default)]
pub(super) struct Progress(Option<(String, Instant, bool)>);

impl Progress {
    /// The task's state, if it is to be reported: `running`, or the obstacle of a pending task.
    pub(super) fn news<'t>(&mut self, task: &'t Value, now: Instant) -> Option<&'t str> {
        let waits = task["waitingFor"].as_str();
        let state = waits.or(task["status"].as_str()).filter(|state| *state != "pending")?;
        let (_, since, reported) = match &mut self.0 {
            Some(seen) if seen.0 == state => seen,
            seen => seen.insert((state.to_owned(), now, false)),
        };
        let lasts = state == "approval" || now.duration_since(*since) >= LASTING;
        (lasts && !std::mem::replace(reported, lasts)).then_some(state)
    }
}

/// The state of a task in words, with the command that helps.
pub(super) async fn words(client: &Client, task: &Value, state: &str) -> String {
    let text = |name: &str| task[name].as_str().unwrap_or_default();
    let (id, model, queue) = (text("id"), text("model"), text("queue"));
    let until = match text("waitingUntil") {
        "" => String::new(),
        until => format!(" until {until}"),
    };
    match state {
        "running" => "running".to_owned(),
        "approval" => format!("review required: callboard hitl show {id}"),
        "worker" => match client.page(Call::get(&["workers"]).query("limit", Some(100))).await {
            Ok(page) if page.data.iter().any(|worker| serves(worker, model, queue)) => {
                "waiting for a free worker".to_owned()
            }
            Ok(_) => format!(
                "no connected worker runs {model} from the queue {queue}; callboard worker starts one"
            ),
            Err(_) => format!("waiting for a worker that runs {model} from the queue {queue}"),
        },
        "backoff" => match task["error"]["message"].as_str() {
            Some(error) => format!("waiting{until} for another attempt: {error}"),
            None => format!("waiting{until} for another attempt"),
        },
        "paused" => "everything is paused: callboard resume --all".to_owned(),
        "queue_paused" => format!("the queue is paused: callboard queues resume {queue}"),
        other => format!("waiting{until}: {}", other.replace('_', " ")),
    }
}

/// True if a worker takes tasks of this model and queue.
fn serves(worker: &Value, model: &str, queue: &str) -> bool {
    let names = |member: &str| worker[member].as_array().into_iter().flatten();
    let runs = |pattern: &str| match pattern.strip_suffix('*') {
        Some(prefix) => model.starts_with(prefix),
        None => pattern == model,
    };
    worker["status"] == "active"
        && names("queues").any(|name| name == queue)
        && names("models").filter_map(Value::as_str).any(runs)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_state_is_told_once_and_only_if_it_lasts() {
        let mut progress = Progress::default();
        let waits = json!({"status": "pending", "waitingFor": "worker"});
        let runs = json!({"status": "running"});
        let held = json!({"status": "pending", "waitingFor": "approval"});
        let mut reported = Vec::new();
        for task in [&waits, &waits, &waits, &runs, &waits, &runs, &runs, &held, &held] {
            reported.extend(progress.news(task, Instant::now()).map(str::to_owned));
            tokio::time::advance(Duration::from_millis(600)).await;
        }
        assert_eq!(reported, ["worker", "approval"]);
        assert_eq!(progress.news(&json!({"status": "pending"}), Instant::now()), None);
    }

    #[test]
    fn a_worker_serves_its_queues_and_models_by_name_prefix_or_all() {
        let worker =
            |models: &[&str]| json!({"status": "active", "queues": ["default"], "models": models});
        assert!(serves(&worker(&["a", "gpt-*"]), "gpt-5", "default"));
        assert!(serves(&worker(&["*"]), "x", "default"));
        assert!(!serves(&worker(&["gpt-*", "b"]), "a", "default"));
        assert!(!serves(&worker(&["*"]), "a", "other"));
        assert!(!serves(&json!({"status": "lost", "queues": ["q"], "models": ["*"]}), "a", "q"));
    }
}
