//! The template endpoints: versions, formats, who may see them, and deploys.

use callboard_domain::fuel::Fuel;
use callboard_domain::schema::{self, Schema};
use serde_json::{Value, json};

use crate::support::{Client, FakeWorker, Server};

mod again;
mod delete;
mod latest;

fn template(name: &str, version: &str) -> Value {
    json!({
        "name": name, "description": "Says it.", "version": version, "industry": "devops",
        "tags": ["say"], "visibility": "organization",
        "inputSchema": {
            "type": "object", "required": ["what"], "additionalProperties": false,
            "properties": {"what": {"type": "string"}, "how": {"type": "string", "default": "loud"}},
        },
        "steps": [
            {"id": "say", "prompt": "say {{input.what}} {{input.how}}"},
            {"id": "again", "prompt": "again {{say.output}}", "dependsOn": ["say"]},
        ],
    })
}

const YAML: &str = r#"
name: Say it
description: Says it.
version: "1.0.0"
industry: devops
tags: [say]
visibility: organization
inputSchema:
  type: object
  required: [what]
  additionalProperties: false
  properties:
    what: &text {type: string}
    how: {type: string, default: loud}
steps:
  - id: say
    prompt: say {{input.what}} {{input.how}}
  - id: again
    prompt: "again {{say.output}}"
    dependsOn: [say]
"#;

/// A user of this role, with a session.
async fn user(server: &Server, email: &str, role: &str) -> Client {
    let admin = server.admin().await;
    let body =
        json!({"email": email, "name": "n", "role": role, "password": "a long enough secret"});
    admin.post("/api/auth/users", &body).await.expect(201);
    let login = json!({"email": email, "password": "a long enough secret"});
    let session = admin.post("/api/auth/login", &login).await.expect_ok();
    Client::new(&server.url, session["token"].as_str().expect("a token"))
}

#[tokio::test]
async fn the_built_in_templates_are_listed_read_and_read_only() {
    let server = Server::start();
    let client = server.client("viewer").await;
    let list = async |query: &str| client.get(&format!("/api/templates?{query}")).await;
    let all = list("").await;
    assert_eq!(
        all.body["pagination"],
        json!({"total": 6, "limit": 20, "offset": 0, "hasMore": false})
    );
    for item in all.expect_ok().as_array().expect("a list") {
        for field in [
            "id",
            "name",
            "description",
            "version",
            "industry",
            "tags",
            "author",
            "stepsCount",
            "estimatedCost",
            "estimatedDurationMs",
            "hitlSteps",
            "visibility",
            "createdAt",
        ] {
            assert!(item.get(field).is_some(), "{field} in {item:#}");
        }
        assert_eq!(
            (&item["author"], &item["createdAt"]),
            (&json!("system"), &json!("2026-01-01T00:00:00.000Z"))
        );
        assert!(item.get("steps").is_none() && item.get("inputSchema").is_none());
    }
    for (query, total) in [
        ("industry=finance", 3),
        ("industry=legal", 1),
        ("industry=marketing", 0),
        ("search=DILIGENCE", 1),
        ("tags=finance,risk", 2),
        ("visibility=public", 6),
        ("visibility=private", 0),
    ] {
        assert_eq!(list(query).await.body["pagination"]["total"], total, "{query}");
    }
    for (query, field, rule) in [
        ("industry=space", "industry", "enum"),
        ("visibility=secret", "visibility", "enum"),
        ("limit=101", "limit", "range"),
        ("author=me", "author", "unknown"),
        ("search=", "search", "length"),
    ] {
        assert_eq!(list(query).await.fault(), (field.into(), rule.into()), "{query}");
    }
    let whole = client.get("/api/templates/due-diligence-v1").await.expect_ok();
    assert_eq!(
        (&whole["estimatedCost"], &whole["estimatedDurationMs"]),
        (&json!(0.089), &json!(135_000))
    );
    assert_eq!(
        (&whole["stepsCount"], &whole["hitlSteps"]),
        (&json!(7), &json!(["risk-matrix", "dd-report"]))
    );
    for field in
        ["id", "name", "description", "version", "industry", "tags", "steps", "inputSchema", "hitl"]
    {
        assert!(whole.get(field).is_some(), "{field}");
    }
    assert!(whole["steps"][0]["prompt"].is_string());
    let versions = client.get("/api/templates/due-diligence-v1/versions").await.expect_ok();
    assert_eq!(
        (versions.as_array().map(Vec::len), &versions[0]["version"]),
        (Some(2), &json!("1.1.0"))
    );
    let fault = client.get("/api/templates/due-diligence-v1?version=one").await.fault();
    assert_eq!(fault, ("version".into(), "pattern".into()));
    for path in ["due-diligence-v1?version=9.0.0", "nothing-v1", "nothing-v1/versions", "%00"] {
        assert_eq!(
            client.get(&format!("/api/templates/{path}")).await.refused(404),
            "NOT_FOUND",
            "{path}"
        );
    }
    let admin = server.client("admin").await;
    let refused = admin.post("/api/templates", &template("Contract Review", "1.1.0")).await;
    assert_eq!(refused.refused(403), "FORBIDDEN");
}

#[tokio::test]
async fn a_version_never_changes_and_a_new_one_stands_beside_it() {
    let server = Server::start();
    let ada = user(&server, "ada@example.com", "operator").await;
    let made = ada.post("/api/templates", &template("Say it", "1.0.0")).await.expect(201);
    assert_eq!((&made["id"], &made["author"]), (&json!("say-it-v1"), &json!("ada@example.com")));
    assert!(made["estimatedCost"].is_number() && made["estimatedDurationMs"].is_number());
    let again = ada.post("/api/templates", &template("Say it", "1.0.0")).await.expect(200);
    assert_eq!(again, made);
    let mut other = template("Say it", "1.0.0");
    other["steps"][0]["prompt"] = json!("shout {{input.what}}");
    assert_eq!(ada.post("/api/templates", &other).await.refused(409), "VERSION_EXISTS");
    other["version"] = json!("1.10.0");
    ada.post("/api/templates", &other).await.expect(201);
    other["version"] = json!("1.9.0");
    ada.post("/api/templates", &other).await.expect(201);
    let next = ada.post("/api/templates", &template("Say it", "2.0.0")).await.expect(201);
    assert_eq!(next["id"], "say-it-v2");

    let highest = ada.get("/api/templates/say-it-v1").await.expect_ok();
    assert_eq!(
        (&highest["version"], &highest["steps"][0]["prompt"]),
        (&json!("1.10.0"), &json!("shout {{input.what}}"))
    );
    let first = ada.get("/api/templates/say-it-v1?version=1.0.0").await.expect_ok();
    let mut made = made;
    made["latest"] = json!(false);
    assert_eq!(first, made);
    let versions = ada.get("/api/templates/say-it-v1/versions").await.expect_ok();
    let numbers: Vec<_> =
        versions.as_array().expect("a list").iter().map(|it| it["version"].clone()).collect();
    assert_eq!(numbers, ["1.10.0", "1.9.0", "1.0.0"]);
    assert_eq!(
        ada.get("/api/templates?tags=say").await.body["pagination"]["total"],
        2,
        "one for each id"
    );

    let key = server.client("operator").await;
    let refused = key.post("/api/templates", &template("Say it", "1.11.0")).await;
    assert_eq!(refused.refused(403), "FORBIDDEN", "it is not the author");
    let own = key.post("/api/templates", &template("Mine", "1.0.0")).await.expect(201);
    assert_eq!(own["author"], "key:operator");
    server
        .client("admin")
        .await
        .post("/api/templates", &template("Say it", "1.11.0"))
        .await
        .expect(201);
    server
        .client("viewer")
        .await
        .post("/api/templates", &template("X", "1.0.0"))
        .await
        .refused(403);
}

#[tokio::test]
async fn yaml_and_json_are_the_same_template() {
    let mut server = Server::start();
    let client = server.client("operator").await;
    for content_type in ["application/yaml", "text/yaml; charset=utf-8"] {
        let status = if content_type.starts_with("app") { 201 } else { 200 };
        client.post_as("/api/templates", content_type, YAML).await.expect(status);
    }
    client.post("/api/templates", &template("Say it", "1.0.0")).await.expect(200);
    for (body, says) in [
        ("", "empty"),
        ("name: a\nname: b\n", "given twice"),
        ("a: [", ""),
        ("\u{feff}name: a", "byte-order mark"),
        ("1: a", "a name must be a string"),
        ("a: !!binary aGk=", "tag"),
        ("a: .inf", "out of range"),
        ("a: 1\n---\nb: 1", "second document"),
    ] {
        let answer = client.post_as("/api/templates", "application/yaml", body).await;
        assert_eq!(answer.refused(400), "INVALID_YAML", "{body:?}");
        let message = answer.body["error"]["message"].as_str().expect("a text");
        assert!(message.contains(says), "{body:?}: {message}");
    }
    let deep = "{a: ".repeat(100);
    assert_eq!(
        client.post_as("/api/templates", "text/yaml", &deep).await.refused(400),
        "INVALID_YAML"
    );
    let laughs = |n: u32| match n.checked_sub(1) {
        None => format!("a0: &a0 [{}]\n", ["lol"; 9].join(", ")),
        Some(of) => format!("a{n}: &a{n} [{}]\n", [format!("*a{of}").as_str(); 9].join(", ")),
    };
    let laughs = (0..12).map(laughs).collect::<Vec<_>>().concat();
    assert_eq!(
        client.post_as("/api/templates", "text/yaml", &laughs).await.refused(400),
        "INVALID_YAML"
    );
    assert_eq!(
        client.post_as("/api/templates", "text/yaml", "- a").await.fault(),
        ("body".into(), "type".into())
    );
    let quoted = YAML.replace("\"1.0.0\"", "1.0").replace("Say it", "5");
    let answer = client.post_as("/api/templates", "text/yaml", &quoted).await;
    assert_eq!(answer.fault(), ("name".into(), "type".into()));
    assert_eq!(answer.body["error"]["details"]["errors"][1]["field"], "version");
    for content_type in ["text/plain", "application/x-yaml", "application/yaml; charset=latin1"] {
        let answer = client.post_as("/api/templates", content_type, YAML).await;
        assert_eq!(answer.refused(415), "UNSUPPORTED_MEDIA_TYPE");
        let message = answer.body["error"]["message"].as_str().expect("a text");
        assert!(
            message.contains("application/json") && message.contains("application/yaml"),
            "{message}"
        );
    }
    // A deploy is JSON only.
    let deploy = client.post_as("/api/templates/say-it-v1/deploy", "text/yaml", "input: {}").await;
    deploy.refused(415);

    server.kill();
    server.restart();
    // Another key of the same name is another author.
    let client = client.at(&server.url);
    client.post("/api/templates", &template("Say it", "1.0.0")).await.expect(200);
}

#[tokio::test]
async fn every_fault_of_a_template_is_told() {
    let server = Server::start();
    let client = server.client("operator").await;
    let post = async |change: &dyn Fn(&mut Value)| {
        let mut body = template("Say it", "1.0.0");
        change(&mut body);
        client.post("/api/templates", &body).await
    };
    for (pointer, value, field, rule) in [
        ("/name", json!("x".repeat(101)), "name", "length"),
        ("/name", json!("§§"), "name", "pattern"),
        ("/name", json!(null), "name", "required"),
        ("/description", json!("x".repeat(501)), "description", "length"),
        ("/version", json!("1.0"), "version", "pattern"),
        ("/industry", json!("space"), "industry", "enum"),
        ("/visibility", json!("secret"), "visibility", "enum"),
        ("/tags", json!("say"), "tags", "type"),
        ("/inputSchema", json!(null), "inputSchema", "required"),
        ("/inputSchema", json!([]), "inputSchema", "type"),
        ("/inputSchema", json!({"$ref": "http://example.com/x"}), "inputSchema.$ref", "ref"),
        ("/steps", json!([]), "steps", "length"),
        ("/steps", json!(null), "steps", "required"),
    ] {
        let answer =
            post(&|body| *body.pointer_mut(pointer).expect("it is there") = value.clone()).await;
        assert_eq!(answer.fault(), (field.into(), rule.into()), "{pointer} {value}");
    }
    for (member, value, field, rule) in [
        ("hitl", json!({"requiredFor": ["x"]}), "hitl.requiredFor[0]", "step"),
        ("hitl", json!({"confidenceThreshold": 2}), "hitl.confidenceThreshold", "range"),
        ("defaults", json!({"temperature": 2}), "defaults.temperature", "range"),
        ("defaults", json!({"priority": 2}), "defaults.priority", "unknown"),
        ("metadata", json!([]), "metadata", "type"),
        ("metadata", json!({"estimates": {"cost": -1}}), "metadata.estimates.cost", "range"),
        ("id", json!("mine"), "id", "unknown"),
        ("outputSchema", json!({"type": "nonsense"}), "outputSchema.type", "enum"),
    ] {
        let answer = post(&|body| body[member] = value.clone()).await;
        let (found, found_rule) = answer.fault();
        assert_eq!(found, field, "{member} {value} {found_rule}");
        assert!(found_rule == rule || member == "outputSchema", "{member} {value} {found_rule}");
    }
    let refs = post(&|body| body["steps"][0]["prompt"] = json!("{{input.nobody}}")).await;
    assert_eq!(refs.refused(400), "INVALID_INPUT_REF");
    let both = post(&|body| {
        body["steps"][0]["prompt"] = json!("{{input.nobody}}");
        body["steps"][1]["dependsOn"] = json!(["x"]);
        body["version"] = json!(1);
    })
    .await;
    let errors = both.body["error"]["details"]["errors"].as_array().expect("faults").clone();
    let codes: Vec<_> =
        errors.iter().map(|error| error["code"].as_str().expect("a text")).collect();
    assert_eq!(
        codes,
        ["VALIDATION_ERROR", "INVALID_INPUT_REF", "UNDECLARED_DEPENDENCY", "MISSING_DEPENDENCY"]
    );
    assert_eq!(client.get("/api/templates").await.body["pagination"]["total"], 6);
}

#[tokio::test]
async fn what_may_not_be_seen_is_not_there() {
    let server = Server::start();
    let ada = user(&server, "ada@example.com", "operator").await;
    let eve = user(&server, "eve@example.com", "operator").await;
    let mut private = template("Secret", "1.0.0");
    private.as_object_mut().expect("an object").remove("visibility");
    let made = ada.post("/api/templates", &private).await.expect(201);
    assert_eq!(made["visibility"], "private");
    let deploy = json!({"input": {"what": "x"}});
    for (client, seen) in [(&ada, true), (&eve, false), (&server.admin().await, true)] {
        let status = if seen { 200 } else { 404 };
        for path in ["secret-v1", "secret-v1/versions", "secret-v1?version=1.0.0"] {
            let answer = client.get(&format!("/api/templates/{path}")).await;
            assert_eq!(answer.status, status, "{path}");
        }
        let answer = client.post("/api/templates/secret-v1/deploy", &deploy).await;
        assert_eq!(answer.status, if seen { 201 } else { 404 });
        let listed = client.get("/api/templates?search=secret").await;
        assert_eq!(listed.body["pagination"]["total"], u64::from(seen));
    }
    let viewer = server.client("viewer").await;
    viewer.post("/api/templates/contract-review-v1/deploy", &deploy).await.refused(403);
    let worker = server.client("worker").await;
    for path in ["/api/templates", "/api/templates/contract-review-v1", "/api/plans/executions"] {
        worker.get(path).await.refused(403);
    }

    let admin = server.admin().await;
    let test = json!({"name": "t", "role": "operator", "environment": "test"});
    let key = admin.post("/api/auth/keys", &test).await.expect(201);
    let sandbox = Client::new(&server.url, key["key"].as_str().expect("a key"));
    assert_eq!(sandbox.get("/api/templates").await.body["pagination"]["total"], 6, "built in");
    assert_eq!(sandbox.get("/api/plans").await.body["pagination"]["total"], 0);
    assert_eq!(sandbox.get("/api/plans/executions").await.body["pagination"]["total"], 0);
    let executions = ada.get("/api/plans/executions").await.expect_ok();
    let id = executions[0]["id"].as_str().expect("an id");
    sandbox.get(&format!("/api/plans/executions/{id}")).await.refused(404);
    sandbox.delete(&format!("/api/plans/executions/{id}")).await.refused(404);
}

/// Before: anybody read a private template in the plans of its deploys, and ran it through them.
#[tokio::test]
async fn the_plans_of_a_private_template_are_seen_and_run_by_those_who_may_see_it() {
    let mut server = Server::start();
    let ada = user(&server, "ada@example.com", "operator").await;
    let eve = user(&server, "eve@example.com", "operator").await;
    let viewer = server.client("viewer").await;
    let deployed = async |client: &Client, name: &str, visibility: &str| {
        let mut template = template(name, "1.0.0");
        template["visibility"] = json!(visibility);
        let made = client.post("/api/templates", &template).await.expect(201);
        let path = format!("/api/templates/{}/deploy", made["id"].as_str().expect("an id"));
        client.post(&path, &json!({"input": {"what": "x"}})).await.expect(201)
    };
    let secret = deployed(&ada, "Secret", "private").await;
    let shared = deployed(&ada, "Shared", "organization").await;
    let id = |execution: &Value, name: &str| execution[name].as_str().expect("an id").to_owned();
    let (hidden, execution) = (id(&secret, "planId"), id(&secret, "id"));
    let own = eve.plan(&json!([{"id": "a", "prompt": "p"}])).await;
    let check = async |server: &Server| {
        let admin = server.admin().await;
        let at = |client: &Client| client.at(&server.url);
        for (client, total) in [(&at(&ada), 3), (&at(&eve), 2), (&at(&viewer), 2), (&admin, 3)] {
            let sees = total == 3;
            let listed = client.get("/api/plans?limit=1&offset=1").await;
            assert_eq!(listed.body["pagination"]["total"], total);
            assert_eq!(listed.expect_ok().as_array().expect("a list").len(), 1);
            let all = client.get("/api/plans").await.expect_ok();
            let ids: Vec<_> = all.as_array().expect("a list").iter().map(|it| &it["id"]).collect();
            assert_eq!(ids.contains(&&json!(hidden)), sees, "{ids:?}");
            let found = client.get("/api/plans?search=secret").await;
            assert_eq!(found.body["pagination"]["total"], u64::from(sees));
            let plan = client.get(&format!("/api/plans/{hidden}")).await;
            assert_eq!(plan.status, if sees { 200 } else { 404 });
            client.get(&format!("/api/plans/{own}")).await.expect_ok();
            client.get(&format!("/api/plans/{}", id(&shared, "planId"))).await.expect_ok();
        }
    };
    check(&server).await;
    let input = json!({"input": {"what": "y"}});
    let dry = json!({"input": {"what": "y"}, "options": {"dryRun": true}});
    let schedule = json!({
        "name": "s", "at": "2099-01-01T00:00:00Z",
        "target": {"planId": hidden, "input": {"what": "y"}},
    });
    for (path, body) in [
        (format!("/api/plans/{hidden}/execute"), &input),
        (format!("/api/plans/{hidden}/execute"), &dry),
        (format!("/api/plans/executions/{execution}/fork"), &input),
        ("/api/schedules".to_owned(), &schedule),
    ] {
        assert_eq!(eve.post(&path, body).await.refused(404), "NOT_FOUND", "{path} {body}");
        assert!(ada.post(&path, body).await.status.is_success(), "{path} {body}");
    }

    // The plans of a deleted template are as visible as it was, after a start as well.
    let executions = ada.get("/api/plans/executions").await.expect_ok();
    for one in executions.as_array().expect("a list") {
        ada.delete(&format!("/api/plans/executions/{}", id(one, "id"))).await;
    }
    ada.delete("/api/templates/secret-v1").await.expect_ok();
    check(&server).await;
    server.kill();
    server.restart();
    check(&server).await;
}

#[tokio::test]
async fn a_template_is_deployed_with_its_input_checked_and_its_version_pinned() {
    let server = Server::start();
    let client = server.client("operator").await;
    client.post("/api/templates", &template("Say it", "1.0.0")).await.expect(201);
    let path = "/api/templates/say-it-v1/deploy";
    for (body, field, rule) in [
        (json!({}), "input.what", "required"),
        (json!({"input": {"what": 5}}), "input.what", "type"),
        (json!({"input": {"what": "x", "more": 1}}), "input.more", "unknown"),
        (json!({"input": {"what": "x"}, "modelOverrides": {"x": "m"}}), "modelOverrides.x", "step"),
        (json!({"input": {"what": "x"}, "queueOverrides": {"x": "q"}}), "queueOverrides.x", "step"),
        (json!({"modelOverrides": {"say": 5}}), "modelOverrides.say", "type"),
        (
            json!({"input": {"what": "x"}, "modelOverrides": {"say": ""}}),
            "modelOverrides.say",
            "length",
        ),
        (
            json!({"input": {"what": "x"}, "queueOverrides": {"again": "q".repeat(129)}}),
            "queueOverrides.again",
            "length",
        ),
        (
            json!({"input": {"what": "x"}, "hitl": {"requiredFor": ["x"]}}),
            "hitl.requiredFor[0]",
            "step",
        ),
        (json!({"version": "one"}), "version", "pattern"),
        (json!({"stepOverrides": {}}), "stepOverrides", "unknown"),
    ] {
        let fault = client.post(path, &body).await.fault();
        assert_eq!(fault, (field.into(), rule.into()), "{body}");
    }
    let fault = client
        .post(
            "/api/templates/risk-assessment-v1/deploy",
            &json!({
                "input": {"entityName": "e", "entityType": "planet"},
            }),
        )
        .await
        .fault();
    assert_eq!(fault, ("input.entityType".into(), "enum".into()));
    client.post("/api/templates/nothing-v1/deploy", &json!({})).await.refused(404);

    let body = json!({
        "input": {"what": "hi"}, "modelOverrides": {"say": "big"}, "queueOverrides": {"again": "default"},
        "hitl": {"requiredFor": [], "notifyChannels": ["email", "dashboard"]},
    });
    let begun = client.post(path, &body).await.expect(201);
    assert_eq!((&begun["templateId"], &begun["status"]), (&json!("say-it-v1"), &json!("running")));
    assert_eq!(begun["progress"]["total"], 2);
    let (id, plan) =
        (begun["id"].as_str().expect("an id"), begun["planId"].as_str().expect("an id"));
    let plan = client.get(&format!("/api/plans/{plan}")).await.expect_ok();
    assert_eq!(
        (&plan["templateId"], &plan["templateVersion"]),
        (&json!("say-it-v1"), &json!("1.0.0"))
    );
    assert_eq!(plan["steps"][0]["model"], "big");
    let mut next = template("Say it", "1.1.0");
    next["steps"][0]["prompt"] = json!("shout {{input.what}}");
    client.post("/api/templates", &next).await.expect(201);

    let worker = FakeWorker::connect(&server, &server.key("worker").await, 4).await;
    worker.run(|task| Ok(task["prompt"].as_str().unwrap_or_default().to_owned()));
    let done = client.execution_with_status(id, "completed").await;
    assert_eq!(done["steps"]["again"]["output"], "again say hi loud");
    let pinned = json!({"input": {"what": "hi"}, "version": "1.0.0"});
    let begun = client.post(path, &pinned).await.expect(201);
    let done =
        client.execution_with_status(begun["id"].as_str().expect("an id"), "completed").await;
    assert_eq!(done["steps"]["say"]["output"], "say hi loud");
    let newest = client.post(path, &json!({"input": {"what": "hi"}})).await.expect(201);
    let done =
        client.execution_with_status(newest["id"].as_str().expect("an id"), "completed").await;
    assert_eq!(done["steps"]["say"]["output"], "shout hi");
    let list = client.get("/api/plans/executions?templateId=say-it-v1").await;
    assert_eq!(list.body["pagination"]["total"], 3);
}

#[tokio::test]
async fn a_sample_runs_until_a_reviewer_must_look() {
    let server = Server::start();
    let client = server.client("operator").await;
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 8).await;
    worker.run(|task| {
        let schema = Schema::checked_before(&task["outputSchema"]);
        let example = schema.example(&mut Fuel::new(schema::FUEL));
        example.map(|example| example.to_string()).map_err(|_| "no example".to_owned())
    });
    let sample = include_str!("../../config/templates/samples/contract-review-v1.json");
    let sample: Value = serde_json::from_str(sample).expect("JSON");
    let begun =
        client.post("/api/templates/contract-review-v1/deploy", &json!({"input": sample})).await;
    let begun = begun.expect(201);
    let id = begun["id"].as_str().expect("an id");
    let held = client
        .execution_when(id, |e| {
            e["progress"]["awaitingApproval"] == 1 && e["progress"]["completed"] == 2
        })
        .await;
    let step = &held["steps"]["analyze-risk"];
    assert_eq!((&step["status"], &step["waitingFor"]), (&json!("pending"), &json!("approval")));
    assert_eq!((&step["awaitingApproval"], step.get("output")), (&json!(true), None));
    assert_eq!((&held["status"], &held["progress"]["pending"]), (&json!("running"), &json!(2)));
}

#[tokio::test]
async fn a_hundred_deploys_with_one_key_make_one_execution() {
    let server = Server::start();
    let client = server.client("operator").await;
    let body = json!({"input": {"contract": "c"}});
    let posts = (0..100).map(|_| {
        let (client, body) = (client.clone(), body.clone());
        tokio::spawn(async move {
            client.post_once("/api/templates/contract-review-v1/deploy", "once", &body).await
        })
    });
    let posts: Vec<_> = posts.collect();
    let (mut first, mut fresh) = (None, 0);
    for post in posts {
        let answer = post.await.expect("an answer");
        fresh += u64::from(!answer.headers.contains_key("idempotent-replayed"));
        let data = answer.expect(201);
        assert_eq!(first.get_or_insert_with(|| data.clone()), &data);
    }
    assert_eq!(fresh, 1);
    assert_eq!(client.get("/api/plans/executions").await.body["pagination"]["total"], 1);
    assert_eq!(client.get("/api/plans").await.body["pagination"]["total"], 1);
    let other = json!({"input": {"contract": "d"}});
    let refused =
        client.post_once("/api/templates/contract-review-v1/deploy", "once", &other).await;
    assert_eq!(refused.refused(422), "IDEMPOTENCY_KEY_REUSED");
}
