use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body as HttpBody, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use callboard_client::{Credential, Server};
use callboard_common::secret::Secret;
use serde_json::{Value, json};

use super::*;

/// A reader with a script, and every text that was shown.
#[derive(Default)]
struct Scripted {
    answers: VecDeque<&'static str>,
    edits: VecDeque<&'static str>,
    seen: String,
}

impl Console for &mut Scripted {
    fn say(&mut self, text: &str) -> Result<(), Failure> {
        self.seen.push_str(text);
        Ok(())
    }

    fn size(&self) -> (usize, usize) {
        (24, 80)
    }

    fn forget(&mut self) {}

    async fn ask(&mut self, question: &str) -> Result<Option<String>, Failure> {
        let answer = self.answers.pop_front();
        let _ = writeln!(self.seen, "{question}: {}", answer.unwrap_or("(end)"));
        Ok(answer.map(str::to_owned))
    }

    fn keep(&mut self, task: &str, text: &str) {
        let _ = writeln!(self.seen, "({text} of {task} is kept)");
    }

    async fn edit(&mut self, _: &str, text: &str) -> Result<String, Failure> {
        let _ = writeln!(self.seen, "(editing {text})");
        self.edits.pop_front().map(str::to_owned).ok_or_else(|| Failure::Other("no vi".into()))
    }
}

type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// A server whose answers `respond` makes: a status and data, or the code of a refusal.
async fn serve(
    respond: impl Fn(&str, usize) -> Option<(u16, Value)> + Send + Sync + 'static,
) -> (Client, Asked) {
    let (asked, respond) = (Asked::default(), Arc::new(respond));
    let seen = Arc::clone(&asked);
    let router = Router::new().fallback(move |request: Request| {
        let (seen, respond) = (Arc::clone(&seen), Arc::clone(&respond));
        async move {
            let line = format!("{} {}", request.method(), request.uri().path());
            let body = to_bytes(request.into_body(), 1 << 20).await.unwrap();
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let mut seen = seen.lock().unwrap();
            let before = seen.iter().filter(|(other, _)| *other == line).count();
            let (status, data) = respond(&line, before).unwrap_or_else(|| usual(&line));
            seen.push((line, body));
            let body = match status {
                200 => {
                    let page = json!({"total": 1, "limit": 50, "offset": 0, "hasMore": false});
                    json!({"success": true, "data": data, "pagination": page, "meta": {}})
                }
                _ => json!({"success": false, "error": data, "meta": {}}),
            };
            let response = Response::builder().status(status).header("retry-after", "0");
            response.body(HttpBody::from(body.to_string())).unwrap()
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let key = Credential::Key(Secret::new("k".into()));
    (Client::new(Server::parse(&url).unwrap(), key).unwrap(), asked)
}

fn item(task: &str) -> Value {
    json!({"taskId": task, "status": "assigned", "reason": "required", "prompt": "Say it.",
           "output": "said\u{1b}[2J", "timeoutAt": "2026-11-21T10:00:00.000Z",
           "assignedTo": "usr_2"})
}

/// Two items wait, nobody else is there, nothing is known of their tasks.
fn usual(line: &str) -> (u16, Value) {
    let none = json!({"code": "NOT_FOUND", "message": "no"});
    match line.split(' ').collect::<Vec<_>>()[..] {
        ["GET", "/api/hitl/pending"] => {
            let mut late = item("dt_task_2");
            late["timeoutAt"] = "2026-11-21T12:00:00.000Z".into();
            (200, json!([late, item("dt_task_1")]))
        }
        ["GET", path] => match path.strip_prefix("/api/hitl/") {
            Some(task) => (200, item(task)),
            None => (404, none),
        },
        _ => (200, json!({"retryTaskId": "dt_task_9"})),
    }
}

async fn review(
    client: &Client,
    me: Option<&str>,
    answers: &[&'static str],
    edits: &[&'static str],
) -> (Result<(), Failure>, String) {
    let mut scripted = Scripted {
        answers: answers.iter().copied().collect(),
        edits: edits.iter().copied().collect(),
        seen: String::new(),
    };
    let wanted = Wanted::default();
    let me = me.map(str::to_owned);
    let (reader, people, tally) = (&mut scripted, People::default(), Tally::default());
    let mut review = Review { client, console: reader, wanted: &wanted, me, people, tally };
    let ended = review.run().await;
    (ended, scripted.seen)
}

/// The sent decisions, without the reads.
fn sent(asked: &Asked) -> Vec<(String, Value)> {
    let asked = asked.lock().unwrap();
    let sent = asked.iter().filter_map(|(line, body)| {
        let place = line.strip_prefix("POST /api/hitl/dt_task_")?;
        Some((place.to_owned(), body.clone()))
    });
    sent.collect()
}

fn call(line: &str) -> (String, Value) {
    (line.to_owned(), Value::Null)
}

#[tokio::test]
async fn what_ends_sooner_comes_first_and_each_is_claimed_decided_or_given_back() {
    let (client, asked) = serve(|_, _| None).await;
    let (ended, seen) = review(&client, None, &["a", "fine", "y", "s"], &[]).await;
    ended.unwrap();
    assert_eq!(
        sent(&asked),
        [
            call("1/claim"),
            ("1/approve".into(), json!({"comment": "fine"})),
            call("2/claim"),
            call("2/release"),
        ]
    );
    assert!(seen.contains("said\\u{1b}[2J") && !seen.contains('\u{1b}'), "{seen}");
    assert!(
        seen.ends_with("nothing else waits for a reviewer\n1 approved, 0 rejected, 1 skipped\n")
    );
}

#[tokio::test]
async fn what_is_assigned_to_the_reader_comes_before_what_ends_sooner() {
    let (client, asked) = serve(|line, _| {
        let mut mine = item("dt_task_2");
        mine["assignedTo"] = "usr_1".into();
        mine["timeoutAt"] = "2026-11-21T12:00:00.000Z".into();
        (line == "GET /api/hitl/pending").then(|| (200, json!([item("dt_task_1"), mine])))
    })
    .await;
    let (ended, seen) = review(&client, Some("usr_1"), &["r", "wrong", "y", "y", "q"], &[]).await;
    ended.unwrap();
    let reject = json!({"reason": "wrong", "retry": true});
    let rejected = ("2/reject".to_owned(), reject);
    let after = [call("2/claim"), rejected, call("1/claim"), call("1/release")];
    assert_eq!(sent(&asked), after);
    assert!(seen.contains("rejected; dt_task_9 tries again"), "{seen}");
}

#[tokio::test]
async fn an_edited_output_is_compared_confirmed_and_sent() {
    let (client, asked) = serve(|_, _| None).await;
    let answers = ["e", "q", "e", "", "y", "e", "", "y"];
    let edits = ["better", "best", "said\u{1b}[2J"];
    let (ended, seen) = review(&client, None, &answers, &edits).await;
    ended.unwrap();
    assert!(seen.contains("- said\\u{1b}[2J\n+ better\n"), "{seen}");
    assert!(seen.contains("(editing better)"), "a draft is gone on with: {seen}");
    assert!(seen.contains("the text is unchanged"), "{seen}");
    let decided: Vec<_> =
        sent(&asked).into_iter().filter(|(line, _)| line.contains("approve")).collect();
    let edited = json!({"modifiedOutput": "best"});
    assert_eq!(decided, [("1/approve".into(), edited), ("2/approve".into(), json!({}))]);
}

#[tokio::test]
async fn another_reviewer_who_was_first_is_named_and_the_next_item_comes() {
    let (client, asked) = serve(|line, _| {
        let details = json!({"decidedBy": "usr_ann", "decidedAt": "10:01"});
        let first = json!({"code": "ALREADY_DECIDED", "message": "no", "details": details});
        (line == "POST /api/hitl/dt_task_1/approve").then_some((409, first))
    })
    .await;
    let (ended, seen) = review(&client, None, &["a", "", "y", "q"], &[]).await;
    ended.unwrap();
    assert!(seen.contains("usr_ann was first: decided at 10:01\n"), "{seen}");
    assert!(sent(&asked).ends_with(&[call("2/claim"), call("2/release")]), "{:?}", sent(&asked));
    assert!(seen.ends_with("0 approved, 0 rejected, 0 skipped\n"), "{seen}");
}

#[tokio::test]
async fn a_text_that_was_not_sent_is_kept() {
    let (client, _) = serve(|line, _| {
        let first = json!({"code": "ALREADY_DECIDED", "message": "no"});
        (line == "POST /api/hitl/dt_task_1/approve").then_some((409, first))
    })
    .await;
    let answers = ["e", "", "y", "e", "q", "q"];
    let (ended, seen) = review(&client, None, &answers, &["better", "best"]).await;
    ended.unwrap();
    assert!(seen.contains("(better of dt_task_1 is kept)"), "{seen}");
    assert!(seen.contains("(best of dt_task_2 is kept)"), "{seen}");
}

#[tokio::test]
async fn overdue_outputs_are_gone_through_too_and_counted() {
    let (client, asked) = serve(|line, _| {
        let mut late = item("dt_task_1");
        late["status"] = "expired".into();
        match line {
            "GET /api/hitl/pending" => Some((200, json!([item("dt_task_2"), late]))),
            "GET /api/hitl/dt_task_1" => Some((200, late)),
            _ => None,
        }
    })
    .await;
    let (ended, seen) = review(&client, None, &["a", "", "y", "q"], &[]).await;
    ended.unwrap();
    assert!(seen.starts_with("2 waiting for a reviewer, 1 overdue\n"), "{seen}");
    assert!(seen.contains("status        overdue"), "{seen}");
    assert_eq!(sent(&asked)[1], ("1/approve".into(), json!({})));
}

#[tokio::test]
async fn what_somebody_else_looks_at_is_touched_only_after_a_yes() {
    let (client, asked) = serve(|line, _| {
        if line.ends_with("/claim") {
            return Some((409, json!({"code": "INVALID_STATE", "message": "claimed"})));
        }
        let mut taken = item(line.strip_prefix("GET /api/hitl/").filter(|id| *id != "pending")?);
        taken["claimedBy"] = "usr_ann".into();
        Some((200, taken))
    })
    .await;
    let (ended, seen) = review(&client, None, &["", "y", "a", "", "y"], &[]).await;
    ended.unwrap();
    assert!(seen.contains("usr_ann has claimed it. Review it anyway?"), "{seen}");
    let approved = ("2/approve".to_owned(), json!({}));
    assert_eq!(sent(&asked), [call("1/claim"), call("2/claim"), approved]);
}

#[tokio::test]
async fn a_decision_that_the_server_did_not_take_is_asked_for_again() {
    let (client, asked) = serve(|line, before| {
        let away = json!({"code": "UNAVAILABLE", "message": "draining"});
        (line.ends_with("/approve") && before == 0).then_some((503, away))
    })
    .await;
    let (ended, seen) = review(&client, None, &["a", "x", "y", "a", "z", "y"], &[]).await;
    ended.unwrap();
    assert!(seen.contains("draining (UNAVAILABLE)"), "{seen}");
    // The end of the answers is the end of the talk.
    assert_eq!(sent(&asked).last(), Some(&call("2/release")));
    assert!(seen.ends_with("1 approved, 0 rejected, 0 skipped\n"), "{seen}");
}

#[tokio::test]
async fn an_editor_that_fails_and_an_item_that_was_decided_meanwhile_change_nothing() {
    let (client, asked) = serve(|line, before| {
        let mut over = item("dt_task_1");
        over["status"] = "approved".into();
        (line == "GET /api/hitl/dt_task_1" && before == 0).then_some((200, over))
    })
    .await;
    let (ended, seen) = review(&client, None, &["e", "e", "q"], &[""]).await;
    ended.unwrap();
    assert!(seen.contains("dt_task_1 is approved meanwhile"), "{seen}");
    assert!(seen.contains("the text is empty") && seen.contains("no vi"), "{seen}");
    let given_back = [call("1/claim"), call("1/release"), call("2/claim"), call("2/release")];
    assert_eq!(sent(&asked), given_back);
}

#[tokio::test]
async fn whoever_may_not_decide_is_told_at_once() {
    let (client, _) = serve(|line, _| {
        let no = json!({"code": "FORBIDDEN", "message": "no"});
        line.ends_with("/claim").then_some((403, no))
    })
    .await;
    let (ended, _) = review(&client, None, &["a"], &[]).await;
    assert_eq!(ended.unwrap_err().exit_code(), 4);
    let wanted = Wanted { mine: true, ..Wanted::default() };
    let waiting = gather::waiting(&client, &wanted, None).await;
    assert_eq!(waiting.unwrap_err().exit_code(), 2);
}
