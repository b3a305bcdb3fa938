//! The lifecycle of accounts and the log of it, on the memory store with a clock that is moved by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use callboard_domain::access::{Account, Action as Permission, Caller, Role};
use callboard_domain::account::{Email, PasswordHash, User};
use callboard_domain::audit::Entry;
use callboard_domain::credential::{ApiKey, DEFAULT_LIFETIME};
use callboard_domain::id::{Environment, Slot};
use callboard_domain::query::{AuditQuery, Window};
use callboard_domain::worker::Monotonic;
use callboard_store::Store;
use callboard_store::testing::memory::MemoryStore;

use callboard_domain::Timestamp;

use super::*;
use crate::items::accounts::{NewKey, NewUser, PasswordChange, UserChange};
use crate::kernel::ports::{Clock, Ports};
use crate::tests::settings;
use crate::{Handle, System};

const DAY: Duration = Duration::from_hours(24);

struct Hand(AtomicU64);

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }

    /// So long after the start that items go by their age.
    fn moment(&self) -> Monotonic {
        Monotonic::default().after(Duration::from_hours(1))
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
        Self::at(Arc::default(), Arc::new(Hand(AtomicU64::new(1_800_000_000_000)))).await
    }

    async fn at(memory: Arc<MemoryStore>, clock: Arc<Hand>) -> Self {
        let ports = Ports { clock: clock.clone(), ..Ports::of_this_machine() };
        let on_break = Box::new(|why| panic!("the system broke: {why}"));
        let settings = crate::Settings { keep_audit: Some(30 * DAY), ..settings() };
        let store: Arc<dyn Store> = memory.clone();
        let system = System::start(store, settings, ports, on_break).await.expect("it starts");
        let handle = system.handle();
        Self { system, handle, memory, clock }
    }

    async fn restart(self) -> Self {
        let memory = Arc::new(self.memory.reopen());
        self.system.stop().await;
        Self::at(memory, self.clock).await
    }

    fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).expect("a short time");
        self.clock.0.fetch_add(millis, Ordering::Relaxed);
    }

    async fn user(&self, name: &str, role: Role) -> User {
        let new = NewUser {
            email: Email::parse(&format!("{name}@example.com")).expect("an e-mail"),
            name: name.into(),
            role,
            tier: None,
            password_hash: PasswordHash::new(format!("$argon2id${name}")),
            must_change_password: false,
            external: None,
        };
        self.handle.create_user(new, By::SYSTEM).await.expect("it is made")
    }

    async fn key(&self, role: Role, by: By) -> Result<ApiKey, Error> {
        let (name, environment) = (role.as_str().to_owned(), Environment::LIVE);
        let (tier, queues, lifetime) = (None, Vec::new(), DEFAULT_LIFETIME);
        let new = NewKey { name, role, environment, tier, queues, lifetime };
        Ok(self.handle.create_key(new, by).await?.0)
    }

    fn caller(&self, key: &ApiKey) -> Result<Caller, Error> {
        self.handle.caller_of_key(&key.digest)
    }

    async fn role(&self, user: &User, role: Role) {
        let change = UserChange { role: Some(role), ..UserChange::default() };
        self.handle.change_user(user.id, change, By::SYSTEM).await.expect("it is changed");
    }

    /// The whole log, the oldest first, which must hold.
    async fn log(&self) -> Vec<Entry> {
        let query =
            AuditQuery { window: Window { limit: 1_000, offset: 0 }, ..AuditQuery::default() };
        let page = self.handle.audit(&query).await.expect("it is readable");
        assert_eq!(page.total, page.items.len() as u64);
        let mut entries = page.items;
        entries.reverse();
        let ends = AUDIT_ENDS.get(&*self.memory, NUMBER, &ONLY).await.expect("readable");
        assert_eq!(ends.unwrap_or_default().verify(&entries), Ok(()));
        entries
    }

    async fn actions(&self) -> Vec<Action> {
        self.log().await.iter().map(|entry| entry.action).collect()
    }
}

fn by(account: Account) -> By {
    By { account: Some(account), address: Some([192, 0, 2, 7].into()), ..By::SYSTEM }
}

#[tokio::test]
async fn a_key_ends_with_the_right_of_the_user_behind_it() {
    let bench = Bench::new().await;
    let _other = bench.user("root", Role::Admin).await;
    let ada = bench.user("ada", Role::Admin).await;
    let by_ada = by(Account::User(ada.id));
    let admin = bench.key(Role::Admin, by_ada).await.expect("an admin's");
    // The items of a key are its user's.
    let by_key = by(Account::Key(admin.id));
    let operator = bench.key(Role::Operator, by_key).await.expect("an admin key's");
    let worker = bench.key(Role::Worker, by_ada).await.expect("an admin's");
    let others = bench.key(Role::Admin, By::SYSTEM).await.expect("the program's");
    assert_eq!((operator.user, operator.created_by), (Some(ada.id), by_key.account));

    bench.role(&ada, Role::Operator).await;
    let works = |key: &ApiKey| bench.caller(key).is_ok();
    assert_eq!([&admin, &operator, &worker, &others].map(works), [false, true, false, true]);
    let refused = bench.key(Role::Viewer, by_ada).await;
    assert!(matches!(refused, Err(Error::Forbidden(_))), "{refused:?}");
    let refused = bench.key(Role::Viewer, by_key).await;
    assert!(matches!(refused, Err(Error::InvalidToken(_))), "{refused:?}");

    bench.handle.delete_user(ada.id, None, By::SYSTEM).await.expect("it is deleted");
    let bench = bench.restart().await;
    let works = |key: &ApiKey| bench.caller(key).is_ok();
    assert_eq!([&admin, &operator, &worker, &others].map(works), [false, false, false, true]);
}

#[tokio::test]
async fn a_rotated_key_works_beside_its_successor_for_the_overlap() {
    let bench = Bench::new().await;
    let old = bench.key(Role::Viewer, By::SYSTEM).await.expect("made");
    bench.advance(DAY);
    let hour = Duration::from_hours(1);
    let (new, _) = bench.handle.rotate_key(old.id, hour, By::SYSTEM).await.expect("rotated");
    assert_eq!((&new.name, new.role, new.lifetime()), (&old.name, old.role, old.lifetime()));
    let again = bench.handle.rotate_key(old.id, hour, By::SYSTEM).await;
    assert!(matches!(again, Err(Error::InvalidState(_))), "{again:?}");
    let bench = bench.restart().await;
    assert!(bench.caller(&old).is_ok() && bench.caller(&new).is_ok());
    bench.advance(hour);
    assert!(bench.caller(&old).is_err() && bench.caller(&new).is_ok());
    let revoked = bench.handle.revoke_key(new.id, By::SYSTEM).await.expect("revoked");
    let again = bench.handle.revoke_key(new.id, By::SYSTEM).await.expect("nothing more to do");
    assert_eq!(revoked.key, again.key);
    assert!(bench.caller(&new).is_err());
}

#[tokio::test(start_paused = true)]
async fn the_last_use_of_a_key_is_stored_with_the_next_minute() {
    let bench = Bench::new().await;
    let key = bench.key(Role::Viewer, By::SYSTEM).await.expect("made");
    let unused = bench.key(Role::Viewer, By::SYSTEM).await.expect("made");
    let used = |bench: &Bench| {
        let keys = bench.handle.keys(Slot::DEFAULT);
        keys.iter().map(|known| (known.key.id, known.last_used_at())).collect::<Vec<_>>()
    };
    assert_eq!(used(&bench), [(unused.id, None), (key.id, None)]);
    bench.advance(DAY);
    let now = bench.handle.now();
    for _ in 0..100 {
        bench.caller(&key).expect("it is valid");
    }
    assert_eq!(used(&bench)[1], (key.id, Some(now)));
    let rows = async |bench: &Bench| {
        crate::tables::KEY_USES.scan(&*bench.memory, NUMBER, None, 10).await.expect("readable")
    };
    assert_eq!(rows(&bench).await, []);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(rows(&bench).await, [(key.id.as_u128(), now)]);
    let bench = bench.restart().await;
    assert_eq!(used(&bench), [(unused.id, None), (key.id, Some(now))]);
}

#[tokio::test(start_paused = true)]
async fn an_open_right_ends_with_what_it_stands_on() {
    let bench = Bench::new().await;
    let _other = bench.user("root", Role::Admin).await;
    let ada = bench.user("ada", Role::Viewer).await;
    let session = bench.handle.sign_in(ada.clone(), By::SYSTEM).await.expect("it signs in");
    let of_session = |session| {
        bench.handle.caller_of_session(session, ada.id, Slot::DEFAULT).expect("it is open")
    };
    let key = bench.key(Role::Worker, By::SYSTEM).await.expect("made");
    let caller = of_session(session.session);
    let open = |caller: &Caller, action| {
        let mut right = bench.handle.right(caller, action);
        tokio::spawn(async move { right.lost().await })
    };
    let settle = || tokio::time::sleep(Duration::from_millis(1));

    // A change that leaves the right alone.
    let events = open(&caller, Permission::EventsRead);
    bench.role(&ada, Role::Operator).await;
    settle().await;
    assert!(!events.is_finished());
    bench.role(&ada, Role::Worker).await;
    assert!(matches!(events.await, Ok(Error::Forbidden(_))));
    bench.role(&ada, Role::Viewer).await;

    let events = open(&caller, Permission::EventsRead);
    bench.handle.end_session(session.session, By::SYSTEM).await.expect("it is ended");
    assert!(matches!(events.await, Ok(Error::InvalidToken(_))));

    let socket = open(&bench.caller(&key).expect("valid"), Permission::TasksExecute);
    settle().await;
    bench.handle.revoke_key(key.id, By::SYSTEM).await.expect("it is revoked");
    assert!(matches!(socket.await, Ok(Error::InvalidToken(_))));

    let session = bench.handle.sign_in(ada.clone(), By::SYSTEM).await.expect("it signs in");
    let caller = of_session(session.session);
    let timed = Caller { expires_at: Some(bench.handle.now().after(DAY)), ..caller.clone() };
    let (events, timed) =
        (open(&caller, Permission::EventsRead), open(&timed, Permission::EventsRead));
    settle().await;
    bench.advance(DAY);
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(matches!(timed.await, Ok(Error::TokenExpired(_))));
    assert!(!events.is_finished());
    bench.handle.delete_user(ada.id, None, By::SYSTEM).await.expect("it is deleted");
    assert!(matches!(events.await, Ok(Error::InvalidToken(_))));
}

#[tokio::test]
async fn a_password_ends_the_sessions_of_the_one_before() {
    let bench = Bench::new().await;
    let ada = bench.user("ada", Role::Viewer).await;
    let by_ada = by(Account::User(ada.id));
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(bench.handle.sign_in(ada.clone(), by_ada).await.expect("it signs in"));
    }
    let open = || {
        let is_open = |id| bench.handle.caller_of_session(id, ada.id, Slot::DEFAULT).is_ok();
        sessions.iter().map(|one| is_open(one.session)).collect::<Vec<_>>()
    };
    let change = PasswordChange {
        user: ada.id,
        session: sessions[1].session,
        verified: ada.password_hash.clone(),
        password_hash: PasswordHash::new("$argon2id$new".into()),
    };
    bench.handle.change_password(change.clone(), by_ada).await.expect("it is changed");
    assert_eq!(open(), [false, true, false]);
    // A slower login or change that was compared with the old hash has no effect.
    let late = bench.handle.sign_in(ada.clone(), by_ada).await;
    assert_eq!(late, Err(Error::InvalidCredentials));
    let late = bench.handle.change_password(change, by_ada).await;
    assert_eq!(late, Err(Error::InvalidCredentials));

    let hash = PasswordHash::new("$argon2id$reset".into());
    let change = UserChange { password_hash: Some(hash), ..UserChange::default() };
    let reset = bench.handle.change_user(ada.id, change, By::SYSTEM).await.expect("it is set");
    assert_eq!(open(), [false, false, false]);
    let session = bench.handle.sign_in(reset, by_ada).await.expect("it signs in");
    let caller =
        bench.handle.caller_of_session(session.session, ada.id, Slot::DEFAULT).expect("it is open");
    assert_eq!(caller.may(Permission::TasksRead), Err(Error::PasswordChangeRequired));
}

#[tokio::test]
async fn every_change_is_in_the_log_and_the_log_holds_over_restarts() {
    let bench = Bench::new().await;
    let root = bench.user("root", Role::Admin).await;
    let by_root = by(Account::User(root.id));
    let key = bench.key(Role::Viewer, by_root).await.expect("made");
    let session = bench.handle.sign_in(root.clone(), by_root).await.expect("it signs in");
    let bench = bench.restart().await;
    bench.handle.revoke_key(key.id, by_root).await.expect("revoked");
    bench.handle.end_session(session.session, by_root).await.expect("ended");
    let drained = Record::new(Action::WorkerDrained, by_root).of("wrk_1");
    bench.handle.record(drained).await.expect("it is written");
    let refused = bench.handle.delete_user(root.id, None, by_root).await;
    assert!(matches!(refused, Err(Error::InvalidState(_))), "the last admin");
    let expected = [
        Action::UserCreated,
        Action::KeyCreated,
        Action::SignedIn,
        Action::KeyRevoked,
        Action::SessionEnded,
        Action::WorkerDrained,
    ];
    assert_eq!(bench.actions().await, expected);
    let entry = &bench.log().await[3];
    assert_eq!(entry.actor, root.id.to_string());
    assert_eq!(entry.address.as_deref(), Some("192.0.2.7"));
    assert_eq!(entry.target, Some(key.id.to_string()));

    let query = AuditQuery {
        actor: Some(root.id.to_string()),
        actions: vec![Action::KeyCreated, Action::KeyRevoked, Action::UserCreated],
        window: Window { limit: 1, offset: 0 },
        ..AuditQuery::default()
    };
    let page = bench.handle.audit(&query).await.expect("readable");
    assert_eq!((page.total, page.items[0].action), (2, Action::KeyRevoked));
}

#[tokio::test]
async fn many_records_at_once_make_one_chain() {
    let bench = Bench::new().await;
    let write = |number: u32| {
        let record = Record::new(Action::TaskCancelled, By::SYSTEM).with("number", number);
        let handle = bench.handle.clone();
        tokio::spawn(async move { handle.record(record).await })
    };
    let writes: Vec<_> = (0..1_000).map(write).collect();
    for write in writes {
        assert_eq!(write.await.expect("no panic"), Ok(()));
    }
    assert_eq!(bench.log().await.len(), 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_refused_sign_ins_is_counted_and_old_entries_are_trimmed() {
    let bench = Bench::new().await;
    for _ in 0..1_000 {
        let record = Record::new(Action::SignInRefused, By::SYSTEM);
        bench.handle.record_refusal(record).await.expect("it is written or counted");
    }
    assert_eq!(bench.actions().await, [Action::SignInRefused; 100]);
    tokio::time::sleep(Duration::from_secs(61)).await;
    let log = bench.log().await;
    assert_eq!((log.len(), log[100].action), (101, Action::SignInsRefused));
    assert_eq!(log[100].details["count"], "900");

    bench.advance(DAY);
    let _user = bench.user("ada", Role::Viewer).await;
    bench.advance(29 * DAY);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(bench.actions().await, [Action::UserCreated]);
    let bench = bench.restart().await;
    let _user = bench.user("bob", Role::Viewer).await;
    let log = bench.log().await;
    assert_eq!(log.iter().map(|entry| entry.number).collect::<Vec<_>>(), [102, 103]);
}
