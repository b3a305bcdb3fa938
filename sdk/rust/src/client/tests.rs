//! The client against a server that a test plays.

use std::sync::Mutex;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::AUTHORIZATION;
use axum::response::Response as Sent;

use super::*;

/// The requests that a server received: `GET /api/tasks`, and the bearer token.
type Requests = Arc<Mutex<Vec<(String, String)>>>;

/// A server; `answer` makes the status and the envelope for a request and its token. The number counts
/// the equal requests before.
async fn serve(
    answer: impl Fn(&str, &str, usize) -> (u16, Value) + Send + Sync + 'static,
) -> (Server, Requests) {
    let (requests, answer) = (Requests::default(), Arc::new(answer));
    let seen = Arc::clone(&requests);
    let router = Router::new().fallback(move |request: Request| {
        let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
        async move {
            let line = format!("{} {}", request.method(), request.uri());
            let token = request.headers().get(AUTHORIZATION).map(|value| value.to_str().unwrap());
            let token = token.unwrap_or_default().trim_start_matches("Bearer ").to_owned();
            let mut seen = seen.lock().unwrap();
            let before = seen.iter().filter(|(other, _)| *other == line).count();
            let (status, body) = answer(&line, &token, before);
            seen.push((line, token));
            let response = Sent::builder().status(status).header("retry-after", "0");
            response.body(Body::from(body.to_string())).unwrap()
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Server::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (server, requests)
}

fn success(data: &Value) -> (u16, Value) {
    (200, json!({"success": true, "data": data, "meta": {}}))
}

fn refusal(status: u16, code: &str) -> (u16, Value) {
    let error = json!({"code": code, "message": "no", "retryable": status == 503});
    (status, json!({"success": false, "error": error, "meta": {"requestId": "r1"}}))
}

fn key() -> Credential {
    Credential::Key(Secret::new("k".into()))
}

#[tokio::test]
async fn a_call_that_is_safe_to_repeat_is_repeated_and_reported() {
    let (server, requests) = serve(|_, _, before| match before {
        0 => refusal(503, "UNAVAILABLE"),
        _ => success(&json!({"id": "dt_task_1"})),
    })
    .await;
    let reported = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&reported);
    let client = Client::new(server, key()).unwrap().on_retry(move |retry| {
        hook.lock().unwrap().push((retry.status, retry.wait));
    });

    let task = client.data(Call::get(&["tasks", "dt_task_1"])).await.unwrap();
    assert_eq!(task["id"], "dt_task_1");
    assert_eq!(*reported.lock().unwrap(), [(503, Duration::ZERO)]);
    assert_eq!(requests.lock().unwrap().len(), 2);

    for call in [Call::post(&["tasks"]).json(&json!({})), Call::get(&["plans"]).at_once()] {
        let Err(Error::Api(error)) = client.send(&call).await else { panic!("it is refused") };
        let found = (error.status, error.code.as_str(), error.retryable);
        assert_eq!(found, (503, "UNAVAILABLE", true));
        assert_eq!(error.request_id.as_deref(), Some("r1"));
    }
    assert_eq!(requests.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn a_refused_token_is_renewed_once() {
    let (server, requests) = serve(|line, token, _| match (line, token) {
        ("POST /api/auth/refresh", "") => success(&json!({
            "user": {"email": "a@example.com", "role": "admin"},
            "token": "second", "refreshToken": "r2", "expiresAt": "2999-01-01T00:00:00.000Z",
        })),
        (_, "second") => success(&json!([])),
        _ => refusal(401, "TOKEN_EXPIRED"),
    })
    .await;
    let login = Login {
        email: "a@example.com".into(),
        role: "admin".into(),
        token: "first".into(),
        refresh_token: "r1".into(),
        expires_at: "2999-01-01T00:00:00.000Z".into(),
    };
    let session = Credential::Session(Box::new(Session::new(login)));
    let client = Client::new(server, session).unwrap();

    // Spawned: the future of a call can move between threads.
    let other = client.clone();
    let page = tokio::spawn(async move { other.page(Call::get(&["tasks"])).await });
    assert!(page.await.unwrap().unwrap().data.is_empty());
    let tokens: Vec<_> = requests.lock().unwrap().iter().map(|(_, token)| token.clone()).collect();
    assert_eq!(tokens, ["first", "", "second"]);
    assert_eq!(client.bearer().await.unwrap().unwrap().expose(), "second");
}

#[tokio::test]
async fn a_refused_refresh_token_ends_the_login() {
    let (server, _) = serve(|_, _, _| refusal(401, "INVALID_TOKEN")).await;
    let anonymous = Client::new(server.clone(), Credential::None).unwrap();
    let refused = anonymous.log_in("a@example.com", &Secret::new("wrong".into())).await;
    assert!(matches!(refused, Err(Error::NotSignedIn { .. })), "{refused:?}");

    let login: Login = serde_json::from_value(json!({
        "email": "a@example.com", "role": "admin", "token": "first", "refreshToken": "r1",
        "expiresAt": "2020-01-01T00:00:00.000Z",
    }))
    .unwrap();
    let session = Credential::Session(Box::new(Session::new(login)));
    let error = Client::new(server, session).unwrap().data(Call::get(&["tasks"])).await;
    assert!(matches!(error, Err(Error::LoginEnded { .. })), "{error:?}");
}

fn login(expires_at: &str) -> Credential {
    let login: Login = serde_json::from_value(json!({
        "email": "a@example.com", "role": "admin", "token": "first", "refreshToken": "r1",
        "expiresAt": expires_at,
    }))
    .unwrap();
    Credential::Session(Box::new(Session::new(login)))
}

const LATER: &str = "2999-01-01T00:00:00.000Z";

#[tokio::test]
async fn a_wrong_password_is_sent_once() {
    let (server, requests) = serve(|_, _, _| refusal(401, "INVALID_CREDENTIALS")).await;
    let client = Client::new(server, login(LATER)).unwrap();
    let call = Call::post(&["auth", "password"]).json(&json!({})).without_renewal();
    assert!(client.send(&call).await.is_err());
    assert_eq!(requests.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_token_that_counts_yet_is_used_while_it_cannot_be_renewed() {
    let (server, _) = serve(|line, token, _| match (line, token) {
        ("POST /api/auth/refresh", _) => refusal(503, "UNAVAILABLE"),
        (_, "first") => success(&json!([])),
        _ => refusal(401, "TOKEN_EXPIRED"),
    })
    .await;
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(20);
    let client = Client::new(server.clone(), login(&soon.to_string())).unwrap();
    assert!(client.data(Call::get(&["tasks"])).await.is_ok());
    let over = Client::new(server, login("2020-01-01T00:00:00.000Z")).unwrap();
    assert!(over.data(Call::get(&["tasks"])).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_goes_on_after_its_caller_has_left() {
    let (server, requests) = serve(|line, _, _| match line {
        "POST /api/auth/refresh" => {
            std::thread::sleep(Duration::from_millis(300));
            success(&json!({
                "user": {"email": "a@example.com", "role": "admin"},
                "token": "second", "refreshToken": "r2", "expiresAt": LATER,
            }))
        }
        _ => success(&json!([])),
    })
    .await;
    let client = Client::new(server, login("2020-01-01T00:00:00.000Z")).unwrap();
    let call = client.data(Call::get(&["tasks"]));
    assert!(tokio::time::timeout(Duration::from_millis(50), call).await.is_err(), "it leaves");
    assert_eq!(client.bearer().await.unwrap().unwrap().expose(), "second");
    let sent = requests.lock().unwrap().iter().filter(|(line, _)| line.contains("refresh")).count();
    assert_eq!(sent, 1, "a refresh token counts once");
}
