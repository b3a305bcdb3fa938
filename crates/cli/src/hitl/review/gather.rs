//! The waiting outputs in the order of the review, and the material to judge one.
//!
//! Deliberately absent: data that the reader may not see. An execution that is refused leaves its
//! part out; the item alone can be judged, too.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callboard_client::{Call, Client, Credential, Error};
use serde_json::Value;

use super::Wanted;
use crate::failure::Failure;
use crate::hitl::item::{is_overdue, text};

/// Items hold their texts, so a page is small; a reader who decided a thousand may start again.
const PAGE: u64 = 50;
const MOST: usize = 1000;

/// The material to judge an item; null where there is none.
#[derive(Debug, Default)]
pub(super) struct Material {
    pub(super) item: Value,
    /// The execution that it belongs to.
    pub(super) execution: Value,
    /// The execution's plan.
    pub(super) plan: Value,
}

impl Material {
    /// Reads the item and its surroundings.
    pub(super) async fn of(client: &Client, task: &str) -> Result<Self, Failure> {
        let item = client.data(Call::get(&["hitl", task])).await?;
        let execution = match item["planExecutionId"].as_str() {
            Some(id) => known(client, &["plans", "executions", id]).await?,
            None => Value::Null,
        };
        let plan = match execution["planId"].as_str() {
            Some(id) => known(client, &["plans", id]).await?,
            None => Value::Null,
        };
        Ok(Self { item, execution, plan })
    }

    /// The steps that the item's step stands behind.
    pub(super) fn upstream(&self) -> impl Iterator<Item = &str> {
        let step = text(&self.item, "stepId");
        let steps = self.plan["steps"].as_array().into_iter().flatten();
        let step = steps.filter(move |one| text(one, "id") == step);
        step.flat_map(|step| step["dependsOn"].as_array().into_iter().flatten())
            .filter_map(Value::as_str)
    }
}

/// The waiting outputs.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The outputs' tasks: those of the signed-in user first, then those with the earlier deadline.
    pub(super) tasks: Vec<String>,
    /// The number of outputs that no reviewer decided in time.
    pub(super) overdue: usize,
}

/// The tasks whose outputs wait, overdue ones too.
pub(super) async fn waiting(
    client: &Client,
    wanted: &Wanted,
    me: Option<&str>,
) -> Result<Waiting, Failure> {
    if wanted.mine && me.is_none() {
        let fault = "--mine needs a login: nothing is assigned to a key";
        return Err(Failure::Usage(fault.into()));
    }
    let mut found: Vec<(bool, String, String, bool)> = Vec::new();
    let mut offset = 0;
    loop {
        let call = Call::get(&["hitl", "pending"])
            .query("queue", wanted.queue.as_ref())
            .commas("tags", &wanted.tags)
            .query("reviewerId", me.filter(|_| wanted.mine))
            .query("includeExpired", Some(true))
            .query("limit", Some(PAGE))
            .query("offset", Some(offset));
        let page = client.page(call).await?;
        found.extend(page.data.iter().map(|item| {
            let others = me.is_none() || item["assignedTo"].as_str() != me;
            let (until, task) = (text(item, "timeoutAt"), text(item, "taskId"));
            (others, until.to_owned(), task.to_owned(), is_overdue(item))
        }));
        offset += page.data.len() as u64;
        let more = page.pagination["hasMore"] == true && !page.data.is_empty();
        if !more || found.len() >= MOST {
            break;
        }
    }
    found.sort();
    found.dedup();
    let overdue = found.iter().filter(|(_, _, _, is_overdue)| *is_overdue).count();
    Ok(Waiting { tasks: found.into_iter().map(|(_, _, task, _)| task).collect(), overdue })
}

/// The signed-in user, according to the access token. The token is not checked: the user affects
/// only the order, and the server decides about permissions.
pub(super) async fn me(client: &Client) -> Option<String> {
    match client.credential() {
        Credential::Session(session) => subject(&session.login().await.token),
        Credential::None | Credential::Key(_) => None,
    }
}

fn subject(token: &str) -> Option<String> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    claims["sub"].as_str().map(str::to_owned)
}

/// The data; null if there is none, or the reader may not see it.
async fn known(client: &Client, path: &[&str]) -> Result<Value, Failure> {
    match client.data(Call::get(path)).await {
        Ok(value) => Ok(value),
        Err(Error::Api(refusal)) if matches!(refusal.status, 403 | 404) => Ok(Value::Null),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_says_who_is_signed_in() {
        let claims = URL_SAFE_NO_PAD.encode(r#"{"sub":"usr_1"}"#);
        assert_eq!(subject(&format!("e30.{claims}.x")).as_deref(), Some("usr_1"));
        for token in ["", "opaque", "a.%.c", "a.e30.c"] {
            assert_eq!(subject(token), None, "{token}");
        }
    }
}
