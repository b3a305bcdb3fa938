//! `callboard health`: whether a server works, as an exit code, for the health checks of containers.

use callboard_client::{Call, Client, Credential};
use serde_json::Value;

use super::access::Access;
use super::failure::Failure;
use super::output::escaped;
use callboard_client::logins::Store;

/// Shows the health of a server. Fails if the server cannot be reached or takes no work.
pub(super) async fn run(access: &Access) -> Result<(), Failure> {
    let server = access.address(Store::of_user().ok().as_ref())?;
    let client = Client::new(server, Credential::None)?;
    let health = client.data(Call::get(&["health"]).at_once()).await?;
    access.output.item(&health, shown)
}

fn shown(health: &Value) -> String {
    let text = |value: &Value| escaped(value.as_str().unwrap_or("unknown"));
    let mut lines = format!("{}\n", text(&health["status"]));
    for (name, component) in health["components"].as_object().into_iter().flatten() {
        let detail = component["detail"].as_str().map(|it| format!("  {}", escaped(it)));
        let detail = detail.unwrap_or_default();
        lines = format!("{lines}{name:12}  {}{detail}\n", text(&component["status"]));
    }
    lines
}
