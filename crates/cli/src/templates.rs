//! `callboard templates`.

use std::path::PathBuf;

use callboard_client::{Call, Client};
use callboard_protocol::document::Format;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::access::{Access, Remote};
use super::failure::Failure;
use super::input::{self, Body};
use super::output::{Column, details, status_line, table};
use super::start::Start;

mod sample;
mod validate;

pub use validate::ValidateTemplate;

const COLUMNS: [Column; 9] = [
    ("ID", "id"),
    ("VERSION", "version"),
    ("INDUSTRY", "industry"),
    ("STEPS", "stepsCount"),
    ("HELD", "hitlSteps"),
    ("COST (USD)", "estimatedCost"),
    ("MS", "estimatedDurationMs"),
    ("AUTHOR", "author"),
    ("NAME", "name"),
];

const VERSIONS: [Column; 7] = [
    ("ID", "id"),
    ("VERSION", "version"),
    ("LATEST", "latest"),
    ("SET", "latestSet"),
    ("RETIRED", "retiredAt"),
    ("CREATED", "createdAt"),
    ("AUTHOR", "author"),
];

const FIELDS: [Column; 15] = [
    ("id", "id"),
    ("name", "name"),
    ("version", "version"),
    ("latest", "latest"),
    ("set as latest", "latestSet"),
    ("retired", "retiredAt"),
    ("description", "description"),
    ("industry", "industry"),
    ("tags", "tags"),
    ("author", "author"),
    ("visibility", "visibility"),
    ("held", "hitlSteps"),
    ("cost (USD)", "estimatedCost"),
    ("duration (ms)", "estimatedDurationMs"),
    ("created", "createdAt"),
];

const STEPS: [Column; 6] = [
    ("STEP", "id"),
    ("AFTER", "dependsOn"),
    ("MODEL", "model"),
    ("QUEUE", "queue"),
    ("GATE", "gate"),
    ("CONDITION", "condition"),
];

/// The commands on templates.
#[derive(Debug, Clone, Subcommand)]
pub enum Templates {
    /// List templates: the latest version of each.
    List(List),
    /// Show a template with its steps and its input.
    #[command(disable_version_flag = true)]
    Show {
        /// The template.
        #[arg(value_parser = input::id)]
        id: String,
        /// Version; by default the latest.
        #[arg(long)]
        version: Option<String>,
    },
    /// List the versions of a template, the highest first.
    Versions {
        /// The template.
        #[arg(value_parser = input::id)]
        id: String,
    },
    /// Check a template without a server and list every fault; exit code 5 if there is one.
    Validate {
        /// The template, in JSON or YAML; `-` reads standard input.
        file: PathBuf,
        /// Environment variables that the server lets templates use.
        #[arg(long, value_name = "NAME", value_delimiter = ',')]
        env_allow: Vec<String>,
    },
    /// Publish a template, or a new version of one.
    Publish {
        /// The template, in JSON or YAML; `-` reads standard input.
        file: PathBuf,
    },
    /// Set the version that deploys take, also after a newer one is published; without a version, the highest again.
    #[command(disable_version_flag = true)]
    Latest {
        /// The template.
        #[arg(value_parser = input::id)]
        id: String,
        /// The version.
        version: Option<String>,
    },
    /// Retire a version of a template: no deploy takes it any more, and its runs go on.
    #[command(disable_version_flag = true)]
    Retire {
        /// The template.
        #[arg(value_parser = input::id)]
        id: String,
        /// The version.
        version: String,
    },
    /// Let deploys take a retired version again.
    #[command(disable_version_flag = true)]
    Restore {
        /// The template.
        #[arg(value_parser = input::id)]
        id: String,
        /// The version.
        version: String,
    },
    /// Delete a template, or one version of it; its executions stay.
    #[command(disable_version_flag = true)]
    Delete {
        /// The template.
        #[arg(value_parser = input::id)]
        id: String,
        /// Version; by default all versions.
        #[arg(long)]
        version: Option<String>,
    },
    /// Run a template.
    #[command(disable_version_flag = true)]
    Deploy(Box<Deploy>),
}

/// The filters of a list of templates.
#[derive(Debug, Clone, Args)]
pub struct List {
    /// Industry: legal, finance, devops, marketing, healthcare or custom.
    #[arg(long)]
    industry: Option<String>,
    /// Tags, separated by commas; a template must have all of them.
    #[arg(long = "tag", value_delimiter = ',', value_name = "TAG")]
    tags: Vec<String>,
    /// Text in the name or the description.
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Visibility: private, organization or public.
    #[arg(long)]
    visibility: Option<String>,
    /// Items to list, 1 to 100; by default 20.
    #[arg(long)]
    limit: Option<u64>,
    /// Items to skip.
    #[arg(long)]
    offset: Option<u64>,
}

/// The version of a template to run, and its options.
#[derive(Debug, Clone, Args)]
pub struct Deploy {
    /// The template.
    #[arg(value_parser = input::id)]
    id: String,
    /// Use the invented sample input that comes with a built-in template.
    #[arg(long)]
    sample: bool,
    /// Version; by default the latest.
    #[arg(long)]
    version: Option<String>,
    /// Model for a step; may be given several times.
    #[arg(long = "model", value_name = "STEP=MODEL", value_parser = input::pair)]
    models: Vec<(String, String)>,
    /// Queue for a step; may be given several times.
    #[arg(long = "queue", value_name = "STEP=QUEUE", value_parser = input::pair)]
    queues: Vec<(String, String)>,
    /// The start of the execution.
    #[command(flatten)]
    start: Start,
}

/// Runs the command.
pub(super) async fn run(
    Remote { access, command }: Remote<Templates>,
    validate: ValidateTemplate,
) -> Result<(), Failure> {
    if let Templates::Validate { file, env_allow } = &command {
        return validate::run(&access, file, env_allow, validate);
    }
    let client = access.client()?;
    match command {
        Templates::Validate { .. } => Ok(()),
        Templates::List(wanted) => {
            let call = Call::get(&["templates"])
                .query("industry", wanted.industry.as_ref())
                .commas("tags", &wanted.tags)
                .query("search", wanted.search.as_ref())
                .query("visibility", wanted.visibility.as_ref())
                .query("limit", wanted.limit)
                .query("offset", wanted.offset);
            access.output.list("templates", &client.page(call).await?, &COLUMNS)
        }
        Templates::Show { id, version } => {
            let call = Call::get(&["templates", &id]).query("version", version);
            show(&access, &client.data(call).await?)
        }
        Templates::Versions { id } => {
            let page = client.page(Call::get(&["templates", &id, "versions"])).await?;
            access.output.list("versions", &page, &VERSIONS)
        }
        Templates::Publish { file } => {
            let text = input::bytes(&file)?;
            let kind = match input::format(&file, &text) {
                Format::Json => "application/json",
                Format::Yaml => "application/yaml",
            };
            let template = client.data(Call::post(&["templates"]).raw(kind, text)).await?;
            show(&access, &template)
        }
        Templates::Latest { id, version } => {
            let path = ["templates", &id, "latest"];
            let call = match version {
                Some(version) => Call::put(&path).json(&json!({"version": version})),
                None => Call::delete(&path),
            };
            show(&access, &client.data(call).await?)
        }
        Templates::Retire { id, version } => retire(&client, &access, (&id, &version), true).await,
        Templates::Restore { id, version } => {
            retire(&client, &access, (&id, &version), false).await
        }
        Templates::Delete { id, version } => {
            let call = Call::delete(&["templates", &id]).query("version", version);
            let deleted = client.data(call).await?;
            access.output.item(&deleted, |deleted| {
                details(deleted, &[("id", "id"), ("deleted", "versions")], &[])
            })
        }
        Templates::Deploy(deploy) => run_deploy(&client, &access, &deploy).await,
    }
}

async fn retire(
    client: &Client,
    access: &Access,
    (id, version): (&str, &str),
    retired: bool,
) -> Result<(), Failure> {
    let change = json!({"version": version, "retired": retired});
    show(access, &client.data(Call::patch(&["templates", id]).json(&change)).await?)
}

async fn run_deploy(client: &Client, access: &Access, deploy: &Deploy) -> Result<(), Failure> {
    let mut begin = Map::new();
    if deploy.sample {
        if deploy.start.has_input() {
            return Err(Failure::Usage("--sample and --input exclude each other".into()));
        }
        begin = sample::of(&deploy.id)?;
        let fields: Vec<_> = begin.keys().map(String::as_str).collect();
        let fields = fields.join(", ");
        status_line(&format!(
            "using the invented sample of {}: {fields}",
            sample::path(&deploy.id)
        ));
    }
    let map = |pairs: &[(String, String)]| {
        pairs
            .iter()
            .fold(Body::default(), |body, (step, value)| body.set(step, Some(value.clone())))
    };
    let body = Body::default()
        .set("version", deploy.version.clone())
        .object("modelOverrides", map(&deploy.models))
        .object("queueOverrides", map(&deploy.queues));
    let path = ["templates", &deploy.id, "deploy"];
    deploy.start.send(client, access, Call::post(&path), body, begin).await
}

fn show(access: &Access, template: &Value) -> Result<(), Failure> {
    access.output.item(template, |template| {
        let shown = details(template, &FIELDS, &[("input", "inputSchema")]);
        let Some(steps) = template["steps"].as_array() else { return shown };
        let steps: Vec<Value> = steps
            .iter()
            .map(|step| {
                let mut step = step.clone();
                step["gate"] = gate(&step, &template["hitl"]).into();
                step
            })
            .collect();
        format!("{shown}\n{}", table(&STEPS, &steps))
    })
}

/// The conditions under which the output of a step waits for a reviewer, by the step and the `hitl`
/// of its template.
fn gate(step: &Value, hitl: &Value) -> String {
    let required: Vec<_> = hitl["requiredFor"].as_array().into_iter().flatten().collect();
    let is_required = required.iter().any(|id| **id == step["id"]);
    if step["type"] == "wait" {
        return String::new();
    }
    if step["requiresApproval"] == true || is_required {
        return "always".into();
    }
    // With a list of steps, the threshold holds no other step.
    if let (Some(threshold), true) = (hitl["confidenceThreshold"].as_f64(), required.is_empty()) {
        return format!("below {threshold}");
    }
    let is_sampled = hitl["sampleRate"].as_f64().is_some_and(|rate| rate > 0.0);
    if is_sampled { "sampled".into() } else { "none".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_of_a_step_is_that_of_its_execution() {
        let step = json!({"id": "judge", "requiresApproval": false});
        let approved = json!({"id": "judge", "requiresApproval": true});
        let wait = json!({"id": "judge", "type": "wait"});
        for (step, hitl, shown) in [
            (&step, json!(null), "none"),
            (&approved, json!(null), "always"),
            (&step, json!({"requiredFor": ["judge"], "confidenceThreshold": 0.85}), "always"),
            (&step, json!({"requiredFor": ["other"], "confidenceThreshold": 0.85}), "none"),
            (&step, json!({"requiredFor": [], "confidenceThreshold": 0.7}), "below 0.7"),
            (&step, json!({"confidenceThreshold": 0.7}), "below 0.7"),
            (&step, json!({"requiredFor": ["other"], "sampleRate": 0.1}), "sampled"),
            (&wait, json!({"confidenceThreshold": 0.7}), ""),
        ] {
            assert_eq!(gate(step, &hitl), shown, "{step} {hitl}");
        }
    }
}
