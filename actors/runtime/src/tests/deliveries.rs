//! Mails on the memory store: sent, tried again, sent after a crash, dropped once nobody waits.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Mutex;

use callboard_domain::access::Role;
use callboard_domain::approval::{Action, Decider, MailCause};
use callboard_domain::delivery::{Delivery, State as TaskRow};
use callboard_domain::id::{Slot, UserId};
use callboard_domain::task::{Channels, Gate, HoldReason};

use super::approvals::new_user;
use super::*;
use crate::handle::Approve;
use crate::kernel::ports::{KeyEndMail, Mailer, NotSent, ReviewerMail};
use crate::tables::{ENDED_DELIVERIES, LIVE_DELIVERIES, deliveries};

const NUMBER: u8 = Environment::LIVE.number();

type Sending<'s> = Pin<Box<dyn Future<Output = Result<(), NotSent>> + Send + 's>>;

/// Answers as scripted, then takes everything; keeps each mail and its instant.
#[derive(Default)]
struct Post {
    answers: Mutex<Vec<Result<(), NotSent>>>,
    letters: Mutex<Vec<(ReviewerMail, Instant)>>,
    key_ends: Mutex<Vec<KeyEndMail>>,
}

impl Post {
    fn new() -> Arc<Self> {
        Arc::default()
    }

    fn answering(answers: Vec<Result<(), NotSent>>) -> Arc<Self> {
        let answers = Mutex::new(answers.into_iter().rev().collect());
        Arc::new(Self { answers, ..Self::default() })
    }

    fn letters(&self) -> Vec<(ReviewerMail, Instant)> {
        self.letters.lock().expect("no panic").clone()
    }
}

impl Mailer for Post {
    fn send(&self, letter: ReviewerMail) -> Sending<'_> {
        self.letters.lock().expect("no panic").push((letter, Instant::now()));
        let answer = self.answers.lock().expect("no panic").pop();
        Box::pin(async move { answer.unwrap_or(Ok(())) })
    }

    fn send_key_end(&self, letter: KeyEndMail) -> Sending<'_> {
        self.key_ends.lock().expect("no panic").push(letter);
        let answer = self.answers.lock().expect("no panic").pop();
        Box::pin(async move { answer.unwrap_or(Ok(())) })
    }
}

/// Takes the mail, and never answers.
struct LastPost(Arc<Post>);

impl Mailer for LastPost {
    fn send(&self, letter: ReviewerMail) -> Sending<'_> {
        drop(self.0.send(letter));
        Box::pin(std::future::pending())
    }

    fn send_key_end(&self, letter: KeyEndMail) -> Sending<'_> {
        drop(self.0.send_key_end(letter));
        Box::pin(std::future::pending())
    }
}

fn down() -> Result<(), NotSent> {
    Err(NotSent { permanent: false, message: "nobody listens".into() })
}

fn refused() -> Result<(), NotSent> {
    Err(NotSent { permanent: true, message: "550 no such user".into() })
}

fn held_request() -> Request {
    let notify = Channels { email: true, dashboard: false };
    let two_hours = 2 * 3_600_000;
    let gate = Gate { threshold: Some(0.85), timeout_ms: two_hours, notify, ..Gate::ALWAYS };
    Request { gate: Some(gate), ..request() }
}

impl Bench {
    async fn with_post(store: MemoryStore, mailer: Option<Arc<dyn Mailer>>) -> Self {
        let store = Arc::new(store);
        Self::posting(mailer, store.clone(), store).await
    }

    async fn posting(
        mailer: Option<Arc<dyn Mailer>>,
        store: Arc<MemoryStore>,
        shared: Arc<dyn Store>,
    ) -> Self {
        let (started, wall) = (Instant::now(), Arc::new(AtomicU64::new(1_800_000_000_000)));
        let clock = Arc::new(TestClock { started, wall: Arc::clone(&wall) });
        let ports = Ports { clock, mailer, ..Ports::of_this_machine() };
        let on_break = Box::new(|why| panic!("the system broke: {why}"));
        let system = System::start(shared, settings(), ports, on_break).await.expect("it starts");
        Self { handle: system.handle(), system, store, wall, started }
    }

    /// As after a crash, with another post.
    async fn restart_with(self, post: Arc<Post>) -> Self {
        let store = self.store.reopen();
        self.system.stop().await;
        Self::with_post(store, Some(post)).await
    }

    /// A reviewer, and a task whose output waits for her; `None` if the process dies under it.
    async fn try_to_hold(&self) -> Option<(UserId, TaskId)> {
        let ann = self
            .handle
            .create_user(new_user("ann", Role::Operator), callboard_domain::audit::By::SYSTEM)
            .await
            .ok()?
            .id;
        let made = self.handle.submit(&owner(), vec![held_request()], false, None).await.ok()?;
        let mut worker = self.worker(1).await;
        let lease = worker.assignment_or_end().await?.lease;
        let completion = Completion { confidence: Some(0.71), ..completion() };
        worker.link.say(WorkerMessage::Completed(lease, "the output".into(), completion));
        while let Some(command) = worker.commands.recv().await {
            if let WorkerCommand::Ack(..) = command {
                return Some((ann, made.made.tasks()[0].spec.id));
            }
        }
        None
    }

    async fn held_for_ann(&self) -> (UserId, TaskId) {
        self.try_to_hold().await.expect("nothing fails")
    }

    async fn pending(&self) -> Vec<Delivery> {
        let page = LIVE_DELIVERIES.scan(&*self.store, NUMBER, None, 100).await;
        page.expect("readable").into_iter().map(|(_, delivery)| delivery).collect()
    }

    /// The outcome of all mails, once none is to be sent any more.
    async fn outcome(&self) -> Vec<Delivery> {
        let over = async {
            while !self.pending().await.is_empty() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let over = tokio::time::timeout(Duration::from_hours(4), over).await;
        over.expect("a mail is still to be sent");
        let page = ENDED_DELIVERIES.scan(&*self.store, NUMBER, None, 100).await;
        page.expect("readable").into_iter().map(|(_, delivery)| delivery).collect()
    }

    /// Waits until an attempt has failed.
    async fn until_failed(&self) -> Delivery {
        loop {
            let pending = self.pending().await;
            if let Some(failed) = pending.into_iter().find(|one| one.last_error.is_some()) {
                return failed;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn is_delivered(delivery: &Delivery) -> bool {
    matches!(delivery.state, TaskRow::Delivered { .. })
}

#[tokio::test(start_paused = true)]
async fn a_mail_that_fails_three_times_is_sent_the_fourth_time() {
    let post = Post::answering(vec![down(), down(), down()]);
    let bench = Bench::with_post(MemoryStore::new(), Some(post.clone())).await;
    let (_, task) = bench.held_for_ann().await;
    let ended = bench.outcome().await.remove(0);
    assert!(is_delivered(&ended), "{ended:?}");
    assert_eq!((ended.attempts, ended.last_error.as_deref()), (4, Some("nobody listens")));

    let letters = post.letters();
    let waits: Vec<_> = letters.windows(2).map(|two| (two[1].1 - two[0].1).as_secs_f64()).collect();
    for (wait, middle) in waits.iter().zip([10.0, 60.0, 300.0]) {
        assert!((middle * 0.8..middle * 1.2 + 1.1).contains(wait), "{waits:?}");
    }
    let letter = &letters[3].0;
    assert_eq!((letter.to.as_str(), &*letter.name), ("ann@example.com", "ann"));
    let about = (letter.delivery, letter.task, letter.cause);
    assert_eq!(about, (ended.notification.id(), task, MailCause::Assigned));
    let held = (letter.why, letter.confidence, letter.threshold);
    assert_eq!(held, (HoldReason::Required, Some(0.71), Some(0.85)));
    assert!(letters.iter().all(|(same, _)| same == letter));
    assert_eq!(bench.actions(task).await, [Action::Pending, Action::Assigned]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_good_is_kept_for_the_operator() {
    let post = Post::answering(vec![refused()]);
    let bench = Bench::with_post(MemoryStore::new(), Some(post.clone())).await;
    bench.held_for_ann().await;
    let ended = bench.outcome().await.remove(0);
    assert!(matches!(ended.state, TaskRow::Dead { .. }), "{ended:?}");
    assert_eq!((ended.attempts, ended.last_error.as_deref()), (1, Some("550 no such user")));
    assert_eq!(post.letters().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_commit_loses_no_mail_of_an_output_that_is_held() {
    let counted = Arc::new(MemoryStore::new());
    let store = Arc::new(FaultyStore::transparent(counted.clone()));
    let bench = Bench::posting(Some(Post::new()), counted, store.clone()).await;
    bench.held_for_ann().await;
    bench.outcome().await;
    let commits = store.commits();
    assert!(commits >= 6, "{commits}");

    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        for k in 1..=commits {
            let memory = Arc::new(MemoryStore::new());
            let faulty = Arc::new(FaultyStore::new(memory.clone(), k, fault));
            let (before, after) = (Post::new(), Post::new());
            let dying = Bench::posting(Some(before.clone()), memory, faulty).await;
            let life = async {
                dying.try_to_hold().await?;
                Some(dying.outcome().await)
            };
            let _ = tokio::time::timeout(Duration::from_mins(1), life).await;

            let bench = dying.restart_with(after.clone()).await;
            let ended = bench.outcome().await;
            let waiting = bench.waiting().await;
            let about = format!("{fault:?} at {k}: {ended:?}");
            assert_eq!(ended.len(), waiting.len(), "{about}");
            assert!(ended.iter().all(is_delivered), "{about}");
            let letters = [before.letters(), after.letters()].concat();
            assert!(letters.len() >= ended.len(), "{about}");
            let id = ended.first().map(|one| one.notification.id());
            assert!(letters.iter().all(|(letter, _)| Some(letter.delivery) == id), "{about}");
            bench.system.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_mail_that_was_under_way_is_sent_again_under_the_same_identifier() {
    let (first, second) = (Post::new(), Post::new());
    let dying = Bench::with_post(MemoryStore::new(), Some(Arc::new(LastPost(first.clone())))).await;
    dying.held_for_ann().await;
    while first.letters().is_empty() {
        tokio::task::yield_now().await;
    }
    let bench = Bench::with_post(dying.store.reopen(), Some(second.clone())).await;
    assert!(is_delivered(&bench.outcome().await[0]));
    assert_eq!(second.letters()[0].0, first.letters()[0].0);

    let third = Post::new();
    let _again = bench.restart_with(third.clone()).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(third.letters().is_empty(), "once it was taken, it is over");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_once_the_item_is_decided() {
    let post = Post::answering(vec![down()]);
    let bench = Bench::with_post(MemoryStore::new(), Some(post.clone())).await;
    let (ann, task) = bench.held_for_ann().await;
    bench.until_failed().await;
    let by = Decider { account: ann.to_string(), reviewer: None, bulk: None };
    let approve = Approve { by, modified_output: None, comment: None };
    bench.handle.approve(Environment::LIVE, task, approve).await.expect("it waits");
    let ended = bench.outcome().await.remove(0);
    assert!(matches!(ended.state, TaskRow::Dropped { .. }), "{ended:?}");
    assert_eq!(post.letters().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn when_it_is_escalated_the_admin_is_written_to_and_nobody_else_any_more() {
    // Ann's mail fails until its sixth attempt is due after two hours and a half.
    let post = Post::answering(vec![down(); 5]);
    let bench = Bench::with_post(MemoryStore::new(), Some(post.clone())).await;
    let (_, task) = bench.held_for_ann().await;
    let root = bench.user("root", Role::Admin).await;
    tokio::time::sleep(Duration::from_mins(90)).await;
    let letters = post.letters();
    let (last, _) = letters.last().expect("one");
    assert_eq!((letters.len(), last.cause), (6, MailCause::Escalated), "{letters:?}");
    assert_eq!(last.to.as_str(), "root@example.com");
    assert_eq!(bench.approval(task).await.assignee, Some(root));
    assert!(matches!(bench.outcome().await[0].state, TaskRow::Dropped { .. }));
    assert!(post.letters()[6..].iter().all(|(letter, _)| letter.cause == MailCause::Expired));
}

#[tokio::test(start_paused = true)]
async fn a_mail_waits_where_its_server_is_not_configured_any_more() {
    let bench = Bench::with_post(MemoryStore::new(), Some(Post::answering(vec![down()]))).await;
    bench.held_for_ann().await;
    bench.until_failed().await;
    let store = bench.store.reopen();
    bench.system.stop().await;
    let bench = Bench::with_post(store, None).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let waiting = bench.pending().await.remove(0);
    assert_eq!(waiting.last_error.as_deref(), Some("no server for mail is configured"));
    let post = Post::new();
    let bench = bench.restart_with(post.clone()).await;
    assert!(is_delivered(&bench.outcome().await[0]));
    assert_eq!(post.letters().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_became_of_a_mail_is_kept_for_thirty_days() {
    let bench = Bench::with_post(MemoryStore::new(), Some(Post::new())).await;
    bench.held_for_ann().await;
    let mail = bench.outcome().await[0].notification.id().as_u128();
    let kept = || ENDED_DELIVERIES.get(&*bench.store, NUMBER, &mail);
    let hour = Duration::from_hours(1);
    for wait in [deliveries::KEPT.saturating_sub(2 * hour), 2 * hour] {
        assert!(kept().await.expect("readable").is_some());
        let millis = u64::try_from(wait.as_millis()).expect("it fits");
        bench.wall.fetch_add(millis, Ordering::SeqCst);
        // Nothing goes by its age in the first hour after a start.
        tokio::time::sleep(hour + Duration::from_mins(2)).await;
    }
    assert_eq!(kept().await.expect("readable"), None);
}

#[tokio::test(start_paused = true)]
async fn admins_get_one_mail_two_weeks_and_one_three_days_before_a_key_ends() {
    const DAY: Duration = Duration::from_hours(24);
    let by = callboard_domain::audit::By::SYSTEM;
    // The first server for mail is down once.
    let post = Post::answering(vec![down()]);
    let bench = Bench::with_post(MemoryStore::new(), Some(post.clone())).await;
    for (name, role) in [("ada", Role::Admin), ("ann", Role::Operator), ("eve", Role::Admin)] {
        bench.handle.create_user(new_user(name, role), by).await.expect("a user");
    }
    let key = |name: &str, days: u32| crate::items::accounts::NewKey {
        name: name.into(),
        role: Role::Viewer,
        environment: Environment::LIVE,
        tier: None,
        queues: Vec::new(),
        lifetime: days * DAY,
    };
    bench.handle.create_key(key("backup", 90), by).await.expect("a key");
    let (rotated, _) = bench.handle.create_key(key("rotated", 90), by).await.expect("a key");
    bench.handle.rotate_key(rotated.id, DAY, by).await.expect("its successor");
    let told = |post: &Post| {
        let letters = post.key_ends.lock().expect("no panic").clone();
        letters.into_iter().map(|it| (it.to.as_str().to_owned(), it.key_name)).collect::<Vec<_>>()
    };
    let pass = async |bench: &Bench, days: u64| {
        bench.wall.fetch_add(days * 24 * 3_600_000, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_mins(5)).await;
    };

    pass(&bench, 75).await;
    assert_eq!(told(&post), []);
    pass(&bench, 1).await;
    let both = |name: &str| {
        let to = |user: &str| (format!("{user}@example.com"), name.to_owned());
        BTreeSet::from([to("ada"), to("eve")])
    };
    let first = told(&post);
    // The mail that was not taken came again; the successor of the rotated key ends on the same day.
    assert_eq!(first.len(), 5, "{first:?}");
    let expected: BTreeSet<_> = both("backup").into_iter().chain(both("rotated")).collect();
    assert_eq!(first.into_iter().collect::<BTreeSet<_>>(), expected);

    let post = Post::new();
    let bench = bench.restart_with(post.clone()).await;
    // The clock of a new bench begins where that of the first one did.
    pass(&bench, 77).await;
    assert_eq!(told(&post), [], "each notice is sent once");
    let keys = bench.handle.keys(Slot::DEFAULT);
    let successor = keys.iter().find(|it| it.key.name == "rotated" && it.key.revoked_at.is_none());
    let successor = successor.expect("the successor").key.id;
    bench.handle.revoke_key(successor, by).await.expect("revoked");
    pass(&bench, 11).await;
    assert_eq!(told(&post).into_iter().collect::<BTreeSet<_>>(), both("backup"));
    assert_eq!(told(&post).len(), 2);
    pass(&bench, 4).await;
    assert_eq!(told(&post).len(), 2, "a key that has ended is announced no more");
    bench.system.stop().await;
}
