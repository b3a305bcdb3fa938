//! The answers of a server for a support bundle.
//!
//! Deliberately absent: texts of tasks, names of people, and the file.

use callboard_client::{Call, Client};
use serde_json::{Value, json};

use super::access::Access;
use super::failure::Failure;

/// The health, the metrics and the backups of a server, each with its answer or the reason why there is none.
///
/// # Errors
/// The address or the credentials cannot be read; the text gives the reason.
pub async fn answers(access: &Access) -> Result<Value, String> {
    let client = access.client().map_err(|failure| failure.words())?;
    let health = client.anonymous().data(Call::get(&["health"]).at_once()).await;
    let backup = client.data(Call::get(&["system", "backup"]).at_once()).await;
    let or_reason = |answer: Result<Value, callboard_client::Error>| {
        answer.unwrap_or_else(|error| json!({"error": Failure::from(error).words()}))
    };
    Ok(json!({
        "health": or_reason(health),
        "backup": or_reason(backup),
        "metrics": metrics(&client).await.unwrap_or_else(|reason| json!({"error": reason})),
    }))
}

/// The lines of the metrics.
async fn metrics(client: &Client) -> Result<Value, String> {
    let call = Call::get(&["metrics"]).accepting("text/plain").at_once();
    let response = client.stream(&call).await.map_err(|error| Failure::from(error).words())?;
    let text = response.text().await.map_err(|error| error.to_string())?;
    Ok(text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect())
}
