//! Failures, addresses, and attempts side by side.

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

fn email(text: &str) -> Email {
    Email::parse(text).expect("an e-mail")
}

fn after(seconds: u64) -> Timestamp {
    NOW.after(Duration::from_secs(seconds))
}

fn fail(throttle: &mut Throttle, who: &str, from: IpAddr, now: Timestamp) -> Admission {
    let admission = throttle.acquire(&email(who), from, now);
    match admission {
        Admission::Admitted(permit) => {
            throttle.release(permit, Outcome::Failed, now);
            Admission::Wait
        }
        Admission::Wait => panic!("nobody else is trying"),
        refused @ Admission::Refused(_) => refused,
    }
}

fn is_refused(admission: &Admission) -> bool {
    matches!(admission, Admission::Refused(_))
}

#[test]
fn the_sixth_attempt_within_a_minute_of_five_failures_is_refused_in_any_case_of_the_email() {
    let mut throttle = Throttle::default();
    for second in 0..5 {
        assert!(!is_refused(&fail(&mut throttle, "ada@example.com", HOME, after(second))));
    }
    let refused = throttle.acquire(&email("ADA@example.com"), HOME, after(10));
    let expected = Error::RateLimited { limit: PER_ACCOUNT, retry_after: 50 };
    assert_eq!(refused, Admission::Refused(expected));
    assert!(is_refused(&throttle.acquire(&email("ada@example.com"), HOME, after(59))));
    assert!(matches!(
        throttle.acquire(&email("ada@example.com"), HOME, after(60)),
        Admission::Admitted(_)
    ));
}

#[test]
fn another_account_from_another_address_is_not_held_up() {
    let mut throttle = Throttle::default();
    for _ in 0..5 {
        fail(&mut throttle, "ada@example.com", HOME, NOW);
    }
    assert!(!is_refused(&throttle.acquire(&email("bob@example.com"), HOME, NOW)));
    let elsewhere = "198.51.100.7".parse().expect("an address");
    assert!(is_refused(&throttle.acquire(&email("ada@example.com"), elsewhere, NOW)));
}

#[test]
fn twenty_failures_from_one_address_close_it_for_every_account() {
    let mut throttle = Throttle::default();
    for user in 0..20 {
        let who = format!("user{user}@example.com");
        assert!(!is_refused(&fail(&mut throttle, &who, HOME, NOW)));
    }
    assert!(is_refused(&throttle.acquire(&email("new@example.com"), HOME, NOW)));
    let mapped = "::ffff:192.0.2.1".parse().expect("an address");
    assert!(is_refused(&throttle.acquire(&email("new@example.com"), mapped, NOW)));
}

#[test]
fn an_ipv6_network_counts_as_one_address() {
    let mut throttle = Throttle::default();
    for user in 0..20 {
        let from = format!("2001:db8::{user:x}:1").parse().expect("an address");
        fail(&mut throttle, &format!("user{user}@example.com"), from, NOW);
    }
    let neighbour = "2001:db8::ffff".parse().expect("an address");
    assert!(is_refused(&throttle.acquire(&email("new@example.com"), neighbour, NOW)));
    let other = "2001:db8:0:1::1".parse().expect("an address");
    assert!(!is_refused(&throttle.acquire(&email("new@example.com"), other, NOW)));
}

#[test]
fn attempts_at_the_same_time_never_make_more_than_five_failures() {
    let mut throttle = Throttle::default();
    let ada = email("ada@example.com");
    let mut permits: Vec<Permit> = (0..5)
        .map(|_| match throttle.acquire(&ada, HOME, NOW) {
            Admission::Admitted(permit) => permit,
            other @ (Admission::Wait | Admission::Refused(_)) => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(throttle.acquire(&ada, HOME, NOW), Admission::Wait);

    let one = permits.pop().expect("five");
    throttle.release(one, Outcome::Harmless, NOW);
    let Admission::Admitted(again) = throttle.acquire(&ada, HOME, NOW) else {
        panic!("a harmless attempt makes room");
    };
    permits.push(again);
    for permit in permits {
        throttle.release(permit, Outcome::Failed, NOW);
    }
    assert!(is_refused(&throttle.acquire(&ada, HOME, NOW)));
}

#[test]
fn a_lost_permit_holds_nobody_up_for_more_than_a_minute() {
    let mut throttle = Throttle::default();
    let ada = email("ada@example.com");
    let lost: Vec<Admission> = (0..5).map(|_| throttle.acquire(&ada, HOME, NOW)).collect();
    assert!(lost.iter().all(|admission| matches!(admission, Admission::Admitted(_))));
    assert_eq!(throttle.acquire(&ada, HOME, after(59)), Admission::Wait);
    assert!(matches!(throttle.acquire(&ada, HOME, after(60)), Admission::Admitted(_)));
    for admission in lost {
        if let Admission::Admitted(permit) = admission {
            throttle.release(permit, Outcome::Failed, after(61));
        }
    }
    assert!(is_refused(&throttle.acquire(&ada, HOME, after(61))));
}

#[test]
fn right_passwords_are_never_refused_however_many() {
    let mut throttle = Throttle::default();
    for _ in 0..1_000 {
        match throttle.acquire(&email("ada@example.com"), HOME, NOW) {
            Admission::Admitted(permit) => throttle.release(permit, Outcome::Harmless, NOW),
            other @ (Admission::Wait | Admission::Refused(_)) => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_is_a_minute_old_is_forgotten() {
    let mut throttle = Throttle::default();
    for minute in 0..100 {
        for user in 0..20 {
            let who = format!("user{user}@minute{minute}.example");
            fail(&mut throttle, &who, HOME, after(61 * minute));
        }
    }
    assert!(throttle.accounts.len() < 150, "{}", throttle.accounts.len());
}
