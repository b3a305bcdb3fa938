//! Models without a price under a cap or a budget: refused before anything begins.

use callboard_domain::confidence::ask::{Ask, Method};
use callboard_domain::execution::program::TaskDefaults;
use callboard_domain::schedule::{CatchUp, Overlap, Settings as Timed, Timing};
use serde_json::json;

use super::*;
use crate::handle::GivenTarget;
use crate::jobs::schedule::{Start as ScheduledStart, Target};

/// A bench on which a step without a model has one without a price.
async fn bench_without_default() -> Bench {
    let prices = Arc::new(Prices::parse(PRICES).expect("prices"));
    let task_defaults = TaskDefaults { model: "free".into(), ..TaskDefaults::default() };
    let live = Live { prices, ..Live::default() };
    let settings = Settings { live, task_defaults: Arc::new(task_defaults), ..settings() };
    let (store, wall) = (Arc::new(MemoryStore::new()), Arc::new(AtomicU64::new(1_800_000_000_000)));
    Bench::at((Instant::now(), wall), settings, store.clone(), store).await
}

fn priced(id: &str, depends_on: &[&str]) -> StepSource {
    StepSource { model: Some("m".into()), max_tokens: Some(1), ..step(id, depends_on) }
}

/// Second steps each of which may call the model `free`: as the default, as their own, as the next model
/// after a failure, or as the judge.
fn unpriced() -> [StepSource; 4] {
    let second = || priced("b", &["a"]);
    let models = vec!["m".into(), "free".into()];
    let judge = Ask { method: Method::Judge, judge_model: Some("free".into()), ..Ask::default() };
    [
        StepSource { model: None, ..second() },
        StepSource { model: Some("free".into()), ..second() },
        StepSource { model: None, routing: Routing { models, ..Routing::default() }, ..second() },
        StepSource { confidence: Some(judge), ..second() },
    ]
}

fn capped() -> Start {
    let options = Options { max_cost: Some(Money::from_usd(100.0)), ..Options::default() };
    Start { options, ..Start::default() }
}

#[tokio::test(start_paused = true)]
async fn each_model_that_any_step_may_call_needs_a_price_under_a_cap_or_a_budget() {
    for second in unpriced() {
        let bench = bench_without_default().await;
        let source = plan(vec![priced("a", &[]), second.clone()]);
        let plan = bench.handle.create_plan(&owner(), source).await.expect("a plan").id;
        let refused = bench.handle.execute(&owner(), plan, capped(), None).await;
        let Err(Error::BudgetExceeded(why)) = refused else { panic!("{second:?}: {refused:?}") };
        assert!(why.starts_with("step b may call model free, which has no price"), "{why}");
        bench.handle.execute(&owner(), plan, Start::default(), None).await.expect("it has no cap");

        let budget = budget(&bench, 100.0, OnExceed::Alert);
        bench.handle.create_budget(Environment::LIVE, budget).await.expect("it is taken");
        let refused = bench.handle.execute(&owner(), plan, Start::default(), None).await;
        let Err(Error::BudgetExceeded(why)) = refused else { panic!("{second:?}: {refused:?}") };
        assert!(why.starts_with("step b: model free has no price, and budget"), "{why}");
        let scheduled = schedule(&bench, Target::Plan(plan, ScheduledStart::default())).await;
        assert!(matches!(scheduled, Err(Error::BudgetExceeded(_))), "{second:?}: {scheduled:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn priced_steps_run_under_a_cap_and_a_budget() {
    let bench = bench_without_default().await;
    let source = plan(vec![priced("a", &[]), priced("b", &["a"])]);
    let plan = bench.handle.create_plan(&owner(), source).await.expect("a plan").id;
    let budget = budget(&bench, 100.0, OnExceed::Alert);
    bench.handle.create_budget(Environment::LIVE, budget).await.expect("it is taken");
    bench.handle.execute(&owner(), plan, capped(), None).await.expect("it has prices");
    let start = ScheduledStart { options: capped().options, ..ScheduledStart::default() };
    schedule(&bench, Target::Plan(plan, start)).await.expect("it has prices");
}

#[tokio::test(start_paused = true)]
async fn a_task_of_a_batch_or_a_schedule_without_a_price_is_named_where_it_stands() {
    let bench = bench().await;
    let budget = budget(&bench, 100.0, OnExceed::Reject);
    bench.handle.create_budget(Environment::LIVE, budget).await.expect("it is taken");
    let free = Request { model: "free".into(), ..costing(1) };
    let batch = vec![costing(1), free.clone()];
    let field = |refused: Error| {
        let Error::Invalid(fault) = refused else { panic!("{refused:?}") };
        (fault.field, fault.message)
    };
    let submitted = bench.handle.submit(&owner(), batch, true, None).await;
    let (at, says) = field(submitted.expect_err("it has no price"));
    assert_eq!(at, "tasks[1].model");
    assert!(says.starts_with("tasks[1].model free has no price"), "{says}");
    let alone = bench.handle.submit(&owner(), vec![free.clone()], false, None).await;
    assert_eq!(field(alone.expect_err("it has no price")).0, "model");
    let scheduled = schedule(&bench, Target::Task(Box::new(free))).await;
    assert_eq!(field(scheduled.expect_err("it has no price")).0, "target.task.model");
}

async fn schedule(bench: &Bench, target: Target) -> Result<(), Error> {
    let settings = Timed {
        name: "s".into(),
        timing: Timing::Cron { cron: "0 0 * * *".into(), zone: "UTC".into() },
        overlap: Overlap::Skip,
        catch_up: CatchUp::None,
        jitter_ms: 0,
        enabled: true,
    };
    let target = GivenTarget { target, given: json!({}) };
    bench.handle.create_schedule(&owner(), settings, target).await.map(drop)
}
