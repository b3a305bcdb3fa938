//! Templates from the command line.

use serde_json::{Value, json};

use super::fake::{Fake, Told, execution};
use super::program::Home;

fn built_in(name: &str) -> String {
    format!("{}/config/templates/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[tokio::test]
async fn a_template_is_checked_without_a_server_and_every_fault_is_told() {
    let home = Home::new("http://127.0.0.1:9");
    for name in [
        "contract-review-v1",
        "due-diligence-v1",
        "extraction-v1",
        "financial-analysis-v1",
        "risk-assessment-v1",
    ] {
        let found = home.json(&["templates", "validate", &built_in(&format!("{name}.yaml"))]).await;
        assert_eq!((&found["valid"], &found["id"]), (&json!(true), &json!(name)));
    }
    let broken = json!({
        "name": "Broken", "version": "1.0.0", "industry": "custom", "inputSchema": {"type": "object"},
        "steps": [
            {"id": "a", "prompt": "{{input.missing}}", "dependsOn": ["b"]},
            {"id": "b", "prompt": "x", "dependsOn": ["a"]},
            {"id": "c", "prompt": "x", "dependsOn": ["nowhere"]},
        ],
    });
    let file = home.file("broken.json", &broken.to_string());
    let ended = home.run(&["templates", "validate", &file]).await;
    assert!(ended.stdout.is_empty());
    let told = ended.failed(5);
    for fault in
        ["CIRCULAR_DEPENDENCY", "MISSING_DEPENDENCY", "INVALID_INPUT_REF", "steps[2].dependsOn[0]"]
    {
        assert!(told.contains(fault), "{fault}: {told}");
    }
    let half = home.file("half.yaml", "name: [\n");
    assert!(home.run(&["templates", "validate", &half]).await.failed(5).contains("half.yaml"));
    home.run(&["templates", "validate", "/nowhere.yaml"]).await.failed(1);
}

#[tokio::test]
async fn a_built_in_template_is_deployed_with_its_sample() {
    let fake = Fake::start(|_, _| Told::Data(execution("running", "pending", "pending"))).await;
    let home = Home::new(&fake.url).with_key("k");
    let arguments = [
        "templates",
        "deploy",
        "contract-review-v1",
        "--sample",
        "--set",
        "jurisdiction=Norway",
        "--version",
        "1.0.0",
        "--model",
        "extract=m1",
        "--queue",
        "extract=q1",
    ];
    let ended = home.run(&arguments).await;
    assert!(ended.stderr.contains("config/templates/samples/contract-review-v1.json"), "{ended:?}");
    ended.ok();
    let asked = fake.asked_for("POST /api/templates/contract-review-v1/deploy").json();
    assert_eq!(asked["version"], "1.0.0");
    assert_eq!(asked["input"]["jurisdiction"], "Norway");
    assert!(asked["input"]["contract"].as_str().expect("text").contains("SERVICES AGREEMENT"));
    assert_eq!(asked["modelOverrides"], json!({"extract": "m1"}));
    assert_eq!(asked["queueOverrides"], json!({"extract": "q1"}));
    assert_eq!(asked["options"], Value::Null);
    home.run(&["templates", "deploy", "mine-v1", "--sample"]).await.failed(2);
}

#[tokio::test]
async fn a_dry_run_shows_what_would_run() {
    let fake = Fake::start(|asked, _| {
        assert_eq!(asked.json()["options"], json!({"dryRun": true}));
        Told::Data(json!({
            "status": "dry_run",
            "steps": [{"id": "one", "level": 0, "prompt": "x", "model": "m", "queue": "default",
                       "dependsOn": [], "gate": "always", "estimatedCost": 0.01}],
            "criticalPath": ["one"],
            "estimate": {"cost": 0.01, "costHigh": 0.02, "durationMs": 900, "basis": "prices"},
        }))
    })
    .await;
    let home = Home::new(&fake.url).with_key("k");
    let shown = home.run(&["templates", "deploy", "t-v1", "--dry-run", "--wait"]).await.ok();
    assert!(shown.contains("one") && shown.contains("always") && shown.contains("0.02"), "{shown}");
}

#[tokio::test]
async fn templates_are_published_as_they_are_listed_and_shown() {
    let fake = Fake::start(|asked, _| match asked.line.as_str() {
        "POST /api/templates" => Told::Refused(409, "VERSION_EXISTS"),
        line if line.contains("/versions") || line.contains('?') => {
            Told::Page(vec![json!({"id": "t-v1", "version": "1.0.0"})])
        }
        _ => Told::Data(json!({"id": "t-v1", "inputSchema": {"type": "object"}, "steps": []})),
    })
    .await;
    let home = Home::new(&fake.url).with_key("k");
    home.run(&["templates", "publish", &built_in("contract-review-v1.yaml")]).await.failed(6);
    let sent = fake.asked_for("POST /api/templates");
    assert_eq!(sent.header("content-type"), Some("application/yaml"));
    let file = std::fs::read_to_string(built_in("contract-review-v1.yaml")).expect("it exists");
    assert_eq!(sent.body, file);
    home.run(&["templates", "list", "--industry", "legal", "--search", "a b"]).await.ok();
    fake.asked_for("GET /api/templates?industry=legal&search=a+b");
    assert!(home.run(&["templates", "versions", "t-v1"]).await.ok().contains("1.0.0"));
    home.run(&["templates", "show", "t-v1"]).await.ok();
    fake.asked_for("GET /api/templates/t-v1");
}
