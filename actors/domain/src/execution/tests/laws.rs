//! Properties of every history.

use proptest::prelude::*;

use super::*;

fn events() -> impl Strategy<Value = Event> {
    let step = 0_u16..5;
    let cents = prop::option::of(0.0..3.0);
    let retry = (0_u16..5, 0_u16..4).prop_map(|(step, run)| Retry {
        task: task(step, run),
        worst_cost: Some(Money::from_usd(CENT)),
    });
    let report = (step.clone(), 0_u16..4, 0_u32..300)
        .prop_map(|(step, run, cents)| (step, costing(task(step, run), f64::from(cents) / 100.0)));
    let no = || ending(EndingCode::ProviderError, "no");
    prop_oneof![
        4 => (step.clone(), 0_u16..4, cents).prop_map(|(step, run, cents)| Event::Decided {
            step,
            decision: StepDecision::Run {
                task: task(step, run),
                worst_cost: cents.map(|cents| Money::from_usd(cents * CENT)),
            },
        }),
        1 => step.clone().prop_map(skip),
        1 => step.prop_map(move |step| Event::Decided { step, decision: StepDecision::Fail(no()) }),
        4 => report.clone().prop_map(|(step, report)| Event::StepCompleted { step, report }),
        1 => report.clone().prop_map(move |(step, report)| Event::StepFailed {
            step,
            report,
            ending: no(),
        }),
        1 => (report.clone(), prop::option::of(retry)).prop_map(
            move |((step, report), retried_as)| Event::StepRejected {
                step,
                report,
                ending: no(),
                retried_as,
            }
        ),
        1 => report.clone().prop_map(|(step, report)| Event::StepCancelled { step, report }),
        1 => report.prop_map(|(step, report)| Event::OutputMismatched {
            step,
            report,
            fault: OutputFault::Mismatch("no".into()),
        }),
        1 => prop_oneof![
            Just(Event::CancelRequested),
            Just(Event::TimePassed),
            Just(Event::GivenUp),
        ],
        1 => Just(Event::RetryRequested),
        2 => (0_u16..5, 0_u16..4)
            .prop_map(|(step, run)| Event::StepReopened { step, task: task(step, run) }),
        2 => (0_u16..5, prop::option::of(0_u64..9_000)).prop_map(|(step, timeout_ms)| {
            Event::Decided { step, decision: StepDecision::Await { timeout_ms } }
        }),
        2 => (prop::collection::vec(0_u16..5, 1..3), any::<u8>(), any::<bool>()).prop_map(
            |(steps, number, replace)| {
                let id = crate::id::SignalId::from_u128(u128::from(number) << 10);
                let signal = Signal { id, at: NOW };
                let steps = steps.into_iter().collect();
                Event::Signalled(signal::Sent { steps, signal, replace })
            }
        ),
    ]
}

proptest! {
    #[test]
    fn any_history_keeps_the_laws_of_a_machine(
        history in prop::collection::vec((events(), 0_u64..10_000), 0..80),
        fail_fast: bool,
        capped: bool,
        lists in prop_oneof![Just(CHAIN), Just(APART), Just(DIAMOND)],
    ) {
        let spec = Spec {
            fail_fast,
            timeout_ms: Some(60_000),
            max_cost: capped.then(|| Money::from_usd(5.0 * CENT)),
            output_checked: Some(2),
            ..spec()
        };
        let mut execution = started(spec, lists);
        let mut now = NOW;
        for (event, wait) in history {
            now = now.after(Duration::from_millis(wait));
            let before = execution.clone();
            if let Ok(step) = execution.transition(event.clone(), now) {
                let again = event == Event::RetryRequested;
                prop_assert!(!before.is_finished() || again, "finished is final");
                prop_assert!(before.status() == step.next.status() || before.status() == Status::Running || again);
                prop_assert_eq!(step.next.head.version, before.head.version + 1);
                prop_assert_eq!(&before.transition(event, now), &Ok(step.clone()), "replay agrees");
                let owed = step.next.outstanding();
                let ordered = step.effects.iter().filter(|effect| **effect != Effect::ForgetWake);
                prop_assert!(ordered.clone().all(|effect| owed.contains(effect)), "nothing is forgotten");
                prop_assert!(!step.next.is_finished() || owed.is_empty());
                execution = step.next;
            }
            let sum = execution.progress(|_| DispatchState::Pending);
            prop_assert_eq!(
                sum.total,
                sum.completed + sum.running + sum.pending + sum.failed + sum.cancelled + sum.skipped
            );
            let reloaded = execution.reloaded();
            prop_assert_eq!(&reloaded, &execution, "rows say all");
            prop_assert_eq!(reloaded.outstanding(), execution.outstanding());
            let written: Vec<u16> = execution.changed_since(&before).map(|(step, _)| step).collect();
            let differing = execution.steps().filter(|(step, row)| before.step(*step) != Some(*row));
            let differing: Vec<u16> = differing.map(|(step, _)| step).collect();
            prop_assert!(differing.iter().all(|step| written.contains(step)));
        }
    }
}
