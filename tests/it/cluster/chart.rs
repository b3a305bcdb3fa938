//! The Helm chart of docs/cluster: linted, rendered, and its settings tried on a real server.

use std::process::{Command, Output};

use callboard_postgres::Server as Postgres;
use serde_json::Value;

use crate::support::Server;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/cluster/helm");
const SECRETS: &str = "/run/secrets/callboard";

struct Tools(String);

impl Tools {
    fn install() -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/helm/install");
        let output = Command::new(script).output().expect("the script runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self(String::from_utf8(output.stdout).expect("a path").trim().replace("python", ""))
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(format!("{}{program}", self.0));
        command.args(arguments).output().expect("it runs")
    }

    fn helm(&self, verb: &[&str], values: &[String]) -> Output {
        let values = values.iter().flat_map(|value| ["--set", value.as_str()]);
        self.run("helm", &verb.iter().copied().chain(values).collect::<Vec<_>>())
    }
}

fn passed(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn values(url: &str) -> Vec<String> {
    [
        "image.repository=registry.example.com/callboard",
        "secret=callboard",
        "cluster.term=2s",
        "server.publicUrl=https://callboard.example.com",
        "server.trustedProxies=10.0.0.0/8",
        "env.CALLBOARD_QUEUE__AGING=90s",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain([format!("database.url={url}")])
    .collect()
}

#[tokio::test]
async fn the_chart_is_valid_and_a_server_takes_its_settings() {
    callboard_common::tls::install_provider();
    let tools = Tools::install();
    let postgres = Postgres::start();
    let values = values(&postgres.url(&postgres.database()));
    passed(&tools.helm(&["lint", "--strict", CHART], &values));
    let rendered = passed(&tools.helm(&["template", "node", CHART], &values));
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("rendered.yaml");
    std::fs::write(&file, rendered).expect("it can be written");
    let file = file.to_str().expect("UTF-8");
    passed(&tools.run("kubernetes-validate", &["--strict", "-k", "1.26", file]));

    for missing in ["image.repository", "secret", "database.url", "server.publicUrl"] {
        let rest = values.iter().filter(|value| !value.starts_with(missing));
        let refused = tools.helm(&["template", "node", CHART], &rest.cloned().collect::<Vec<_>>());
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(
            !refused.status.success() && said.contains(&format!("{missing} is required")),
            "{said}"
        );
    }

    let to_json =
        "import json,sys,yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    let objects = passed(&tools.run("python", &["-c", to_json, file]));
    let objects: Value = serde_json::from_str(&objects).expect("JSON");
    let objects = objects.as_array().expect("objects");
    let nodes = objects.iter().find(|object| object["kind"] == "StatefulSet").expect("nodes");
    let container = &nodes["spec"]["template"]["spec"]["containers"][0];
    let secrets = directory.path().to_str().expect("UTF-8");
    for (name, text) in [
        ("database-password", "the password of the database"),
        ("cluster-key", "the key with which nodes sign what they forward"),
        ("signing-key", "the signing key of every node of this cluster"),
        ("webhook-secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
    ] {
        std::fs::write(directory.path().join(name), text).expect("it can be written");
    }
    let settings: Vec<_> = container["env"]
        .as_array()
        .expect("settings")
        .iter()
        .filter_map(|one| Some((one["name"].as_str()?, one["value"].as_str()?)))
        // Its value is the pod's name in the network of the cluster.
        .filter(|(name, _)| *name != "CALLBOARD_CLUSTER__ADVERTISE")
        .map(|(name, value)| {
            let name = name.strip_prefix("CALLBOARD_").expect("a setting");
            (name, value.replace(SECRETS, secrets))
        })
        .collect();
    assert_eq!(settings.iter().filter(|(_, value)| value.starts_with(secrets)).count(), 4);
    let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let server = Server::with(&settings);
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str().expect("a path");
        let answer = crate::support::plain_http()
            .build()
            .expect("a client")
            .get(format!("{}{path}", server.url))
            .send()
            .await
            .expect("an answer");
        assert_eq!(answer.status().as_u16(), 200, "{path}");
    }
    let nodes = server.admin().await.get("/api/cluster").await.expect_ok();
    assert_eq!(nodes[0]["status"], "active", "{nodes:#}");
}
