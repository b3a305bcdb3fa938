//! Units of an execution with a list.

use super::*;
use crate::execution::ItemStatus;
use crate::plan::{MapSource, OnItemError};

fn program(
    input: &serde_json::Value,
    map: MapSource,
    max_cost: Option<Money>,
) -> (Program, Step<Execution>) {
    let each = StepSource {
        id: "each".into(),
        prompt: "title {{item.title}} of {{input.name}}".into(),
        map: MapSource {
            for_each: Some("{{input.docs}}".into()),
            max_items: map.max_items.or(Some(1_000)),
            ..map
        },
        ..StepSource::default()
    };
    let report = StepSource {
        id: "report".into(),
        prompt: "first {{each.output.0}}".into(),
        depends_on: vec!["each".into()],
        condition: Some("size(steps[\"each\"].json) > 0".into()),
        ..StepSource::default()
    };
    let source =
        PlanSource { name: "A plan".into(), steps: vec![each, report], ..PlanSource::default() };
    let compiled =
        Arc::new(CompiledPlan::new(Plan::compile(source, &[]).expect("a good plan"), None));
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
        max_cost,
        output_checked: None,
        start_at: None,
        forked_from: None,
        occurrence: None,
        row_of: None,
        idempotency_key: None,
        created_at: NOW,
        trace: None,
    };
    let first = Execution::started(spec, Arc::clone(&compiled.graph), NOW);
    let input = input.as_object().cloned().expect("an object");
    (
        Program::new(
            About::new(id, NOW, None),
            compiled,
            ReviewPolicy::default(),
            input,
            Arc::default(),
        ),
        first,
    )
}

/// Every prompt costs a billionth of a dollar a byte.
struct Priced(Fake);

impl Sources for Priced {
    fn task_id(&mut self, now: Timestamp) -> TaskId {
        self.0.task_id(now)
    }

    fn delivery_id(&mut self, now: Timestamp) -> DeliveryId {
        self.0.delivery_id(now)
    }

    fn salt(&mut self) -> Salt {
        self.0.salt()
    }

    fn ask(&mut self, task: &Spec, wanted: ReviewerPool) -> Assignee {
        self.0.ask(task, wanted)
    }

    fn policy(&self) -> Policy {
        self.0.policy()
    }

    fn announces(&self, event: EventName) -> bool {
        self.0.announces(event)
    }

    fn worst_cost(&self, _: Called<'_>, inputs: &Inputs, _: Option<u64>) -> Option<Money> {
        Some(Money::from_nanos(inputs.length() as u64))
    }
}

fn docs(count: usize) -> serde_json::Value {
    let docs: Vec<_> = (0..count).map(|n| json!({"title": format!("t{n}")})).collect();
    json!({"name": "n", "docs": docs})
}

/// Decides everything that one unit has room for.
fn decide_all(builder: &mut UnitBuilder<'_>, program: &Program, outputs: &mut Outputs) {
    let mut sources = Priced(Fake { next: 200 });
    while let Some(due) = builder.due() {
        assert_eq!(outputs.missing_list(program, due), None, "the list is in memory");
        let evaluation = program.evaluate(due, builder.state(), outputs, Effort::Full);
        builder.decide(due, evaluation.expect("it ends"), outputs, &mut sources);
    }
}

fn first_unit(program: &Program, first: Step<Execution>) -> (Unit, Execution) {
    let mut builder = UnitBuilder::first(program, first, NOW);
    decide_all(&mut builder, program, &mut Outputs::default());
    let after = builder.state().clone();
    (builder.done(&mut Fake { next: 900 }), after)
}

#[test]
fn a_thousand_items_go_out_in_units_of_a_few() {
    let (program, first) = program(&docs(1_000), MapSource::default(), None);
    let mut outputs = Outputs::default();
    let mut builder = UnitBuilder::first(&program, first, NOW);
    decide_all(&mut builder, &program, &mut outputs);
    let (mut after, unit) = (builder.state().clone(), builder.done(&mut Fake { next: 900 }));
    let list = &unit.lists[0];
    assert_eq!((list.number, unit.lists.len()), (0, 1));
    assert!(list.items.starts_with(r#"[{"title":"t0"},{"title":"t1"}"#), "{}", list.items);
    let mut made = Vec::new();
    let mut gather = |unit: &Unit| {
        let tasks = unit.changes.iter().filter_map(|change| match change {
            Change::NewTask(step, inputs) => {
                Some((step.next.spec.origin.item, inputs.prompt.clone()))
            }
            Change::Task(..)
            | Change::Approval(..)
            | Change::Execution(..)
            | Change::Signal(..)
            | Change::Delivery(_)
            | Change::Review(..) => None,
        });
        let tasks: Vec<_> = tasks.collect();
        let count = tasks.len();
        made.extend(tasks);
        count
    };
    assert_eq!(gather(&unit), builder::MAX_UNIT_ITEMS);
    assert!(after.has_due(), "the rest follows");
    let mut units = 1;
    while after.has_due() {
        let mut builder = UnitBuilder::of(&program, &after, NOW);
        decide_all(&mut builder, &program, &mut outputs);
        after = builder.state().clone();
        let unit = builder.done(&mut Fake { next: 900 });
        assert!(gather(&unit) <= builder::MAX_UNIT_ITEMS && unit.lists.is_empty());
        units += 1;
    }
    assert_eq!((units, made.len()), (8, 1_000));
    assert_eq!(made[999], (Some(999), "title t999 of n".to_owned()));
}

#[test]
fn what_is_no_list_or_too_long_fails_the_step_and_says_why() {
    for (docs, says) in [
        (json!("a"), "forEach: {{input.docs}} is a string, not a list"),
        (json!({}), "forEach: {{input.docs}} is an object, not a list"),
        (json!([1, 2, 3]), "forEach: {{input.docs}} has 3 items, and maxItems is 2"),
    ] {
        let map = MapSource { max_items: Some(2), ..MapSource::default() };
        let (program, first) = program(&json!({"name": "n", "docs": docs}), map, None);
        let (_, after) = first_unit(&program, first);
        let error = after.step(0).and_then(|row| row.error.clone()).expect("it failed");
        assert_eq!((error.code, &*error.message), (EndingCode::RenderFailed, says));
    }
}

#[test]
fn null_and_an_absent_field_are_the_empty_list() {
    for input in
        [json!({"name": "n", "docs": null}), json!({"name": "n"}), json!({"name": "n", "docs": []})]
    {
        let (program, first) = program(&input, MapSource::default(), None);
        let (_, after) = first_unit(&program, first);
        assert_eq!(after.step(0).map(|row| row.stage), Some(Stage::Completed));
    }
}

#[test]
fn an_item_that_cannot_be_rendered_fails_alone_where_that_is_tolerated() {
    let map = MapSource { on_item_error: Some(OnItemError::Skip), ..MapSource::default() };
    let input = json!({"name": "n", "docs": [{"title": "a"}, {"no": 1}]});
    let (program, first) = program(&input, map, None);
    let (unit, after) = first_unit(&program, first);
    let status = |item| ItemStatus::of(after.item(0, item).expect("an item"), false, None);
    assert_eq!((status(0), status(1)), (ItemStatus::Running, ItemStatus::Failed));
    assert_eq!(names(&unit), ["new task", "running"]);
}

#[test]
fn the_budget_is_asked_for_all_items_before_the_first() {
    // Prompts of 13 bytes.
    let begins = |max: u64| {
        let max = Some(Money::from_nanos(max));
        let (program, first) = program(&docs(10), MapSource::default(), max);
        let (unit, after) = first_unit(&program, first);
        (unit.lists.len(), after.step(0).map(|row| row.stage))
    };
    assert_eq!(begins(129), (0, Some(Stage::Failed)));
    assert_eq!(begins(130), (1, Some(Stage::Dispatched)));
}

#[test]
fn the_output_is_an_array_that_conditions_and_prompts_reach_into() {
    let (program, first) = program(&docs(1), MapSource::default(), None);
    let (unit, state) = first_unit(&program, first);
    let Some(Change::NewTask(made, _)) = unit.changes.first() else { panic!("a task") };
    let task = running(&made.next);
    let (mut outputs, mut sources) = (Outputs::default(), sources());
    let mut builder = UnitBuilder::of(&program, &state, NOW);
    let items = Items { task: Some(&task), approval: None };
    builder
        .join(items, completed(LEASE, "{\"a\": 1}"), None, &mut outputs, &mut sources)
        .expect("it runs");
    let due = builder.due().expect("the report");
    let missing = outputs.missing(builder.state(), due.step);
    let expected = execution::program::OutputLocation::Items(vec![Some(task.spec.id)]);
    assert_eq!(missing, [(0, expected)]);
    outputs.keep(0, r#"[{"a": 1}]"#);
    let evaluation = builder.evaluate(due, &outputs).expect("it is brief");
    let Evaluation::Run(request, _) = evaluation else { panic!("{evaluation:?}") };
    assert_eq!(request.inputs.prompt, r#"first {"a":1}"#);
}
