use crate::budget::Money;
use serde_json::{Map, Value, json};

use super::*;
use crate::execution::program::CompiledPlan;
use crate::plan::{HitlSource, ListError, MapSource, PlanSource, StepSource};
use crate::render::{self, Meta, Output, Scope};
use crate::usage::Usage;

struct Start(Map<String, Value>);

impl Scope for Start {
    fn input(&self) -> &Map<String, Value> {
        &self.0
    }

    fn output(&self, _: &str) -> Output<'_> {
        Output::Unknown
    }

    fn env(&self, _: &str) -> Option<&str> {
        None
    }

    fn meta(&self, meta: Meta) -> Option<&str> {
        (meta == Meta::TemplateName).then_some("A plan")
    }
}

fn prices() -> Prices {
    let table = r#"{"m": {"input_cost_per_token": 1, "output_cost_per_token": 10, "max_output_tokens": 50}}"#;
    Prices::parse(table).unwrap()
}

fn plan() -> Plan {
    let step = |id: &str, depends_on: &[&str], prompt: &str, max_tokens| StepSource {
        id: id.to_owned(),
        prompt: prompt.to_owned(),
        depends_on: depends_on.iter().map(|&id| id.to_owned()).collect(),
        max_tokens,
        ..StepSource::default()
    };
    let steps = vec![
        step("a", &[], "{{input.text}}", Some(5)),
        step("b", &["a"], "<{{a.output}}>", Some(2)),
        StepSource { model: Some("free".to_owned()), ..step("c", &[], "xxxx", None) },
    ];
    Plan::compile(PlanSource { name: "A plan".to_owned(), steps, ..PlanSource::default() }, &[])
        .unwrap()
}

fn compiled(plan: Plan) -> CompiledPlan {
    CompiledPlan::new(plan, None)
}

const TARGETS: StepDefaults<'static> = StepDefaults { model: "m", queue: "default" };

/// Past steps, each with a cost, asked without texts that are known.
fn past(steps: &[(&str, f64, u64)]) -> PastSteps {
    let of = |(step, cost, took_ms): &(&str, f64, u64)| {
        let model = if *step == "c" { "free" } else { "m" };
        let usage = Usage { total_cost: *cost, ..Usage::default() };
        let answer = PastAnswer { asked: 0, usage, took_ms: *took_ms };
        let past = PastStep::of(&[answer], 1, model, &prices()).unwrap();
        (((*step).to_owned(), model.to_owned()), past)
    };
    steps.iter().map(of).collect()
}

fn dry(past: &PastSteps) -> DryRun {
    let input = json!({"text": "x".repeat(40)});
    let start = Start(input.as_object().cloned().unwrap());
    let hitl = HitlSource { confidence_threshold: Some(0.5), ..HitlSource::default() };
    dry_run(&compiled(plan()), &start, Some(&hitl), TARGETS, past, &prices(), &KnownFork::default())
        .unwrap()
}

fn close(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1e-9
}

#[test]
fn a_dry_run_shows_what_would_run_where_and_behind_which_gate() {
    let run = dry(&PastSteps::new());
    let shown: Vec<_> = run
        .steps
        .iter()
        .map(|step| (step.id.as_str(), step.level, step.model.as_str(), step.gate.as_str()))
        .collect();
    let expected =
        [("a", 0, "m", "threshold"), ("b", 1, "m", "threshold"), ("c", 0, "free", "threshold")];
    assert_eq!(shown, expected);
    assert_eq!(run.steps[0].prompt, "x".repeat(40));
    assert_eq!(run.steps[1].prompt, "<{{a.output}}>");
    assert_eq!(run.steps[1].depends_on, ["a"]);
    assert_eq!(run.steps[2].queue, "default");
}

#[test]
fn without_history_a_step_costs_its_prompt_and_its_tokens_at_the_models_price() {
    let run = dry(&PastSteps::new());
    // a: 10 + 5 × 10; b: 4 + 2 × 10; c has no price.
    let costs: Vec<_> = run.steps.iter().map(|step| step.estimated_cost).collect();
    assert!(close(costs[0], 60.0) && close(costs[1], 24.0) && close(costs[2], 0.0), "{costs:?}");
    assert!(close(run.estimate.cost, 84.0));
    // b may receive the five tokens that a may write.
    assert!(close(run.estimate.cost_high, 89.0), "{}", run.estimate.cost_high);
    assert_eq!((run.estimate.basis, run.estimate.price_unknown), (Basis::Prices, true));
}

#[test]
fn with_history_its_means_count_and_time_passes_along_the_critical_path() {
    let run = dry(&past(&[("a", 1.5, 500), ("b", 1.5, 500), ("c", 1.5, 900)]));
    assert_eq!(run.critical_path, ["a", "b"]);
    assert_eq!(run.estimate.duration_ms, 1000);
    assert!(close(run.estimate.cost, 4.5));
    assert!(run.estimate.cost_high >= 60.0);
    assert_eq!((run.estimate.basis, run.estimate.price_unknown), (Basis::History, false));
}

#[test]
fn a_run_costs_what_the_length_of_its_texts_says() {
    let (prices, plan) = (prices(), compiled(plan()));
    let answer = |asked: u64, input: u64, output: u64| {
        let usage = prices.usage("m", Tokens { input, output, ..Tokens::default() });
        let past = PastStep::of(&[PastAnswer { asked, usage, took_ms: 7 }], 1, "m", &prices);
        past.unwrap()
    };
    let key = |step: &str| (step.to_owned(), "m".to_owned());
    // The provider counts twice the tokens that are estimated.
    let past: PastSteps = [(key("a"), answer(10, 20, 5)), (key("b"), answer(9, 18, 2))].into();
    let cost = |length: usize, fork: &KnownFork| {
        let input = json!({"text": "x".repeat(length)});
        let start = Start(input.as_object().cloned().unwrap());
        let run = dry_run(&plan, &start, None, TARGETS, &past, &prices, fork).unwrap();
        run.steps.iter().map(|step| step.estimated_cost).collect::<Vec<_>>()
    };
    let none = KnownFork::default();
    // a: 2 × 10 input and 5 × 10 output; b: 2 × (its 4 tokens and the 5 of a), and 2 × 10 output.
    assert!(close(cost(40, &none)[0], 70.0) && close(cost(40, &none)[1], 38.0));
    assert!(close(cost(4_000, &none)[0], 2_050.0), "{:?}", cost(4_000, &none));
    // A fork knows the text of b, which it runs anew.
    let fork =
        KnownFork { reused: ["a".to_owned()].into(), asked: [("b".to_owned(), 1_010)].into() };
    let found = cost(40, &fork);
    assert!(close(found[0], 0.0) && close(found[1], 2_040.0), "{found:?}");
}

#[test]
fn the_schema_of_a_template_is_in_the_worst_case_of_its_last_step() {
    let schema = json!({"type": "object", "title": "x".repeat(400)});
    let schema = crate::plan::compile_schema("outputSchema", &schema).unwrap();
    let tokens = u32::try_from(schema.length() / 4).unwrap();
    let priced = StepSource {
        id: "only".to_owned(),
        prompt: "x".repeat(40),
        max_tokens: Some(5),
        ..StepSource::default()
    };
    let plan =
        PlanSource { name: "A plan".to_owned(), steps: vec![priced], ..PlanSource::default() };
    let plan = CompiledPlan::new(Plan::compile(plan, &[]).unwrap(), Some(schema));
    let start = Start(Map::new());
    let run =
        dry_run(&plan, &start, None, TARGETS, &PastSteps::new(), &prices(), &KnownFork::default());
    let found = run.unwrap().estimate;
    // The provider counts it as a part of the prompt.
    assert!(close(found.cost, 60.0), "{found:?}");
    assert!(close(found.cost_high, 60.0 + f64::from(tokens)), "{found:?}, {tokens}");
}

#[test]
fn history_of_some_steps_only_rests_on_prices() {
    let past = past(&[("a", 1.0, 1)]);
    let run = dry(&past);
    assert_eq!(run.estimate.basis, Basis::Prices);
    assert!(close(run.estimate.cost, 25.0), "{}", run.estimate.cost);
    let listed = of_plan(&plan(), "m", &past, &prices());
    assert!(close(listed.cost, 25.0), "{}", listed.cost);
}

#[test]
fn the_items_of_a_list_cost_what_past_ones_did_on_average() {
    let start = Start(json!({"docs": ["x", "y", "z"]}).as_object().cloned().unwrap());
    let usage = Usage { total_cost: 2.0, ..Usage::default() };
    let each = PastStep::of(&[PastAnswer { asked: 0, usage, took_ms: 40 }], 1, "m", &prices());
    let past = [(("each".to_owned(), "m".to_owned()), each.unwrap())].into();
    let (plan, fork) = (compiled(over_docs(Some(2))), KnownFork::default());
    let run = dry_run(&plan, &start, None, TARGETS, &past, &prices(), &fork).unwrap();
    assert!(close(run.estimate.cost, 6.0), "{run:?}");
    assert_eq!((run.estimate.basis, run.estimate.duration_ms), (Basis::History, 80));
}

#[test]
fn an_input_that_cannot_be_rendered_is_told_with_its_step() {
    let steps = vec![StepSource {
        id: "a".to_owned(),
        prompt: "{{input.text.deep}}".to_owned(),
        ..StepSource::default()
    }];
    let plan = PlanSource { name: "A plan".to_owned(), steps, ..PlanSource::default() };
    let plan = compiled(Plan::compile(plan, &[]).unwrap());
    let start = Start(json!({"text": 1}).as_object().cloned().unwrap());
    let failed =
        dry_run(&plan, &start, None, TARGETS, &PastSteps::new(), &prices(), &KnownFork::default())
            .unwrap_err();
    assert!(matches!(failed, (step, ListError::Render(render::Error::Missing(_))) if step == "a"));
}

/// Tried on a server before: the answer took 500 megabytes.
#[test]
fn all_prompts_of_a_dry_run_share_two_mebibytes() {
    let step = |number: usize| StepSource {
        id: format!("s{number}"),
        prompt: if number.is_multiple_of(2) { "{{input.text}}" } else { "short" }.to_owned(),
        ..StepSource::default()
    };
    let steps = (0..500).map(step).collect();
    let plan = PlanSource { name: "A plan".to_owned(), steps, ..PlanSource::default() };
    let plan = compiled(Plan::compile(plan, &[]).unwrap());
    let start = Start(json!({"text": "ä".repeat(1 << 19)}).as_object().cloned().unwrap());
    let run =
        dry_run(&plan, &start, None, TARGETS, &PastSteps::new(), &prices(), &KnownFork::default())
            .unwrap();
    let total: usize = run.steps.iter().map(|step| step.prompt.len()).sum();
    assert!((MAX_PROMPTS * 9 / 10..=MAX_PROMPTS).contains(&total), "{total}");
    for (number, step) in run.steps.iter().enumerate() {
        assert_eq!(step.prompt_truncated, number.is_multiple_of(2), "{number}");
        assert!(step.prompt_truncated || step.prompt == "short");
    }
    assert!(run.steps[0].estimated_cost > 100_000.0, "the whole prompt counts");
    assert!(dry(&PastSteps::new()).steps.iter().all(|step| !step.prompt_truncated));
}

fn over_docs(concurrency: Option<u16>) -> Plan {
    let map = MapSource {
        for_each: Some("{{input.docs}}".into()),
        max_items: Some(100),
        concurrency,
        ..MapSource::default()
    };
    let step = StepSource {
        id: "each".to_owned(),
        prompt: "{{item}}".to_owned(),
        max_tokens: Some(5),
        map,
        ..StepSource::default()
    };
    let steps = vec![step];
    Plan::compile(PlanSource { name: "A plan".to_owned(), steps, ..PlanSource::default() }, &[])
        .unwrap()
}

#[test]
fn a_dry_run_counts_the_items_and_what_each_costs() {
    let run = |input: Value, concurrency| {
        let start = Start(input.as_object().cloned().unwrap());
        dry_run(
            &compiled(over_docs(concurrency)),
            &start,
            None,
            TARGETS,
            &PastSteps::new(),
            &prices(),
            &KnownFork::default(),
        )
    };
    // Prompts of 10 and 30 tokens, and 5 tokens of output at ten times the price.
    let docs = json!({"docs": ["x".repeat(40), "y".repeat(120), "x".repeat(40)]});
    let found = run(docs.clone(), None).unwrap();
    let items = found.steps[0].items.unwrap();
    assert_eq!((items.expected, items.most), (Some(3), 100));
    assert!((found.steps[0].estimated_cost - 200.0).abs() < 1e-6, "{found:?}");
    assert!((items.cost_each - 200.0 / 3.0).abs() < 1e-6, "{found:?}");
    assert_eq!(found.steps[0].prompt, "{{item}}");
    assert_eq!(found.estimate.duration_ms, 100, "all at once");
    assert_eq!(run(docs, Some(2)).unwrap().estimate.duration_ms, 200, "in two rounds");
    let none = run(json!({"docs": []}), None).unwrap();
    assert_eq!((none.steps[0].items.unwrap().expected, none.estimate.cost), (Some(0), 0.0));
    let (step, error) = run(json!({"docs": 5}), None).unwrap_err();
    assert_eq!(
        (&*step, &*error.to_string()),
        ("each", "forEach: {{input.docs}} is a number, not a list")
    );
}

fn conditional(condition: &str) -> DryRun {
    let step = |id: &str, depends_on: &[&str], condition: Option<&str>| StepSource {
        id: id.to_owned(),
        prompt: "x".repeat(40),
        depends_on: depends_on.iter().map(|&id| id.to_owned()).collect(),
        condition: condition.map(str::to_owned),
        max_tokens: Some(5),
        ..StepSource::default()
    };
    let steps = vec![
        step("last", &["deep"], Some(r#"steps["deep"].status == "skipped""#)),
        step("deep", &[], Some(condition)),
        step("other", &["last"], Some(r#"steps["last"].output == "yes""#)),
    ];
    let plan = PlanSource { name: "A plan".to_owned(), steps, ..PlanSource::default() };
    let start = Start(json!({"depth": "quick"}).as_object().cloned().unwrap());
    let plan = compiled(Plan::compile(plan, &[]).unwrap());
    dry_run(&plan, &start, None, TARGETS, &PastSteps::new(), &prices(), &KnownFork::default())
        .unwrap()
}

#[test]
fn a_condition_is_evaluated_as_far_as_it_can_be_and_a_skipped_step_costs_nothing() {
    let states = |run: &DryRun| -> Vec<_> {
        run.steps.iter().map(|step| step.condition.unwrap().as_str()).collect()
    };
    let run = conditional(r#"input.depth == "deep""#);
    assert_eq!(states(&run), ["runs", "skips", "unknown"]);
    assert!(close(run.steps[1].estimated_cost, 0.0) && close(run.estimate.cost, 120.0), "{run:?}");
    assert_eq!(states(&conditional(r#"input.depth == "quick""#)), ["unknown", "runs", "unknown"]);
    assert_eq!(states(&conditional("input.depth > 3")), ["unknown", "fails", "unknown"]);
}

#[test]
fn a_budget_says_which_step_it_would_end_and_with_which_amounts() {
    let run = dry(&PastSteps::new());
    let over = |max: f64| run.under(Money::from_usd(max)).over;
    // a costs 60 at worst, b 29 behind it; c has no price.
    assert_eq!(over(1000.0).unwrap().step, "c");
    let at_start = over(10.0).unwrap();
    assert_eq!(at_start.message, "step `a` may cost 60 USD, and 10 USD is left of maxCost 10 USD");
    let run = conditional(r#"input.depth == "deep""#);
    let over = |max: f64| run.under(Money::from_usd(max)).over;
    assert_eq!(over(120.0), None);
    assert_eq!(over(119.0).unwrap().step, "other");
    assert_eq!(over(59.0).unwrap().step, "last");
}

#[test]
fn the_estimate_of_rows_follows_their_length_and_the_outputs_of_past_runs() {
    let (prices, plan) = (prices(), plan());
    let start = |length: usize| {
        Start(json!({"text": "x".repeat(length)}).as_object().cloned().expect("an object"))
    };
    let answer = |asked: u64, input: u64, output: u64| PastAnswer {
        asked,
        usage: prices.usage("m", Tokens { input, output, ..Tokens::default() }),
        took_ms: 1,
    };
    // The provider counts twice the tokens that are estimated; the output is 10 on average.
    let a = PastStep::of(&[answer(10, 20, 8), answer(30, 60, 12)], 2, "m", &prices);
    let b = PastStep::of(&[answer(11, 11, 1), answer(11, 11, 1)], 2, "m", &prices);
    let c = PastStep::of(&[answer(1, 0, 0)], 2, "free", &prices);
    let keyed = |id: &str, model: &str| (id.to_owned(), model.to_owned());
    let past: PastSteps = [(keyed("a", "m"), a), (keyed("b", "m"), b), (keyed("c", "free"), c)]
        .into_iter()
        .filter_map(|(key, past)| Some((key, past?)))
        .collect();
    let of = |lengths: &[usize]| {
        let mut rows = RowsEstimate::default();
        for length in lengths {
            rows.add(&plan, &start(*length), ("m", &past), &prices).expect("it is rendered");
        }
        rows
    };
    // a: 2 × 10 input, 10 × 10 output. b: its text of 15 characters and the 10 tokens of a, 10 output.
    let (short, long) = (of(&[40]), of(&[400]));
    assert!((short.cost - (20.0 + 100.0 + 14.0 + 10.0)).abs() < 1e-6, "{short:?}");
    assert!((long.cost - short.cost - 180.0).abs() < 1e-6, "{long:?}");
    assert_eq!(short.basis, Basis::History);
    let (low, high) = short.range();
    assert!(low < short.cost && short.cost < high);
    // Many rows spread less for each than one does.
    let many = of(&[40; 100]);
    let (many_low, many_high) = many.range();
    assert!((many.cost - 100.0 * short.cost).abs() < 1e-6);
    assert!(many_high - many_low < 100.0 * (high - low));

    let mut unknown = RowsEstimate::default();
    unknown.add(&plan, &start(40), ("m", &PastSteps::new()), &prices).expect("it is rendered");
    let (low, high) = unknown.range();
    assert_eq!((unknown.basis, unknown.price_unknown), (Basis::Prices, true));
    assert!(low < unknown.cost && unknown.cost <= high, "{unknown:?} {low} {high}");
}
