//! Addresses that no webhook may be sent to: refused at creation where that is evident, and never connected
//! to. A name that changes its address is tested with a resolver of its own, in `outbound::guard`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::net::TcpListener;

use super::{FakeWorker, Fixture, Receiver, Server};

/// Hosts that evidently lead inside, each followed by a port in the test.
const INSIDE: [&str; 62] = [
    // Loopback, in many notations.
    "127.0.0.1",
    "127.0.0.2",
    "127.255.255.255",
    "127.1",
    "127.0.1",
    "0x7f.1",
    "0x7f000001",
    "0177.0.0.1",
    "0177.1",
    "017700000001",
    "2130706433",
    "127.0.0.1.",
    "%31%32%37.0.0.1",
    "１２７.0.0.1",
    "127。0。0。1",
    "①②⑦.0.0.1",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::127.0.0.1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::FFFF:0:127.0.0.1]",
    "localhost",
    "LocalHost",
    "localhost.",
    "a.localhost",
    "ⓛocalhost",
    // Unspecified.
    "0",
    "0.0.0.0",
    "0x0",
    "[::]",
    "[0::0]",
    // Private, shared and link local; the metadata of clouds.
    "10.0.0.1",
    "10.255.255.255",
    "012.0.0.1",
    "167772161",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.168.257",
    "100.64.0.1",
    "100.127.255.255",
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "metadata.google.internal",
    "printer.local",
    "[fe80::1]",
    "[fec0::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    // Reserved, multicast, and IPv4 inside of IPv6.
    "192.0.0.1",
    "198.18.0.1",
    "198.19.255.255",
    "224.0.0.1",
    "255.255.255.255",
    "[ff02::1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b:1::127.0.0.1]",
    "[2002:7f00:1::1]",
    "[2001:0:7f00:1::]",
    "[::ffff:169.254.169.254]",
];

/// Listeners that must not be connected to, and how often they were.
async fn traps() -> (u16, Arc<AtomicUsize>) {
    let sprung = Arc::new(AtomicUsize::new(0));
    let first = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = first.local_addr().expect("an address").port();
    let mut listeners = vec![first];
    // Not every machine has it.
    listeners.extend(TcpListener::bind(("::1", port)).await);
    for listener in listeners {
        let sprung = Arc::clone(&sprung);
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                sprung.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    (port, sprung)
}

#[tokio::test]
async fn no_task_is_made_that_would_call_an_address_inside() {
    let server = Server::start();
    let operator = server.client("operator").await;
    let (port, sprung) = traps().await;
    for host in INSIDE {
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://{host}:{port}/hook");
            let task = json!({"prompt": "p", "callbackUrl": url});
            let answer = operator.post("/api/tasks", &task).await;
            assert_eq!(answer.refused(400), "CALLBACK_URL_FORBIDDEN", "{url}");
            let batch = json!({"tasks": [{"prompt": "p"}, task]});
            let answer = operator.post("/api/tasks/batch", &batch).await;
            assert_eq!(answer.refused(400), "CALLBACK_URL_FORBIDDEN", "{url}");
        }
    }
    let inside = json!({"prompt": "p", "callbackUrl": format!("http://127.1:{port}/")});
    let schedule = json!({"name": "n", "cron": "0 0 * * *", "target": {"task": inside}});
    let answer = operator.post("/api/schedules", &schedule).await;
    assert_eq!(answer.refused(400), "CALLBACK_URL_FORBIDDEN");
    let listed = operator.get("/api/tasks").await.expect_ok();
    assert_eq!(listed, json!([]), "no batch was made in part");
    for (url, rule) in [
        ("ftp://example.com/", "format"),
        ("http://user@example.com/", "format"),
        ("http://", "format"),
        (&*format!("http://example.com/{}", "x".repeat(2_048)), "length"),
    ] {
        let answer = operator.post("/api/tasks", &json!({"prompt": "p", "callbackUrl": url})).await;
        assert_eq!(answer.fault(), ("callbackUrl".to_owned(), rule.to_owned()), "{url}");
    }
    assert_eq!(sprung.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_address_that_was_an_exception_is_not_called_when_it_is_none_any_more() {
    let wide = [("WEBHOOKS__ALLOW", "127.0.0.0/8,::/96,::ffff:0:0/96,0.0.0.0/8")];
    let mut server = Server::with(&wide);
    let (operator, key) = (server.client("operator").await, server.key("worker").await);
    let (port, sprung) = traps().await;
    let hosts =
        ["127.0.0.1", "0x7f.1", "2130706433", "[::1]", "[::ffff:127.0.0.1]", "localhost", "0"];
    for host in hosts {
        let url = format!("http://{host}:{port}/hook");
        operator.submit(&json!({"prompt": "p", "callbackUrl": url})).await;
    }
    assert!(server.terminate());
    server.restart_with(&[("WEBHOOKS__RETRY_SECONDS", "")]);
    let operator = operator.at(&server.url);
    FakeWorker::connect(&server, &key, 8).await.run(|_| Ok("done".to_owned()));
    let fixture = Fixture { server, operator };
    super::until("all have failed", async || {
        fixture.deliveries("&status=dead").await.len() == hosts.len()
    })
    .await;
    for dead in fixture.deliveries("").await {
        let error = dead["lastError"].as_str().expect("a reason");
        assert!(error.contains("may not be called"), "{dead}");
        assert!(dead.get("lastStatus").is_none(), "{dead}");
    }
    assert_eq!(sprung.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_name_is_checked_by_its_addresses() {
    let fixture = Fixture::with(&[("WEBHOOKS__RETRY_SECONDS", "")]).await;
    // Nobody resolves it, and if somebody did, the address would be checked.
    let task = fixture.submit("p", "http://callboard.invalid/hook").await;
    let dead = fixture.delivery(&task, "dead").await;
    let error = dead["lastError"].as_str().expect("a reason");
    assert!(error.contains("callboard.invalid"), "{error}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let fixture = Fixture::with(&[("WEBHOOKS__RETRY_SECONDS", "")]).await;
    // One leads to another port of an address that is allowed, one to an address that is not.
    let (port, sprung) = traps().await;
    for status in [301, 302, 303, 307, 308] {
        for host in ["127.0.0.1", "[::1]"] {
            let location = Some(format!("http://{host}:{port}/"));
            let receiver = Receiver::starting(&[(status, "")], location).await;
            let task = fixture.submit("p", &receiver.url("hook")).await;
            let dead = fixture.delivery(&task, "dead").await;
            assert_eq!(dead["lastStatus"], status);
            assert_eq!(receiver.arrived().len(), 1);
        }
    }
    assert_eq!(sprung.load(Ordering::SeqCst), 0);
}
