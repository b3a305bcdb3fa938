use callboard_domain::confidence::Source;
use callboard_domain::usage::Tokens;
use futures_util::future::BoxFuture;

use super::*;
use crate::provider::{Completion, Deltas};
use callboard_protocol::workers::ConfidenceSource;

/// Sends these pieces, each after this time, and then ends as scripted.
#[derive(Debug, Clone)]
struct Scripted {
    pieces: Vec<(Duration, &'static str)>,
    end: End,
}

#[derive(Debug, Clone, Copy)]
enum End {
    Complete,
    Panic,
    Never,
}

impl Provider for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn complete<'a>(
        &'a self,
        _request: &'a Request,
        deltas: &'a Deltas,
    ) -> BoxFuture<'a, Result<Completion, Failure>> {
        async move {
            for (wait, piece) in &self.pieces {
                tokio::time::sleep(*wait).await;
                deltas.send((*piece).to_owned()).await.unwrap();
            }
            match self.end {
                End::Complete => Ok(Completion {
                    output: self.pieces.iter().map(|(_, piece)| *piece).collect(),
                    thinking: None,
                    usage: Tokens { input: 3, output: 2, cache_read: 1, cache_write: 0 },
                    confidence: Some(0.5),
                    confidence_source: Source::Logprobs,
                    finish_reason: Some("stop".into()),
                    service_tier: None,
                    limits: Reported::default(),
                    opening: Vec::new(),
                }),
                End::Panic => panic!("planted"),
                End::Never => std::future::pending().await,
            }
        }
        .boxed()
    }
}

fn assign() -> Assign {
    let text = r#"{"lease":"a","attempt":1,"deadlineAt":"","task":{"id":"t","model":"m","queue":"q","prompt":"p"}}"#;
    serde_json::from_str(text).unwrap()
}

async fn run_it(provider: Scripted, room: usize) -> (FromWorker, Vec<String>) {
    let (text, mut sent) = mpsc::channel(room);
    let (provider, slots) = (Arc::new(provider), Arc::new(Semaphore::new(1)));
    let means = Means { provider, slots, text, spans: None, client: None };
    let frame = run(assign(), Duration::from_mins(1), means).await;
    let mut texts = Vec::new();
    while let Some((lease, text)) = sent.recv().await {
        assert_eq!(lease, "a");
        texts.push(text);
    }
    (frame, texts)
}

fn after(millis: u64, piece: &'static str) -> (Duration, &'static str) {
    (Duration::from_millis(millis), piece)
}

#[tokio::test(start_paused = true)]
async fn text_is_gathered_for_a_moment_and_the_rest_goes_before_the_result() {
    let pieces =
        vec![after(0, "a"), after(20, "b"), after(20, "c"), after(20, "d"), after(500, "e")];
    let (frame, texts) = run_it(Scripted { pieces, end: End::Complete }, 8).await;
    assert_eq!(texts, ["abc", "d", "e"]);
    let expected = Complete {
        lease: "a".into(),
        output: "abcde".into(),
        cost: None,
        usage: Usage { input: 3, output: 2, cache_read: 1, cache_write: 0, calls: 1 },
        confidence: Some(0.5),
        confidence_source: Some(ConfidenceSource::Logprobs),
        finish_reason: Some("stop".into()),
        service_tier: None,
        limits: None,
        judge: None,
        thinking: None,
        limited: None,
    };
    assert_eq!(frame, FromWorker::Complete(expected));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_no_frame_can_hold_is_a_failure() {
    let quotes: &'static str = "\"".repeat(MAX_FRAME / 2).leak();
    let (frame, _) =
        run_it(Scripted { pieces: vec![after(0, quotes)], end: End::Complete }, 1).await;
    let FromWorker::Fail(failed) = frame else { panic!("a failure") };
    assert!(!failed.retryable && failed.error.message.contains("as JSON"), "{failed:?}");
    let pieces = vec![after(0, &quotes[..MAX_FRAME / 2 - 1000])];
    let (frame, _) = run_it(Scripted { pieces, end: End::Complete }, 1).await;
    assert!(matches!(frame, FromWorker::Complete(_)), "one that fits is sent");
}

#[tokio::test(start_paused = true)]
async fn much_text_goes_out_at_once() {
    let long: &'static str = "x".repeat(1 << 10).leak();
    let pieces = vec![after(0, long), after(1, "y"), after(1000, "z")];
    let (_, texts) = run_it(Scripted { pieces, end: End::Complete }, 8).await;
    assert_eq!(texts, [long, "y", "z"]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_does_not_hold_up_the_model() {
    let start = Instant::now();
    let pieces = vec![after(100, "x"); 200];
    let (frame, texts) = run_it(Scripted { pieces, end: End::Complete }, 1).await;
    assert_eq!(start.elapsed(), Duration::from_secs(20));
    assert_eq!(texts, ["x"], "nobody took more, and nobody waited");
    assert!(matches!(frame, FromWorker::Complete(complete) if complete.output.length() == 200));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_ends_a_call_that_may_be_tried_again() {
    let start = Instant::now();
    let (frame, _) = run_it(Scripted { pieces: vec![], end: End::Never }, 1).await;
    assert_eq!(start.elapsed() + REPORT, Duration::from_mins(1));
    let FromWorker::Fail(fail) = frame else { panic!("{frame:?}") };
    assert_eq!((fail.error.code.as_str(), fail.retryable), ("TASK_TIMEOUT", true));
    assert_eq!(fail.usage, None, "nothing came");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_cut_has_used_its_prompt_and_the_streamed_text() {
    let pieces = vec![after(0, "four"), after(1000, "four more")];
    for end in [End::Never, End::Panic] {
        let (frame, _) = run_it(Scripted { pieces: pieces.clone(), end }, 8).await;
        let FromWorker::Fail(fail) = frame else { panic!("{frame:?}") };
        let expected = Usage { input: 1, output: 4, calls: 1, ..Usage::default() };
        assert_eq!(fail.usage, Some(expected), "{end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_panics_fails_its_own_lease_only() {
    let (frame, _) = run_it(Scripted { pieces: vec![], end: End::Panic }, 1).await;
    let FromWorker::Fail(fail) = frame else { panic!("{frame:?}") };
    assert_eq!(fail.error.code, "INTERNAL_ERROR");
    assert!(!fail.error.message.contains("planted"));
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_run_at_once_than_there_are_slots() {
    let (text, _texts) = mpsc::channel(8);
    let provider = Scripted { pieces: vec![after(1000, "x")], end: End::Complete };
    let (provider, slots) = (Arc::new(provider), Arc::new(Semaphore::new(2)));
    let means = Means { provider, slots, text, spans: None, client: None };
    let start = Instant::now();
    let calls = (0..4).map(|_| run(assign(), Duration::from_mins(1), means.clone()));
    futures_util::future::join_all(calls).await;
    assert_eq!(start.elapsed(), Duration::from_secs(2));
}
