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
            let _ = throttle.release(permit, Outcome::Failed, now);
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
    assert!(is_refused(&throttle.acquire(&email("ada@example.com"), HOME, NOW)));
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([198, 51, 100, last])
}

/// Signs in.
fn right(throttle: &mut Throttle, who: &str, from: IpAddr, now: Timestamp) {
    match throttle.acquire(&email(who), from, now) {
        Admission::Admitted(permit) => {
            assert_eq!(throttle.release(permit, Outcome::Right, now), None);
        }
        other @ (Admission::Wait | Admission::Refused(_)) => panic!("{other:?}"),
    }
}

/// The wait that the answer announces to the address.
fn wait(throttle: &mut Throttle, who: &str, from: IpAddr, now: Timestamp) -> u64 {
    match throttle.acquire(&email(who), from, now) {
        Admission::Refused(Error::RateLimited { retry_after, .. }) => retry_after,
        other @ (Admission::Admitted(_) | Admission::Wait | Admission::Refused(_)) => {
            panic!("{other:?}")
        }
    }
}

#[test]
fn failures_elsewhere_hold_up_only_addresses_that_are_new_to_the_account() {
    let mut throttle = Throttle::default();
    right(&mut throttle, "ada@example.com", HOME, NOW);
    for last in 0..5 {
        assert!(!is_refused(&fail(&mut throttle, "ada@example.com", address(last), NOW)));
    }
    right(&mut throttle, "ada@example.com", HOME, NOW);
    // Five failures: a second. Each further one doubles it, up to a minute.
    for (last, expected) in [1, 2, 4, 8, 16, 32, 60, 60, 60].into_iter().enumerate() {
        let from = address(100 + u8::try_from(last).expect("nine"));
        assert_eq!(wait(&mut throttle, "ada@example.com", from, NOW), expected);
        assert_eq!(wait(&mut throttle, "ada@example.com", from, NOW), expected, "it does not grow");
        throttle.accounts.get_mut("ada@example.com").expect("attacked").failed(NOW);
    }
    right(&mut throttle, "ada@example.com", HOME, NOW);
    let month = Duration::from_hours(30 * 24);
    let fail_later = |throttle: &mut Throttle| {
        for last in 0..5 {
            assert!(!is_refused(&fail(
                throttle,
                "ada@example.com",
                address(last),
                NOW.after(month)
            )));
        }
    };
    fail_later(&mut throttle);
    assert_eq!(wait(&mut throttle, "ada@example.com", HOME, NOW.after(month)), 1, "new again");
}

#[test]
fn whoever_has_waited_comes_in_whatever_others_did_meanwhile() {
    let mut throttle = Throttle::default();
    let visitor = address(200);
    for last in 0..5 {
        fail(&mut throttle, "ada@example.com", address(last), NOW);
    }
    assert_eq!(wait(&mut throttle, "ada@example.com", visitor, NOW), 1);
    // A thousand addresses wait and fail with it.
    for n in 0..1_000_u32 {
        let from = IpAddr::V4(std::net::Ipv4Addr::from_bits(0x0a00_0000 + n));
        assert!(is_refused(&throttle.acquire(&email("ada@example.com"), from, NOW)));
    }
    for n in 0..1_000_u32 {
        let from = IpAddr::V4(std::net::Ipv4Addr::from_bits(0x0a00_0000 + n));
        fail(&mut throttle, "ada@example.com", from, after(1));
    }
    right(&mut throttle, "ada@example.com", visitor, after(1));
    right(&mut throttle, "ada@example.com", visitor, after(1));
    // One that failed waits anew, and for longer.
    let other = IpAddr::V4(std::net::Ipv4Addr::from_bits(0x0a00_0000));
    assert_eq!(wait(&mut throttle, "ada@example.com", other, after(1)), 60);
    // Two minutes after the last failure nothing is left of it.
    let last = fail(&mut throttle, "ada@example.com", address(201), after(140));
    assert!(!is_refused(&last));
}

#[test]
fn attempts_of_many_addresses_at_once_are_five_failures_at_most() {
    let mut throttle = Throttle::default();
    let ada = email("ada@example.com");
    let permits: Vec<_> = (0..5).map(|last| throttle.acquire(&ada, address(last), NOW)).collect();
    assert_eq!(throttle.acquire(&ada, address(5), NOW), Admission::Wait);
    let mut reached = Vec::new();
    for admission in permits {
        let Admission::Admitted(permit) = admission else { panic!("{admission:?}") };
        reached.push(throttle.release(permit, Outcome::Failed, NOW));
    }
    assert_eq!(reached, [None, None, None, None, Some(Reached::Account)]);
    assert_eq!(wait(&mut throttle, "ada@example.com", address(5), NOW), 1);
}

#[test]
fn the_failure_that_reaches_a_limit_says_so_once() {
    let mut throttle = Throttle::default();
    let mut said = Vec::new();
    for n in 0..20 {
        let who = email(&format!("user{}@example.com", n / 5));
        let Admission::Admitted(permit) = throttle.acquire(&who, HOME, NOW) else { panic!("{n}") };
        said.extend(throttle.release(permit, Outcome::Failed, NOW));
    }
    let pairs = [Reached::Pair; 3].into_iter();
    assert_eq!(said, pairs.chain([Reached::Address]).collect::<Vec<_>>(), "the last is both");
    assert!(is_refused(&throttle.acquire(&email("new@example.com"), HOME, NOW)));
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut throttle = Throttle::default();
    for n in 0..2 * u32::try_from(MAX_ENTRIES).expect("it fits") {
        let from = IpAddr::V4(std::net::Ipv4Addr::from_bits(0x0a00_0000 + n));
        fail(&mut throttle, &format!("u{n}@example.com"), from, NOW);
    }
    let sizes = [throttle.pairs.len(), throttle.addresses.len(), throttle.accounts.len()];
    assert!(sizes.iter().all(|size| *size <= MAX_ENTRIES), "{sizes:?}");
    for last in 0..100 {
        let account = throttle.accounts.entry("ada@example.com".into()).or_default();
        account.remember(address(last), NOW);
    }
    assert_eq!(throttle.accounts["ada@example.com"].known.len(), MAX_KNOWN);
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
    assert_eq!(throttle.release(one, Outcome::Harmless, NOW), None);
    let Admission::Admitted(again) = throttle.acquire(&ada, HOME, NOW) else {
        panic!("a harmless attempt makes room");
    };
    permits.push(again);
    for permit in permits {
        let _ = throttle.release(permit, Outcome::Failed, NOW);
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
            let _ = throttle.release(permit, Outcome::Failed, after(61));
        }
    }
    assert!(is_refused(&throttle.acquire(&ada, HOME, after(61))));
}

#[test]
fn right_passwords_are_never_refused_however_many() {
    let mut throttle = Throttle::default();
    for _ in 0..1_000 {
        match throttle.acquire(&email("ada@example.com"), HOME, NOW) {
            Admission::Admitted(permit) => {
                assert_eq!(throttle.release(permit, Outcome::Right, NOW), None);
            }
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
