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
fn a_decision_counts_in_its_execution_or_is_refused() {
    let (program, first) = program();
    let (task, approval, state) = held_step(&program, first);
    let decide = |state: &Execution, event: Event, now| {
        let (mut outputs, mut sources) = (Outputs::default(), Fake { next: 200 });
        let mut joint = Joint::of(&program, state, now);
        let items = Items { task: Some(&task), approval: Some(&approval) };
        let joined = joint.join(items, event, None, &mut outputs, &mut sources);
        (joined, joint.done(&mut Fake { next: 900 }))
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
