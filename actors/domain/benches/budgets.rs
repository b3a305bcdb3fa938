//! The worst cases of what a caller's data makes the server compute: seconds, and memory at its peak.
//!
//! Each case is the worst that is known within a body of 2 MiB. `brief` cases, and texts such as cron
//! expressions, are what the server computes while others wait; all others run on threads of their own. The
//! bench fails if a case takes longer than its kind may, or more than 110 MB.

#![expect(clippy::print_stdout, reason = "it prints its result")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

#[path = "budgets/texts.rs"]
mod texts;

use std::collections::HashMap;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use callboard_domain::Timestamp;
use callboard_domain::condition::{self, Condition};
use callboard_domain::estimate::{KnownFork, PastSteps, StepDefaults, dry_run};
use callboard_domain::execution::program::{
    About, CompiledPlan, Effort, Outputs, Program, ReviewPolicy,
};
use callboard_domain::execution::{self, Due, Execution};
use callboard_domain::fuel::Fuel;
use callboard_domain::id::{ExecutionId, PlanId};
use callboard_domain::pattern::Patterns;
use callboard_domain::plan::{Plan, PlanSource, StepSource};
use callboard_domain::render::{Meta, Output, Scope};
use callboard_domain::schema::{self, Schema};
use callboard_domain::usage::Prices;
use peak_alloc::PeakAlloc;
use serde_json::{Map, Value, json};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// The longest time of a case that runs on a thread of its own. Another account waits for one of them.
const ASIDE: Duration = Duration::from_millis(1_500);

/// The longest time of a case for which others wait.
const BRIEF: Duration = Duration::from_millis(100);

/// The most memory of a case, in MB.
const MOST_MEMORY: f32 = 110.0;

/// True once a case took more than it may.
static EXCEEDED: AtomicBool = AtomicBool::new(false);

/// Measures one case that runs on a thread of its own, prints it and returns its result.
fn case<T>(name: &str, work: impl FnOnce() -> T) -> T {
    measured(name, ASIDE, work)
}

/// Measures one case for which others wait.
fn brief<T>(name: &str, work: impl FnOnce() -> T) -> T {
    measured(name, BRIEF, work)
}

fn measured<T>(name: &str, bound: Duration, work: impl FnOnce() -> T) -> T {
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage_as_mb();
    let started = Instant::now();
    let result = black_box(work());
    let elapsed = started.elapsed();
    let peak = MEMORY.peak_usage_as_mb() - before;
    let is_over = elapsed > bound || peak > MOST_MEMORY;
    EXCEEDED.fetch_or(is_over, Ordering::Relaxed);
    let note = if is_over { "  MORE THAN IT MAY" } else { "" };
    println!("{name:<72} {:>9.2} ms {peak:>8.1} MB{note}", elapsed.as_secs_f64() * 1e3);
    result
}

struct Given {
    input: Map<String, Value>,
    outputs: HashMap<&'static str, String>,
}

impl Scope for Given {
    fn input(&self) -> &Map<String, Value> {
        &self.input
    }

    fn output(&self, step: &str) -> Output<'_> {
        self.outputs.get(step).map_or(Output::Skipped, |output| Output::Completed(output))
    }

    fn env(&self, _: &str) -> Option<&str> {
        None
    }

    fn meta(&self, _: Meta) -> Option<&str> {
        None
    }
}

/// As many letters a and b, in no order.
fn letters(count: usize) -> String {
    let mut chance = 1_u32;
    let mut letter = || {
        chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if chance >> 31 == 0 { 'a' } else { 'b' }
    };
    (0..count).map(|_| letter()).collect()
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(members) = value { members } else { Map::new() }
}

fn conditions() {
    let numbers: Vec<u32> = (0..250_000).collect();
    let words: Vec<_> = (0..20_000).map(|n| format!("{n:0>50}")).collect();
    let lists: Vec<_> = (0..100).map(|_| (0..2_000).collect::<Vec<u32>>()).collect();
    let outputs = HashMap::from([("json", format!("[{}0]", "0,".repeat(500_000)))]);
    let input = object(json!({
        "list": numbers, "words": words, "lists": lists, "text": letters(1 << 20), "few": (0..700).collect::<Vec<u32>>(),
    }));
    let given = Given { input, outputs };
    let searches = vec![r"''.matches('\\w{4}')"; 40].join("||");
    let attack = format!("input.few.exists(n,{searches})");
    let comparisons = vec!["n<0"; 100].join("||");
    let sources = [
        ("the attack: 40 searches for each of 700 numbers", attack.as_str()),
        ("an iteration over numbers", &format!("input.list.exists(n,{comparisons})")),
        ("a search for each number in the whole list", "input.list.all(n, n in input.list)"),
        ("equality of lists of lists", "input.few.all(n, input.lists == input.lists)"),
        ("a hostile pattern over a megabyte", "input.text.matches('[ab]*a[ab]{60}c')"),
        ("a Unicode pattern over words", r"input.words.all(w, w.matches('^\\w{2}\\w*$'))"),
        (
            "a word boundary beside a character that is not ASCII",
            r"(input.text + 'ä').matches('[ab]*a[ab]{60}\\b')",
        ),
        ("contains, for each number", "input.list.all(n, !input.text.contains('abababababc'))"),
        ("sums of megabytes", "input.text+input.text+input.text+input.text == ''"),
        ("sums for each number", "input.list.all(n, input.text + 'x' != '')"),
        ("string for each number", "input.list.all(n, string(n) + '0' != '')"),
        ("an output of a megabyte as JSON", "size(steps.json.json) > 0"),
        ("size of a megabyte for each number", "input.list.all(n, size(input.text) > 0)"),
    ];
    for (name, source) in sources {
        let mut patterns = Patterns::with_budget(condition::MAX_PLAN_PATTERNS);
        let compiled = Condition::compile(source, &mut patterns).expect(source);
        let _ = case(&format!("condition: {name}"), || {
            compiled.evaluate(&given, &mut Fuel::new(condition::FUEL))
        });
        let _ = brief("    brief", || compiled.evaluate(&given, &mut Fuel::new(50_000)));
    }
}

fn plan(steps: usize, step: impl Fn(usize) -> StepSource) -> PlanSource {
    let steps = (0..steps).map(|n| StepSource { id: format!("s{n}"), ..step(n) }).collect();
    PlanSource { name: "A plan".into(), steps, ..PlanSource::default() }
}

fn plans() {
    let conditioned = |condition: &dyn Fn(usize) -> String| {
        plan(500, |n| StepSource {
            prompt: "x".into(),
            condition: Some(condition(n)),
            ..StepSource::default()
        })
    };
    let sum = |_| vec!["input.x==1"; 80].join("&&");
    let many = conditioned(&sum);
    let _ = case("plan: 64 KiB of conditions (more is refused)", || Plan::compile(many, &[]));
    let nested = |_| format!("{}1{}", "(".repeat(16), ")".repeat(16));
    let nested = conditioned(&|n| vec![nested(n); 28].join("==").replace("==", "&&"));
    let _ = case("plan: 64 KiB of conditions of brackets", || Plan::compile(nested, &[]));
    let patterns = conditioned(&|n| {
        let all: Vec<_> =
            (0..30).map(|m| format!(r"input.x.matches('[\\pL&&\\pN]{n}x{m}')")).collect();
        all.join("||")
    });
    let _ = case("plan: 500 conditions of 30 patterns each", || Plan::compile(patterns, &[]));
    let large = conditioned(&|n| format!(r"input.x.matches('\\w{{9}}{n}')"));
    let _ = case("plan: 500 conditions with a large pattern each", || Plan::compile(large, &[]));
}

fn renders() {
    let both = |_| StepSource {
        prompt: "{{input.x}}".into(),
        system_prompt: Some("{{input.x}}".into()),
        ..StepSource::default()
    };
    let text = json!({"x": "x".repeat(1 << 20)});
    let list = json!({"x": vec![0; (1 << 19) - 2]});
    for (name, input) in [("a text", text), ("a list", list)] {
        let input = object(input);
        let compiled = Plan::compile(plan(500, both), &[]).expect("a good plan");
        let compiled = Arc::new(CompiledPlan::new(compiled, None));
        let id = ExecutionId::from_u128(5 << 10);
        let spec = execution::Spec {
            id,
            plan: PlanId::from_u128(6 << 10),
            template: None,
            account: "usr_1".into(),
            tags: Vec::new(),
            callback_url: None,
            labels: None,
            fail_fast: false,
            timeout_ms: None,
            max_cost: None,
            output_checked: None,
            start_at: None,
            forked_from: None,
            occurrence: None,
            row_of: None,
            idempotency_key: None,
            created_at: NOW,
            trace: None,
        };
        let state = Execution::started(spec, Arc::clone(&compiled.graph), NOW).next;
        let (review, defaults) = (ReviewPolicy::default(), Arc::default());
        let program =
            Program::new(About::new(id, NOW, None), Arc::clone(&compiled), review, input, defaults);
        let outputs = Outputs::default();
        let step =
            |step, effort| program.evaluate(Due { step, item: None }, &state, &outputs, effort);
        let _ = case(&format!("render: 7 steps of {name} of a megabyte, twice each"), || {
            (0..7).map(|n| step(n, Effort::Full)).collect::<Vec<_>>()
        });
        let _ = case(&format!("render: one step of {name}"), || step(0, Effort::Full));
        assert!(step(0, Effort::Brief).is_none());
        let _ = case(&format!("dry run: 500 steps of {name} of a megabyte"), || {
            let targets = StepDefaults { model: "m", queue: "q" };
            let scope = program.scope_at_start();
            dry_run(
                &compiled,
                &scope,
                None,
                targets,
                &PastSteps::new(),
                &Prices::default(),
                &KnownFork::default(),
            )
        });
    }
}

/// A pattern that looks around, at every place of a text.
const LOOKING: &str = "^(?!(?:[ab]*a[ab]{9}c)+$)(?:(?=(?!c)[ab]{1,20}(?<![^ab]))[ab])+$";

/// A class of nearly all characters, in eight bytes.
const ALL: &str = "[!-\u{10ffff}]";

/// A schema of so many properties.
fn with(count: usize, of: &dyn Fn(usize) -> Value) -> Value {
    let properties = (0..count).map(|n| (format!("p{n}"), of(n)));
    json!({"properties": properties.collect::<Map<_, _>>()})
}

fn compile_each(cases: &[(&str, Value)]) {
    for (name, source) in cases {
        let _ = case(&format!("schema, compiled: {name}"), || Schema::compile("s", source));
    }
}

fn validate_each(cases: &[(&str, Value, Value)]) {
    for (name, source, value) in cases {
        let schema = Schema::compile("s", source).expect(name);
        let _ = schema.check_input(&json!({}), &mut Fuel::new(schema::FUEL));
        let _ = case(&format!("schema, validated: {name}"), || {
            schema.check_input(value, &mut Fuel::new(schema::FUEL))
        });
        let _ =
            brief("    brief", || schema.check_input(value, &mut Fuel::new(schema::BRIEF_FUEL)));
    }
}

/// The patterns of ECMA 262, and names of all scripts.
fn patterns() {
    compile_each(&[
        ("1,500 properties of Unicode (refused)", json!({"pattern": r"\p{L}".repeat(1_500)})),
        ("one pattern of 1 MB", json!({"pattern": r"^(?=.{1,253}$)(?!.{1,300}x).{1,300}$"})),
        (
            "250 patterns that look around",
            with(250, &|n| json!({"pattern": format!("^(?!.*a)(?=[a-z]*{n})[a-z]+$")})),
        ),
    ]);
    validate_each(&[
        (
            "look-around in look-around over 2 MiB",
            json!({"pattern": LOOKING}),
            json!(letters(2 << 20)),
        ),
        (
            "look-around over 20,000 texts of 100 bytes",
            json!({"items": {"pattern": LOOKING}}),
            json!(vec![letters(100); 20_000]),
        ),
        (
            "a name of 2 MiB of all scripts as a host",
            json!({"format": "idn-hostname"}),
            json!("ü例ش".repeat(300_000)),
        ),
        (
            "a name of 2 MiB of all scripts as a mail address",
            json!({"format": "idn-email"}),
            json!(format!("a@{}", "ü例ش.".repeat(260_000))),
        ),
    ]);
}

fn schemas() {
    let properties = with;
    let mut doubling = Map::from_iter([("s0".to_owned(), json!({"type": "object"}))]);
    for level in 1..60 {
        let below = json!({"$ref": format!("#/$defs/s{}", level - 1)});
        doubling.insert(format!("s{level}"), json!({"allOf": [below, below]}));
    }
    let doubling = json!({"$ref": "#/$defs/s59", "$defs": doubling});
    let compiled = [
        ("9,000 subschemas", properties(9_000, &|_| json!({"minimum": 1}))),
        ("250 patterns", properties(250, &|n| json!({"pattern": format!("^[a-z]{{1,9}}{n}$")}))),
        (
            "3,000 patterns (refused)",
            properties(3_000, &|n| json!({"pattern": format!("^[a-z]{{1,9}}{n}$")})),
        ),
        ("four patterns of 200 KB", properties(4, &|n| json!({"pattern": format!(r"\w{{8}}{n}")}))),
        (
            "2,000 classes of all characters, without case (refused)",
            json!({"pattern": format!("(?i){}", ALL.repeat(2_000))}),
        ),
        ("20 such classes", properties(20, &|n| json!({"pattern": format!("(?i){ALL}{n}")}))),
        ("8,000 classes of words", json!({"pattern": r"\w".repeat(8_000)})),
        ("1,000 references", properties(1_000, &|_| json!({"$ref": "#/$defs/d"}))),
        ("60 levels that double", doubling.clone()),
    ];
    compile_each(&compiled);
    let deep = (0..60).fold(json!({"end": 1}), |inner, _| json!({"child": inner}));
    let branch = json!({"$ref": "#"});
    let twice = json!({"anyOf": [
        {"properties": {"child": branch, "end": {"const": 2}}, "maxProperties": 9},
        {"properties": {"child": branch, "end": {"const": 3}}, "maxProperties": 8},
    ]});
    let names: Map<_, _> = (0..20_000).map(|n| (format!("{n:a>90}"), json!(0))).collect();
    let name_patterns = (0..30).map(|n| (format!("[ab]*a[ab]{{20}}c{n}"), json!({"minimum": 1})));
    let numbers = json!((0..400_000).collect::<Vec<u32>>());
    let nots: Vec<_> = (0..1_000).map(|n| json!({"not": {"const": n}})).collect();
    let validated = [
        ("recursion that branches, 60 deep", twice, deep.clone()),
        ("60 levels that double", doubling, deep),
        (
            "1,000 comparisons for each of 400,000 numbers",
            json!({"items": {"allOf": nots}}),
            numbers.clone(),
        ),
        ("400,000 faults", json!({"items": {"type": "string"}}), numbers.clone()),
        ("400,000 numbers that are distinct", json!({"uniqueItems": true}), numbers.clone()),
        ("400,000 numbers of one type", json!({"items": {"type": "integer"}}), numbers),
        (
            "a hostile pattern over 2 MiB",
            json!({"pattern": "[ab]*a[ab]{60}c"}),
            json!(letters(2 << 20)),
        ),
        (
            "100,000 texts that are patterns of all characters",
            json!({"items": {"format": "regex"}}),
            json!(vec![format!("(?i){ALL}"); 100_000]),
        ),
        (
            "30 patterns of 20,000 names",
            json!({"patternProperties": name_patterns.collect::<Map<_, _>>()}),
            Value::Object(names),
        ),
    ];
    validate_each(&validated);
    let before = MEMORY.current_usage_as_mb();
    let templates: Vec<_> = (0..30)
        .map(|m| {
            let source = properties(
                250,
                &|n| json!({"pattern": format!("^[a-z]{{1,9}}{n}-{m}$"), "title": "x".repeat(300)}),
            );
            let schema = Schema::checked_before(&source);
            let _ = schema.check_input(&json!({"p1": "abc"}), &mut Fuel::new(schema::FUEL));
            schema
        })
        .collect();
    let kept = MEMORY.current_usage_as_mb() - before;
    println!(
        "{:<72} {kept:>21.1} MB",
        format!("schemas of {} templates, used once each, kept", templates.len())
    );
}

/// Searches for the properties that apply to an object.
fn defaults() {
    let searched = json!({"properties": {"d": {"items": {
        "allOf": vec![json!({"$ref": "#z"}); 62],
        "examples": [vec![1; 100_000]],
        "unevaluatedProperties": {"$anchor": "z"},
    }}}});
    let schema = Schema::checked_before(&searched);
    let items = object(json!({"d": vec![json!({}); 690_000]}));
    let filled = || schema.with_defaults(items.clone(), &mut Fuel::new(schema::FUEL));
    let _ = case("schema, defaults: 62 anchors to search, for 690,000 objects", filled);
    let schema = Schema::checked_before(&searched["properties"]["d"]["items"]);
    let _ = case("schema, declared fields: 62 anchors to search", || schema.declared().map(drop));
}

/// The schemas of a definition, by their number, and a name for them.
type Kind = (&'static str, fn(usize) -> Value);

/// Whole definitions of the highest cost that is not refused, and of more.
fn definitions() {
    let kinds: [Kind; 4] = [
        ("classes of all characters", |seed| {
            with(15, &|n| json!({"pattern": format!("(?i){ALL}{seed}-{n}")}))
        }),
        ("patterns of 200 KB", |seed| {
            with(4, &|n| json!({"pattern": format!(r"\w{{8}}{seed}-{n}")}))
        }),
        ("small patterns", |seed| {
            with(100, &|n| json!({"pattern": format!("^[a-z]{{1,9}}{seed}-{n}$")}))
        }),
        ("values", |_| with(600, &|_| json!({"minimum": 1}))),
    ];
    for (name, schema) in kinds {
        let of = |count: usize| {
            plan(count, |n| StepSource {
                prompt: "x".into(),
                output_schema: Some(schema(n)),
                ..StepSource::default()
            })
        };
        // The most steps whose schemas are within the cost.
        let is_taken = |count: &usize| Plan::compile(of(*count), &[]).is_ok();
        let most = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 500];
        let count = most.into_iter().take_while(is_taken).last().unwrap_or(1);
        let (taken, refused) = (of(count), of(500));
        let _ = case(&format!("definition: {name} in the schemas of {count} steps"), || {
            Plan::compile(taken, &[])
        });
        let _ = case(&format!("definition: {name} in the schemas of 500 steps"), || {
            Plan::compile(refused, &[])
        });
    }
    let faulty = plan(500, |n| StepSource {
        prompt: "x".into(),
        output_schema: Some(kinds[0].1(n)),
        condition: Some("input.x.matches('(?i)[\u{0}-\u{10ffff}]')".into()),
        ..StepSource::default()
    });
    let _ = brief("definition: the faults of one that cannot be read", || {
        Plan::outer_faults(faulty, &[])
    });
}

fn main() -> ExitCode {
    texts::texts();
    texts::documents();
    conditions();
    plans();
    definitions();
    renders();
    schemas();
    patterns();
    defaults();
    if EXCEEDED.load(Ordering::Relaxed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
