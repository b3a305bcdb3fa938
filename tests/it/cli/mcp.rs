//! The server for assistants, over standard input and output and over HTTP, called by the published clients of the
//! protocol for Python and for TypeScript (`tests/mcp`).

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::program::{Ended, Home};
use crate::support::{Client, FakeWorker, PROGRAM, Server};

mod http;

/// A published client of the protocol.
#[derive(Debug, Clone, Copy)]
enum Library {
    Python,
    TypeScript,
}

/// The way to the server.
#[derive(Debug, Clone, Copy)]
enum Way<'a> {
    /// `callboard mcp` with these flags.
    Program(&'a [&'a str]),
    /// `/mcp` of this server, with this key.
    Http(&'a str, &'a str),
}

impl Library {
    fn command(self) -> tokio::process::Command {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp");
        let installed = Command::new(tests.join("install")).output().expect("it runs");
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        let printed = String::from_utf8(installed.stdout).expect("UTF-8");
        let (python, node) = printed.trim().split_once('\n').expect("two paths");
        let mut command = match self {
            Self::Python => tokio::process::Command::new(python),
            Self::TypeScript => tokio::process::Command::new("node"),
        };
        match self {
            Self::Python => command.arg(tests.join("client.py")),
            Self::TypeScript => command.current_dir(node).arg(tests.join("client.mjs")),
        };
        command
    }
}

/// The answers to these calls, the greeting first.
async fn assistant(library: Library, way: Way<'_>, home: &Home, calls: &Value) -> Vec<Value> {
    let (target, rest) = match way {
        Way::Program(flags) => {
            (PROGRAM.to_owned(), flags.iter().map(|&it| it.to_owned()).collect())
        }
        Way::Http(url, key) => {
            let headers = json!({"Authorization": format!("Bearer {key}")});
            (format!("{url}/mcp"), vec![headers.to_string()])
        }
    };
    let child = library
        .command()
        .args([target, calls.to_string()])
        .args(rest)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap_or_default())
        .envs(home.environment())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("it starts");
    let output = timeout(Duration::from_mins(2), child.wait_with_output()).await.expect("in time");
    let printed = Ended::of(output.expect("it ends")).ok();
    printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn tool(name: &str, arguments: &Value) -> Value {
    json!(["call_tool", {"name": name, "arguments": arguments}])
}

fn text(called: &Value) -> &str {
    called["answer"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {called}"))
}

async fn template(client: &Client, name: &str, tags: &Value) -> String {
    let template = json!({
        "name": name, "description": "Says it.", "version": "1.0.0", "industry": "custom",
        "tags": tags, "visibility": "organization",
        "inputSchema": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
        "steps": [
            {"id": "first", "prompt": "say {{input.text}}"},
            {"id": "last", "prompt": "say {{first.output}}", "dependsOn": ["first"]},
        ],
    });
    let made = client.post("/api/templates", &template).await.expect(201);
    made["id"].as_str().expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assistant_runs_work_reads_it_and_decides_nothing() {
    let server = Server::start();
    let operator = server.key("operator").await;
    let client = Client::new(&server.url, &operator);
    let home = Home::new(&server.url).with_key(&operator);
    let (tagged, named) = (
        template(&client, "tagged", &json!(["mcp"])).await,
        template(&client, "named", &json!([])).await,
    );
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 4).await;
    worker.run(|task| match task["prompt"].as_str() {
        Some("fail") => Err("no".to_owned()),
        prompt => Ok(prompt.unwrap_or_default().trim_start_matches("say ").to_owned()),
    });
    let held = client.submit(&json!({"prompt": "held", "hitl": {"required": true}})).await;
    client.task_when(&held, |task| task["awaitingApproval"] == true).await;

    let flags = ["--expose", named.as_str()];
    let http = Way::Http(&server.url, &operator);
    for (library, way, version) in [
        (Library::Python, Way::Program(&flags), None),
        (Library::TypeScript, Way::Program(&flags), None),
        (Library::Python, http, Some("2026-07-28")),
        (Library::TypeScript, http, Some("2025-11-25")),
    ] {
        let calls = calls(&tagged, &named, &held);
        let said = assistant(library, way, &home, &calls).await;
        assert_eq!(said.len(), 16, "{library:?}, {way:?}: {said:?}");
        assert_eq!(said[0]["name"], "callboard", "{library:?}, {way:?}");
        if let Some(version) = version {
            assert_eq!(said[0]["version"], version, "{library:?}");
        }
        let mut tools = vec![
            "submit_task",
            "read_task",
            "list_templates",
            "deploy_template",
            "read_execution",
            "list_pending_approvals",
            &tagged,
        ];
        // A server shows the templates with the tag alone.
        tools.extend(matches!(way, Way::Program(_)).then_some(named.as_str()));
        check(&said, &tools, &named, &held);
        assert_eq!(client.task(&held).await["awaitingApproval"], true);
    }
}

fn calls(tagged: &str, named: &str, held: &str) -> Value {
    json!([
        ["list_tools", null],
        tool("submit_task", &json!({"prompt": "say hello"})),
        tool("submit_task", &json!({"prompt": "fail", "waitSeconds": 60})),
        tool("submit_task", &json!({"prompt": "x", "priority": 99})),
        tool("read_task", &json!({"id": held})),
        tool("list_pending_approvals", &json!({})),
        tool(tagged, &json!({"text": "hi"})),
        tool(tagged, &json!({})),
        tool("deploy_template", &json!({"template": named, "input": {"text": "ho"}})),
        tool("approve", &json!({"id": held})),
        ["list_resources", null],
        ["list_resource_templates", null],
        ["read_resource", format!("callboard://templates/{named}")],
        ["read_resource", format!("callboard://tasks/{held}/output")],
        ["read_resource", "callboard://tasks/../health/output"],
    ])
}

fn check(said: &[Value], expected: &[&str], named: &str, held: &str) {
    let tools = said[1]["answer"]["tools"].as_array().expect("tools");
    let shown: Vec<_> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(shown, expected);
    assert_eq!(tools[6]["inputSchema"]["required"], json!(["text"]), "{}", tools[6]);

    assert_eq!(text(&said[2]), "hello");
    assert_eq!(said[2]["answer"]["structuredContent"]["status"], "completed");
    assert!(said[2]["progress"].as_array().is_some_and(|it| !it.is_empty()), "{}", said[2]);
    assert!(
        text(&said[3]).contains(" failed") && said[3]["answer"]["isError"] == true,
        "{}",
        said[3]
    );
    assert!(
        text(&said[4]).contains("priority") && said[4]["answer"]["isError"] == true,
        "{}",
        said[4]
    );
    assert!(text(&said[5]).contains("waits for a reviewer"), "{}", said[5]);
    assert_eq!(said[6]["answer"]["structuredContent"]["items"][0]["taskId"], held);
    assert!(text(&said[7]).contains("\"last\": \"hi\""), "{}", said[7]);
    let progress = said[7]["progress"].to_string();
    assert!(progress.contains("of 2 steps"), "{progress}");
    assert!(text(&said[8]).contains("text") && said[8]["answer"]["isError"] == true, "{}", said[8]);
    assert!(text(&said[9]).contains("\"last\": \"ho\""), "{}", said[9]);
    assert!(text(&said[10]).contains("there is no tool approve"), "{}", said[10]);
    let listed = said[11]["answer"]["resources"].to_string();
    assert!(listed.contains(&format!("callboard://templates/{named}")), "{listed}");
    assert_eq!(said[12]["answer"]["resourceTemplates"].as_array().map(Vec::len), Some(3));
    let read = said[13]["answer"]["contents"][0]["text"].as_str().expect("a text");
    assert!(read.contains("say {{input.text}}"), "{read}");
    assert!(
        said[14].to_string().contains("has no output") || said[14].to_string().contains("held"),
        "{}",
        said[14]
    );
    assert!(said[15]["answer"]["raised"].is_string(), "{}", said[15]);
}

#[tokio::test]
async fn a_server_for_an_assistant_without_credentials_says_so() {
    let server = Server::start();
    let nobody = Home::new(&server.url);
    let said = nobody.run(&["mcp", "--expose", "x"]).await.failed(4);
    assert!(said.contains("callboard auth login"), "{said}");
}
