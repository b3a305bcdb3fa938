//! The requests of the model's clients: tasks with and without gates, plans of a few steps.

use std::sync::Arc;

use callboard_domain::id::UserId;
use callboard_domain::plan::{
    HitlSource, MapSource, OnItemError, PlanSource, RetrySource, StepSource, WaitSource,
};
use callboard_domain::rate::{Quota, Quotas, Tier};
use callboard_domain::task::flow::FlowSource;
use callboard_domain::task::{Concurrency, Flow, Gate, Hold, Inputs, OnConflict, Request};
use callboard_domain::usage::Prices;
use serde_json::json;

use super::chance::Chance;
use super::limits::{PAUSED, RATED};
use crate::Owner;
use crate::handle::Start;
use crate::items::submission::Options;
use crate::tests::{owner, request};

/// How many of its tasks the bounded account may run at once, and with the larger plan.
pub(super) const BOUND: u32 = 2;
const LARGER_BOUND: u32 = 5;

/// The models that budgets are for, the one with limits, and the one without a price.
pub(super) const WAITS: &str = "w";
pub(super) const REJECTS: &str = "r";
pub(super) const METERED: &str = "l";
pub(super) const UNPRICED: &str = "x";
/// One dollar for each output token, and nothing for input tokens.
const PRICE: &str = r#"{"input_cost_per_token": 0, "output_cost_per_token": 1.0}"#;
/// The concurrency keys, each with its limit.
pub(super) const KEYS: [(&str, u32); 2] = [("one", 1), ("two", 2)];

/// The prices of the models that have one.
pub(super) fn prices() -> Prices {
    let each = ["m", WAITS, REJECTS, METERED].map(|model| format!("\"{model}\": {PRICE}"));
    Prices::parse(&format!("{{{}}}", each.join(","))).expect("prices")
}

/// The account whose plan bounds how many of its tasks run at once, or the other.
pub(super) fn account(bounded: bool, planned: Option<UserId>) -> Owner {
    let user = planned.unwrap_or(UserId::from_u128(2));
    let id = if bounded { user.to_string() } else { owner().id };
    Owner { id, ..owner() }
}

/// The quotas of the accounts: an account that is not known has the default one.
pub(super) fn quotas() -> Quotas {
    let quota = |tasks| Quota { concurrent_tasks: Some(tasks), ..Quotas::default().free };
    let (free, pro) = (quota(BOUND), quota(LARGER_BOUND));
    Quotas { free, pro, default: Tier::Free, ..Quotas::default() }
}

/// A task that nothing limits but the bound of its account.
pub(super) fn plain(prompt: String, queue: &str) -> Request {
    let inputs = Inputs { prompt, ..Inputs::default() };
    Request { queue: queue.into(), max_tokens: Some(1), inputs, ..request() }
}

/// One task more of a key, which is refused if the key is used up.
pub(super) fn of_key((key, limit): (&str, u32), on_conflict: OnConflict) -> Arc<Flow> {
    let concurrency = Some(Concurrency { key: key.into(), limit, on_conflict });
    Arc::new(Flow { concurrency, fairness: None })
}

/// The model of a task or step, and its most tokens.
fn model(chance: &mut Chance) -> (&'static str, u64) {
    match chance.below(100) {
        0..50 => ("m", chance.within(1, 9)),
        50..65 => (WAITS, chance.within(1, 9)),
        65..80 => (REJECTS, chance.within(1, 9)),
        _ => (METERED, [9, 60, 60][chance.index(3)]),
    }
}

fn on_conflict(chance: &mut Chance) -> OnConflict {
    let all =
        [OnConflict::Queue, OnConflict::Reject, OnConflict::Reject, OnConflict::CancelRunning];
    all[chance.index(4)]
}

/// A task, identified by its `prompt`.
pub(super) fn task(chance: &mut Chance, prompt: String) -> Request {
    let queue = ["default", "default", "default", PAUSED, RATED][chance.index(5)];
    let (mut model, max_tokens) = model(chance);
    if queue == RATED && chance.percent(70) {
        // Without room in the budget, it takes no place of the rate.
        model = WAITS;
    } else if chance.percent(5) {
        model = UNPRICED;
    }
    let flow = chance.percent(20).then(|| of_key(KEYS[chance.index(2)], on_conflict(chance)));
    Request {
        model: model.into(),
        max_tokens: Some(max_tokens),
        flow,
        queue: queue.into(),
        priority: u8::try_from(chance.within(1, 10)).expect("small"),
        timeout_ms: chance.within(1_500, 12_000),
        gate: chance.percent(50).then(|| gate(chance)),
        inputs: Inputs { prompt, ..Inputs::default() },
        ..request()
    }
}

fn gate(chance: &mut Chance) -> Gate {
    let hold = [Hold::Always, Hold::Always, Hold::Below, Hold::Never][chance.index(4)];
    let threshold = (hold == Hold::Below).then_some(0.5);
    Gate {
        hold,
        threshold,
        timeout_ms: chance.within(2_000, 15_000),
        pass_unknown: chance.percent(50),
        sample_rate: if chance.percent(50) { 0.5 } else { 0.0 },
        ..Gate::ALWAYS
    }
}

/// A plan of a few steps, each of which says its name and repeats the outputs of its dependencies; and
/// each step's dependencies.
pub(super) fn plan(chance: &mut Chance) -> (PlanSource, Vec<Vec<u16>>) {
    let count = u16::try_from(chance.within(1, 5)).expect("small");
    let density = chance.within(20, 100);
    let mut depends_on: Vec<Vec<u16>> = Vec::new();
    let mut steps = Vec::new();
    for number in 0..count {
        let on: Vec<u16> = (0..number).filter(|_| chance.percent(density)).collect();
        let outputs: Vec<_> = on.iter().map(|on| format!("{{{{s{on}.output}}}}")).collect();
        let on_ids = || on.iter().map(|on| format!("s{on}")).collect();
        if chance.percent(12) {
            let signal = format!("go{}", chance.below(2));
            steps.push(StepSource {
                id: format!("s{number}"),
                depends_on: on_ids(),
                timeout_ms: chance.percent(40).then(|| chance.within(2_000, 30_000)),
                wait: Some(WaitSource { signal, schema: None }),
                ..StepSource::default()
            });
            depends_on.push(on);
            continue;
        }
        let (model, max_tokens) = model(chance);
        let flow = chance.percent(15).then(|| {
            let (key, limit) = KEYS[chance.index(2)];
            let (concurrency_key, concurrency_limit) = (Some(key.to_owned()), Some(limit));
            let on_conflict = Some(on_conflict(chance));
            FlowSource { concurrency_key, concurrency_limit, on_conflict, ..FlowSource::default() }
        });
        steps.push(StepSource {
            id: format!("s{number}"),
            prompt: format!("s{number}({})", outputs.join(",")),
            model: Some(model.into()),
            max_tokens: Some(max_tokens),
            flow: flow.unwrap_or_default(),
            queue: chance.percent(30).then(|| "other".into()),
            depends_on: on_ids(),
            requires_approval: chance.percent(30),
            condition: chance.percent(15).then(|| "input.go == true".into()),
            timeout_ms: Some(chance.within(2_000, 12_000)),
            retry: Some(RetrySource {
                max_attempts: Some(u32::try_from(chance.within(1, 3)).expect("small")),
                backoff_ms: Some(chance.within(100, 1_000)),
                max_backoff_ms: None,
            }),
            map: if chance.percent(20) { list(chance) } else { MapSource::default() },
            ..StepSource::default()
        });
        let step = steps.last_mut().expect("one was added");
        if !step.map.is_none() {
            step.prompt.push_str(" of {{item}}");
        }
        depends_on.push(on);
    }
    (PlanSource { name: "p".into(), steps, ..PlanSource::default() }, depends_on)
}

/// A list over the input's items.
fn list(chance: &mut Chance) -> MapSource {
    let on_item_error = chance.percent(50).then_some(OnItemError::Skip);
    let share = [0.0, 0.5, 1.0][chance.index(3)];
    MapSource {
        for_each: Some("{{input.items}}".into()),
        item: None,
        max_items: Some(10),
        concurrency: chance.percent(40).then_some(2),
        on_item_error,
        min_success: on_item_error.map(|_| share),
    }
}

/// The part of an item's prompt beside that of its step.
pub(super) fn of_item(item: u16) -> String {
    format!(" of i{item}")
}

/// The prompt of a step once its dependencies have these outputs.
pub(super) fn prompt(step: u16, outputs: &[&str]) -> String {
    format!("s{step}({})", outputs.join(","))
}

/// The input of an execution of a plan with so many steps.
pub(super) fn start(chance: &mut Chance, steps: usize) -> Start {
    let items: Vec<_> = (0..chance.below(5)).map(|item| format!("i{item}")).collect();
    let input = json!({"go": chance.percent(50), "items": items});
    let input = input.as_object().cloned().expect("an object");
    let hitl = chance.percent(40).then(|| HitlSource {
        required_for: chance.percent(50).then(|| vec![format!("s{}", chance.index(steps))]),
        confidence_threshold: chance.percent(50).then_some(0.5),
        timeout_ms: Some(chance.within(2_000, 15_000)),
        sample_rate: chance.percent(30).then_some(0.5),
        notify: None,
    });
    let options = Options {
        timeout_ms: chance.percent(30).then(|| chance.within(3_000, 40_000)),
        max_cost: None,
        fail_fast: chance.percent(40),
    };
    Start { input, hitl, options, ..Start::default() }
}
