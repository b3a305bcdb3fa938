use std::sync::Arc;

use callboard_domain::Timestamp;
use callboard_domain::id::WorkerId;
use callboard_runtime::events::Published;
use callboard_runtime::tables::{Event, Subject, WorkerRow};

use super::*;

fn at(place: u64) -> Cursor {
    Cursor { place, mark: None }
}

fn event(place: u64, bytes: usize) -> FeedItem {
    let worker =
        WorkerRow { id: WorkerId::from_u128(1), name: Some("x".repeat(bytes)), queues: vec![] };
    let event = Event {
        event: "worker.connected".into(),
        at: Timestamp::from_millis(0),
        subject: Subject::Worker(worker),
    };
    FeedItem::Item(StreamItem::Stored(at(place), Arc::new(Published::new(event))))
}

/// A session with a live subscription, 0, named `s`, after place 9.
fn live(now: Instant) -> Session {
    let mut session = Session::new(now);
    session.subscribed(0, "s".into(), at(9), None);
    session.fed(0, FeedItem::Live, now);
    session
}

fn sent(session: &mut Session, now: Instant) -> Vec<Value> {
    let texts = std::iter::from_fn(|| session.pop(now));
    let json = |frame| match frame {
        Outgoing::Text(text) => serde_json::from_str(&text).expect("JSON"),
        Outgoing::Ping => json!("ping"),
        Outgoing::Close(code, _) => json!(code),
    };
    texts.map(json).collect()
}

#[test]
fn each_event_names_the_cursor_that_was_sent_before() {
    let now = Instant::now();
    let mut session = Session::new(now);
    session.subscribed(0, "a \"b\"".into(), at(9), Some(at(9)));
    session.subscribed(1, "c".into(), at(9), None);
    session.fed(0, event(10, 0), now);
    session.fed(1, event(10, 0), now);
    session.fed(0, event(20, 0), now);
    let frames = sent(&mut session, now);
    let cursors: Vec<_> =
        frames.iter().map(|it| (&it["sub"], it["prev"].as_str(), it["cursor"].as_str())).collect();
    let (a, c) = (json!("a \"b\""), json!("c"));
    let expected =
        [(&a, Some("e9"), Some("ea")), (&c, None, Some("ea")), (&a, Some("ea"), Some("e14"))];
    assert_eq!(cursors, expected);
    assert_eq!(
        (&frames[0]["type"], &frames[0]["event"]),
        (&json!("event"), &json!("worker.connected"))
    );
    assert_eq!(frames[0]["resource"]["version"], 10);
    assert_eq!((session.events, session.bytes), (0, 0));
}

#[test]
fn a_replay_is_read_as_the_socket_takes_it() {
    let now = Instant::now();
    let mut session = Session::new(now);
    session.subscribed(0, "s".into(), at(0), Some(at(0)));
    for at in 1..=100_000 {
        while !session.takes() {
            session.pop(now);
        }
        session.fed(0, event(at, 0), now);
        assert!(session.events <= READ_AHEAD && session.slow_since.is_none());
    }
}

#[test]
fn a_client_that_reads_again_is_told_of_the_gap_and_goes_on() {
    let now = Instant::now();
    let mut session = live(now);
    for at in 10..10 + MAX_EVENTS as u64 {
        session.fed(0, event(at, 0), now);
    }
    assert!(session.takes());
    session.fed(0, event(9_999, 0), now);
    assert!(!session.takes() && !session.has_caught_up());
    assert_eq!(session.due(), now + SLOW_FOR);
    let frames = sent(&mut session, now);
    assert_eq!(frames.len(), MAX_EVENTS);
    assert!(session.has_caught_up());
    session.recovered();
    session.skipped(0, at(20_000));
    session.fed(0, event(20_001, 0), now);
    let frames = sent(&mut session, now);
    let gap = json!({"type": "gap", "sub": "s", "from": "e409", "to": "e4e20", "reason": "slow"});
    assert_eq!(frames[0], gap);
    assert_eq!(frames[1]["prev"], gap["to"]);
    assert!(session.takes());
}

#[test]
fn a_client_that_never_reads_holds_4_mib_and_is_closed_after_30_seconds() {
    let now = Instant::now();
    let mut session = live(now);
    for at in 10..100 {
        session.fed(0, event(at, 100_000), now);
        assert!(session.bytes <= MAX_BYTES);
    }
    assert!(!session.takes() && session.events < 45);
    let late = now + SLOW_FOR;
    assert_eq!(session.tick(late - Duration::from_millis(1)), Due::Nothing);
    assert_eq!(session.tick(late), Due::Slow);
    session.ends_slow(at(500));
    let frames = sent(&mut session, late);
    let gap = json!({"type": "gap", "sub": "s", "from": "e9", "to": "e1f4", "reason": "slow"});
    let bye = json!({"type": "bye", "code": 4503, "reason": "too slow"});
    assert_eq!(frames, [gap, bye, json!(4503)]);
}

#[test]
fn a_replay_that_is_never_read_ends_as_well() {
    let now = Instant::now();
    let mut session = Session::new(now);
    session.subscribed(0, "s".into(), at(9), None);
    session.fed(0, event(10, 0), now);
    assert_eq!(session.due(), now + SLOW_FOR);
    let later = now + SLOW_FOR / 2;
    assert!(session.pop(later).is_some());
    session.fed(0, event(11, 0), later);
    assert_eq!(session.tick(now + SLOW_FOR), Due::Nothing);
    assert_eq!(session.tick(later + SLOW_FOR), Due::Slow);
}

#[test]
fn nothing_of_an_ended_subscription_is_sent() {
    let now = Instant::now();
    let mut session = live(now);
    session.subscribed(1, "t".into(), at(9), None);
    session.fed(0, event(10, 0), now);
    session.fed(1, event(10, 0), now);
    session.unsubscribed(0);
    session.fed(0, event(11, 0), now);
    let frames = sent(&mut session, now);
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0]["sub"], "t");
    assert_eq!((session.events, session.bytes, session.number_of("s")), (0, 0, None));
}

#[test]
fn a_client_is_pinged_and_dropped_when_it_is_silent() {
    let now = Instant::now();
    let mut session = live(now);
    assert_eq!(session.due(), now + HEARTBEAT);
    assert_eq!(session.tick(now + HEARTBEAT), Due::Nothing);
    assert_eq!(sent(&mut session, now + HEARTBEAT), [json!("ping")]);
    assert_eq!(session.tick(now + SILENT_FOR), Due::Silent);
    assert!(session.heard(now + SILENT_FOR));
    assert_eq!(session.tick(now + SILENT_FOR), Due::Nothing);
}

#[test]
fn a_client_may_send_120_frames_at_once_and_ten_a_second() {
    let now = Instant::now();
    let mut session = live(now);
    assert!((0..FRAMES).all(|_| session.heard(now)));
    assert!(!session.heard(now));
    let mut session = live(now);
    assert!((0..1_000).all(|n| session.heard(now + n * FRAME_EVERY)));
}

#[test]
fn a_client_that_reads_no_answer_is_not_read() {
    let now = Instant::now();
    let mut session = live(now);
    for _ in 0..MAX_ANSWERS {
        assert!(session.hears());
        session.answer(&json!({"type": "pong"}));
    }
    assert!(!session.hears());
    session.pop(now);
    assert!(session.hears());
}
