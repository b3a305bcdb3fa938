//! The work of a schedule says which occurrence it is for.

use callboard_domain::plan::{PlanSource, StepSource};
use serde_json::Value;

use super::*;
use crate::jobs::schedule::Start;

fn hourly() -> Timed {
    // 14 hours ahead of UTC: 10:00 there is the next day.
    let timing = Timing::Cron { cron: "0 * * * *".into(), zone: "Pacific/Kiritimati".into() };
    Timed { timing, ..settings_of("0 * * * *", Overlap::Allow, CatchUp::None) }
}

#[tokio::test(start_paused = true)]
async fn an_execution_knows_its_occurrence_and_the_one_before_over_a_restart() {
    let bench = Bench::new().await;
    let prompt = "{{input.day}}, {{input.since}}, {{meta.scheduledAt}}, \
                  {{meta.previousScheduledAt}}, {{meta.startedAt}}, {{meta.timezone}}";
    let step = StepSource { id: "a".into(), prompt: prompt.into(), ..StepSource::default() };
    let source = PlanSource { name: "Night".into(), steps: vec![step], ..PlanSource::default() };
    let plan = bench.handle.create_plan(&owner(), source).await.expect("a plan").id;
    let input = json!({
        "day": "{{meta.scheduledDate}}", "since": "since {{meta.previousScheduledAt}}",
    });
    let Value::Object(input) = input else { panic!("an object") };
    let target = Target::Plan(plan, Start { input, ..Start::default() });
    let target = GivenTarget { target, given: json!({}) };
    let made = bench.handle.create_schedule(&owner(), hourly(), target).await.expect("it is sound");
    let id = made.row.schedule.id;

    let mut worker = bench.worker(1).await;
    let first = worker.assignment_while_beating().await;
    let (one, two) = ("2027-01-15T09:00:00.000Z", "2027-01-15T10:00:00.000Z");
    let zone = "Pacific/Kiritimati";
    assert_eq!(first.inputs.prompt, format!("2027-01-15, since , {one}, , {one}, {zone}"));
    worker.complete(first.lease, "out").await;
    drop(worker);

    let bench = bench.restart().await;
    let mut worker = bench.worker(1).await;
    let second = worker.assignment_while_beating().await;
    let expected = format!("2027-01-16, since {one}, {two}, {one}, {two}, {zone}");
    assert_eq!(second.inputs.prompt, expected);
    assert_eq!(bench.runs(id).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_task_has_the_occurrence_in_its_texts_and_keeps_every_other_brace() {
    let bench = Bench::new().await;
    let mut request = request();
    request.inputs.prompt = "Mails of {{ meta.scheduledDate }}, {{input.x}}".into();
    request.inputs.system_prompt = Some("In {{meta.timezone}}".into());
    let target = GivenTarget { target: Target::Task(Box::new(request)), given: json!({}) };
    bench.handle.create_schedule(&owner(), hourly(), target).await.expect("it is sound");
    let given = bench.worker(1).await.assignment_while_beating().await;
    assert_eq!(given.inputs.prompt, "Mails of 2027-01-15, {{input.x}}");
    assert_eq!(given.inputs.system_prompt.as_deref(), Some("In Pacific/Kiritimati"));
}
