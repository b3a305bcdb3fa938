//! The client against the real program.

use callboard_client::types::{
    self, ChangeSchedule, CreateTask, DeployTemplate, HitlListQuery, PlanRequest, TasksListQuery,
};
use callboard_client::worker::Failure;
use callboard_client::{Callboard, Error, ErrorKind, Imported};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use crate::support::{Board, Running, until};

/// A worker that answers `say X` with X, in words, and `fail` with a failure.
async fn parrot(board: &Board) -> Running {
    let worker = board.worker().await.model("*", |task| {
        let words: Vec<Result<String, Failure>> = match task.prompt.strip_prefix("say ") {
            Some(text) => text.split_inclusive(' ').map(|word| Ok(word.to_owned())).collect(),
            None => vec![Err(Failure::fatal("it is no parrot's"))],
        };
        stream::iter(words)
    });
    Running::start(worker)
}

#[derive(Debug, PartialEq, serde::Deserialize)]
struct Colour {
    name: String,
}

#[tokio::test]
async fn a_prompt_is_answered_whole_in_pieces_and_as_a_type() {
    let board = Board::start().await;
    let (cb, worker) = (board.client("operator").await, parrot(&board).await);

    assert_eq!(cb.tasks().run("say zwölf Boxer").await.unwrap(), "zwölf Boxer");
    let pieces: Vec<_> = cb.tasks().stream("say one two three").try_collect().await.unwrap();
    assert_eq!(pieces.concat(), "one two three");
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}},
        "required": ["name"], "additionalProperties": false});
    let colour: Colour = cb.tasks().run_as(r#"say {"name": "red"}"#, schema).await.unwrap();
    assert_eq!(colour, Colour { name: "red".into() });
    let mismatch =
        cb.tasks().submit("say 7").await.unwrap().wait().await.unwrap().value::<Colour>();
    assert!(matches!(mismatch, Err(Error::OutputMismatch(_))), "{mismatch:?}");

    let refused = cb.tasks().run(CreateTask::new().prompt("what?").timeout_ms(60_000)).await;
    let Err(Error::Ended { item, status, code, message }) = refused else { panic!("{refused:?}") };
    assert!(item.starts_with("task dt_task_"), "{item}");
    assert_eq!((&*status, code.as_deref()), ("failed", Some("PROVIDER_ERROR")));
    assert_eq!(message, "it is no parrot's");
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_list_is_read_page_by_page_and_filtered_by_its_query() {
    let board = Board::start().await;
    let cb = board.client("operator").await;
    let tasks = (0..230).map(|n| {
        let tags = if n % 2 == 0 { ["even"] } else { ["odd"] };
        CreateTask::new().prompt(format!("task {n}")).queue("nobody").tags(tags)
    });
    let imported: Vec<_> = cb.tasks().import_lines(tasks).try_collect().await.unwrap();
    assert!(imported.iter().enumerate().all(|(at, it)| it.index == at && it.result.is_ok()));

    let all = cb.tasks().list(&TasksListQuery::new()).all().await.unwrap();
    assert_eq!(all.len(), 230);
    let ids = |tasks: Vec<String>| tasks.into_iter().collect::<std::collections::BTreeSet<_>>();
    let made = imported.into_iter().map(|it| it.result.unwrap()).collect();
    assert_eq!(ids(all.into_iter().map(|task| task.id).collect()), ids(made));
    let even = TasksListQuery::new().tags(["even"]).status(["pending"]);
    assert_eq!(cb.tasks().list(&even).total().await.unwrap(), 115);
    let some: Vec<_> = cb.tasks().list(&even).take(3).try_collect().await.unwrap();
    assert!(some.iter().all(|task| task.tags == ["even"]));
}

#[tokio::test]
async fn a_refusal_has_a_kind_a_code_and_details() {
    let board = Board::start().await;
    let cb = board.client("operator").await;
    let missing = cb.tasks().get("dt_task_00000000000000000000000000").await.unwrap_err();
    assert_eq!(missing.kind(), Some(ErrorKind::NotFound));
    let wrong = cb.tasks().submit(CreateTask::new().prompt("x").temperature(7.0)).await;
    let Err(Error::Api(wrong)) = wrong else { panic!("{wrong:?}") };
    assert_eq!((wrong.kind(), &*wrong.code), (ErrorKind::Invalid, "VALIDATION_ERROR"));
    assert!(wrong.details.to_string().contains("temperature"), "{}", wrong.details);
    let nobody = Callboard::with_key(&board.url, "dt_none").unwrap();
    assert_eq!(nobody.tasks().run("x").await.unwrap_err().kind(), Some(ErrorKind::Unauthorized));
    let viewer = board.client("viewer").await;
    assert_eq!(viewer.tasks().run("x").await.unwrap_err().kind(), Some(ErrorKind::Forbidden));
    let mixed = [json!({"prompt": "x", "queue": "nobody"}), json!({"prompt": ""})]
        .map(|task| serde_json::from_value::<CreateTask>(task).unwrap());
    let imported: Vec<_> = cb.tasks().import_lines(mixed).try_collect().await.unwrap();
    assert!(imported[0].result.is_ok() && imported[1].result.is_err(), "{imported:?}");
}

#[tokio::test]
async fn the_same_call_with_the_same_key_is_done_once() {
    let board = Board::start().await;
    let cb = board.client("operator").await;
    let task = || CreateTask::new().prompt("x").queue("nobody");
    let keyed = cb.keyed("order-7");
    let (first, second) =
        (keyed.tasks().submit(task()).await.unwrap(), keyed.tasks().submit(task()).await.unwrap());
    assert_eq!(first.id, second.id);
    assert_ne!(cb.tasks().submit(task()).await.unwrap().id, first.id);
    let load = || cb.keyed("load-7").tasks().import_lines([task(), task()]);
    let ids = |all: Vec<Imported>| all.into_iter().map(|it| it.result.unwrap()).collect::<Vec<_>>();
    let made = ids(load().try_collect().await.unwrap());
    assert_ne!(made[0], made[1]);
    assert_eq!(made, ids(load().try_collect().await.unwrap()));
    let cancelled = cb.tasks().cancel(&first.id).await.unwrap();
    assert_eq!(cancelled.status, "cancelled");
    let ended = first.wait_ended().await.unwrap();
    assert_eq!(ended.status, "cancelled");
    assert!(matches!(ended.wait().await, Err(Error::Ended { .. })));
}

fn plan(steps: &Value) -> PlanRequest {
    serde_json::from_value(json!({"name": "A plan", "steps": steps})).unwrap()
}

#[tokio::test]
async fn a_plan_runs_waits_for_its_reviewer_and_its_signal() {
    let board = Board::start().await;
    let (cb, worker) = (board.client("admin").await, parrot(&board).await);
    let steps = json!([
        {"id": "first", "prompt": "say {{input.text}}"},
        {"id": "go", "type": "wait", "signal": "go", "dependsOn": ["first"]},
        {"id": "last", "prompt": "say {{first.output}} {{go.output}}", "dependsOn": ["first", "go"]},
    ]);
    let made = cb.plans().create(plan(&steps)).await.unwrap();
    let gate = types::HitlRequest::new().required_for(["first"]);
    let body = types::ExecutePlan::new().input(json!({"text": "hello"})).hitl(gate);
    let misspelt = json!({"name": "A plan", "steps": [{"id": "a", "promt": "x"}]});
    let misspelt = serde_json::from_value::<PlanRequest>(misspelt).unwrap_err();
    assert!(misspelt.to_string().contains("promt"), "{misspelt}");
    let dry = cb.plans().dry_run(&made.id, body.clone()).await.unwrap();
    assert!(serde_json::to_value(dry).unwrap()["steps"].to_string().contains("first"));
    let run = cb.plans().execute(&made.id, body).await.unwrap();
    until(|| async { !cb.hitl().pending(&Default::default()).all().await.unwrap().is_empty() })
        .await;
    let waiting = cb.hitl().pending(&Default::default()).all().await.unwrap();
    assert_eq!(waiting[0].output.as_deref(), Some("hello"));
    cb.hitl().approve(&waiting[0].task_id, types::Approve::new().comment("fine")).await.unwrap();
    let decided = cb.hitl().list(&HitlListQuery::new().status(["approved"])).all().await.unwrap();
    assert_eq!(decided.len(), 1);
    cb.executions().signal(&run.id, "go", "now").await.unwrap();
    let id = run.id.clone();
    let events: Vec<_> = run.follow().try_collect().await.unwrap();
    assert_eq!((&*events[0].name, &*events.last().unwrap().name), ("snapshot", "end"));
    let done = cb.executions().get(&id).await.unwrap().wait().await.unwrap();
    let steps = serde_json::to_value(done.into_inner()).unwrap()["steps"].clone();
    assert_eq!(steps["last"]["output"], "hello now");
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_built_in_template_is_deployed_from_its_types() {
    let board = Board::start().await;
    let cb = board.client("operator").await;
    let templates = cb.templates().list(&Default::default()).all().await.unwrap();
    assert!(!templates.is_empty());
    let template = cb.templates().get(&templates[0].id, &Default::default()).await.unwrap();
    assert_eq!(template.id, templates[0].id);
    // What the template asks for is missing, and the server names it.
    let refused = cb.templates().dry_run(&template.id, DeployTemplate::new()).await.unwrap_err();
    assert_eq!(refused.kind(), Some(ErrorKind::Invalid));
}

#[tokio::test]
async fn events_are_read_from_a_place_in_their_order() {
    let board = Board::start().await;
    let (cb, worker) = (board.client("operator").await, parrot(&board).await);
    let place = cb.cursor().await.unwrap().expect("the server names a place");
    let task = cb.tasks().submit("say x").await.unwrap().wait().await.unwrap();
    let log = cb.events().names(["task.created", "task.completed"]).task(&*task.id).after(place);
    let seen: Vec<_> = log.stream().take(2).map_ok(|event| event.name).try_collect().await.unwrap();
    assert_eq!(seen, ["task.created", "task.completed"]);
    // The server has never had this place.
    let gap = cb.events().after("e0").stream().try_next().await.unwrap_err();
    assert!(matches!(gap, Error::EventGap { to } if !to.is_empty()));
    worker.stop().await.unwrap();
}

/// Each list and each read of the API is one that the types fit.
#[tokio::test]
async fn the_types_fit_the_answers_of_the_server() {
    let board = Board::start().await;
    let (cb, worker) = (board.client("admin").await, parrot(&board).await);
    cb.tasks().run("say x").await.unwrap();
    macro_rules! lists {
        ($($group:ident . $method:ident ( $($argument:expr),* );)*) => {
            $( cb.$group().$method($($argument),*).all().await
                .unwrap_or_else(|e| panic!("{}.{}: {e}", stringify!($group), stringify!($method))); )*
        };
    }
    macro_rules! reads {
        ($($group:ident . $method:ident ( $($argument:expr),* );)*) => {
            $( cb.$group().$method($($argument),*).await
                .map(drop).unwrap_or_else(|e| panic!("{}.{}: {e}", stringify!($group), stringify!($method))); )*
        };
    }
    lists! {
        tasks.list(&Default::default());
        plans.list(&Default::default());
        executions.list(&Default::default());
        templates.list(&Default::default());
        schedules.list(&Default::default());
        batches.list(&Default::default());
        hitl.list(&Default::default());
        hitl.reviewers();
        budgets.list();
        bulk.list();
        functions.list();
        keys.list(&Default::default());
        models.list();
        queues.list();
        users.list();
        users.invitations();
        webhooks.deliveries(&Default::default());
        workers.list();
        system.audit(&Default::default());
    }
    reads! {
        hitl.statistics();
        hitl.calibration(&Default::default());
        system.health();
        system.metrics();
        system.openapi();
        system.paused();
        system.usage(&types::SystemUsageQuery::new().group_by("model"));
        sessions.methods();
        webhooks.secret();
    }
    board.admin.sessions().who().await.unwrap();
    board.admin.sessions().list(&Default::default()).all().await.unwrap();
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_schedule_is_made_changed_and_deleted() {
    let board = Board::start().await;
    let cb = board.client("operator").await;
    let made = cb.plans().create(plan(&json!([{"id": "a", "prompt": "x"}]))).await.unwrap();
    let schedule = json!({"name": "nightly", "cron": "0 3 * * *", "timezone": "UTC",
            "target": {"planId": made.id}});
    let schedule: types::CreateSchedule = serde_json::from_value(schedule).unwrap();
    let schedule = cb.schedules().create(schedule).await.unwrap();
    let changed =
        cb.schedules().change(&schedule.id, ChangeSchedule::new().enabled(false)).await.unwrap();
    assert!(!serde_json::to_value(&changed).unwrap()["enabled"].as_bool().unwrap());
    cb.schedules().delete(&schedule.id).await.unwrap();
    assert!(cb.schedules().list(&Default::default()).all().await.unwrap().is_empty());
}
