//! A reviewer's decision about the output of a step, and the ends of its execution.

use std::time::Duration;

use super::*;

/// The execution of [`program`] with a deadline a minute ahead, its first step held.
fn held_step(program: &Program, first: Step<Execution>) -> (Task, Approval, Execution) {
    let start = begun(program, first);
    let (task, state) = created(&start);
    let mut state = state.clone();
    state.head.deadline = Some(NOW.after(Duration::from_mins(1)));
    let mut spec = Spec::clone(&task.spec);
    spec.gate = Some(Gate::ALWAYS);
    let task = Task { spec: Arc::new(spec), ..task };
    let unit = alone(&task, completed(LEASE, "out")).expect("it runs");
    let approval = unit.changes.iter().find_map(|change| {
        if let Change::Approval(step, _) = change { Some(step.next.clone()) } else { None }
    });
    let held = unit.changes.iter().find_map(Change::task).expect("it is held").next.clone();
    (held, approval.expect("it is held"), state)
}

#[test]
fn a_requested_review_changes_neither_its_task_nor_its_execution() {
    let runs = running(&Task::submitted(spec(None)).next);
    let unit = alone(&runs, completed(LEASE, "out")).expect("it runs");
    let task = unit.changes.iter().find_map(Change::task).expect("it ends").next.clone();
    let take = |task: &Task, approval: Option<&Approval>, event: Event| {
        let items = Items { task: Some(task), approval };
        decide(items, event, NOW, &mut Fake { next: 500 })
    };
    let ask = || Event::AskReview {
        output: "out".into(),
        way: ReviewWay::default(),
        before: Record::of_passed(&task, NOW),
    };
    let unit = take(&task, None, ask()).expect("it has passed");
    assert_eq!(names(&unit)[1..], ["review"]);
    let Change::Approval(step, _) = &unit.changes[0] else { panic!("{unit:?}") };
    let approval = &step.next;
    for again in [take(&task, Some(approval), ask()), take(&runs, None, ask())] {
        assert!(again.is_err());
    }
    let edit = Some("better".to_owned());
    let approve = Event::Approve { by: by(), edit, comment: None };
    let approved = take(&task, Some(approval), approve).expect("it is open");
    assert_eq!(names(&approved), ["approved", "review"]);
    let reject = Event::Reject { by: by(), reason: "no".into(), retry: None };
    let rejected = take(&task, Some(approval), reject).expect("it is open");
    assert_eq!(names(&rejected), ["rejected", "review"]);
}

#[test]
fn a_decision_counts_in_its_execution_or_is_refused() {
    let (program, first) = program();
    let (task, approval, state) = held_step(&program, first);
    let decide = |state: &Execution, event: Event, now| {
        let (mut outputs, mut sources) = (Outputs::default(), Fake { next: 200 });
        let mut builder = UnitBuilder::of(&program, state, now);
        let items = Items { task: Some(&task), approval: Some(&approval) };
        let joined = builder.join(items, event, None, &mut outputs, &mut sources);
        (joined, builder.done(&mut Fake { next: 900 }))
    };
    let approve = || Event::Approve { by: by(), edit: None, comment: None };
    let reject = || Event::Reject { by: by(), reason: "no".into(), retry: None };
    let deadline = state.head.deadline.expect("it has one");
    let before = NOW.after(Duration::from_millis(59_999));
    for event in [approve, reject] {
        let (joined, unit) = decide(&state, event(), before);
        assert_eq!((joined, names(&unit).len()), (Ok(()), 4));
        // The time limit comes first, though its timer has not fired; the step then lets go of its task.
        let (joined, unit) = decide(&state, event(), deadline);
        assert_eq!(joined, Err(Refusal::Approval(approval::Refusal::Cancelled)));
        assert_eq!(names(&unit), ["failed"]);
        for end in [execution::Event::CancelRequested, execution::Event::GivenUp] {
            let ended = state.transition(end, NOW).expect("it runs").next;
            let (joined, unit) = decide(&ended, event(), NOW);
            assert_eq!(joined, Err(Refusal::Approval(approval::Refusal::Cancelled)));
            assert!(unit.changes.is_empty());
        }
    }
}
