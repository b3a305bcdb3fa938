//! Waiting for work to end, and the exit code of its end.
//!
//! The wait goes on while a server is away for a moment (a restart, a network that hiccups): the work goes on there.

use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use callboard_client::{Call, Client};
use serde_json::Value;
use tokio::time::Instant;

use super::failure::Failure;
use super::output::status_line;

mod progress;

use progress::Progress;

/// The longest absence of a server.
const PATIENCE: Duration = Duration::from_mins(1);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The absence of a server, and its beginning.
#[derive(Debug, Default)]
pub(super) struct Outage {
    since: Option<Instant>,
}

impl Outage {
    /// Ends the outage: the server answered.
    pub(super) fn over(&mut self) {
        self.since = None;
    }

    /// Notes a call without an answer. Fails once the outage takes too long or cannot pass. Returns
    /// the note to the user, once.
    pub(super) fn goes_on(&mut self, failure: Failure) -> Result<Vec<String>, Failure> {
        let first = self.since.is_none();
        let since = *self.since.get_or_insert_with(Instant::now);
        if !failure.may_pass() || since.elapsed() > PATIENCE {
            return Err(failure);
        }
        if !first {
            return Ok(Vec::new());
        }
        Ok(vec![format!("callboard: {}", failure.words()), "trying again for a minute".into()])
    }
}

/// The task once it has ended; notes its obstacle on standard error, and at Ctrl-C the command to
/// go on.
pub(super) async fn task(
    client: &Client,
    id: &str,
    limit: Option<Duration>,
) -> Result<Value, Failure> {
    let ended = end_of(client, ["tasks", id], limit, has_ended, Some(Progress::default()));
    tokio::select! {
        ended = ended => ended,
        _ = tokio::signal::ctrl_c() => Err(continues("tasks wait", id)),
    }
}

/// The bulk job once it has acted on every task; at Ctrl-C notes the command that shows it.
pub(super) async fn bulk_job(client: &Client, id: &str) -> Result<Value, Failure> {
    let is_over = |job: &Value| job["status"] != "running";
    tokio::select! {
        ended = end_of(client, ["bulk", id], None, is_over, None) => ended,
        _ = tokio::signal::ctrl_c() => Err(continues("bulk show", id)),
    }
}

/// Prints the command to go on waiting, and returns the quiet end of an interrupted command.
pub(super) fn continues(command: &str, id: &str) -> Failure {
    if stderr().is_terminal() {
        // The terminal shows `^C` at the beginning of the line.
        let _ = writeln!(stderr());
    }
    status_line(&format!("{id} continues; callboard {command} {id}"));
    Failure::Interrupted
}

/// The item at a path of the API once it has ended. `progress` notes what a task waits for.
async fn end_of(
    client: &Client,
    path: [&str; 2],
    limit: Option<Duration>,
    is_over: impl Fn(&Value) -> bool,
    mut progress: Option<Progress>,
) -> Result<Value, Failure> {
    let deadline = limit.map(|limit| Instant::now() + limit);
    let (mut outage, mut pause) = (Outage::default(), FIRST_PAUSE);
    let mut last = Value::Null;
    loop {
        match in_time(client.data(Call::get(&path)), deadline, (path[1], &last)).await? {
            Ok(item) if is_over(&item) => return Ok(item),
            Ok(item) => {
                outage.over();
                let news = progress.as_mut().and_then(|it| it.news(&item, Instant::now()));
                if let Some(state) = news {
                    status_line(&progress::words(client, &item, state).await);
                }
                last = item;
            }
            Err(error) => {
                for line in outage.goes_on(error.into())? {
                    status_line(&line);
                }
            }
        }
        let until = Instant::now() + pause;
        if deadline.is_some_and(|deadline| deadline <= until) {
            tokio::time::sleep_until(deadline.unwrap_or(until)).await;
            return Err(not_ended(path[1], &last));
        }
        tokio::time::sleep_until(until).await;
        pause = pause.mul_f64(1.5).min(LONGEST_PAUSE);
    }
}

/// Waits for an answer no longer than until `deadline`. The item is named with its last known state.
///
/// # Errors
/// The time is over, and the item has not ended.
pub(super) async fn in_time<T>(
    answer: impl Future<Output = T>,
    deadline: Option<Instant>,
    (id, last): (&str, &Value),
) -> Result<T, Failure> {
    match deadline {
        Some(deadline) => {
            tokio::time::timeout_at(deadline, answer).await.map_err(|_| not_ended(id, last))
        }
        None => Ok(answer.await),
    }
}

/// The failure of a wait that ended before the work, whose last known state is `last`; null if none is known.
pub(super) fn not_ended(id: &str, last: &Value) -> Failure {
    let is_task = id.starts_with("dt_task_");
    let what = match (last["waitingFor"].as_str(), last["status"].as_str()) {
        (Some("approval"), _) if is_task => {
            format!("waits for a reviewer: callboard hitl show {id}")
        }
        (Some("approval"), _) => "waits for a reviewer: callboard hitl list".to_owned(),
        (Some("schedule"), _) => "waits for its start time".to_owned(),
        (Some("worker"), _) => {
            "waits for a worker: callboard workers list shows the connected ones".to_owned()
        }
        (Some("signal"), _) => "waits for a signal".to_owned(),
        (Some("backoff"), _) => "waits for another attempt".to_owned(),
        (Some("limit"), _) => "waits for a limit of its model, queue or concurrency key".to_owned(),
        (Some("budget"), _) => "waits for room in a budget: callboard budgets list".to_owned(),
        (Some("paused"), _) => {
            "waits, because everything is paused: callboard resume --all".to_owned()
        }
        (Some("queue_paused"), _) => {
            "waits, because its queue is paused: callboard queues list".to_owned()
        }
        (Some(_), _) | (None, Some("pending")) => "is still pending".to_owned(),
        (None, Some(_)) => "is still running".to_owned(),
        (None, None) => "has not ended yet; its state is unknown".to_owned(),
    };
    Failure::TimedOut(format!("{id} {what}"))
}

/// True if a task or an execution has ended.
pub(super) fn has_ended(item: &Value) -> bool {
    matches!(item["status"].as_str(), Some("completed" | "failed" | "cancelled" | "rejected"))
}

/// Passes if the work ended well; else fails with the reason.
fn verdict(kind: &str, item: &Value) -> Result<(), Failure> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (id, status) = (text(&item["id"]), text(&item["status"]));
    if status == "completed" {
        return Ok(());
    }
    let (code, message) = (text(&item["error"]["code"]), text(&item["error"]["message"]));
    let why = if message.is_empty() { code.clone() } else { format!("{message} ({code})") };
    let mut ending = match status.as_str() {
        "failed" => format!("{kind} {id} failed"),
        _ => format!("{kind} {id} was {status}"),
    };
    if !why.is_empty() {
        ending = format!("{ending}: {why}");
    }
    Err(match code.as_str() {
        "TASK_TIMEOUT" | "EXECUTION_TIMEOUT" => Failure::TimedOut(ending),
        _ => Failure::WorkFailed(ending),
    })
}

/// The end of a command that has waited for an item and printed it: that of the work, also if nobody reads
/// the output any more.
pub(super) fn conclude(
    kind: &str,
    item: &Value,
    printed: Result<(), Failure>,
) -> Result<(), Failure> {
    verdict(kind, item)?;
    printed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn exit_code(item: &Value) -> u8 {
        verdict("task", item).err().map_or(0, |failure| failure.exit_code())
    }

    #[test]
    fn a_wait_that_is_over_names_what_the_work_waits_for() {
        let said = |id: &str, last: Value| not_ended(id, &last).words();
        let held = json!({"status": "pending", "waitingFor": "approval"});
        assert_eq!(
            said("dt_task_1", held.clone()),
            "dt_task_1 waits for a reviewer: callboard hitl show dt_task_1"
        );
        assert_eq!(said("dt_exec_1", held), "dt_exec_1 waits for a reviewer: callboard hitl list");
        assert_eq!(said("dt_task_1", json!({"status": "running"})), "dt_task_1 is still running");
        assert!(said("dt_task_1", Value::Null).contains("has not ended"));
    }

    #[test]
    fn what_ended_well_is_0_what_ran_out_of_time_is_8_and_all_else_is_10() {
        assert_eq!(exit_code(&json!({"status": "completed"})), 0);
        for status in ["failed", "cancelled", "rejected"] {
            assert_eq!(exit_code(&json!({"id": "dt_task_1", "status": status})), 10, "{status}");
        }
        let timed_out = json!({"status": "failed", "error": {"code": "EXECUTION_TIMEOUT"}});
        assert_eq!(exit_code(&timed_out), 8);
    }
}
