use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::render::{Meta, Output};

struct Known {
    input: Map<String, Value>,
    outputs: HashMap<&'static str, Option<String>>,
}

impl Scope for Known {
    fn input(&self) -> &Map<String, Value> {
        &self.input
    }

    fn output(&self, step: &str) -> Output<'_> {
        match self.outputs.get(step) {
            None => Output::Unknown,
            Some(None) => Output::Skipped,
            Some(Some(output)) => Output::Completed(output),
        }
    }

    fn env(&self, _: &str) -> Option<&str> {
        None
    }

    fn meta(&self, meta: Meta) -> Option<&str> {
        [(Meta::TemplateName, "Review"), (Meta::ExecutionId, "dt_exec_1")]
            .into_iter()
            .find_map(|(known, value)| (known == meta).then_some(value))
    }
}

fn known_with(input: Value) -> Known {
    let Value::Object(input) = input else { unreachable!("it is an object") };
    let outputs = HashMap::from([
        ("step-a", Some("yes".to_owned())),
        ("json", Some(r#"{"risk": {"level": 3}, "list": [1, 2]}"#.to_owned())),
        ("thinks", Some("<think>4?</think>The risk is {\"level\": 3}.".to_owned())),
        ("skipped", None),
    ]);
    Known { input, outputs }
}

fn known() -> Known {
    known_with(json!({
        "x": "a", "n": 3, "zero": 0, "big": 18_446_744_073_709_551_615_u64, "f": 2.5, "none": null,
        "min": i64::MIN, "tags": ["a", "b"], "rows": [{"v": 1}, {"v": 5}], "a-b": true,
        "deep": {"in": {"0": 7}}, "code": "') || true || ('",
    }))
}

fn compile(source: impl Into<String>) -> Result<Condition, Invalid> {
    Condition::compile(source, &mut Patterns::with_budget(MAX_PLAN_PATTERNS))
}

fn evaluate(condition: &Condition, known: &Known) -> Result<bool, Error> {
    condition.evaluate(known, &mut Fuel::new(FUEL))
}

fn holds(source: &str) -> Result<bool, String> {
    let condition = compile(source).map_err(|refusal| refusal.to_string())?;
    evaluate(&condition, &known()).map_err(|error| error.to_string())
}

#[test]
fn a_condition_is_true_or_false() {
    for (source, expected) in [
        ("true", true),
        ("input.x == 'a' && input.n > 2", true),
        ("input.n + 1 == 4 && input.f > input.n", false),
        ("input['a-b'] && has(input.x) && !has(input.y)", true),
        ("'b' in input.tags", true),
        ("input.rows.exists(row, row.v > 4)", true),
        ("input.rows.all(row, row.v > 4)", false),
        ("input.tags.exists_one(tag, tag == input.x)", true),
        ("steps['step-a'].output == \"yes\"", true),
        ("steps[\"skipped\"].status == 'skipped' && steps.skipped.output == ''", true),
        ("steps['step-a'].status == 'completed'", true),
        ("steps.json.json.risk.level > 2 && 2 in steps['json'].json.list", true),
        ("steps.thinks.json.level == 3 && {{thinks.output.level}} == 3", true),
        ("steps['step-a'].json == null && steps.skipped.json == null", true),
        ("steps['step-a'].output.matches('^(?i)YES$')", true),
        ("matches(input.x, '[b-z]')", false),
        (r"input.x.matches(r'^\w+([\s-]\w+)*$') && !input.x.matches('\\d{4}-\\d{2}')", true),
        ("meta.templateName == 'Review' && meta.executionId.startsWith('dt_')", true),
        ("size(input.tags) == 2 ? input.none == null : false", true),
        ("int('7') == 7 && type(input.tags) == list", true),
        ("input.big > 5", true),
    ] {
        assert_eq!(holds(source), Ok(expected), "{source}");
    }
}

#[test]
fn a_placeholder_is_read_as_the_variable_that_it_names() {
    for (source, expected) in [
        ("{{input.x}} == 'a'", true),
        ("{{ step-a.output }} == 'yes'", true),
        ("{{json.output.risk.level}} == 3 && {{json.output.list.1}} == 2", true),
        ("has({{input.x}}) && {{input.a-b}}", true),
        ("{{meta.executionId}} == 'dt_exec_1'", true),
        ("{{input.code}} == 'no code'", false),
        ("'{{input.x}}' == \"{\" + '{input.x}}'", true),
        ("r'\\' == '\\\\' && {{input.n}} == 3", true),
        ("'it\\'s {{' != \"\" // {{ here too", true),
        ("'''a'{{''' != '' && input.deep[\"in\"] != {'a': {'b': 1}}", true),
    ] {
        assert_eq!(holds(source), Ok(expected), "{source}");
    }
}

/// Each with the number written in several ways.
#[test]
fn numbers_of_json_compute_and_compare_as_numbers() {
    for written in [["1", "1.0", "1e0"], ["100e-2", "10.0E-1", "0.1e1"]].concat() {
        for (source, expected) in [
            ("steps.g.json.n * 100 >= 50", true),
            ("{{g.output.n}} * 100 >= 50 && 100 * {{g.output.n}} >= 50", true),
            ("{{g.output.n}} / 2 == 0.5 && 1 / {{g.output.n}} == 1", true),
            (
                "{{g.output.n}} + 0.5 > 1.4 && 1.5 - {{g.output.n}} == 0.5 && -{{g.output.n}} < 0",
                true,
            ),
            ("{{g.output.n}} + 2u == 3 && ({{g.output.n}} + 6) % 4 == 3", true),
            (
                "{{g.output.n}} in [1, 2] && {{g.output.n}} in [0.5, 1.0] && 1.0 in {{g.output.l}}",
                true,
            ),
            ("{{g.output.l}} == [1, 2.5] && {'a': {{g.output.n}}} == {'a': 1u}", true),
            (
                "{{g.output.l}}.exists(i, i * 2 == 5) && {{g.output.l}}.all(i, i >= {{g.output.n}})",
                true,
            ),
            (
                "({{g.output.n}} > 0.5 ? {{g.output.n}} : 0.0) == 1 && [7, 8][{{g.output.n}}] == 8",
                true,
            ),
            (
                "string({{g.output.n}}) == '1' && int({{g.output.n}}) / 2 == 0 && {1: 'a'}[{{g.output.n}}] == 'a'",
                true,
            ),
            ("type({{g.output.n}}) == int && double({{g.output.n}}) / 2.0 == 0.5", true),
        ] {
            let mut known = known();
            known
                .outputs
                .insert("g", Some(format!("{{\"n\": {written}, \"l\": [{written}, 2.5]}}")));
            let found = compile(source).map(|condition| evaluate(&condition, &known));
            assert_eq!(found, Ok(Ok(expected)), "{source} with {written}");
        }
    }
}

#[test]
fn numbers_of_json_are_as_exact_as_they_can_be() {
    for (source, expected) in [
        ("input.f * 100 >= 50 && input.f % 2 == 0.5 && 7 / input.f == 2.8", true),
        ("input.big + 1 > input.big && input.big * 2 > 3e19 && -input.big < input.min", true),
        ("input.big - 1 == 18446744073709551614u && input.min - 1 < input.min + 1", true),
        ("input.big / 5 == 3689348814741910323 && -input.min == 9223372036854775808u", true),
        ("input.big == 18446744073709551615u && input.big < 18446744073709551616.0", true),
        ("9007199254740993 == 9007199254740992.0 || 9007199254740993 < 9007199254740992.5", false),
        ("7 / 2 == 3 && size([1, 2, 3]) / 2 == 1 && 7.0 / 2 == 3.5", true),
        ("int(input.n) / 2 == 1 && input.n / 2 == 1.5", true),
    ] {
        assert_eq!(holds(source), Ok(expected), "{source}");
    }
    assert!(holds("input.n / 0 == 1").unwrap_err().ends_with("a result is a division by zero"));
}

#[test]
fn a_member_that_is_absent_is_not_had_however_deep() {
    for (source, expected) in [
        (
            "has(steps['skipped'].json.x) || has({{skipped.output.x.y}}) || has({{skipped.output.0}})",
            false,
        ),
        ("has(steps.skipped.json) || has(steps.skipped.output)", false),
        ("has(steps['step-a'].json.x) || has(steps['step-a'].json)", false),
        ("has(steps.json.json.risk.level) && has(steps.json.json) && has(steps.json.output)", true),
        ("has(steps.skipped.status) && steps.skipped.status == 'skipped'", true),
        ("has(steps.json.json.risk.level.deeper) || has(steps.json.json.none.x)", false),
        ("has({{json.output.list.1}}) && !has({{json.output.list.2}}) && has(input['a-b'])", true),
        (
            "!has(input.x.y.z) && !has(input.missing.y) && !has(input.tags.a) && has(input.none)",
            true,
        ),
        ("input.rows.all(row, has(row.v) && !has(row.w.x))", true),
        ("has({{skipped.output.n}}) && {{skipped.output.n}} > 0.5", false),
    ] {
        assert_eq!(holds(source), Ok(expected), "{source}");
    }
}

#[test]
fn a_failure_names_the_part_and_the_way_out() {
    for (source, says) in [
        (
            "{{skipped.output.x}} > 0.5",
            "steps[\"skipped\"].json.x is absent: step skipped was skipped; has(steps[\"skipped\"].json.x) is \
             false then, and can be asked first",
        ),
        (
            "{{step-a.output.x.y}} > 0.5",
            "steps[\"step-a\"].json.x is absent: the output of step step-a is not JSON, or null; has(",
        ),
        ("input.missing == 1", "input.missing is absent; has(input.missing) is false then"),
        ("input['a b'].c == 1", "input[\"a b\"] is absent; has(input[\"a b\"])"),
        ("input.tags[7] == 'a'", "input.tags[7] is absent: input.tags is a list of 2 items; has("),
        (
            "input.tags[input.x] == 'a'",
            "input.tags[…] is absent: input.tags is a list of 2 items; has(",
        ),
        ("input.none.a == 1", "input.none.a is absent: input.none is null; has("),
        ("input.rows.all(row, row.w > 1)", "row.w is absent; has(row.w)"),
        (
            "input.none + 1 == 2",
            "+ takes two numbers, two strings or two lists, not null and a number",
        ),
        ("input.x * 2 == 2", "arithmetic takes numbers, not a string and a number"),
        ("input.x < 5", "a comparison takes two numbers or two strings, not a string and a number"),
        ("1 in input.x", "in takes a list or an object after it, not a number and a string"),
        ("!input.n", "! takes true or false, not a number"),
        ("size(input.n) == 1", "size takes a string, a list or an object, not a number"),
        ("int(input.x) == 1", "int takes a number, or a string such as \"7\", not a string"),
        (
            "input.x.all(i, true)",
            "all, exists and exists_one take a list or an object, not a string",
        ),
    ] {
        let says = format!("the condition cannot be evaluated: {says}");
        let found = holds(source).unwrap_err();
        assert!(found.starts_with(&says), "{source}: {found}");
    }
}

#[test]
fn every_name_is_reachable() {
    let known = known_with(json!({
        "प्रश्न": 1, "cafe\u{301}": 2, "menü": 3, "Customer Name": 4, "First.Name": 5, "a\"b\\c": 6,
        "}}": 7, "2024": 8, "rows": [{"e\u{301}": 9}], "by": {"1": 10},
    }));
    for source in [
        "{{input.प्रश्न}} == 1 && input['प्रश्न'] == 1",
        "{{input.café}} == 2 && {{input.cafe\u{301}}} == 2 && input['café'] == 2",
        "has(input['cafe\u{301}']) && has({{input.café}}) && 'menu\u{308}' in input",
        "{{input.menü}} == 3 && {{input['menu\u{308}']}} == 3",
        "{{input['Customer Name']}} == 4 && {{input[\"First.Name\"]}} == 5",
        r#"{{input["a\"b\\c"]}} == 6 && {{input["}}"]}} == 7 && has({{input['First.Name']}})"#,
        "{{input.2024}} == 8 && input[2024] == 8",
        "{{input.rows.0.é}} == 9 && {{input.rows[0][\"é\"]}} == 9 && {{input.by.1}} == 10",
    ] {
        let found = compile(source).map(|condition| evaluate(&condition, &known));
        assert_eq!(found, Ok(Ok(true)), "{source}");
    }
    let condition = compile("{{input.cafe\u{301}}} == 1 && {{input.2024}} == 8").expect("valid");
    assert_eq!(condition.references().input, ["2024", "café"].map(str::to_owned).into());
}

#[test]
fn a_condition_knows_its_references() {
    let condition = compile(
        "{{input.a}} == 1 && steps['s-1'].output == 'x' && [1].all(i, i < input['b'].c) && {{s-2.output.k}}",
    )
    .unwrap();
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let references =
        References { input: names(&["a", "b"]), whole_input: false, steps: names(&["s-1", "s-2"]) };
    assert_eq!(condition.references(), &references);
    assert!(compile("'a' in input").unwrap().references().whole_input);
}

#[test]
fn a_fault_says_what_is_wrong() {
    for (source, says) in [
        ("", "must not be empty"),
        (" \n", "must not be empty"),
        ("1 +", "is not valid CEL"),
        ("input.x == 'a", "is not valid CEL"),
        ("foo == 1", "uses foo, which is not a variable; variables are input, steps and meta"),
        ("env.HOME == ''", "uses env, which is not a variable"),
        (".input.x == 1", "uses .input, which is not a variable"),
        ("{{env.HOME}} == ''", "has {{env.HOME}}, which is not a variable of conditions"),
        ("{{foo}}", "has {{foo}}, which is not"),
        ("{{input.x", "has {{ without a closing }}"),
        (
            "{{input.Customer Name}} == 1",
            "has {{input.Customer Name}}, which is not a variable of conditions; a name with blanks, \
             dots or other signs has quotes: write {{input[\"Customer Name\"]}}; variables are",
        ),
        ("{{'{{'}} == 1", "has {{'{{'}}, which is not a variable of conditions"),
        ("steps == {}", "must use steps as"),
        ("steps[input.x].output == ''", "must use steps as"),
        ("steps['a'].usage == ''", "must use steps as"),
        ("'a' in steps", "must use steps as"),
        ("meta.now == ''", "must use meta as"),
        ("now() > 1", "calls now, which is not allowed"),
        ("input.tags.map(t, t + t) == []", "calls map, which is not allowed"),
        ("size(input.tags.filter(t, true)) > 1", "calls filter, which is not allowed"),
        ("input.a.all(a, input.b.all(b, a == b))", "must not nest iterations"),
        ("input.a.all(input, true)", "must not name the variable of an iteration input"),
        ("input.x.matches(input.y)", "must have a string literal as the pattern"),
        ("input.x.matches('(')", "has a pattern that is not a regular expression"),
        ("input.x.matches('(a{1000}){1000}')", "has a pattern that is too large"),
        ("Message{a: 1} == null", "uses the message Message, which is not allowed"),
        ("has(input)", "calls has, which is not allowed"),
        ("input.?a == 1", "calls _?._, which is not allowed"),
    ] {
        let found = compile(source).unwrap_err().to_string();
        assert!(found.starts_with(says), "{source}: {found}");
    }
}

#[test]
fn length_and_depth_are_bounded() {
    let long = |length: usize| format!("true{}", " ".repeat(length - 4));
    assert!(compile(long(MAX_LENGTH)).is_ok());
    assert!(compile(long(MAX_LENGTH + 1)).is_err());
    let nested = |depth: usize| format!("{}true{}", "(".repeat(depth), ")".repeat(depth));
    assert!(compile(nested(MAX_DEPTH)).is_ok());
    assert!(compile(nested(MAX_DEPTH + 1)).is_err());
    assert!(compile("true && ".repeat(100) + "true").is_ok());
    let sum = |terms: usize| format!("{} == 0", vec!["1"; terms].join(" + "));
    assert!(compile(sum(14)).is_ok());
    assert!(compile(sum(17)).is_err());
    let sums = format!("{} && {}", sum(10), sum(10));
    assert!(compile(sums).unwrap_err().to_string().contains("16 additions"));
}

#[test]
fn hostile_text_cannot_exhaust_the_stack() {
    let pieces = [
        "(", "[", "{", "!", "-", "a?", "a?b:", "a.", "a[", "f(", "{a:", "1+", "1-", "1*", "a==",
        "a in ", "a.b(", "'", "\"\"\"", "\\", "{{", "a&&", "a||", "!-", "ü", "0x", "1e", "1&&(",
        "1||[", "(1?(", "a.all(b,",
    ];
    let hostile = move || {
        for piece in pieces {
            for times in [1, 2, 5, 14, 15, 16, 17, 50, 200, 340, 500] {
                let times = times.min((MAX_LENGTH - 4) / piece.len());
                let _ = compile(piece.repeat(times));
                let _ = compile(piece.repeat(times) + "true");
                let closed = format!("{}true{}", piece.repeat(times), ")".repeat(times));
                let _ = compile(closed);
                let sum = format!("{}1{}", "(".repeat(16), format!("{piece}1)").repeat(16));
                let _ = compile(sum);
            }
        }
    };
    let small = std::thread::Builder::new().stack_size(1024 * 1024);
    assert!(small.spawn(hostile).unwrap().join().is_ok());
}

#[test]
fn a_failure_at_run_time_is_an_error_and_never_a_panic() {
    for source in [
        "1 / 0 == 1",
        "input.n % 0 == 1",
        "-int(input.min) == 1",
        "int(input.min) / -1 == 1",
        "input.f / 0 == 1",
        "0.5 % input.zero == 1",
        "9223372036854775807 + 1 == 1",
        "uint(input.big) * uint(2) == uint(1)",
        "int(input.big) == 1",
        "int(1e300) == 1",
        "int('x') == 1",
        "input.missing == 1",
        "input.tags[7] == 'a'",
        "input.tags[-1] == 'a'",
        "input.tags['a'] == 'a'",
        "input.x < 5",
        "input.x + 5 == 5",
        "!input.x",
        "input.x && true",
        "input.none.a == 1",
        "{1: 2, 1: 3} == {}",
        "{null: 1} == {}",
        "input.x()",
        "'a'.matches('a', 'b')",
        "size(5) == 1",
        "steps['unknown'].output == ''",
        "steps['step-a'].json.a == 1",
        "input.n",
        "input.x",
        "null",
    ] {
        let failed = compile(source).map(|condition| evaluate(&condition, &known()));
        assert!(!matches!(failed, Ok(Ok(_))), "{source}: {failed:?}");
    }
    assert_eq!(holds("input.n"), Err("the condition must evaluate to true or false".to_owned()));
    assert_eq!(
        holds("steps.later.output == ''"),
        Err("the condition refers to step later, which did not complete".to_owned())
    );
}

#[test]
fn a_message_never_shows_a_whole_value() {
    let known = known_with(json!({"long": "ü".repeat(100_000)}));
    let error = evaluate(&compile("input.long + 5 == ''").unwrap(), &known).unwrap_err();
    assert!(error.to_string().len() < 400, "{error}");
}

#[test]
fn work_is_bounded_whatever_the_data() {
    let numbers: Vec<u32> = (0..100_000).collect();
    let known = known_with(
        json!({"list": numbers, "text": "a".repeat(1024 * 1024), "page": "ab".repeat(64 * 1024)}),
    );
    for (source, expected) in [
        ("input.list.all(n, n in input.list)", Err(Error::OutOfFuel)),
        ("input.list.exists(n, n < 0)", Ok(false)),
        ("input.list == input.list && size(input.text) == 1048576", Ok(true)),
        ("[1, 2].all(n, input.text.contains('aaaaaaaab') == false)", Ok(true)),
        ("input.list.all(n, input.text.contains('aaaaaaaab'))", Ok(false)),
        ("input.list.all(n, !input.text.contains('aaaaaaaab'))", Err(Error::OutOfFuel)),
        ("input.page.matches('[ab]*a[ab]{40}c')", Ok(false)),
        ("input.page.matches('c') || input.page.matches('d')", Ok(false)),
        ("input.text + input.text != ''", Ok(true)),
    ] {
        assert_eq!(evaluate(&compile(source).unwrap(), &known), expected, "{source}");
    }
    let sum = vec!["input.text"; 14].join("+") + " != ''";
    assert_eq!(evaluate(&compile(sum).unwrap(), &known), Err(Error::OutOfFuel));
}

/// Tried on a server before patterns were compiled once: it answered nobody for 33 seconds.
#[test]
fn patterns_in_an_iteration_are_compiled_once_and_counted() {
    let searches = vec![r"''.matches('\\w{4}')"; 40].join("||");
    let hostile = format!("input.list.exists(n,{searches})");
    assert!(hostile.len() < 1000);
    let known = known_with(json!({"list": (0..700).collect::<Vec<u32>>()}));
    let condition = compile(hostile).unwrap();
    let mut fuel = Fuel::new(FUEL);
    assert_eq!(condition.evaluate(&known, &mut fuel), Ok(false));
    assert!(fuel.left() > 0, "28,000 searches, one compilation");
    let distinct: Vec<_> = (10..50).map(|n| format!(r"''.matches('\\w{{{n}}}')")).collect();
    let refused = compile(distinct.join("||")).unwrap_err();
    assert_eq!(refused.to_string(), "has a pattern that is too large");
}

#[test]
fn the_patterns_of_all_conditions_of_a_plan_share_a_budget() {
    let mut patterns = Patterns::with_budget(MAX_PLAN_PATTERNS);
    let own = |n: usize| format!(r"input.x.matches('^\\w{{8}}{n}$')");
    let fit = (0..500).take_while(|n| Condition::compile(own(*n), &mut patterns).is_ok()).count();
    assert!((5..100).contains(&fit), "{fit}");
    assert!(Condition::compile(own(0), &mut patterns).is_ok(), "an equal one takes nothing");
}

/// The library's own evaluator, as a reference.
fn reference(source: &str, known: &Known) -> Option<Result<bool, ()>> {
    let env = Arc::new(Env::stdlib());
    let program = env.compile(source).ok()?;
    let mut context = cel::Context::with_env(env);
    context.add_variable_from_value("input", of_json(&Value::Object(known.input.clone())));
    Some(match program.execute(&context) {
        Ok(cel::Value::Bool(holds)) => Ok(holds),
        Ok(_) | Err(_) => Err(()),
    })
}

fn of_json(json: &Value) -> cel::Value {
    match json {
        Value::Null => cel::Value::Null,
        Value::Bool(value) => cel::Value::Bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => cel::Value::Int(number),
            (None, Some(number)) => cel::Value::UInt(number),
            (None, None) => cel::Value::Float(number.as_f64().unwrap()),
        },
        Value::String(text) => cel::Value::from(text.as_str()),
        Value::Array(items) => cel::Value::from(items.iter().map(of_json).collect::<Vec<_>>()),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), of_json(value)));
            cel::Value::from(members.collect::<HashMap<_, _>>())
        }
    }
}

fn arithmetic() -> impl Strategy<Value = String> {
    let leaves =
        vec!["input.x", "input.y", "1", "2", "100", "0.5", "2u", "size(input.l)", "input.l[0]"];
    let leaf = prop::sample::select(leaves).prop_map(str::to_owned);
    let value = leaf.prop_recursive(3, 8, 2, |inner| {
        let operators = prop::sample::select(vec!["+", "-", "*", "/", "%"]);
        prop_oneof![
            4 => (inner.clone(), operators, inner.clone())
                .prop_map(|(a, operator, b)| format!("({a} {operator} {b})")),
            1 => inner.clone().prop_map(|a| format!("(-({a}))")),
            1 => inner.prop_map(|a| format!("double(string({a}))")),
        ]
    });
    let comparisons = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    (value.clone(), comparisons, value)
        .prop_map(|(a, comparison, b)| format!("{a} {comparison} {b}"))
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "input.x",
        "input.n",
        "input.big",
        "input.f",
        "input.none",
        "input.min",
        "input.tags",
        "input.rows",
        "input.deep",
        "input.absent",
        "true",
        "false",
        "null",
        "0",
        "1",
        "-1",
        "2u",
        "2.5",
        "3.0",
        "'a'",
        "'3'",
        "''",
        "[]",
        "[1, 2.0]",
        "{'a': 1}",
        "{1: 'x', true: 2}",
        "int",
        "string",
        "input",
        "input.tags[0]",
        "input.deep['in']['0']",
        "i",
        "9223372036854775807",
    ]);
    let leaf = leaf.prop_map(str::to_owned);
    leaf.prop_recursive(4, 24, 3, |inner| {
        let operators =
            vec!["==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "%", "&&", "||", "in"];
        let functions = vec!["size", "int", "uint", "double", "string", "type"];
        let methods = vec!["contains", "startsWith", "endsWith"];
        let macros = vec!["all", "exists", "exists_one"];
        prop_oneof![
            4 => (inner.clone(), prop::sample::select(operators), inner.clone())
                .prop_map(|(a, operator, b)| format!("({a} {operator} {b})")),
            1 => (prop::sample::select(functions), inner.clone())
                .prop_map(|(function, a)| format!("{function}({a})")),
            1 => (inner.clone(), prop::sample::select(methods), inner.clone())
                .prop_map(|(a, method, b)| format!("({a}).{method}({b})")),
            1 => (inner.clone(), prop::sample::select(macros), inner.clone())
                .prop_map(|(a, name, b)| format!("({a}).{name}(i, {b})")),
            1 => (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            1 => inner.clone().prop_map(|a| format!("!{a}")),
            1 => inner.clone().prop_map(|a| format!("-{a}")),
            1 => (inner.clone(), inner).prop_map(|(a, b)| format!("({a})[{b}]")),
        ]
    })
}

proptest! {
    #[test]
    /// Where the library has a result. It has none for numbers of different types, of which JSON knows
    /// nothing; and `/` of two integers of JSON is another.
    fn the_evaluator_agrees_with_the_library(source in expression()) {
        let known = known();
        if let (Ok(condition), Some(Ok(expected))) = (compile(source.as_str()), reference(&source, &known)) {
            prop_assert_eq!(evaluate(&condition, &known), Ok(expected), "{}", source);
        }
    }

    /// A number of JSON is the same number however it is written.
    #[test]
    fn a_number_of_json_is_its_value(
        source in arithmetic(),
        x in prop::sample::select(vec![["1", "1.0", "1e0"], ["-4", "-4.00", "-40e-1"], ["0", "0.0", "-0.0"],
            ["10000000000000000", "1e16", "10000000000000000.0"], ["9223372036854775808", "9223372036854775808.0", "9.223372036854775808e18"]]),
        y in prop::sample::select(vec![["3", "3.0", "0.3e1"], ["200", "2e2", "200.0"]]),
    ) {
        let read = |at: usize| serde_json::from_str::<Value>(&format!("{{\"x\": {}, \"y\": {}, \"l\": [{0}]}}", x[at], y[at]));
        let of = |at: usize| {
            let condition = compile(source.as_str()).ok()?;
            Some(evaluate(&condition, &known_with(read(at).expect("it is JSON"))))
        };
        prop_assert_eq!(of(0), of(1), "{}", source);
        prop_assert_eq!(of(0), of(2), "{}", source);
    }

    #[test]
    fn arbitrary_text_never_panics(source in "(input|steps|meta|\\.|\\[|\\]|\\(|\\)|\\{\\{|\\}\\}|[a-z0-9 '\"+*/<=!?:&|%-]|\\.output|all|ü){0,24}") {
        if let Ok(condition) = compile(source) {
            let _ = evaluate(&condition, &known());
        }
    }

    #[test]
    fn no_value_is_ever_read_as_code(value in ".{0,30}") {
        let known = known_with(json!({"v": value.clone(), "w": value}));
        let same = compile("{{input.v}} == {{input.w}}").unwrap();
        prop_assert_eq!(evaluate(&same, &known), Ok(true));
    }
}
