use proptest::prelude::*;

use serde_json::{Value, json};

use super::*;

fn register() -> Register {
    Register {
        name: "w".into(),
        version: "1".into(),
        queues: vec!["default".into()],
        models: vec!["*".into()],
        functions: Vec::new(),
        concurrency: 4,
        resume: None,
    }
}

fn registered(kept: &[&str], lost: &[&str]) -> ToWorker {
    let owned = |leases: &[&str]| leases.iter().map(ToString::to_string).collect();
    ToWorker::Registered(Registered {
        worker_id: "wrk_1".into(),
        heartbeat_ms: 10_000,
        kept: owned(kept),
        lost: owned(lost),
        takes: Vec::new(),
    })
}

fn assign(lease: &str) -> Box<Assign> {
    Box::new(Assign {
        lease: lease.into(),
        attempt: 1,
        deadline_at: "2026-11-21T10:00:00.000Z".into(),
        timeout_ms: Some(1_000),
        task: json!({"id": format!("task of {lease}"), "model": "m", "queue": "default", "prompt": "p"}),
    })
}

fn report(of: Of, lease: &str, members: Value) -> Report {
    let Value::Object(members) = members else { panic!("it is an object") };
    Report { of, lease: lease.into(), members }
}

fn complete(lease: &str) -> Report {
    let output = format!("output of {lease}");
    report(Of::Complete, lease, json!({"output": output, "usage": {"input": 1, "output": 1}}))
}

fn fail(lease: &str) -> Report {
    let error = json!({"code": "PROVIDER_ERROR", "message": "m"});
    report(Of::Fail, lease, json!({"error": error, "retryable": true}))
}

fn ack(lease: &str, of: Of) -> ToWorker {
    ToWorker::Ack { lease: lease.into(), of, result: "applied".into() }
}

fn sent(report: Report) -> Effect {
    Effect::Send(FromWorker::Result(report))
}

fn beat(leases: &[&str]) -> Vec<Effect> {
    let leases = leases.iter().map(ToString::to_string).collect();
    vec![Effect::Send(FromWorker::Heartbeat { leases })]
}

fn abort(lease: &str) -> Vec<Effect> {
    vec![Effect::Abort(lease.into())]
}

/// A worker that is up and runs these leases.
fn working(leases: &[&str]) -> Session {
    let mut session = Session::new(register());
    session.connected();
    session.received(registered(&[], &[]));
    for lease in leases {
        assert_eq!(
            session.received(ToWorker::Assign(assign(lease))),
            [Effect::Start(assign(lease))]
        );
    }
    session
}

#[test]
fn a_worker_registers_first_and_then_beats() {
    let mut session = Session::new(register());
    assert_eq!(session.beat(), []);
    assert_eq!(session.connected(), [Effect::Send(FromWorker::Register(register()))]);
    assert_eq!(session.beat(), []);
    let every = Effect::BeatEvery(Duration::from_secs(10));
    assert_eq!(session.received(registered(&[], &[])), [every]);
    assert_eq!(session.beat(), beat(&[]));
}

#[test]
fn a_result_is_kept_until_its_own_acknowledgement() {
    let mut session = working(&["a", "b"]);
    assert_eq!(session.ended("a", complete("a")), [sent(complete("a"))]);
    assert_eq!(session.beat(), beat(&["a", "b"]));
    session.received(ack("a", Of::Fail));
    assert_eq!(session.beat(), beat(&["a", "b"]));
    session.received(ack("a", Of::Complete));
    assert_eq!(session.beat(), beat(&["b"]));
    session.received(ack("b", Of::Complete));
    assert_eq!(session.beat(), beat(&["b"]), "a running lease has nothing to acknowledge");
}

#[test]
fn a_stale_or_duplicate_result_is_settled_too() {
    for result in ["stale", "duplicate"] {
        let mut session = working(&["a"]);
        session.ended("a", fail("a"));
        session.received(ToWorker::Ack { lease: "a".into(), of: Of::Fail, result: result.into() });
        assert_eq!(session.held(), 0);
    }
}

#[test]
fn after_a_reconnect_it_resumes_and_sends_kept_results_again() {
    let mut session = working(&["a", "b", "c"]);
    session.ended("a", complete("a"));
    session.disconnected();
    assert_eq!(session.ended("b", fail("b")), []);
    let leases = ["a", "b", "c"].map(String::from).to_vec();
    let resume = Some(Resume { worker_id: "wrk_1".into(), leases });
    let expected = Register { resume, ..register() };
    assert_eq!(session.connected(), [Effect::Send(FromWorker::Register(expected))]);
    let effects = session.received(registered(&["a", "b", "c"], &[]));
    assert_eq!(effects[1..], [sent(complete("a")), sent(fail("b"))]);
}

#[test]
fn what_ended_between_registering_and_its_answer_is_sent_once() {
    let mut session = working(&["a"]);
    session.disconnected();
    session.connected();
    assert_eq!(session.ended("a", complete("a")), []);
    let effects = session.received(registered(&["a"], &[]));
    assert_eq!(effects[1..], [sent(complete("a"))]);
}

#[test]
fn a_lost_lease_is_dropped_with_its_call_or_its_result() {
    let mut session = working(&["a", "b", "c"]);
    session.ended("a", complete("a"));
    let lost = ToWorker::Leases { lost: vec!["a".into(), "b".into(), "x".into()] };
    assert_eq!(session.received(lost), abort("b"));
    assert_eq!(session.ended("b", complete("b")), []);
    assert_eq!(session.beat(), beat(&["c"]));
    session.disconnected();
    session.connected();
    assert_eq!(session.received(registered(&[], &["c"]))[1..], abort("c"));
}

#[test]
fn a_cancelled_lease_is_aborted_and_nothing_more_is_said_of_it() {
    let mut session = working(&["a"]);
    let cancel = ToWorker::Cancel { lease: "a".into(), reason: "cancelled".into() };
    assert_eq!(session.received(cancel.clone()), abort("a"));
    assert_eq!(session.received(cancel), []);
    assert_eq!(session.delta("a".into(), "late".into()), []);
    assert_eq!(session.ended("a", complete("a")), []);
    assert_eq!(session.held(), 0);
}

#[test]
fn text_goes_out_only_for_a_running_lease_on_a_live_connection() {
    let mut session = working(&["a"]);
    let delta = Delta { lease: "a".into(), text: "t".into() };
    assert_eq!(session.delta("a".into(), "t".into()), [Effect::Send(FromWorker::Delta(delta))]);
    session.disconnected();
    assert_eq!(session.delta("a".into(), "t".into()), []);
}

#[test]
fn an_assignment_that_comes_twice_is_run_once() {
    let mut session = working(&["a"]);
    assert_eq!(session.received(ToWorker::Assign(assign("a"))), []);
    session.ended("a", complete("a"));
    assert_eq!(session.received(ToWorker::Assign(assign("a"))), [sent(complete("a"))]);
}

#[test]
fn a_draining_worker_says_so_finishes_and_is_done() {
    let mut session = working(&["a"]);
    assert_eq!(session.drain(), [Effect::Send(FromWorker::Drain)]);
    assert_eq!(session.drain(), []);
    assert!(!session.is_done());
    session.ended("a", complete("a"));
    assert!(!session.is_done(), "the result is not acknowledged yet");
    session.disconnected();
    session.connected();
    let effects = session.received(registered(&["a"], &[]));
    assert_eq!(effects[1..], [Effect::Send(FromWorker::Drain), sent(complete("a"))]);
    session.received(ack("a", Of::Complete));
    assert!(session.is_done());
}

#[test]
fn a_server_can_send_a_worker_away_within_a_time() {
    let mut session = working(&[]);
    let leave = Effect::LeaveWithin(Duration::from_secs(5));
    let effects = session.received(ToWorker::Drain { deadline_ms: 5000 });
    assert_eq!(effects, [Effect::Send(FromWorker::Drain), leave]);
    assert!(session.is_done());
}

#[derive(Debug, Clone)]
enum Happening {
    Assign(u8),
    Ended(u8),
    Ack(u8),
    Lost(u8),
    Break,
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let one = prop_oneof![
        (0_u8..4).prop_map(Happening::Assign),
        (0_u8..4).prop_map(Happening::Ended),
        (0_u8..4).prop_map(Happening::Ack),
        (0_u8..4).prop_map(Happening::Lost),
        Just(Happening::Break),
    ];
    prop::collection::vec(one, 0..60)
}

proptest! {
    /// After any history, calls and leases agree: each started call is aborted or ended exactly
    /// once, and after a reconnect every unsettled result is sent again.
    #[test]
    fn no_call_is_forgotten_and_no_result_is_lost(happenings in happenings()) {
        let mut session = working(&[]);
        let mut running = std::collections::BTreeSet::new();
        let mut kept = std::collections::BTreeSet::new();
        for happening in happenings {
            let effects = match happening {
                Happening::Assign(n) => session.received(ToWorker::Assign(assign(&n.to_string()))),
                Happening::Ended(n) => {
                    if running.remove(&n.to_string()) {
                        kept.insert(n.to_string());
                    }
                    session.ended(&n.to_string(), complete(&n.to_string()))
                }
                Happening::Ack(n) => {
                    kept.remove(&n.to_string());
                    session.received(ack(&n.to_string(), Of::Complete))
                }
                Happening::Lost(n) => {
                    kept.remove(&n.to_string());
                    session.received(ToWorker::Leases { lost: vec![n.to_string()] })
                }
                Happening::Break => {
                    session.disconnected();
                    session.connected();
                    let effects = session.received(registered(&[], &[]));
                    let again: Vec<Effect> = kept.iter().map(|lease| sent(complete(lease))).collect();
                    prop_assert_eq!(&effects[1..], again.as_slice());
                    effects
                }
            };
            for effect in effects {
                match effect {
                    Effect::Start(assign) => prop_assert!(running.insert(assign.lease)),
                    Effect::Abort(lease) => prop_assert!(running.remove(&lease)),
                    Effect::Send(_) | Effect::BeatEvery(_) | Effect::LeaveWithin(_) => {}
                }
            }
            let held: Vec<String> = running.union(&kept).cloned().collect();
            prop_assert_eq!(session.leases(), held);
        }
    }
}

#[test]
fn members_that_earlier_servers_refuse_go_only_to_servers_that_take_them() {
    let usage = |calls: u32| json!({"input": 1, "output": 1, "calls": calls});
    let with_all = |mut frame: Report| {
        frame.members.insert("usage".into(), usage(4));
        if frame.of == Of::Complete {
            frame.members.insert("judge".into(), json!({"model": "j", "usage": usage(3)}));
            frame.members.insert("thinking".into(), json!("hm"));
            frame.members.insert("limited".into(), json!({"model": "m", "retryAfterMs": 5}));
        }
        frame
    };
    let without = |mut frame: Report| {
        let usage = json!({"input": 1, "output": 1});
        if frame.of == Of::Complete {
            frame.members.insert("judge".into(), json!({"model": "j", "usage": usage}));
        }
        frame
    };
    for (lease, result) in [("a", complete("a")), ("b", fail("b"))] {
        let mut session = Session::new(register());
        session.connected();
        session.received(registered(&[], &[]));
        session.received(ToWorker::Assign(assign(lease)));
        let effects = session.ended(lease, with_all(result.clone()));
        assert_eq!(effects, [sent(without(result.clone()))]);
        // The connection breaks, and a newer server takes the result.
        session.disconnected();
        session.connected();
        let ToWorker::Registered(mut newer) = registered(&[lease], &[]) else { unreachable!() };
        newer.takes = ["thinking", "calls", "limited", "usage", "return"].map(str::to_owned).into();
        let effects = session.received(ToWorker::Registered(newer));
        assert!(effects.contains(&sent(with_all(result))), "{effects:?}");
    }
}
