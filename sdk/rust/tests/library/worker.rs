//! The worker of the library against the real program.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use callboard_client::types::{CreateTask, RetryRequest};
use callboard_client::worker::{Answer, Error, Failure, FunctionSpec, Task, Usage};
use callboard_client::{Callboard, Worker};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::{Board, Running, until};

fn once() -> RetryRequest {
    RetryRequest::new().max_attempts(1)
}

#[derive(serde::Deserialize)]
struct Args {
    a: i64,
    b: i64,
}

/// Counts the runs, and the handlers that were dropped before their end.
#[derive(Clone, Default)]
struct Seen {
    begun: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
}

struct Guard(Arc<AtomicUsize>, bool);

impl Guard {
    fn finished(mut self) {
        self.1 = true;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.1 {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Seen {
    fn begin(&self) -> Guard {
        self.begun.fetch_add(1, Ordering::SeqCst);
        Guard(Arc::clone(&self.dropped), false)
    }

    async fn begun(&self, count: usize) {
        until(|| async { self.begun.load(Ordering::SeqCst) == count }).await;
    }

    async fn dropped(&self, count: usize) {
        until(|| async { self.dropped.load(Ordering::SeqCst) == count }).await;
    }
}

#[tokio::test]
async fn a_function_is_announced_called_and_checked() {
    let board = Board::start().await;
    let cb = board.client("operator").await;
    let spec = FunctionSpec::new("add")
        .description("Adds.")
        .args(json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}));
    let worker = board.worker().await.function_with(spec, |args: Args, task: Task| async move {
        task.charge(0.25)?;
        let text =
            args.a.checked_add(args.b).ok_or_else(|| Failure::fatal("too large"))?.to_string();
        // `?` turns any error into a failure.
        Ok(json!({"sum": text.parse::<i64>()?, "attempt": task.attempt}))
    });
    let worker = Running::start(worker);
    let value: Value = cb.tasks().run_function("add", json!({"a": 2, "b": 3})).await.unwrap();
    assert_eq!(value, json!({"sum": 5, "attempt": 1}));
    let announced = cb.functions().list().all().await.unwrap();
    assert_eq!((&*announced[0].name, announced[0].description.as_deref()), ("add", Some("Adds.")));
    let refused = cb.tasks().run_function::<Value>("add", json!({"a": 2, "b": "x"})).await;
    assert!(refused.unwrap_err().to_string().contains("the args do not fit"));
    let call = CreateTask::new().function("add").args(json!({"a": 1, "b": 1}));
    let task = cb.tasks().submit(call).await.unwrap().wait().await.unwrap();
    let task = serde_json::to_value(task.into_inner()).unwrap();
    assert!(task.to_string().contains("0.25"), "the call is charged for: {task}");
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn an_answer_says_more_and_a_panic_is_a_failure_that_shows_nothing() {
    let board = Board::start().await;
    let cb = board.client("operator").await;
    let worker = board.worker().await.model_once("good", |task: Task| async move {
        let turns = task.chat().len() as u64;
        Ok(Answer::from("fine").confidence(0.9).usage(Usage {
            input: turns,
            output: 7,
            ..Usage::default()
        }))
    });
    let worker = worker.model("bad", |task: Task| {
        assert!(task.prompt.is_empty(), "{}", task.prompt);
        stream::iter(["x"])
    });
    let worker = worker.model("late", |_| {
        assert!(std::hint::black_box(true));
        stream::iter(["x"]).then(|_| async { panic!("secret") as String })
    });
    let worker = Running::start(worker);
    let of = |model: &str| {
        CreateTask::new().prompt("secret").system_prompt("s").model(model).retry(once())
    };
    let task = cb.tasks().submit(of("good")).await.unwrap().wait().await.unwrap();
    assert_eq!((task.output_text(), task.confidence), ("fine", Some(0.9)));
    let shown = serde_json::to_value(task.into_inner()).unwrap();
    assert_eq!((&shown["usage"]["input"], &shown["usage"]["output"]), (&json!(2), &json!(7)));
    for model in ["bad", "late"] {
        let refused = cb.tasks().run(of(model)).await.unwrap_err().to_string();
        assert!(refused.contains("the worker failed") && !refused.contains("secret"), "{refused}");
    }
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_cancelled_task_is_dropped_and_the_slot_is_free_again() {
    let board = Board::start().await;
    let (cb, seen) = (board.client("operator").await, Seen::default());
    let counted = seen.clone();
    let worker = board.worker().await.concurrency(1).model_once("*", move |task: Task| {
        let guard = counted.begin();
        async move {
            if task.prompt == "hang" {
                std::future::pending::<()>().await;
            }
            guard.finished();
            Ok(task.prompt)
        }
    });
    let worker = Running::start(worker);
    let hangs = cb.tasks().submit("hang").await.unwrap();
    seen.begun(1).await;
    cb.tasks().cancel(&hangs.id).await.unwrap();
    seen.dropped(1).await;
    assert_eq!(cb.tasks().run("next").await.unwrap(), "next");
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_worker_that_is_asked_to_end_finishes_within_its_grace_and_gives_back_the_rest() {
    let board = Board::start().await;
    let (cb, seen, go) =
        (board.client("operator").await, Seen::default(), Arc::new(Semaphore::new(0)));
    let (counted, gate) = (seen.clone(), Arc::clone(&go));
    let worker =
        board.worker().await.grace(Duration::from_secs(3)).model_once("*", move |task: Task| {
            let (guard, gate) = (counted.begin(), Arc::clone(&gate));
            async move {
                match &*task.prompt {
                    "hang" => std::future::pending::<()>().await,
                    _ => drop(gate.acquire().await),
                }
                guard.finished();
                Ok(format!("{} {}", task.prompt, task.attempt))
            }
        });
    let worker = Running::start(worker);
    let (finishes, hangs) =
        (cb.tasks().submit("finish").await.unwrap(), cb.tasks().submit("hang").await.unwrap());
    seen.begun(2).await;
    let stopping = tokio::spawn(worker.stop());
    until(|| async { cb.workers().list().all().await.unwrap()[0].status == "draining" }).await;
    go.add_permits(1);
    assert_eq!(finishes.wait().await.unwrap().output_text(), "finish 1");
    stopping.await.unwrap().unwrap();
    seen.dropped(1).await;
    // Another worker has the other task long before its lease of half a minute would have ended.
    let began = std::time::Instant::now();
    let next = board.worker().await.model_once("*", |task: Task| async move { Ok(task.prompt) });
    let next = Running::start(next);
    assert_eq!(hangs.wait().await.unwrap().output_text(), "hang");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    next.stop().await.unwrap();
}

#[tokio::test]
async fn an_attempt_beyond_its_time_is_cut_by_the_worker() {
    let board = Board::start().await;
    let (cb, seen) = (board.client("operator").await, Seen::default());
    let counted = seen.clone();
    let worker = board.worker().await.model_once("*", move |_: Task| {
        let guard = counted.begin();
        async move {
            std::future::pending::<()>().await;
            drop(guard);
            Ok("never")
        }
    });
    let worker = Running::start(worker);
    let task = CreateTask::new().prompt("x").timeout_ms(1000).retry(once());
    let failed = cb.tasks().submit(task).await.unwrap().wait_ended().await.unwrap();
    assert_eq!(failed.error.as_ref().map(|error| &*error.code), Some("TASK_TIMEOUT"));
    seen.dropped(1).await;
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_worker_that_cannot_work_says_why() {
    let board = Board::start().await;
    let nothing = board.worker().await.run_until(std::future::pending()).await;
    assert!(nothing.unwrap_err().to_string().contains("call `model` or `function`"));
    let answers = |worker: Worker| worker.model("*", |_| stream::iter(["x"]));
    let login = answers(Worker::new(&board.admin)).run_until(std::future::pending()).await;
    assert!(login.unwrap_err().to_string().contains("a key of the role worker"));
    let wrong = Callboard::with_key(&board.url, "dt_wrong").unwrap();
    let refused = Running::start(answers(Worker::new(&wrong))).ended().await;
    assert!(matches!(refused, Err(Error::Refused { status: 401, .. })), "{refused:?}");
}
