//! Waiting for work to end, and what its end means for the exit code.
//!
//! A server that is away for a moment (a restart, a network that hiccups) is waited for as well:
//! the work goes on there. Deliberately absent: the progress of an execution, which is `watch`.

use std::time::Duration;

use callboard_client::{Call, Client};
use serde_json::Value;
use tokio::time::Instant;

use super::failure::Failure;
use super::output::note;

/// How long a server may be away.
const PATIENCE: Duration = Duration::from_mins(1);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A server that does not answer, and since when.
#[derive(Debug, Default)]
pub(super) struct Outage {
    since: Option<Instant>,
}

impl Outage {
    /// It answered.
    pub(super) fn over(&mut self) {
        self.since = None;
    }

    /// It did not, and may be back in a moment; an error once that takes too long or cannot be.
    pub(super) fn goes_on(&mut self, failure: Failure) -> Result<(), Failure> {
        let first = self.since.is_none();
        let since = *self.since.get_or_insert_with(Instant::now);
        if !failure.may_pass() || since.elapsed() > PATIENCE {
            return Err(failure);
        }
        if first {
            failure.tell();
            note("trying again for a minute");
        }
        Ok(())
    }
}

/// The task once it has ended.
pub(super) async fn task(
    client: &Client,
    id: &str,
    limit: Option<Duration>,
) -> Result<Value, Failure> {
    let deadline = limit.map(|limit| Instant::now() + limit);
    let (mut outage, mut pause, mut held) = (Outage::default(), FIRST_PAUSE, false);
    loop {
        match client.data(Call::get(&["tasks", id])).await {
            Ok(task) if has_ended(&task) => return Ok(task),
            Ok(task) => {
                outage.over();
                let holds = task["awaitingApproval"] == true;
                if holds && !std::mem::replace(&mut held, holds) {
                    note(&format!("{id} waits for a reviewer's approval"));
                }
            }
            Err(error) => outage.goes_on(error.into())?,
        }
        let until = Instant::now() + pause;
        if deadline.is_some_and(|deadline| deadline <= until) {
            tokio::time::sleep_until(deadline.unwrap_or(until)).await;
            return Err(still_under_way(id));
        }
        tokio::time::sleep_until(until).await;
        pause = pause.mul_f64(1.5).min(LONGEST_PAUSE);
    }
}

/// The wait is over, the work is not.
pub(super) fn still_under_way(id: &str) -> Failure {
    Failure::TimedOut(format!("{id} is still running"))
}

/// Whether a task or an execution has ended.
pub(super) fn has_ended(item: &Value) -> bool {
    matches!(item["status"].as_str(), Some("completed" | "failed" | "cancelled" | "rejected"))
}

/// Well, or why not.
pub(super) fn verdict(kind: &str, item: &Value) -> Result<(), Failure> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (id, status) = (text(&item["id"]), text(&item["status"]));
    if status == "completed" {
        return Ok(());
    }
    let (code, message) = (text(&item["error"]["code"]), text(&item["error"]["message"]));
    let why = if message.is_empty() { code.clone() } else { format!("{message} ({code})") };
    let mut told = format!("{kind} {id} is {status}");
    if !why.is_empty() {
        told = format!("{told}: {why}");
    }
    Err(match code.as_str() {
        "TASK_TIMEOUT" | "EXECUTION_TIMEOUT" => Failure::TimedOut(told),
        _ => Failure::WorkFailed(told),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn exit_code(item: &Value) -> u8 {
        verdict("task", item).err().map_or(0, |failure| failure.exit_code())
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
