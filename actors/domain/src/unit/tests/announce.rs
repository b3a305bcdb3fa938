//! The webhooks of an execution.

use super::*;
use crate::execution::Status as Phase;

/// The events of the webhooks about the execution that a unit orders.
fn announced(unit: &Unit) -> Vec<CallbackEvent> {
    let event = |change: &Change| match change {
        Change::Delivery(step) => match &step.next.notification {
            Notification::ExecutionWebhook(webhook) => Some(webhook.event),
            Notification::Webhook(_) | Notification::Mail(_) | Notification::KeyEnd(_) => None,
        },
        Change::Task(..)
        | Change::NewTask(..)
        | Change::Approval(..)
        | Change::Execution(..)
        | Change::Signal(..)
        | Change::Review(..) => None,
    };
    unit.changes.iter().filter_map(event).collect()
}

/// The unit after the decision of everything that is due, and the execution.
fn decided(mut builder: UnitBuilder<'_>) -> (Unit, Execution) {
    while let Some(due) = builder.due() {
        let evaluation = builder.evaluate(due, &Outputs::default()).expect("a brief evaluation");
        builder.decide(due, evaluation, &mut Outputs::default(), &mut sources());
    }
    let state = builder.state().clone();
    (builder.done(&mut sources()), state)
}

/// A retry may fail in the very unit that begins it, and an end that was told is not told again.
#[test]
fn each_run_announces_its_end_once() {
    let step =
        StepSource { id: "a".into(), prompt: "{{input.x.y}}".into(), ..StepSource::default() };
    let plan = PlanSource { name: "p".into(), steps: vec![step], ..PlanSource::default() };
    let plan = Plan::compile(plan, &[]).expect("a plan");
    let compiled = Arc::new(CompiledPlan::new(plan, None));
    let (_, first) = program();
    let labels = Labels { callback_events: Some(vec![CallbackEvent::Failed]), ..Labels::default() };
    let spec = execution::Spec {
        callback_url: Some("https://example.com/hook".into()),
        labels: labels.boxed(),
        ..(*first.next.head.spec).clone()
    };
    let about = About::new(spec.id, NOW, None);
    let first = Execution::started(spec, Arc::clone(&compiled.graph), NOW);
    let input = Map::from_iter([("x".to_owned(), json!({}))]);
    let program = Program::new(about, compiled, ReviewPolicy::default(), input, Arc::default());

    let (unit, state) = decided(UnitBuilder::first(&program, first, NOW));
    assert_eq!((announced(&unit), state.status()), (vec![CallbackEvent::Failed], Phase::Failed));
    let mut builder = UnitBuilder::of(&program, &state, NOW);
    builder.happened(execution::Event::RetryRequested).expect("it has failed");
    let (unit, state) = decided(builder);
    assert_eq!((announced(&unit), state.head.run), (vec![CallbackEvent::Failed], 2));
    let (unit, _) = decided(UnitBuilder::of(&program, &state, NOW));
    assert_eq!(announced(&unit), []);
}
