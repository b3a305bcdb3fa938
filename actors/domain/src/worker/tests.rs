use super::*;
use crate::access::{Account, Role};
use crate::function::Announced;
use crate::id::{Environment, KeyId, TaskId};
use crate::task::LeaseId;

const POLICY: LeasePolicy =
    LeasePolicy { lease: Duration::from_secs(30), silent_after: Duration::from_secs(15) };
const START: Monotonic = Monotonic(1_000);

fn at(seconds: u64) -> Monotonic {
    START.after(Duration::from_secs(seconds))
}

fn lease(number: u128) -> LeaseToken {
    LeaseToken { task: TaskId::from_u128(number << 10), lease: LeaseId::from_random(number) }
}

fn profile() -> Profile {
    Profile {
        name: "box".into(),
        version: "1".into(),
        queues: vec!["default".into()],
        models: vec!["gpt-*".into(), "small".into()],
        functions: [].into(),
        concurrency: 2,
    }
}

fn worker() -> Worker {
    let id = WorkerId::from_u128(1 << 10);
    Worker::new(id, Some(profile()), POLICY, START)
}

#[test]
fn a_model_is_announced_by_name_by_prefix_or_by_a_star() {
    let profile = profile();
    assert!(profile.runs("gpt-5") && profile.runs("small"));
    assert!(!profile.runs("smaller") && !profile.runs("gp"));
    let every = Profile { models: vec!["*".into(), "function:f".into()], ..profile };
    assert!(every.runs("anything"));
    assert!(!every.runs("function:f"), "no model is a function");
    let announced = |name: &str| Announced {
        name: name.into(),
        description: None,
        input_schema: None,
        output_schema: None,
    };
    let called = Profile { functions: [announced("f")].into(), ..every };
    assert!(called.runs("function:f") && !called.runs("function:g") && called.runs("f"));
    assert!(Profile { functions: [announced("*")].into(), ..called }.runs("function:g"));
}

#[test]
fn a_lease_is_released_once() {
    let mut worker = worker();
    worker.assign(lease(1), at(0));
    worker.assign(lease(2), at(0));
    assert_eq!(worker.running(), 2);
    assert!(worker.release(lease(1)));
    assert!(!worker.release(lease(1)));
    assert_eq!(worker.running(), 1);
}

#[test]
fn a_silent_worker_is_unreachable_until_it_is_heard_from() {
    let mut worker = worker();
    assert!(worker.is_reachable(at(14)));
    assert!(!worker.is_reachable(at(15)));
    worker.heard(at(16));
    assert!(worker.is_reachable(at(16)));
}

#[test]
fn a_heartbeat_renews_what_it_names_and_says_what_is_lost() {
    let mut worker = worker();
    worker.assign(lease(1), at(0));
    worker.assign(lease(2), at(0));
    let answer = worker.renew(&[lease(1), lease(9)], at(20));
    assert_eq!(answer, Leases { renewed: vec![lease(1)], lost: vec![lease(9)] });
    assert_eq!(worker.expire(at(30)), [lease(2)]);
    assert_eq!(worker.expire(at(49)), []);
    assert_eq!(worker.expire(at(50)), [lease(1)]);
    assert_eq!(worker.expire(at(50)), []);
}

#[test]
fn a_dropped_connection_keeps_its_leases_until_they_run_out() {
    let mut worker = worker();
    worker.assign(lease(1), at(0));
    worker.disconnect();
    assert!(!worker.is_reachable(at(1)));
    assert_eq!(worker.status(at(29)), Status::Active);
    let leases = Leases { renewed: vec![lease(1)], lost: vec![] };
    let resumed = worker.resume(profile(), &[lease(1)], at(29));
    assert_eq!(resumed, Resumed { leases, ..Resumed::default() });
    assert_eq!(worker.expire(at(58)), []);
}

#[test]
fn a_lease_that_the_worker_does_not_name_goes_back_when_it_resumes() {
    let mut worker = worker();
    worker.assign(lease(1), at(0));
    worker.assign(lease(2), at(0));
    worker.disconnect();
    let leases = Leases { renewed: vec![lease(2)], lost: vec![lease(3)] };
    let resumed = worker.resume(profile(), &[lease(2), lease(3)], at(5));
    assert_eq!(resumed, Resumed { leases, dropped: vec![lease(1)], undelivered: vec![] });
    assert_eq!(worker.running(), 1);
}

#[test]
fn a_lease_from_before_a_restart_is_undelivered_until_the_worker_names_it() {
    let mut worker = worker();
    for number in 1..=3 {
        worker.adopt(lease(number), at(0));
    }
    let resumed = worker.resume(profile(), &[lease(1), lease(2)], at(5));
    assert_eq!((resumed.dropped, resumed.undelivered), (vec![], vec![lease(3)]));
    // It knew of this one: that it lets go of it is its own doing.
    let resumed = worker.resume(profile(), &[lease(2)], at(6));
    assert_eq!((resumed.dropped, resumed.undelivered), (vec![lease(1)], vec![]));
    assert_eq!(worker.expire(at(36)), [lease(2)]);
}

#[test]
fn a_lease_that_is_watched_again_is_one_that_was_given_out() {
    let mut worker = worker();
    worker.assign(lease(1), at(0));
    worker.adopt(lease(1), at(9));
    assert_eq!(worker.expire(at(38)), []);
    assert_eq!(worker.resume(profile(), &[], at(38)).dropped, [lease(1)]);
}

#[test]
fn it_is_lost_once_it_was_silent_and_all_its_leases_ran_out() {
    let mut worker = worker();
    worker.assign(lease(1), at(5));
    worker.disconnect();
    assert_eq!(worker.status(at(30)), Status::Active);
    worker.expire(at(35));
    assert_eq!(worker.status(at(35)), Status::Lost);
}

#[test]
fn a_draining_worker_keeps_its_leases() {
    let mut worker = worker();
    worker.assign(lease(1), at(0));
    worker.drain();
    assert_eq!((worker.is_draining(), worker.status(at(1))), (true, Status::Draining));
    assert!(worker.holds(lease(1)));
}

#[test]
fn the_confidence_of_trusted_workers_counts() {
    let id = KeyId::from_u128(1 << 10);
    let worker = Caller {
        account: Account::Key(id),
        name: "gpu".into(),
        role: Role::Worker,
        environment: Environment::LIVE,
        tier: None,
        queues: Vec::new(),
        session: None,
        must_change_password: false,
        expires_at: None,
    };
    let only = |keys: &[&str]| {
        ConfidenceTrust::Only(keys.iter().map(|&key| key.to_owned()).collect()).includes(&worker)
    };
    assert!(ConfidenceTrust::All.includes(&worker) && !ConfidenceTrust::None.includes(&worker));
    assert!(only(&["cpu", "gpu"]) && only(&[&id.to_string()]));
    assert!(!only(&[]) && !only(&["gpus", "GPU", "all"]));
}
