//! Renewed, reused, expired, evicted.

use proptest::prelude::*;

use super::*;

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const MONTH: Duration = Duration::from_hours(30 * 24);
const USER: UserId = UserId::from_u128(7 << 10);
const MILLI: Duration = Duration::from_millis(1);

/// The identifier of a session that began at this instant.
fn id_at(instant: Timestamp, number: u128) -> SessionId {
    SessionId::from_u128(crate::id::first_at(instant) | number << 10)
}

/// The digest of the token with this number; the first is 0.
fn token(number: usize) -> Digest {
    Digest::of(&number.to_string())
}

fn session() -> Session {
    let state = open(id_at(START, 1), token(0), START, MONTH, Vec::new());
    let signing_key = Some(SigningKeyId::of("first"));
    let (id, family) = (id_at(START, 1), Digest::of("family"));
    Session { id, user: USER, family, signing_key, parent: None, state }
}

fn presented(number: usize, successor: usize) -> Event {
    let signing_key = SigningKeyId::of("second");
    Event::Presented {
        token: token(number),
        successor: token(successor),
        lifetime: MONTH,
        latest: None,
        signing_key,
    }
}

impl Session {
    fn at(&self, after: Duration, event: Event) -> Result<Self, Refusal> {
        self.transition(event, START.after(after)).map(|step| step.next)
    }

    /// Renewed `after` the start, with the token of this number by the next one.
    fn renewed(&self, after: Duration, number: usize) -> Self {
        let next = self.at(after, presented(number, number + 1)).expect("it is renewed");
        assert!(!next.is_finished());
        next
    }
}

#[test]
fn the_current_token_is_replaced_by_another_that_lives_anew() {
    let day = Duration::from_hours(24);
    let renewed = session().renewed(day, 0);
    assert_eq!(renewed.expires_at(), Some(START.after(day).after(MONTH)));
    let again = renewed.renewed(2 * day, 1);
    assert_eq!(again.expires_at(), Some(START.after(2 * day).after(MONTH)));
    assert_eq!((again.id, again.user, again.family), (session().id, USER, session().family));
    assert_eq!(again.signing_key, Some(SigningKeyId::of("second")), "the key that signs now");
}

#[test]
fn a_login_begins_with_the_token_it_was_given() {
    let token = RefreshToken::new_family(&[7; crate::credential::ENTROPY_BYTES]).expect("enough");
    let begun = Session::new(id_at(START, 1), USER, &token, MONTH, SigningKeyId::of("first"));
    let state = open(begun.id, token.digest(), START, MONTH, Vec::new());
    assert_eq!((begun.family, begun.state), (token.family(), state));
}

#[test]
fn an_ended_session_is_over_for_good() {
    let over = session().at(Duration::ZERO, Event::Ended).expect("it is open");
    assert_eq!((over.is_finished(), over.expires_at(), over.renewed_at()), (true, None, None));
    assert_eq!(over.at(Duration::ZERO, Event::Ended), Err(Refusal::Revoked));
    assert_eq!(over.at(Duration::ZERO, presented(0, 1)), Err(Refusal::Revoked));
}

#[test]
fn a_used_token_within_ten_seconds_is_refused_and_nothing_is_revoked() {
    let renewed = session().renewed(Duration::ZERO, 0);
    for after in [Duration::ZERO, MILLI, REUSE_GRACE] {
        assert_eq!(renewed.at(after, presented(0, 9)), Err(Refusal::JustReplaced));
    }
    renewed.renewed(REUSE_GRACE, 1);
}

#[test]
fn a_used_token_after_ten_seconds_revokes_the_session() {
    let renewed = session().renewed(Duration::ZERO, 0);
    let over = renewed.at(REUSE_GRACE + MILLI, presented(0, 9)).expect("it is heard");
    assert_eq!(over.state, State::Revoked);
    for number in 0..2 {
        assert_eq!(over.at(REUSE_GRACE + MILLI, presented(number, 9)), Err(Refusal::Revoked));
    }
}

#[test]
fn each_used_token_has_ten_seconds_of_its_own() {
    let second = Duration::from_secs(1);
    let twice = session().renewed(Duration::ZERO, 0).renewed(9 * second, 1);
    assert_eq!(twice.at(10 * second, presented(0, 9)), Err(Refusal::JustReplaced));
    assert_eq!(twice.at(11 * second, presented(1, 9)), Err(Refusal::JustReplaced));
    assert_eq!(twice.at(11 * second, presented(0, 9)).expect("heard").state, State::Revoked);
}

#[test]
fn a_used_token_is_known_however_long_ago_it_was_replaced() {
    let hour = Duration::from_hours(1);
    let mut session = session();
    for number in 0..50 {
        session = session.renewed(hour * u32::try_from(number).expect("small"), number);
    }
    let over = session.at(60 * hour, presented(0, 99)).expect("it is heard");
    assert!(over.is_finished());
}

#[test]
fn a_token_that_was_never_made_but_is_of_the_family_revokes_it() {
    // A caller that knows the family's half has seen one of its tokens.
    assert!(session().at(Duration::ZERO, presented(77, 78)).expect("heard").is_finished());
}

#[test]
fn a_token_is_taken_until_the_last_instant_and_then_has_expired() {
    session().renewed(MONTH.saturating_sub(MILLI), 0);
    assert_eq!(session().at(MONTH, presented(0, 1)), Err(Refusal::Expired));
}

#[test]
fn a_used_token_revokes_an_expired_session_too() {
    // Its access tokens may still be valid.
    let renewed = session().renewed(Duration::ZERO, 0);
    assert!(renewed.at(2 * MONTH, presented(0, 9)).expect("heard").is_finished());
}

#[test]
fn a_session_ends_after_ninety_days_however_often_it_is_renewed() {
    let day = Duration::from_hours(24);
    let late = session().renewed(29 * day, 0).renewed(58 * day, 1).renewed(87 * day, 2);
    assert_eq!(late.expires_at(), Some(START.after(90 * day)));
    late.renewed((90 * day).saturating_sub(MILLI), 3);
    assert_eq!(late.at(90 * day, presented(3, 4)), Err(Refusal::Expired));
}

#[test]
fn a_session_is_forgotten_once_its_last_access_token_has_expired() {
    let session = session();
    let end = session.expires_at().expect("it is open").after(MAX_ACCESS_LIFETIME);
    assert!(!session.is_purgeable(START));
    assert!(!session.is_purgeable(Timestamp::from_millis(end.as_millis() - 1)));
    assert!(session.is_purgeable(end));
}

#[test]
fn of_a_hundred_sessions_the_one_not_renewed_for_longest_makes_room() {
    let begun = |number: u64| {
        let at = START.after(Duration::from_secs(number));
        let id = id_at(at, u128::from(number));
        let state = open(id, token(0), at, MONTH, Vec::new());
        Session {
            id,
            user: USER,
            family: Digest::of(&number.to_string()),
            signing_key: None,
            parent: None,
            state,
        }
    };
    let mut sessions: Vec<_> = (0..100).map(begun).map(Arc::new).collect();
    assert_eq!(evicted_by_login(&sessions[..99], None), Ok(None));
    assert_eq!(evicted_by_login(&sessions, None), Ok(Some(&sessions[0])));
    sessions[0] = Arc::new(sessions[0].renewed(Duration::from_hours(1), 0));
    assert_eq!(evicted_by_login(&sessions, None), Ok(Some(&sessions[1])));
    let child = Session { parent: Some(sessions[1].id), ..(*sessions[2]).clone() };
    sessions[2] = Arc::new(child);
    let of_child = evicted_by_login(&sessions, Some(sessions[2].id));
    assert_eq!(of_child, Ok(Some(&sessions[3])), "those that it comes from stay");
    for number in 1..100 {
        let parent = Some(sessions[number - 1].id);
        sessions[number] = Arc::new(Session { parent, ..(*sessions[number]).clone() });
    }
    let last = Some(sessions[99].id);
    assert!(matches!(evicted_by_login(&sessions, last), Err(Error::InvalidState(_))));
    let over = sessions[1].at(Duration::ZERO, Event::Evicted).expect("it is heard");
    assert_eq!(over.state, State::Revoked);
    assert_eq!(over.at(Duration::ZERO, Event::Evicted), Err(Refusal::Revoked));
}

#[test]
fn a_child_expires_with_its_parent_at_the_latest() {
    let day = Duration::from_hours(24);
    let (parent, id) = (session(), id_at(START.after(day), 2));
    let begun = |parent: &Session| {
        let token =
            RefreshToken::new_family(&[7; crate::credential::ENTROPY_BYTES]).expect("enough");
        Session::new(id, USER, &token, MONTH, SigningKeyId::of("first")).child_of(parent)
    };
    let child = begun(&parent).expect("the parent is open");
    assert_eq!((child.parent, child.expires_at()), (Some(parent.id), parent.expires_at()));
    let renew = |latest: Option<Timestamp>| {
        let State::Open { token, .. } = child.state else { panic!("it is open") };
        let signing_key = SigningKeyId::of("second");
        let event = Event::Presented {
            token,
            successor: Digest::of("x"),
            lifetime: MONTH,
            latest,
            signing_key,
        };
        child.at(2 * day, event).expect("it is renewed")
    };
    let renewed = renew(parent.expires_at());
    assert_eq!((renewed.parent, renewed.expires_at()), (Some(parent.id), parent.expires_at()));
    let later = parent.renewed(2 * day, 0);
    assert_eq!(renew(later.expires_at()).expires_at(), Some(START.after(2 * day).after(MONTH)));

    let over = parent.at(Duration::ZERO, Event::Ended).expect("it is open");
    assert_eq!(begun(&over), Err(Refusal::Revoked.into()));
    let expired = Session { state: open(parent.id, token(0), START, day, Vec::new()), ..parent };
    assert_eq!(begun(&expired), Err(Refusal::Expired.into()));
}

#[test]
fn the_descendants_of_a_session_are_its_children_and_theirs() {
    let of = |number: u128, parent: Option<u128>| {
        let parent = parent.map(|number| id_at(START, number));
        Arc::new(Session { id: id_at(START, number), parent, ..session() })
    };
    let all =
        [of(1, None), of(2, Some(1)), of(3, Some(2)), of(4, None), of(5, Some(1)), of(6, Some(9))];
    let found = |number| {
        let found = descendants(id_at(START, number), &all);
        let mut ids: Vec<_> = found.iter().map(|session| session.id).collect();
        ids.sort();
        ids
    };
    assert_eq!(found(1), [2, 3, 5].map(|number| id_at(START, number)));
    assert_eq!(found(2), [id_at(START, 3)]);
    assert!(found(4).is_empty());
}

#[test]
fn refusals_are_told_apart_only_by_expiry() {
    assert!(matches!(Refusal::JustReplaced.into(), Error::InvalidToken(_)));
    assert!(matches!(Refusal::Revoked.into(), Error::InvalidToken(_)));
    assert_eq!(Error::from(Refusal::Expired), Error::TokenExpired("refresh token"));
}

#[test]
fn a_stored_session_reads_back_and_holds_no_token() {
    let session = session().renewed(Duration::ZERO, 0);
    let text = serde_json::to_string(&session).expect("a record is JSON");
    assert_eq!(serde_json::from_str::<Session>(&text).expect("its own text"), session);
}

/// The rule in other words: every token ever made, and when it was replaced.
struct Model {
    replaced: Vec<Timestamp>,
    expires_at: Timestamp,
    revoked: bool,
}

impl Model {
    fn present(&mut self, number: usize, now: Timestamp) -> Result<bool, Refusal> {
        if self.revoked {
            return Err(Refusal::Revoked);
        }
        let current = self.replaced.len();
        match self.replaced.get(number) {
            None if number == current && now >= self.expires_at => Err(Refusal::Expired),
            None if number == current => {
                self.replaced.push(now);
                self.expires_at = now.after(MONTH).min(START.after(MAX_LIFETIME));
                Ok(false)
            }
            Some(at) if now.since(*at) <= REUSE_GRACE && number + MAX_REPLACED >= current => {
                Err(Refusal::JustReplaced)
            }
            Some(_) | None => {
                self.revoked = true;
                Ok(true)
            }
        }
    }
}

proptest! {
    #[test]
    fn any_tokens_at_any_times_are_answered_as_the_model_says(
        steps in prop::collection::vec(
            (prop_oneof![
                6 => 0..12_000_u64,
                1 => 10_000..=10_001_u64,
                1 => 0..35 * 86_400_000_u64,
            ], prop_oneof![4 => Just(0), 1 => 0..7_usize], any::<bool>()),
            1..60,
        ),
    ) {
        let mut model = Model { replaced: vec![], expires_at: START.after(MONTH), revoked: false };
        let (mut session, mut now) = (session(), START);
        for (millis, back, beyond) in steps {
            now = now.after(Duration::from_millis(millis));
            let current = model.replaced.len();
            // The current token, one replaced before, or now and then one never made.
            let number = match current.checked_sub(back) {
                Some(number) => number,
                None if beyond => current + 1,
                None => 0,
            };
            let expected = model.present(number, now);
            match (session.transition(presented(number, current + 1), now), expected) {
                (Err(refusal), Err(expected)) => prop_assert_eq!(refusal, expected),
                (Ok(step), Ok(revoked)) => {
                    prop_assert_eq!(step.next.is_finished(), revoked);
                    prop_assert!(step.facts.is_empty() && step.next.outstanding().is_empty());
                    session = step.next;
                }
                (found, expected) => prop_assert!(false, "{:?}, not {:?}", found, expected),
            }
            if let State::Open { token: known, expires_at, replaced, .. } = &session.state {
                prop_assert_eq!(*known, token(model.replaced.len()));
                prop_assert_eq!(*expires_at, model.expires_at);
                prop_assert!(replaced.len() <= MAX_REPLACED);
            }
        }
    }
}
