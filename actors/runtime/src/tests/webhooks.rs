//! Webhooks on the memory store: made with the end of a task, posted, tried again, posted after a crash.

use std::pin::Pin;
use std::sync::Mutex;

use callboard_domain::Error;
use callboard_domain::delivery::{Delivery, Failure, Status as Progress, Subject as About};
use callboard_domain::id::DeliveryId;
use callboard_domain::query::{Deliveries, Window};
use callboard_domain::retention::Policy;
use tokio::sync::Semaphore;

use super::*;
use crate::kernel::ports::{WebhookClient, WebhookContent, WebhookSubject};
use crate::observers::events::{StreamItem, Transient};
use crate::tables::{
    ENDED_DELIVERIES, LIVE_DELIVERIES, Subject, UNLISTED_DELIVERIES, deliveries as rows,
};

const LIVE: Environment = Environment::LIVE;
const URL: &str = "https://example.com/hook";

type Posting<'s> = Pin<Box<dyn Future<Output = Result<u16, Failure>> + Send + 's>>;

/// Answers as scripted, then takes everything; keeps each webhook and its instant. A host named
/// `slow` answers only when it is let.
struct Receiver {
    answers: Mutex<Vec<Result<u16, Failure>>>,
    notices: Mutex<Vec<(WebhookContent, Instant)>>,
    let_through: Semaphore,
}

impl Receiver {
    fn answering(answers: Vec<Result<u16, Failure>>) -> Arc<Self> {
        let answers = Mutex::new(answers.into_iter().rev().collect());
        let let_through = Semaphore::new(0);
        Arc::new(Self { answers, notices: Mutex::default(), let_through })
    }

    fn new() -> Arc<Self> {
        Self::answering(Vec::new())
    }

    fn notices(&self) -> Vec<(WebhookContent, Instant)> {
        self.notices.lock().expect("no panic").clone()
    }

    /// The hosts that were posted to, in order.
    fn hosts(&self) -> Vec<String> {
        self.notices().into_iter().map(|(notice, _)| notice.url).collect()
    }
}

impl WebhookClient for Receiver {
    fn post(&self, notice: WebhookContent) -> Posting<'_> {
        let is_slow = notice.url.contains("//slow");
        self.notices.lock().expect("no panic").push((notice, Instant::now()));
        let answer = self.answers.lock().expect("no panic").pop();
        Box::pin(async move {
            if is_slow {
                self.let_through.acquire().await.expect("it is not closed").forget();
            }
            answer.unwrap_or(Ok(204))
        })
    }
}

fn refused(status: u16) -> Result<u16, Failure> {
    Err(Failure {
        status: Some(status),
        permanent: status == 410,
        message: format!("the receiver answered {status}"),
        ..Failure::default()
    })
}

fn to(url: &str) -> Request {
    Request { callback_url: Some(url.into()), ..request() }
}

impl Bench {
    async fn announcing(receiver: &Arc<Receiver>) -> Self {
        let store = Arc::new(MemoryStore::new());
        Self::announcing_on(receiver, settings(), store.clone(), store).await
    }

    async fn announcing_on(
        receiver: &Arc<Receiver>,
        settings: Settings,
        store: Arc<MemoryStore>,
        shared: Arc<dyn Store>,
    ) -> Self {
        let (started, wall) = (Instant::now(), Arc::new(AtomicU64::new(1_800_000_000_000)));
        let clock = Arc::new(TestClock { started, wall: Arc::clone(&wall) });
        let webhooks: Arc<dyn WebhookClient> = receiver.clone();
        let ports = Ports { clock, webhooks: Some(webhooks), ..Ports::of_this_machine() };
        let on_break = Box::new(|why| panic!("the system broke: {why}"));
        let system = System::start(shared, settings, ports, on_break).await.expect("it starts");
        Self { handle: system.handle(), system, store, wall, started }
    }

    /// Submits a task and completes it; `None` if the process dies under it.
    async fn try_to_complete(&self, request: Request) -> Option<TaskId> {
        let made = self.handle.submit(&owner(), vec![request], false, None).await.ok()?;
        let mut worker = self.worker(1).await;
        let lease = worker.assignment_or_end().await?.lease;
        worker.link.say(WorkerMessage::Completed(lease, "the output".into(), completion()));
        while let Some(command) = worker.commands.recv().await {
            if let WorkerCommand::Ack(..) = command {
                return Some(made.made.tasks()[0].spec.id);
            }
        }
        None
    }

    async fn complete(&self, request: Request) -> TaskId {
        self.try_to_complete(request).await.expect("nothing fails")
    }

    async fn listed(&self, statuses: &[Progress], task: Option<TaskId>) -> Vec<Delivery> {
        let window = Window { limit: 100, offset: 0 };
        let about = task.map(About::Task);
        let query = Deliveries { statuses: statuses.to_vec(), about, window };
        let page = self.handle.deliveries(LIVE, &query).await.expect("the store answers");
        assert_eq!(page.total, page.items.len() as u64);
        page.items
    }

    /// All deliveries once none is pending.
    async fn settled(&self) -> Vec<Delivery> {
        let over = async {
            while !self.listed(&[Progress::Pending], None).await.is_empty() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_hours(8), over).await.expect("one is still pending");
        self.listed(&[], None).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stands_still_posts_nothing_and_the_next_one_does() {
    let receiver = Receiver::answering(vec![refused(500)]);
    let bench = Bench::announcing(&receiver).await;
    bench.complete(to(URL)).await;
    while receiver.notices().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bench.system.stop().await;
    for (stands_still, posted) in [(true, 1), (false, 2)] {
        let store = Arc::new(bench.store.reopen());
        let settings = Settings { stands_still, ..settings() };
        let next = Bench::announcing_on(&receiver, settings, store.clone(), store).await;
        tokio::time::sleep(Duration::from_hours(1)).await;
        assert_eq!(receiver.notices().len(), posted, "stands still: {stands_still}");
        let is_pending = next.listed(&[Progress::Pending], None).await.len();
        assert_eq!(is_pending, 2 - posted);
        next.system.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_task_is_posted_as_it_was_committed() {
    let receiver = Receiver::new();
    let bench = Bench::announcing(&receiver).await;
    let task = bench.complete(to(URL)).await;
    let delivery = bench.settled().await.remove(0);
    assert_eq!(
        (delivery.status(), delivery.attempts, delivery.last_status),
        (Progress::Delivered, 1, Some(204))
    );
    let found = bench.task(task).await;
    let notices = receiver.notices();
    let expected = WebhookContent {
        delivery: delivery.notification.id(),
        environment: LIVE,
        project: callboard_domain::id::ProjectId::DEFAULT,
        url: URL.into(),
        event: "task.completed",
        about: WebhookSubject::Task(task, None),
        status: "completed",
        output: Some("the output".into()),
        usage: found.result.as_ref().expect("a result").usage,
        ended_at: found.state.ended_at(),
        trace: None,
    };
    assert_eq!(notices.iter().map(|(notice, _)| notice).collect::<Vec<_>>(), [&expected]);
    bench.complete(request()).await;
    assert_eq!(bench.settled().await.len(), 1, "a task without an address orders none");
}

#[tokio::test(start_paused = true)]
async fn only_the_ends_that_are_configured_are_announced() {
    let receiver = Receiver::new();
    let bench = Bench::announcing(&receiver).await;
    let task = bench.submit(to(URL)).await;
    bench.handle.cancel(LIVE, task, "usr_1").await.expect("it waits");
    assert_eq!(bench.listed(&[], None).await, []);
    bench.system.stop().await;

    let every = vec![EventName::TaskCompleted, EventName::TaskCancelled, EventName::TaskFailed];
    let webhooks = WebhookPolicy { events: every, ..settings().webhooks };
    let store = Arc::new(MemoryStore::new());
    let settings = Settings { webhooks, ..settings() };
    let bench = Bench::announcing_on(&receiver, settings, store.clone(), store).await;
    let task = bench.submit(to(URL)).await;
    bench.handle.cancel(LIVE, task, "usr_1").await.expect("it waits");
    bench.settled().await;
    let (notice, _) = receiver.notices().remove(0);
    let content = (notice.event, notice.status, notice.output);
    assert_eq!(content, ("task.cancelled", "cancelled", None));
}

#[tokio::test(start_paused = true)]
async fn a_webhook_is_tried_again_by_the_schedule_and_then_dead() {
    let receiver = Receiver::answering((0..4).map(|_| refused(500)).collect());
    let bench = Bench::announcing(&receiver).await;
    let task = bench.complete(to(URL)).await;
    let dead = bench.settled().await.remove(0);
    assert_eq!((dead.status(), dead.attempts, dead.last_status), (Progress::Dead, 4, Some(500)));
    assert_eq!(dead.last_error.as_deref(), Some("the receiver answered 500"));
    let notices = receiver.notices();
    let waits = notices.windows(2).map(|two| (two[1].1 - two[0].1).as_secs_f64());
    for (wait, middle) in waits.zip([5.0, 300.0, 1_800.0]) {
        assert!((middle * 0.8..middle * 1.2 + 1.1).contains(&wait), "{wait} for {middle}");
    }
    assert!(notices.iter().all(|(notice, _)| *notice == notices[0].0), "the same each time");

    let again = bench.handle.redeliver(LIVE, dead.notification.id()).await.expect("it is dead");
    assert_eq!(
        (again.status(), again.notification.subject()),
        (Progress::Pending, About::Task(task))
    );
    let delivered = bench.settled().await.remove(0);
    assert_eq!((delivered.status(), delivered.attempts), (Progress::Delivered, 5));
    assert_eq!(receiver.notices()[4].0, notices[0].0, "the same identifier");
    assert_eq!(bench.listed(&[], None).await.len(), 1);
    assert_eq!(bench.listed(&[Progress::Dead], Some(task)).await, []);
    assert_eq!(bench.listed(&[Progress::Delivered], Some(task)).await, [delivered]);
    assert_eq!(bench.listed(&[], Some(TaskId::from_u128(7))).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_gone_is_not_asked_again_and_one_that_is_busy_later() {
    let busy = Failure {
        status: Some(503),
        retry_after: Some(Duration::from_mins(2)),
        ..Failure::default()
    };
    let receiver = Receiver::answering(vec![Err(busy), refused(410)]);
    let bench = Bench::announcing(&receiver).await;
    bench.complete(to(URL)).await;
    let dead = bench.settled().await.remove(0);
    assert_eq!((dead.status(), dead.attempts, dead.last_status), (Progress::Dead, 2, Some(410)));
    let notices = receiver.notices();
    let wait = (notices[1].1 - notices[0].1).as_secs_f64();
    assert!((120.0..122.0).contains(&wait), "{wait}");
}

#[tokio::test(start_paused = true)]
async fn a_redelivery_under_way_is_refused_and_one_between_attempts_is_made_at_once() {
    let receiver = Receiver::answering(vec![refused(500), refused(500)]);
    let bench = Bench::announcing(&receiver).await;
    bench.complete(to("http://slow/")).await;
    let id = bench.listed(&[], None).await[0].notification.id();
    let refusal = bench.handle.redeliver(LIVE, id).await;
    assert!(matches!(refusal, Err(Error::InvalidState(_))), "{refusal:?}");
    receiver.let_through.add_permits(1);
    while bench.listed(&[], None).await[0].last_status.is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let before = Instant::now();
    bench.handle.redeliver(LIVE, id).await.expect("it waits for its next attempt");
    receiver.let_through.add_permits(10);
    bench.settled().await;
    let (_, at) = receiver.notices()[1];
    assert!(at - before < Duration::from_secs(1));
    let unknown = DeliveryId::from_u128(1 << 10);
    let refusal = bench.handle.redeliver(LIVE, unknown).await;
    assert!(matches!(refusal, Err(Error::NotFound { .. })), "{refusal:?}");
    let elsewhere = bench.handle.redeliver(Environment::TEST, id).await;
    assert!(matches!(elsewhere, Err(Error::NotFound { .. })), "{elsewhere:?}");
}

#[tokio::test(start_paused = true)]
async fn a_delivery_that_is_sent_again_stands_in_one_place_over_a_restart() {
    let receiver = Receiver::answering(vec![refused(410)]);
    receiver.let_through.add_permits(1);
    let bench = Bench::announcing(&receiver).await;
    bench.complete(to("http://slow/")).await;
    let dead = bench.settled().await.remove(0);
    bench.handle.redeliver(LIVE, dead.notification.id()).await.expect("it is dead");
    let number = LIVE.number();
    let ended = ENDED_DELIVERIES.scan(&*bench.store, number, None, 9).await.expect("readable");
    assert_eq!(ended, []);
    assert_eq!(bench.listed(&[Progress::Pending], None).await.len(), 1);
    let store = Arc::new(bench.store.reopen());
    bench.system.stop().await;
    receiver.let_through.add_permits(1);
    let bench = Bench::announcing_on(&receiver, settings(), store.clone(), store).await;
    let delivered = bench.settled().await;
    assert_eq!((delivered.len(), delivered[0].status()), (1, Progress::Delivered));
}

#[tokio::test(start_paused = true)]
async fn a_slow_receiver_delays_no_other_and_is_asked_by_eight_at_once() {
    let receiver = Receiver::new();
    let bench = Bench::announcing(&receiver).await;
    for _ in 0..30 {
        bench.complete(to("http://slow/hook")).await;
    }
    bench.complete(to(URL)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let hosts = receiver.hosts();
    assert_eq!(hosts.iter().filter(|host| host.contains("slow")).count(), 8);
    assert_eq!(hosts.last().map(String::as_str), Some(URL));
    assert_eq!(bench.listed(&[Progress::Delivered], None).await.len(), 1);
    receiver.let_through.add_permits(30);
    assert_eq!(bench.settled().await.len(), 31);
    assert!(bench.listed(&[], None).await.iter().all(|one| one.attempts == 1));
}

#[tokio::test(start_paused = true)]
async fn long_outputs_wait_for_memory_and_short_ones_do_not() {
    const LONG: usize = 32 << 20;
    let receiver = Receiver::new();
    let bench = Bench::announcing(&receiver).await;
    // Four take the whole memory.
    for n in 0..6 {
        bench.submit(to(&format!("http://slow{n}/"))).await;
        let mut worker = bench.worker(1).await;
        let lease = worker.assignment().await.lease;
        assert_eq!(worker.complete(lease, &"x".repeat(LONG)).await, AckResult::Applied);
    }
    bench.complete(to(URL)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let hosts = receiver.hosts();
    assert_eq!(hosts.iter().filter(|host| host.contains("slow")).count(), 4);
    assert!(hosts.iter().any(|host| host == URL));
    receiver.let_through.add_permits(6);
    assert!(bench.settled().await.iter().all(|one| one.status() == Progress::Delivered));
    let lengths = receiver.notices().into_iter().map(|(notice, _)| notice.output.map(|o| o.len()));
    assert_eq!(lengths.filter(|length| *length == Some(LONG)).count(), 6);
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_a_webhook_is_an_event() {
    let receiver = Receiver::answering(vec![refused(410)]);
    let bench = Bench::announcing(&receiver).await;
    let mut events =
        bench.handle.subscribe(LIVE, None, Transient::default()).await.expect("the store answers");
    let task = bench.complete(to(URL)).await;
    let dead = bench.settled().await.remove(0);
    bench.handle.redeliver(LIVE, dead.notification.id()).await.expect("it is dead");
    let mut logged = Vec::new();
    while logged.len() < 2 {
        let Some(StreamItem::Stored(_, event)) = events.next().await.expect("readable") else {
            panic!("the stream ends");
        };
        if let Subject::Delivery(delivery, spec) = &event.subject {
            assert_eq!(spec.as_ref().map(|spec| spec.id), Some(task));
            logged.push((event.event.to_string(), delivery.status(), delivery.attempts));
        }
    }
    let expected = [
        ("webhook.failed".to_owned(), Progress::Dead, 1),
        ("webhook.delivered".to_owned(), Progress::Delivered, 2),
    ];
    assert_eq!(logged, expected);
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_commit_loses_no_webhook_and_makes_none_up() {
    let counted = Arc::new(MemoryStore::new());
    let store = Arc::new(FaultyStore::transparent(counted.clone()));
    let bench = Bench::announcing_on(&Receiver::new(), settings(), counted, store.clone()).await;
    bench.complete(to(URL)).await;
    bench.settled().await;
    let commits = store.commits();
    assert!(commits >= 5, "{commits}");

    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        for k in 1..=commits {
            let memory = Arc::new(MemoryStore::new());
            let faulty = Arc::new(FaultyStore::new(memory.clone(), k, fault));
            let (before, after) = (Receiver::new(), Receiver::new());
            let dying = Bench::announcing_on(&before, settings(), memory, faulty).await;
            let life = async {
                dying.try_to_complete(to(URL)).await?;
                Some(dying.settled().await)
            };
            let _ = tokio::time::timeout(Duration::from_mins(1), life).await;

            let store = Arc::new(dying.store.reopen());
            dying.system.stop().await;
            let bench = Bench::announcing_on(&after, settings(), store.clone(), store).await;
            let settled = bench.settled().await;
            let query = Tasks { statuses: vec![Status::Completed], ..Tasks::default() };
            let completed = bench.handle.tasks(LIVE, &query).await.expect("readable").items;
            let about = format!("{fault:?} at {k}: {settled:?}");
            assert_eq!(settled.len(), completed.len(), "{about}");
            assert!(settled.iter().all(|one| one.status() == Progress::Delivered), "{about}");
            let notices = [before.notices(), after.notices()].concat();
            assert!(notices.len() >= settled.len(), "{about}");
            let id = settled.first().map(|one| one.notification.id());
            assert!(notices.iter().all(|(notice, _)| Some(notice.delivery) == id), "{about}");
            bench.system.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn retention_keeps_a_task_while_its_webhook_is_pending() {
    let receiver = Receiver::answering((0..4).map(|_| refused(500)).collect());
    let keeping = Policy::new(Some(Duration::from_secs(10)), None);
    let settings = Settings { retention: keeping, ..settings() };
    let store = Arc::new(MemoryStore::new());
    let bench = Bench::announcing_on(&receiver, settings, store.clone(), store).await;
    let (task, plain) = (bench.complete(to(URL)).await, bench.complete(request()).await);
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(bench.handle.task(LIVE, task).await.is_ok(), "its webhook is pending");
    assert!(matches!(bench.handle.task(LIVE, plain).await, Err(Error::NotFound { .. })));
    let dead = bench.settled().await.remove(0);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(matches!(bench.handle.task(LIVE, task).await, Err(Error::NotFound { .. })));

    bench.handle.redeliver(LIVE, dead.notification.id()).await.expect("it is dead");
    let dropped = bench.settled().await.remove(0);
    assert_eq!(dropped.status(), Progress::Dropped);
    assert_eq!(dropped.last_error.as_deref(), Some("retention removed the task"));
    assert_eq!(receiver.notices().len(), 4, "nothing is left to say");
}

#[tokio::test(start_paused = true)]
async fn what_became_of_a_webhook_is_kept_for_thirty_days() {
    let bench = Bench::announcing(&Receiver::new()).await;
    bench.complete(to(URL)).await;
    bench.settled().await;
    let hour = Duration::from_hours(1);
    for (wait, kept) in [(rows::KEPT.saturating_sub(2 * hour), 1), (2 * hour, 0)] {
        let millis = u64::try_from(wait.as_millis()).expect("it fits");
        bench.wall.fetch_add(millis, Ordering::SeqCst);
        // Nothing goes by its age in the first hour after a start.
        tokio::time::sleep(hour + Duration::from_mins(2)).await;
        assert_eq!(bench.listed(&[], None).await.len(), kept);
    }
}

#[tokio::test(start_paused = true)]
async fn deliveries_of_a_version_that_did_not_list_them_are_listed_at_a_start() {
    let receiver = Receiver::answering(vec![refused(410)]);
    let bench = Bench::announcing(&receiver).await;
    let task = bench.complete(to(URL)).await;
    let dead = bench.settled().await.remove(0);
    let id = dead.notification.id();
    let fresh = Delivery::created(dead.notification.clone(), bench.handle.now()).next;
    let store = bench.store.reopen();
    bench.system.stop().await;
    let [live, ended] = &UNLISTED_DELIVERIES;
    let other = DeliveryId::from_u128(id.as_u128() + (1 << 10));
    let number = LIVE.number();
    let ops = vec![
        ENDED_DELIVERIES.delete(number, &id.as_u128()),
        ended.put(number, &id.as_u128(), &dead, None),
        live.put(number, &other.as_u128(), &with_id(fresh, other), None),
    ];
    let batch = callboard_store::Batch { id: callboard_store::BatchId(1), guards: Vec::new(), ops };
    let committed = store.commit(batch).await;
    assert!(matches!(committed, callboard_store::Outcome::Committed));
    let store = Arc::new(store);
    let bench = Bench::announcing_on(&receiver, settings(), store.clone(), store).await;
    let listed = bench.settled().await;
    let found: Vec<_> = listed.iter().map(|one| (one.notification.id(), one.status())).collect();
    assert_eq!(found, [(other, Progress::Delivered), (id, Progress::Dead)]);
    assert_eq!(bench.listed(&[], Some(task)).await.len(), 2);
    let left = LIVE_DELIVERIES.scan(&*bench.store, number, None, 9).await.expect("readable");
    assert_eq!(left, []);
}

fn with_id(mut delivery: Delivery, id: DeliveryId) -> Delivery {
    if let callboard_domain::delivery::Notification::Webhook(webhook) = &mut delivery.notification {
        webhook.id = id;
    }
    delivery
}
