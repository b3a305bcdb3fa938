//! Mails on the memory store: sent, tried again, sent after a crash, dropped once nobody waits.

use std::pin::Pin;
use std::sync::Mutex;

use callboard_domain::access::Role;
use callboard_domain::account::{Email, PasswordHash};
use callboard_domain::approval::{Mail, MailCause};
use callboard_domain::delivery::{Delivery, State as Life};
use callboard_domain::id::{DeliveryId, UserId};
use callboard_domain::task::{Gate, Why};
use callboard_store::Outcome;

use super::*;
use crate::accounts::NewUser;
use crate::ports::{Letter, Mailer, NotSent};
use crate::tables::{ENDED_DELIVERIES, LIVE_DELIVERIES, deliveries};
use crate::{delivery, durable};

/// Answers as it was told to, then takes everything; keeps what it was given, and when.
#[derive(Default)]
struct Post {
    answers: Mutex<Vec<Result<(), NotSent>>>,
    letters: Mutex<Vec<(Letter, Instant)>>,
}

impl Post {
    fn answering(answers: Vec<Result<(), NotSent>>) -> Arc<Self> {
        let answers = Mutex::new(answers.into_iter().rev().collect());
        Arc::new(Self { answers, ..Self::default() })
    }

    fn letters(&self) -> Vec<(Letter, Instant)> {
        self.letters.lock().expect("no panic").clone()
    }
}

impl Mailer for Post {
    fn send(
        &self,
        letter: Letter,
    ) -> Pin<Box<dyn Future<Output = Result<(), NotSent>> + Send + '_>> {
        self.letters.lock().expect("no panic").push((letter, Instant::now()));
        let answer = self.answers.lock().expect("no panic").pop();
        Box::pin(async move { answer.unwrap_or(Ok(())) })
    }
}

fn down() -> Result<(), NotSent> {
    Err(NotSent { permanent: false, message: "nobody listens".into() })
}

fn refused() -> Result<(), NotSent> {
    Err(NotSent { permanent: true, message: "550 no such user".into() })
}

impl Bench {
    async fn with_post(store: MemoryStore, mailer: Option<Arc<dyn Mailer>>) -> Self {
        let store = Arc::new(store);
        let ports = Ports {
            clock: Arc::new(TestClock(Instant::now())),
            mailer,
            ..Ports::of_this_machine()
        };
        let on_break = Box::new(|why| panic!("the system broke: {why}"));
        let shared: Arc<dyn Store> = store.clone();
        let system = System::start(shared, settings(), ports, on_break).await.expect("it starts");
        Self { handle: system.handle(), system, store }
    }

    /// As after a crash, with another post.
    async fn restart_with(self, post: Arc<Post>) -> Self {
        let store = self.store.reopen();
        self.system.stop().await;
        Self::with_post(store, Some(post)).await
    }

    async fn reviewer(&self) -> UserId {
        let new = NewUser {
            email: Email::parse("ann@example.com").expect("an e-mail"),
            name: "Ann".into(),
            role: Role::Admin,
            password_hash: PasswordHash::new("$argon2id$".into()),
        };
        self.handle.create_first_user(new).await.expect("stored").expect("the first").id
    }

    /// A task whose output waits for a reviewer.
    async fn held(&self) -> TaskId {
        let mut worker = self.worker(1).await;
        let gate = Gate { threshold: Some(0.85), ..Gate::ALWAYS };
        let id = self.submit(Request { gate: Some(gate), ..request() }).await;
        let lease = worker.assignment().await.lease;
        let completion = Completion { confidence: Some(0.71), ..completion() };
        worker.link.say(Said::Completed(lease, "the output".into(), completion));
        worker.ack(lease, Of::Complete).await;
        id
    }

    /// Makes a mail durable, without sending it on its way.
    async fn written(&self, task: TaskId, to: UserId) -> Mail {
        let (node, partition) = (&self.system.node, task.partition());
        let id = DeliveryId::from_u128(node.fresh_id(partition));
        let mail = Mail { id, task, to, cause: MailCause::Assigned };
        let rows = deliveries::first_rows(Environment::Live, &mail, node.now());
        let outcome = durable::commit_rows(node.shard(partition), partition, rows).await;
        assert!(matches!(outcome, Outcome::Committed));
        mail
    }

    fn begin(&self, mail: &Mail) {
        delivery::begin(&self.system.node, Environment::Live, mail);
    }

    /// The delivery once it is over.
    async fn outcome(&self, mail: &Mail) -> Delivery {
        let (number, id) = (Environment::Live.number(), mail.id.as_u128());
        loop {
            let ended = ENDED_DELIVERIES.get(&*self.store, number, &id).await.expect("readable");
            if let Some(ended) = ended {
                let live = LIVE_DELIVERIES.get(&*self.store, number, &id).await;
                assert_eq!(live.expect("readable"), None);
                return ended;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// The delivery while it waits for its next attempt.
    async fn pending(&self, mail: &Mail) -> Option<Delivery> {
        let (number, id) = (Environment::Live.number(), mail.id.as_u128());
        LIVE_DELIVERIES.get(&*self.store, number, &id).await.expect("readable")
    }
}

#[tokio::test(start_paused = true)]
async fn a_mail_that_fails_three_times_is_sent_the_fourth_time() {
    let post = Post::answering(vec![down(), down(), down()]);
    let bench = Bench::with_post(MemoryStore::new(), Some(post.clone())).await;
    let (ann, task) = (bench.reviewer().await, bench.held().await);
    let mail = bench.written(task, ann).await;
    bench.begin(&mail);
    let ended = bench.outcome(&mail).await;
    assert!(matches!(ended.state, Life::Delivered { .. }), "{ended:?}");
    assert_eq!((ended.attempts, ended.last_error.as_deref()), (4, Some("nobody listens")));

    let letters = post.letters();
    let waits: Vec<_> = letters.windows(2).map(|two| (two[1].1 - two[0].1).as_secs_f64()).collect();
    for (wait, middle) in waits.iter().zip([10.0, 60.0, 300.0]) {
        assert!((middle * 0.8..middle * 1.2 + 1.1).contains(wait), "{waits:?}");
    }
    let letter = &letters[3].0;
    assert_eq!((letter.to.as_str(), &*letter.name), ("ann@example.com", "Ann"));
    assert_eq!((letter.delivery, letter.task, letter.cause), (mail.id, task, MailCause::Assigned));
    let held = (letter.why, letter.confidence, letter.threshold);
    assert_eq!(held, (Why::Required, Some(0.71), Some(0.85)));
    assert!(letters.iter().all(|(same, _)| same == letter));
    while bench.system.node.shard(mail.id.partition()).deliveries.awake() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_good_is_kept_for_the_operator() {
    let post = Post::answering(vec![refused()]);
    let bench = Bench::with_post(MemoryStore::new(), Some(post.clone())).await;
    let mail = bench.written(bench.held().await, bench.reviewer().await).await;
    bench.begin(&mail);
    let ended = bench.outcome(&mail).await;
    assert!(matches!(ended.state, Life::Dead { .. }), "{ended:?}");
    assert_eq!((ended.attempts, ended.last_error.as_deref()), (1, Some("550 no such user")));
    assert_eq!(post.letters().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_mail_whose_server_died_before_sending_it_is_sent_after_the_restart() {
    let bench = Bench::with_post(MemoryStore::new(), Some(Arc::<Post>::default())).await;
    let mail = bench.written(bench.held().await, bench.reviewer().await).await;
    // The process dies between the commit and the sending.
    let post = Arc::<Post>::default();
    let bench = bench.restart_with(post.clone()).await;
    assert!(matches!(bench.outcome(&mail).await.state, Life::Delivered { .. }));
    assert_eq!(post.letters().len(), 1);
    let _again = bench.restart_with(post.clone()).await;
    tokio::time::sleep(Duration::from_hours(24)).await;
    assert_eq!(post.letters().len(), 1, "once is enough");
}

/// Takes the mail, and the process dies before it is written down.
struct LastPost(Mutex<Option<tokio::sync::oneshot::Sender<DeliveryId>>>);

impl Mailer for LastPost {
    fn send(
        &self,
        letter: Letter,
    ) -> Pin<Box<dyn Future<Output = Result<(), NotSent>> + Send + '_>> {
        let told = self.0.lock().expect("no panic").take().expect("once");
        told.send(letter.delivery).expect("the test listens");
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_mail_that_was_under_way_is_sent_again_under_the_same_identifier() {
    let (told, sent) = tokio::sync::oneshot::channel();
    let last_post = Arc::new(LastPost(Mutex::new(Some(told))));
    let dying = Bench::with_post(MemoryStore::new(), Some(last_post)).await;
    let mail = dying.written(dying.held().await, dying.reviewer().await).await;
    dying.begin(&mail);
    assert_eq!(sent.await, Ok(mail.id));

    let post = Arc::<Post>::default();
    let bench = Bench::with_post(dying.store.reopen(), Some(post.clone())).await;
    let ended = bench.outcome(&mail).await;
    assert!(matches!(ended.state, Life::Delivered { .. }), "{ended:?}");
    assert_eq!(post.letters()[0].0.delivery, mail.id);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_once_nobody_waits_for_a_decision() {
    let post = Post::answering(vec![down()]);
    let bench = Bench::with_post(MemoryStore::new(), Some(post.clone())).await;
    let (ann, task) = (bench.reviewer().await, bench.held().await);
    let mail = bench.written(task, ann).await;
    bench.begin(&mail);
    while bench.pending(&mail).await.is_some_and(|delivery| delivery.last_error.is_none()) {
        tokio::task::yield_now().await;
    }
    bench.handle.cancel(Environment::Live, task).await.expect("it waits");
    let ended = bench.outcome(&mail).await;
    assert!(matches!(ended.state, Life::Dropped { .. }), "{ended:?}");
    assert_eq!(post.letters().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_to_somebody_who_is_gone() {
    let post = Arc::<Post>::default();
    let bench = Bench::with_post(MemoryStore::new(), Some(post.clone())).await;
    let mail = bench.written(bench.held().await, UserId::from_u128(1 << 10)).await;
    bench.begin(&mail);
    assert!(matches!(bench.outcome(&mail).await.state, Life::Dropped { .. }));
    assert!(post.letters().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_mail_waits_where_its_server_is_not_configured_any_more() {
    let bench = Bench::with_post(MemoryStore::new(), None).await;
    let mail = bench.written(bench.held().await, bench.reviewer().await).await;
    bench.begin(&mail);
    tokio::time::sleep(Duration::from_mins(1)).await;
    let waiting = bench.pending(&mail).await.expect("it waits");
    assert_eq!(waiting.last_error.as_deref(), Some("no server for mail is configured"));
    let post = Arc::<Post>::default();
    let bench = bench.restart_with(post.clone()).await;
    bench.outcome(&mail).await;
    assert_eq!(post.letters().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_became_of_a_mail_is_kept_for_thirty_days() {
    let bench = Bench::with_post(MemoryStore::new(), Some(Arc::<Post>::default())).await;
    let mail = bench.written(bench.held().await, bench.reviewer().await).await;
    bench.begin(&mail);
    bench.outcome(&mail).await;
    let (number, id) = (Environment::Live.number(), mail.id.as_u128());
    let kept = || ENDED_DELIVERIES.get(&*bench.store, number, &id);
    tokio::time::sleep(deliveries::KEPT - Duration::from_hours(1)).await;
    assert!(kept().await.expect("readable").is_some());
    tokio::time::sleep(Duration::from_hours(2)).await;
    assert_eq!(kept().await.expect("readable"), None);
}
