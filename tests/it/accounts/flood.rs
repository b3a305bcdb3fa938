//! Many sign-ins at once: those beyond the limit are refused, and everybody else is served meanwhile
//! (docs/reference/accounts.md).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use super::PASSWORD;
use crate::support::{ADMIN, Answer, Client, Server};

/// The sign-ins that are hashed or wait for a core, on this machine.
fn places() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 2).max(1) * 33
}

/// Signs in from an address, and notes the time that the answer took.
async fn sign_in(
    client: Client,
    email: String,
    password: &str,
    from: String,
) -> (Answer, Duration) {
    let asked = Instant::now();
    let login = json!({"email": email, "password": password});
    let request = client.request(reqwest::Method::POST, "/api/auth/login").json(&login);
    let answer = client.send(request.header("x-forwarded-for", from)).await;
    (answer, asked.elapsed())
}

/// The longest answer to a request, sent again and again until `over`.
async fn slowest(client: Client, path: &'static str, over: Arc<AtomicBool>) -> Duration {
    let mut slowest = Duration::ZERO;
    while !over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        client.get(path).await;
        slowest = slowest.max(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    slowest
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_sign_ins_is_refused_in_time_and_delays_nobody_else() {
    let server = Server::with(&[("SERVER__TRUSTED_PROXIES", "127.0.0.1/32")]);
    let viewer = server.client("viewer").await;
    let anybody = Client::new(&server.url, "");
    let over = Arc::new(AtomicBool::new(false));
    let live = tokio::spawn(slowest(anybody.clone(), "/health/live", Arc::clone(&over)));
    let list = tokio::spawn(slowest(viewer, "/api/tasks", Arc::clone(&over)));

    // Each from an address of its own, for a user that does not exist: no limit of tries holds them back.
    let mut flood = JoinSet::new();
    for n in 0..2 * places() {
        let from = format!("10.0.{}.{}", n / 250, n % 250 + 1);
        let email = format!("nobody{n}@example.com");
        flood.spawn(sign_in(anybody.clone(), email, "wrong horse battery", from));
    }
    let (mut compared, mut refused, mut longest) = (0, 0, Duration::ZERO);
    while let Some(answer) = flood.join_next().await {
        let (answer, took) = answer.expect("no panic");
        longest = longest.max(took);
        if answer.status.as_u16() == 401 {
            compared += 1;
            continue;
        }
        assert_eq!(answer.refused(503), "UNAVAILABLE");
        assert!(answer.headers.contains_key("retry-after"));
        let message = answer.body["error"]["message"].as_str().expect("a message");
        assert!(message.contains("too many sign-ins"), "{message}");
        refused += 1;
    }
    over.store(true, Ordering::Relaxed);
    let (live, list) = (live.await.expect("no panic"), list.await.expect("no panic"));
    println!(
        "{compared} compared, {refused} refused, the longest after {longest:?}; meanwhile \
         /health/live took {live:?} and a list {list:?} at most"
    );
    assert!(compared > 0 && refused > 0, "{compared} compared, {refused} refused");
    assert!(longest < Duration::from_secs(7), "{longest:?}");
    assert!(live < Duration::from_secs(1), "{live:?}");
    assert!(list < Duration::from_secs(1), "{list:?}");

    // Nothing of the flood remains.
    let from = "192.0.2.1".to_owned();
    let (answer, took) = sign_in(anybody, ADMIN.to_owned(), PASSWORD, from).await;
    answer.expect_ok();
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// The limit of an address is below the places, so one address leaves some to the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_sign_ins_from_one_address_locks_nobody_out() {
    let server = Server::with(&[("SERVER__TRUSTED_PROXIES", "127.0.0.1/32")]);
    let anybody = Client::new(&server.url, "");
    let mut flood = JoinSet::new();
    for n in 0..2 * places() {
        // Half of them guess at the account, the rest only take time.
        let email = if n % 2 == 0 { ADMIN.to_owned() } else { format!("nobody{n}@example.com") };
        let from = "203.0.113.1".to_owned();
        flood.spawn(sign_in(anybody.clone(), email, "wrong horse battery", from));
    }
    for n in 0..3 {
        let (home, begun) = (format!("192.0.2.{n}"), Instant::now());
        loop {
            let (email, home) = (ADMIN.to_owned(), home.clone());
            let (answer, took) = sign_in(anybody.clone(), email, PASSWORD, home).await;
            if answer.status == 200 {
                break;
            }
            // An address that is new to the account waits as long as it is told, a second or two.
            assert_eq!(answer.refused(429), "RATE_LIMIT_EXCEEDED");
            assert!(took < Duration::from_secs(6), "{took:?}");
            let wait = answer.headers["retry-after"].to_str().ok().and_then(|it| it.parse().ok());
            tokio::time::sleep(Duration::from_secs(wait.expect("a Retry-After"))).await;
        }
        println!("the admin signed in after {:?}", begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
    let (mut failed, mut refused) = (0, 0);
    while let Some(answer) = flood.join_next().await {
        let (answer, took) = answer.expect("no panic");
        assert!(took < Duration::from_secs(12), "{took:?}");
        match answer.status.as_u16() {
            401 => failed += 1,
            429 => refused += 1,
            _ => assert_eq!(answer.refused(503), "UNAVAILABLE"),
        }
    }
    println!("{failed} compared, {refused} beyond the limit of tries");
    assert!(failed <= 20 && refused > 0, "{failed} compared, {refused} refused");
}
