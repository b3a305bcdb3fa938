//! Templates and outputs as resources.
//!
//! ```text
//! callboard://templates/ID                        the template, as JSON
//! callboard://tasks/ID/output                     the output of a task
//! callboard://executions/ID                       the execution with its steps, as JSON
//! ```

use callboard_client::{Call, Client, Error};
use rmcp::ErrorData;
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};
use serde_json::Value;

use super::refused;

const PAGE: u64 = 100;
const JSON: &str = "application/json";

/// The address of the output of a task.
pub(super) fn output_of(task: &str) -> String {
    format!("callboard://tasks/{task}/output")
}

/// A page of the templates that the credentials see; the cursor is an offset.
pub(super) async fn list(
    client: &Client,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, ErrorData> {
    let unknown = || ErrorData::invalid_params("the cursor is none of this list", None);
    let offset: u64 = cursor.map_or(Ok(0), str::parse).map_err(|_| unknown())?;
    let call = Call::get(&["templates"]).query("limit", Some(PAGE)).query("offset", Some(offset));
    let page = client.page(call).await.map_err(|error| refused(&error.into()))?;
    let resource = |template: &Value| {
        let text = |member: &str| template[member].as_str().unwrap_or_default().to_owned();
        Resource::new(format!("callboard://templates/{}", text("id")), text("id"))
            .with_title(text("name"))
            .with_description(text("description"))
            .with_mime_type(JSON)
    };
    let mut listed = ListResourcesResult::with_all_items(page.data.iter().map(resource).collect());
    let has_more = page.pagination["hasMore"] == true;
    listed.next_cursor = has_more.then(|| (offset + PAGE).to_string());
    Ok(listed)
}

/// The forms of addresses.
pub(super) fn patterns() -> ListResourceTemplatesResult {
    let pattern =
        |uri: &str, name: &str, says: &str| ResourceTemplate::new(uri, name).with_description(says);
    ListResourceTemplatesResult::with_all_items(vec![
        pattern("callboard://templates/{id}", "template", "A template with its steps and schemas."),
        pattern("callboard://tasks/{id}/output", "output", "The whole output of a task."),
        pattern("callboard://executions/{id}", "execution", "An execution with its steps."),
    ])
}

/// The content at an address.
pub(super) async fn read(client: &Client, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let unknown = || ErrorData::resource_not_found(format!("there is no {uri}"), None);
    let path: Vec<_> = uri.strip_prefix("callboard://").ok_or_else(unknown)?.split('/').collect();
    // A segment that names another path is none of ours.
    if path.iter().any(|part| part.is_empty() || *part == "." || *part == "..") {
        return Err(unknown());
    }
    let call = match path.as_slice() {
        ["templates", id] => Call::get(&["templates", id]),
        ["tasks", id, "output"] => Call::get(&["tasks", id]),
        ["executions", id] => Call::get(&["plans", "executions", id]),
        _ => return Err(unknown()),
    };
    let item = match client.data(call).await {
        Err(Error::Api(error)) if error.status == 404 => return Err(unknown()),
        read => read.map_err(|error| refused(&error.into()))?,
    };
    let contents = match (path[0], &item["output"]) {
        ("tasks", Value::Null) => {
            let status = item["status"].as_str().unwrap_or_default();
            let says = format!("{} has no output: it is {status}", path[1]);
            return Err(ErrorData::resource_not_found(says, None));
        }
        ("tasks", Value::String(text)) => ResourceContents::text(text, uri),
        ("tasks", value) => ResourceContents::text(value.to_string(), uri).with_mime_type(JSON),
        _ => ResourceContents::text(format!("{item:#}"), uri).with_mime_type(JSON),
    };
    Ok(ReadResourceResult::new(vec![contents]))
}
