//! The tools of an assistant, and the templates among them.

use std::time::Duration;

use callboard_client::{Call, Client};
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::follow::{Follow, is_held};
use super::resources::output_of;
use crate::failure::Failure;
use crate::input;
use crate::wait::has_ended;

/// The tag of templates that are tools of their own.
const TAG: &str = "mcp";
/// The most templates that are tools: an assistant reads them all.
const MAX_EXPOSED: usize = 100;
/// The longest name of a tool.
const MAX_NAME: usize = 64;

/// The answer of a tool.
pub(super) struct Called {
    pub(super) text: String,
    pub(super) data: Value,
    pub(super) is_error: bool,
}

/// The tools that are no templates.
#[derive(Clone, Copy)]
pub(super) enum Own {
    SubmitTask,
    ReadTask,
    ListTemplates,
    DeployTemplate,
    ReadExecution,
    ListPendingApprovals,
}

impl Own {
    const ALL: [Self; 6] = [
        Self::SubmitTask,
        Self::ReadTask,
        Self::ListTemplates,
        Self::DeployTemplate,
        Self::ReadExecution,
        Self::ListPendingApprovals,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::SubmitTask => "submit_task",
            Self::ReadTask => "read_task",
            Self::ListTemplates => "list_templates",
            Self::DeployTemplate => "deploy_template",
            Self::ReadExecution => "read_execution",
            Self::ListPendingApprovals => "list_pending_approvals",
        }
    }

    pub(super) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.name() == name)
    }

    fn tool(self) -> Tool {
        let id = |of: &str| json!({"id": {"type": "string", "description": format!("the id of the {of}")}});
        let (says, properties, required, reads) = match self {
            Self::SubmitTask => (
                "Run one prompt on a model, and wait for the output.",
                with_wait(json!({
                    "prompt": {"type": "string", "minLength": 1},
                    "model": {"type": "string", "description": "by default the server's"},
                    "queue": {"type": "string"},
                    "systemPrompt": {"type": "string"},
                    "context": {"type": "object", "description": "key-value pairs for the model"},
                    "outputSchema": {"type": "object", "description": "the JSON Schema of the output"},
                    "idempotencyKey": {"type": "string", "description": "prevents a duplicate"},
                })),
                json!(["prompt"]),
                false,
            ),
            Self::ReadTask => ("Show a task with its output.", id("task"), json!(["id"]), true),
            Self::ListTemplates => (
                "List the templates that can be deployed.",
                json!({"search": {"type": "string"}, "limit": limit(), "offset": offset()}),
                json!([]),
                true,
            ),
            Self::DeployTemplate => (
                "Run a template with an input, and wait for the outputs of its steps. The resource \
                 callboard://templates/ID has the inputSchema.",
                with_wait(json!({
                    "template": {"type": "string", "description": "the id of the template"},
                    "input": {"type": "object"},
                    "idempotencyKey": {"type": "string", "description": "prevents a duplicate"},
                })),
                json!(["template"]),
                false,
            ),
            Self::ReadExecution => (
                "Show an execution with its steps and outputs.",
                id("execution"),
                json!(["id"]),
                true,
            ),
            Self::ListPendingApprovals => (
                "List the outputs that wait for a reviewer. Only people decide them.",
                json!({"queue": {"type": "string"}, "limit": limit(), "offset": offset()}),
                json!([]),
                true,
            ),
        };
        let schema = json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        });
        let annotations = ToolAnnotations::new().read_only(reads).destructive(false);
        Tool::new(self.name(), says, object(schema)).with_annotations(annotations)
    }

    pub(super) async fn call(
        self,
        client: &Client,
        mut given: Map<String, Value>,
        follow: Follow<'_>,
    ) -> Result<Called, Failure> {
        match self {
            Self::SubmitTask => {
                let (limit, key) = waits(&mut given)?;
                let call = Call::post(&["tasks"]).json(&given.into());
                let task = client.data(call.idempotency_key(key.as_deref())?).await?;
                let id = text(&task, "id");
                match limit {
                    Some(limit) => {
                        Ok(of_task(follow.until_end(&["tasks", &id], "taskId", Some(limit)).await?))
                    }
                    None => Ok(of_task(task)),
                }
            }
            Self::ReadTask => {
                let id = id_in(&mut given, "id")?;
                Ok(of_task(client.data(Call::get(&["tasks", &id])).await?))
            }
            Self::DeployTemplate => {
                let template = id_in(&mut given, "template")?;
                deploy(client, &template, given, follow).await
            }
            Self::ReadExecution => {
                let id = id_in(&mut given, "id")?;
                Ok(of_execution(client.data(Call::get(&["plans", "executions", &id])).await?))
            }
            Self::ListTemplates => page(client, Call::get(&["templates"]), &given, "search").await,
            Self::ListPendingApprovals => {
                page(client, Call::get(&["hitl", "pending"]), &given, "queue").await
            }
        }
    }
}

/// The tools that are no templates.
pub(super) fn own() -> Vec<Tool> {
    Own::ALL.into_iter().map(Own::tool).collect()
}

fn limit() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": 100})
}

fn offset() -> Value {
    json!({"type": "integer", "minimum": 0})
}

/// The members by which a call waits, beside others.
fn with_wait(mut properties: Value) -> Value {
    properties["wait"] =
        json!({"type": "boolean", "description": "false answers at once; by default true"});
    properties["waitSeconds"] = json!({
        "type": "integer", "minimum": 1, "maximum": 86_400,
        "description": "the longest wait, by default 600; the work goes on after it",
    });
    properties
}

/// Takes the members about the call out of its arguments: the longest wait, and the idempotency key.
fn waits(given: &mut Map<String, Value>) -> Result<(Option<Duration>, Option<String>), Failure> {
    let wait = match given.shift_remove("wait") {
        None | Some(Value::Null) => true,
        Some(Value::Bool(wait)) => wait,
        Some(_) => return Err(Failure::Usage("wait must be true or false".into())),
    };
    let seconds = match given.shift_remove("waitSeconds") {
        None | Some(Value::Null) => 600,
        Some(seconds) => {
            seconds.as_u64().filter(|it| (1..=86_400).contains(it)).ok_or_else(|| {
                Failure::Usage("waitSeconds must be a whole number from 1 to 86400".into())
            })?
        }
    };
    let key = match given.shift_remove("idempotencyKey") {
        None | Some(Value::Null) => None,
        Some(Value::String(key)) => Some(key),
        Some(_) => return Err(Failure::Usage("idempotencyKey must be a text".into())),
    };
    Ok((wait.then(|| Duration::from_secs(seconds)), key))
}

fn id_in(given: &mut Map<String, Value>, name: &str) -> Result<String, Failure> {
    let says = |says: &str| Failure::Usage(format!("{name} {says}"));
    match given.shift_remove(name) {
        Some(Value::String(id)) => input::id(&id).map_err(|error| says(&format!("is {error}"))),
        Some(_) => Err(says("must be a text")),
        None => Err(says("is required")),
    }
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(members) = value { members } else { Map::new() }
}

fn text(item: &Value, member: &str) -> String {
    item[member].as_str().unwrap_or_default().to_owned()
}

async fn page<'a>(
    client: &Client,
    call: Call<'a>,
    given: &Map<String, Value>,
    filter: &'a str,
) -> Result<Called, Failure> {
    let number = |name| given.get(name).and_then(Value::as_u64);
    let call = call
        .query(filter, given.get(filter).and_then(Value::as_str))
        .query("limit", number("limit"))
        .query("offset", number("offset"));
    let page = client.page(call).await?;
    let data = json!({"items": page.data, "pagination": page.pagination});
    Ok(Called { text: data.to_string(), data, is_error: false })
}

async fn deploy(
    client: &Client,
    template: &str,
    mut given: Map<String, Value>,
    follow: Follow<'_>,
) -> Result<Called, Failure> {
    let (limit, key) = waits(&mut given)?;
    let call = Call::post(&["templates", template, "deploy"]).json(&given.into());
    let execution = client.data(call.idempotency_key(key.as_deref())?).await?;
    let Some(limit) = limit else { return Ok(of_execution(execution)) };
    let id = text(&execution, "id");
    let path = ["plans", "executions", &id];
    Ok(of_execution(follow.until_end(&path, "executionId", Some(limit)).await?))
}

/// The words about an item that has not ended well.
fn state(item: &Value, read: &str) -> Option<String> {
    let (id, status) = (text(item, "id"), text(item, "status"));
    if status == "completed" {
        return None;
    }
    if is_held(item) {
        return Some(format!(
            "{id} waits for a reviewer; {read} shows it once a person has decided"
        ));
    }
    if !has_ended(item) {
        return Some(format!("{id} is {status}; {read} shows it later"));
    }
    let error = &item["error"];
    let reason = match (error["message"].as_str(), error["code"].as_str()) {
        (Some(message), Some(code)) => format!(": {message} ({code})"),
        (Some(one), None) | (None, Some(one)) => format!(": {one}"),
        (None, None) => String::new(),
    };
    let ended = if status == "failed" { status } else { format!("was {status}") };
    Some(format!("{id} {ended}{reason}"))
}

fn of_task(task: Value) -> Called {
    let is_error = has_ended(&task) && task["status"] != "completed";
    let output = &task["output"];
    let words = state(&task, "read_task");
    let words =
        words.unwrap_or_else(|| output.as_str().map_or_else(|| output.to_string(), str::to_owned));
    Called { text: words, data: task, is_error }
}

/// The outputs of the steps; of those that were cut, the resource with the whole.
fn of_execution(mut execution: Value) -> Called {
    let is_error = has_ended(&execution) && execution["status"] != "completed";
    let mut outputs = Map::new();
    let steps = execution["steps"].as_object_mut().into_iter().flat_map(|steps| steps.iter_mut());
    for (id, step) in steps {
        if step["outputTruncated"] == true
            && let Some(task) = step["taskId"].as_str()
        {
            step["outputResource"] = output_of(task).into();
        }
        if !step["output"].is_null() {
            outputs.insert(id.clone(), step["output"].clone());
        }
    }
    let mut words = state(&execution, "read_execution").unwrap_or_default();
    if !outputs.is_empty() {
        let line = if words.is_empty() { "" } else { "\n" };
        words = format!("{words}{line}{:#}", Value::Object(outputs));
    }
    Called { text: words, data: execution, is_error }
}

/// A template that is a tool.
pub(super) struct Exposed {
    pub(super) tool: Tool,
    template: String,
}

/// The templates that are tools: those with the tag, and those that the command line names.
pub(super) async fn templates(client: &Client, named: &[String]) -> Result<Vec<Exposed>, Failure> {
    let call = Call::get(&["templates"]).query("tags", Some(TAG)).query("limit", Some(MAX_EXPOSED));
    let tagged = client.page(call).await?.data;
    let mut ids: Vec<String> = tagged.iter().map(|template| text(template, "id")).collect();
    ids.extend(named.iter().filter(|id| !ids.contains(id)).cloned().collect::<Vec<_>>());
    ids.truncate(MAX_EXPOSED);
    let mut exposed: Vec<Exposed> = Vec::with_capacity(ids.len());
    for id in ids {
        let template = client.data(Call::get(&["templates", &id])).await?;
        let name = name_of(&id);
        let is_taken =
            Own::of(&name).is_some() || exposed.iter().any(|other| other.tool.name == name);
        let name = if is_taken { format!("template_{}", exposed.len() + 1) } else { name };
        let schema = template["inputSchema"].as_object();
        let schema = schema.filter(|schema| schema.get("type").is_some_and(|it| it == "object"));
        let schema = schema.cloned().unwrap_or_else(|| object(json!({"type": "object"})));
        let says = format!("{}: {}", text(&template, "name"), text(&template, "description"));
        let annotations = ToolAnnotations::new().read_only(false).destructive(false);
        let mut tool = Tool::new(name, says, schema).with_annotations(annotations);
        tool.title = Some(text(&template, "name"));
        exposed.push(Exposed { tool, template: id });
    }
    Ok(exposed)
}

/// The name of a template's tool: its id, in the characters that names of tools have.
fn name_of(id: &str) -> String {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    id.chars().take(MAX_NAME).map(|letter| if fits(letter) { letter } else { '_' }).collect()
}

/// Runs the template of this name, and waits for its outputs; the arguments are its input.
pub(super) async fn call_template(
    client: &Client,
    named: &[String],
    name: &str,
    input: Map<String, Value>,
    follow: Follow<'_>,
) -> Result<Called, Failure> {
    let exposed = templates(client, named).await?;
    let unknown = || Failure::Missing(format!("there is no tool {name}"));
    let found = exposed.into_iter().find(|one| one.tool.name == name).ok_or_else(unknown)?;
    let given = object(json!({"input": input}));
    deploy(client, &found.template, given, follow).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_tool_has_the_characters_that_names_have() {
        assert_eq!(name_of("contract-review-v1"), "contract-review-v1");
        assert_eq!(name_of("a.b c"), "a_b_c");
        assert_eq!(name_of(&"x".repeat(100)).len(), MAX_NAME);
    }

    #[test]
    fn a_held_execution_says_so_and_a_failed_one_is_an_error() {
        let held = json!({"id": "dt_exec_1", "status": "running", "steps": {},
            "progress": {"total": 2, "completed": 1, "running": 0, "pending": 1, "awaitingApproval": 1}});
        let called = of_execution(held);
        assert!(
            called.text.contains("waits for a reviewer") && !called.is_error,
            "{}",
            called.text
        );
        let failed = json!({"id": "dt_task_1", "status": "failed",
            "error": {"code": "PROVIDER_ERROR", "message": "no"}});
        let called = of_task(failed);
        assert_eq!(called.text, "dt_task_1 failed: no (PROVIDER_ERROR)");
        assert!(called.is_error);
    }
}
