//! Waiting for work, with notifications of its progress.

use std::time::Duration;

use callboard_client::{Call, Client, Events, StreamItem};
use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use serde_json::Value;
use tokio::time::Instant;

use crate::failure::Failure;
use crate::wait::{Outage, has_ended};

/// The time between two looks if no event comes.
const LOOK: Duration = Duration::from_secs(5);
/// The time in which the events of one change arrive: one look serves for them all.
const TOGETHER: Duration = Duration::from_millis(50);

/// A call whose work is followed.
pub(super) struct Follow<'c> {
    client: &'c Client,
    context: RequestContext<RoleServer>,
    /// The looks that have reported a change; a progress must grow.
    told: f64,
    last: String,
}

impl<'c> Follow<'c> {
    pub(super) const fn new(client: &'c Client, context: RequestContext<RoleServer>) -> Self {
        Self { client, context, told: 0.0, last: String::new() }
    }

    /// The task or the execution at a path of the API once it has ended, waits for a reviewer or the time is over.
    ///
    /// # Errors
    /// Those of the reads; [`Failure::Interrupted`] if the assistant takes the call back. The work goes on.
    pub(super) async fn until_end(
        mut self,
        path: &[&str],
        filter: &str,
        limit: Option<Duration>,
    ) -> Result<Value, Failure> {
        let id = path.last().copied().unwrap_or_default();
        let deadline = limit.map(|limit| Instant::now() + limit);
        let mut events = Events::new(self.client, &[(filter, id)]);
        let mut outage = Outage::default();
        loop {
            match self.client.data(Call::get(path)).await {
                Ok(item) => {
                    outage.over();
                    self.tell(&item).await;
                    let is_over = deadline.is_some_and(|deadline| deadline <= Instant::now());
                    if has_ended(&item) || is_held(&item) || is_over {
                        return Ok(item);
                    }
                }
                Err(error) => drop(outage.goes_on(error.into())?),
            }
            let look = Instant::now() + LOOK;
            let until = deadline.map_or(look, |deadline| deadline.min(look));
            tokio::select! {
                () = changed(&mut events) => tokio::time::sleep(TOGETHER).await,
                () = tokio::time::sleep_until(until) => {}
                () = self.context.ct.cancelled() => return Err(Failure::Interrupted),
            }
        }
    }

    /// Notifies the assistant of a change, if it has asked for progress.
    async fn tell(&mut self, item: &Value) {
        let Some(token) = self.context.meta.get_progress_token() else { return };
        let status = item["status"].as_str().unwrap_or_default();
        let count = |of: &str| item["progress"][of].as_u64();
        let steps = (count("total"), count("pending"), count("running"));
        let (message, at, total) = if let (Some(total), Some(pending), Some(running)) = steps {
            let done = total.saturating_sub(pending + running);
            let held = count("awaitingApproval").filter(|held| *held > 0);
            let held = held.map_or_else(String::new, |held| format!(", {held} for a reviewer"));
            let says = format!("{status}: {done} of {total} steps, {running} running{held}");
            (says, precise(done), Some(precise(total)))
        } else {
            let waits = item["waitingFor"].as_str();
            let waits = waits.map_or_else(String::new, |waits| format!(", waits for {waits}"));
            (format!("{status}{waits}"), self.told + 1.0, None)
        };
        if message == self.last {
            return;
        }
        self.told = if at > self.told { at } else { self.told + 0.01 };
        self.last.clone_from(&message);
        let mut progress = ProgressNotificationParam::new(token, self.told).with_message(message);
        progress.total = total;
        // An assistant that is gone closes standard input, too.
        let _ = self.context.peer.notify_progress(progress).await;
    }
}

/// A number of steps, which is small.
fn precise(steps: u64) -> f64 {
    u32::try_from(steps).unwrap_or(u32::MAX).into()
}

/// Returns at the next event, or once the stream stands: what happened before it was not seen.
async fn changed(events: &mut Events) {
    loop {
        match events.next().await {
            StreamItem::Event(_) | StreamItem::Opened { .. } => return,
            StreamItem::Broken => {}
        }
    }
}

/// True if nothing goes on before a reviewer has decided.
pub(super) fn is_held(item: &Value) -> bool {
    let count = |of: &str| item["progress"][of].as_u64().unwrap_or(0);
    item["waitingFor"] == "approval"
        || (count("awaitingApproval") > 0
            && count("running") == 0
            && count("pending") == count("awaitingApproval"))
}
