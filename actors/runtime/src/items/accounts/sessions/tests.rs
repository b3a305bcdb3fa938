//! Sessions on the memory store, with a clock that is moved by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use callboard_domain::access::Role;
use callboard_domain::account::{Email, PasswordHash};
use callboard_domain::credential::ENTROPY_BYTES;
use callboard_domain::id::Slot;
use callboard_domain::session::signing::{SigningKeyId, SigningKeys};
use callboard_domain::session::{MAX_ACCESS_LIFETIME, MAX_PER_USER, REUSE_GRACE};
use callboard_domain::worker::Monotonic;
use callboard_store::testing::faulty::{Fault, FaultyStore};
use callboard_store::testing::memory::MemoryStore;
use callboard_store::{Batch, BatchId, Outcome, Partition, Store};
use tokio::sync::oneshot;

use callboard_domain::account::User;

use super::*;
use crate::items::accounts::{Message, NewUser, UserChange};
use crate::kernel::ports::{Clock, Ports};
use crate::tests::settings;
use crate::{Handle, System};

const MILLI: Duration = Duration::from_millis(1);

/// A clock that stands still until it is moved.
struct Hand(AtomicU64);

impl Hand {
    fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).expect("a short time");
        self.0.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn moment(&self) -> Monotonic {
        Monotonic::default()
    }
}

struct Bench {
    system: System,
    handle: Handle,
    memory: Arc<MemoryStore>,
    clock: Arc<Hand>,
}

impl Bench {
    async fn new() -> Self {
        let memory = Arc::new(MemoryStore::new());
        Self::over(memory.clone(), memory).await
    }

    /// On `store`, which keeps its rows in `memory`.
    async fn over(memory: Arc<MemoryStore>, store: Arc<dyn Store>) -> Self {
        Self::at(memory, store, Arc::new(Hand(AtomicU64::new(1_800_000_000_000)))).await
    }

    async fn at(memory: Arc<MemoryStore>, store: Arc<dyn Store>, clock: Arc<Hand>) -> Self {
        let ports = Ports { clock: clock.clone(), ..Ports::of_this_machine() };
        let on_break = Box::new(|why| panic!("the system broke: {why}"));
        let system = System::start(store, settings(), ports, on_break).await.expect("it starts");
        let handle = system.handle();
        Self { system, handle, memory, clock }
    }

    /// As after a crash: the actors are gone, every commit is there.
    async fn restart(self) -> Self {
        let memory = Arc::new(self.memory.reopen());
        self.system.stop().await;
        Self::at(memory.clone(), memory, self.clock).await
    }

    async fn user(&self) -> User {
        let new = NewUser {
            email: Email::parse("ada@example.com").expect("an e-mail"),
            name: "Ada".into(),
            role: Role::Viewer,
            tier: None,
            password_hash: PasswordHash::new("$argon2id$".into()),
            must_change_password: false,
            external: None,
        };
        self.handle.create_user(new, By::SYSTEM).await.expect("it is made")
    }

    async fn signed_in(&self) -> SignedIn {
        let user = self.user().await;
        self.handle.sign_in(user, By::SYSTEM).await.expect("it signs in")
    }

    async fn refresh(&self, token: &RefreshToken) -> Result<SignedIn, Error> {
        self.handle.refresh(token.clone(), By::SYSTEM).await
    }

    /// Whether access tokens of this session are taken.
    fn is_open(&self, session: &SignedIn) -> bool {
        self.handle.caller_of_session(session.session, session.user.id, Slot::DEFAULT).is_ok()
    }

    async fn rows(&self) -> usize {
        SESSIONS.scan(&*self.memory, NUMBER, None, 10_000).await.expect("readable").len()
    }
}

fn is_invalid<T>(answer: Result<T, Error>) -> bool {
    matches!(answer.err(), Some(Error::InvalidToken(_)))
}

#[tokio::test]
async fn a_refresh_goes_on_with_the_session_under_another_token() {
    let bench = Bench::new().await;
    let first = bench.signed_in().await;
    assert!(bench.is_open(&first));
    let second = bench.refresh(&first.refresh_token).await.expect("it is renewed");
    assert_eq!((second.session, &second.user), (first.session, &first.user));
    assert_ne!(second.refresh_token, first.refresh_token);

    let bench = bench.restart().await;
    assert!(bench.is_open(&first));
    assert!(is_invalid(bench.refresh(&first.refresh_token).await));
    bench.refresh(&second.refresh_token).await.expect("it is renewed");
    assert_eq!(bench.rows().await, 1);
}

#[tokio::test]
async fn of_refreshes_that_race_one_wins_and_nothing_is_revoked() {
    let bench = Bench::new().await;
    let session = bench.signed_in().await;
    let token = &session.refresh_token;
    let answers = tokio::join!(
        bench.refresh(token),
        bench.refresh(token),
        bench.refresh(token),
        bench.refresh(token)
    );
    let (won, lost): (Vec<_>, Vec<_>) =
        [answers.0, answers.1, answers.2, answers.3].into_iter().partition(Result::is_ok);
    assert_eq!(won.len(), 1);
    assert!(lost.into_iter().all(is_invalid));
    assert!(bench.is_open(&session));
    let won = won.into_iter().flatten().next().expect("one");
    bench.refresh(&won.refresh_token).await.expect("the winner goes on");
}

#[tokio::test]
async fn a_used_token_ends_its_session_only_after_ten_seconds() {
    let bench = Bench::new().await;
    let first = bench.signed_in().await;
    let other = bench.handle.sign_in(first.user.clone(), By::SYSTEM).await.expect("it signs in");
    let second = bench.refresh(&first.refresh_token).await.expect("it is renewed");
    bench.clock.advance(REUSE_GRACE);
    assert!(is_invalid(bench.refresh(&first.refresh_token).await));
    assert!(bench.is_open(&first));
    bench.clock.advance(MILLI);
    assert!(is_invalid(bench.refresh(&first.refresh_token).await));
    assert!(!bench.is_open(&first), "its access tokens are refused");
    assert!(is_invalid(bench.refresh(&second.refresh_token).await));

    assert_eq!(bench.rows().await, 1);
    let bench = bench.restart().await;
    assert!(!bench.is_open(&first));
    assert!(is_invalid(bench.refresh(&second.refresh_token).await));
    bench.refresh(&other.refresh_token).await.expect("the other session goes on");
}

#[tokio::test(start_paused = true)]
async fn an_expired_session_is_forgotten_with_its_last_access_token() {
    let bench = Bench::new().await;
    let session = bench.signed_in().await;
    bench.clock.advance(settings().refresh_token);
    let expired = bench.refresh(&session.refresh_token).await;
    assert_eq!(expired, Err(Error::TokenExpired("refresh token")));
    assert!(bench.is_open(&session), "its access tokens live their time out");
    bench.clock.advance(MAX_ACCESS_LIFETIME.saturating_sub(MILLI));
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(bench.rows().await, 1);
    bench.clock.advance(MILLI);
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(bench.rows().await, 0);
    assert!(!bench.is_open(&session));
    assert!(is_invalid(bench.refresh(&session.refresh_token).await));
}

#[tokio::test]
async fn the_role_is_read_live() {
    let bench = Bench::new().await;
    let session = bench.signed_in().await;
    let admin = NewUser {
        email: Email::parse("admin@example.com").expect("an e-mail"),
        name: "Admin".into(),
        role: Role::Admin,
        tier: None,
        password_hash: PasswordHash::new("$argon2id$".into()),
        must_change_password: false,
        external: None,
    };
    bench.handle.create_user(admin, By::SYSTEM).await.expect("it is made");
    let operator = UserChange { role: Some(Role::Operator), ..UserChange::default() };
    bench.handle.change_user(session.user.id, operator, By::SYSTEM).await.expect("it is set");
    let caller = bench.handle.caller_of_session(session.session, session.user.id, Slot::DEFAULT);
    assert_eq!(caller.map(|caller| caller.role), Ok(Role::Operator));
    let renewed = bench.refresh(&session.refresh_token).await.expect("it is renewed");
    assert_eq!(renewed.user.role, Role::Operator);
}

#[tokio::test]
async fn the_session_of_a_user_who_is_gone_is_nobodys() {
    let memory = Arc::new(MemoryStore::new());
    let token = RefreshToken::new_family(&[7; ENTROPY_BYTES]).expect("enough");
    let (id, user) = (SessionId::from_u128(1 << 120), UserId::from_u128(1 << 10));
    let signing_key = SigningKeyId::of("a key");
    let session = Session::new(id, user, &token, Duration::from_hours(24), signing_key);
    let guards = vec![(Partition(PARTITION), memory.epoch(Partition(PARTITION)).unwrap())];
    let ops = vec![row(&session)];
    let stored = memory.commit(Batch { id: BatchId(1), guards, ops }).await;
    assert!(matches!(stored, Outcome::Committed));

    let bench = Bench::over(memory.clone(), memory).await;
    assert!(is_invalid(bench.handle.caller_of_session(id, user, Slot::DEFAULT)));
    assert!(is_invalid(bench.refresh(&token).await));
}

#[tokio::test]
async fn a_session_is_taken_for_its_own_user_only() {
    let bench = Bench::new().await;
    let session = bench.signed_in().await;
    let other = UserId::from_u128(1 << 10);
    assert!(is_invalid(bench.handle.caller_of_session(session.session, other, Slot::DEFAULT)));
    let unknown = SessionId::from_u128(1 << 10);
    assert!(is_invalid(bench.handle.caller_of_session(unknown, session.user.id, Slot::DEFAULT)));
}

#[tokio::test]
async fn one_session_too_many_ends_the_one_not_renewed_for_longest() {
    let bench = Bench::new().await;
    let first = bench.signed_in().await;
    let mut sessions = Vec::new();
    for _ in 1..MAX_PER_USER {
        bench.clock.advance(MILLI);
        sessions
            .push(bench.handle.sign_in(first.user.clone(), By::SYSTEM).await.expect("it signs in"));
    }
    bench.refresh(&first.refresh_token).await.expect("it is renewed");
    assert!(bench.is_open(&sessions[0]));
    bench.handle.sign_in(first.user.clone(), By::SYSTEM).await.expect("it signs in");
    assert_eq!(bench.rows().await, MAX_PER_USER);
    let bench = bench.restart().await;
    assert!(!bench.is_open(&sessions[0]));
    assert!(is_invalid(bench.refresh(&sessions[0].refresh_token).await));
    assert!(bench.is_open(&first) && sessions[1..].iter().all(|one| bench.is_open(one)));
}

impl Bench {
    async fn child(&self, parent: &SignedIn) -> Result<SignedIn, Error> {
        let user = parent.user.clone();
        self.handle.sign_in_within(Some(parent.session), user, By::SYSTEM).await
    }
}

#[tokio::test]
async fn a_session_that_a_link_began_ends_with_the_one_that_made_the_link() {
    let bench = Bench::new().await;
    let parent = bench.signed_in().await;
    let other = bench.handle.sign_in(parent.user.clone(), By::SYSTEM).await.expect("it signs in");
    let child = bench.child(&parent).await.expect("the parent is open");
    let grandchild = bench.child(&child).await.expect("the parent is open");
    let bench = bench.restart().await;
    assert!(bench.is_open(&child) && bench.is_open(&grandchild));
    bench.handle.end_session(parent.session, By::SYSTEM).await.expect("it ends");
    for over in [&parent, &child, &grandchild] {
        assert!(!bench.is_open(over));
        assert!(is_invalid(bench.refresh(&over.refresh_token).await));
    }
    assert!(bench.is_open(&other));
    assert!(is_invalid(bench.child(&parent).await), "nothing begins from a session that is over");
    assert_eq!(bench.rows().await, 1);
    assert!(!bench.restart().await.is_open(&grandchild));
}

#[tokio::test]
async fn a_stolen_token_ends_the_sessions_that_the_thief_began_from_it() {
    let bench = Bench::new().await;
    let first = bench.signed_in().await;
    let stolen = bench.refresh(&first.refresh_token).await.expect("the thief is faster");
    let hidden = bench.child(&stolen).await.expect("the session is open");
    let deeper = bench.child(&hidden).await.expect("the session is open");
    bench.clock.advance(REUSE_GRACE + MILLI);
    assert!(is_invalid(bench.refresh(&first.refresh_token).await), "the user comes");
    for over in [&stolen, &hidden, &deeper] {
        assert!(!bench.is_open(over));
        assert!(is_invalid(bench.refresh(&over.refresh_token).await));
    }
}

#[tokio::test]
async fn links_do_not_prolong_a_session() {
    let bench = Bench::new().await;
    let first = bench.signed_in().await;
    let end = |session: &SignedIn| {
        let known = bench.handle.sessions(Some(session.user.id));
        let known = known.iter().find(|known| known.id == session.session).cloned();
        known.and_then(|known| known.expires_at()).expect("it is open")
    };
    let mut last = first.clone();
    for _ in 0..5 {
        bench.clock.advance(Duration::from_hours(24));
        last = bench.child(&last).await.expect("the parent is open");
        assert_eq!(end(&last), end(&first));
        last = bench.refresh(&last.refresh_token).await.expect("it is renewed");
        assert_eq!(end(&last), end(&first));
    }
}

#[tokio::test]
async fn one_session_too_many_ends_what_its_links_began_as_well() {
    let bench = Bench::new().await;
    let first = bench.signed_in().await;
    bench.clock.advance(MILLI);
    let child = bench.child(&first).await.expect("the parent is open");
    for _ in 2..=MAX_PER_USER {
        bench.clock.advance(MILLI);
        bench.handle.sign_in(first.user.clone(), By::SYSTEM).await.expect("it signs in");
    }
    assert!(!bench.is_open(&first) && !bench.is_open(&child));
}

#[tokio::test]
async fn a_refresh_that_nobody_waits_for_replaces_nothing() {
    let bench = Bench::new().await;
    let session = bench.signed_in().await;
    let (reply, _) = oneshot::channel();
    let message =
        Message::RenewSession(session.refresh_token.clone(), bench.handle.now(), By::SYSTEM, reply);
    bench.handle.tell_accounts(message).expect("they run");
    bench.refresh(&session.refresh_token).await.expect("it is renewed");
}

/// The acknowledged steps of a session.
#[derive(Default)]
struct Acknowledged {
    /// The last token that was returned.
    last: Option<SignedIn>,
    /// The first one.
    first: Option<SignedIn>,
    /// True if the end of the session was acknowledged.
    over: bool,
}

/// Signed in, renewed twice, and the first token again: as far as it gets.
async fn a_whole_life(bench: &Bench, acknowledged: &mut Acknowledged) -> Result<(), Error> {
    let user = bench.user().await;
    let mut session = bench.handle.sign_in(user, By::SYSTEM).await?;
    acknowledged.first = Some(session.clone());
    acknowledged.last = Some(session.clone());
    for _ in 0..2 {
        session = bench.refresh(&session.refresh_token).await?;
        acknowledged.last = Some(session.clone());
    }
    bench.clock.advance(REUSE_GRACE + MILLI);
    let first = acknowledged.first.clone().expect("it signed in");
    match bench.refresh(&first.refresh_token).await {
        Err(Error::InvalidToken(_)) => acknowledged.over = true,
        other => drop(other?),
    }
    Ok(())
}

#[tokio::test]
async fn a_crash_at_any_commit_loses_nothing_that_was_told() {
    let counted = Arc::new(MemoryStore::new());
    let store = Arc::new(FaultyStore::transparent(counted.clone()));
    let bench = Bench::over(counted, store.clone()).await;
    let mut acknowledged = Acknowledged::default();
    a_whole_life(&bench, &mut acknowledged).await.expect("nothing fails");
    assert!(acknowledged.over);
    // The mark of the start, the user, the session, two renewals, its end.
    let commits = store.commits();
    assert_eq!(commits, 6);

    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        for k in 3..=commits {
            let memory = Arc::new(MemoryStore::new());
            let faulty = FaultyStore::new(memory.clone(), k, fault);
            let bench = Bench::over(memory, Arc::new(faulty)).await;
            let mut acknowledged = Acknowledged::default();
            let end = a_whole_life(&bench, &mut acknowledged).await;
            assert!(matches!(end, Err(Error::Unavailable(_))), "{fault:?} at {k}: {end:?}");
            assert!(!acknowledged.over, "{fault:?} at {k}");

            // The process is gone; only the disk counts.
            let bench = bench.restart().await;
            let Some(last) = acknowledged.last else {
                assert_eq!(bench.rows().await, usize::from(fault == Fault::CrashAfter));
                continue;
            };
            let is_revoked = (fault, k) == (Fault::CrashAfter, commits);
            assert_eq!(bench.is_open(&last), !is_revoked, "{fault:?} at {k}");
            // The unacknowledged step holds or it does not; the one before it does.
            let answer = bench.refresh(&last.refresh_token).await;
            if fault == Fault::CrashBefore {
                answer.expect("the token that was told last is good");
            } else {
                assert!(is_invalid(answer), "{fault:?} at {k}");
            }
        }
    }
}

#[tokio::test]
async fn a_session_ends_with_its_signing_key_unless_it_was_renewed() {
    let bench = Bench::new().await;
    let idle = bench.signed_in().await;
    let renewed = bench.handle.sign_in(idle.user.clone(), By::SYSTEM).await.expect("it signs in");
    let old = settings().signing_keys.current;
    let end = bench.handle.now().after(Duration::from_hours(24));
    let keys = SigningKeys { current: SigningKeyId::of("next"), previous: vec![(old, Some(end))] };
    bench.handle.change_signing_keys(keys.clone(), By::SYSTEM).await.expect("it is stored");
    let renewed = bench.refresh(&renewed.refresh_token).await.expect("it is renewed");
    let caller = bench
        .handle
        .caller_of_session(idle.session, idle.user.id, Slot::DEFAULT)
        .expect("it is open");
    assert_eq!(caller.expires_at, Some(end), "streams end with the key");
    bench.clock.advance(Duration::from_hours(24));
    assert!(!bench.is_open(&idle) && bench.is_open(&renewed));
    assert!(is_invalid(bench.refresh(&idle.refresh_token).await));
    // Another change of keys finds the session over.
    bench.handle.change_signing_keys(keys, By::SYSTEM).await.expect("it is stored");
    assert_eq!(bench.rows().await, 1);
    // A start with the first key alone, as if the file had been put back: the renewed session is over.
    let bench = bench.restart().await;
    assert!(!bench.is_open(&renewed));
    assert_eq!(bench.rows().await, 0);
}
