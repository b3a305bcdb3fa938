//! The secret is rotated: both secrets sign until the overlap ends, also over a restart.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::{ALLOWED, Arrived, Fixture, Receiver, Server, Value, json};

const ROTATE: &str = "/api/webhooks/secret/rotate";

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut code = Hmac::<Sha256>::new_from_slice(key).expect("any length");
    code.update(text.as_bytes());
    code.finalize().into_bytes().to_vec()
}

/// The header's signature by this secret.
pub(crate) fn signed(arrived: &Arrived, secret: &str) -> String {
    let key = STANDARD.decode(&secret["whsec_".len()..]).expect("base64");
    let (id, at) = (arrived.header("webhook-id"), arrived.header("webhook-timestamp"));
    let text = format!("{id}.{at}.{}", arrived.body);
    format!("v1,{}", STANDARD.encode(hmac(&key, &text)))
}

/// The member `signature` by this secret.
fn member(arrived: &Arrived, secret: &str) -> String {
    let body = arrived.body.to_string();
    let text = format!("{}}}", &body[..body.len() - 87]);
    let bytes = hmac(secret.as_bytes(), &text);
    bytes.iter().fold("sha256=".to_owned(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a string takes every write");
        hex
    })
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn both_secrets_sign_until_the_overlap_ends_also_after_a_restart() {
    let mut fixture = Fixture::with(&[]).await;
    let mut admin = fixture.server.admin().await;
    let receiver = Receiver::start().await;
    let first = text(&admin.get("/api/webhooks/secret").await.expect_ok()["secret"]);
    fixture.submit("one", &receiver.url("hook")).await;
    let arrived = receiver.after(1).await.remove(0);
    assert_eq!(arrived.header("webhook-signature"), signed(&arrived, &first));

    assert_eq!(fixture.operator.post(ROTATE, &json!({})).await.refused(403), "FORBIDDEN");
    let fault = admin.post(ROTATE, &json!({"overlap": "soon"})).await.fault();
    assert_eq!(fault.0, "overlap");
    let rotated = admin.post(ROTATE, &json!({"overlap": "1h"})).await.expect_ok();
    let second = text(&rotated["secret"]);
    assert_eq!(text(&rotated["previous"]["secret"]), first);
    assert!(rotated["previous"]["validUntil"].is_string() && first != second, "{rotated}");
    for round in 0..2 {
        if round == 1 {
            fixture.server.kill();
            fixture.server.restart();
            fixture.operator = fixture.operator.at(&fixture.server.url);
            admin = fixture.server.admin().await;
            fixture.work().await;
        }
        fixture.submit("two", &receiver.url("hook")).await;
        let arrived = receiver.after(2 + round).await.remove(1 + round);
        let both = [signed(&arrived, &second), signed(&arrived, &first)];
        assert_eq!(arrived.header("webhook-signature"), both.join(" "));
        assert_eq!(text(&arrived.body["signature"]), member(&arrived, &first));
    }

    let rotated = admin.post(ROTATE, &json!({"overlap": "0s"})).await.expect_ok();
    let third = text(&rotated["secret"]);
    assert!(rotated.get("previous").is_none(), "{rotated}");
    fixture.submit("three", &receiver.url("hook")).await;
    let arrived = receiver.after(4).await.remove(3);
    assert_eq!(arrived.header("webhook-signature"), signed(&arrived, &third));
    assert_eq!(text(&arrived.body["signature"]), member(&arrived, &third));
    let audit = admin.get("/api/audit?action=webhook.secret_rotated").await.expect_ok();
    assert_eq!(audit.as_array().map(Vec::len), Some(2), "{audit}");
    for secret in [first, second, third] {
        assert!(!audit.to_string().contains(&secret));
    }
}

#[tokio::test]
async fn a_secret_of_the_settings_is_rotated_there() {
    let given = ("WEBHOOKS__SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let server = Server::with(&[ALLOWED, given]);
    let admin = server.admin().await;
    let refused = admin.post(ROTATE, &json!({})).await;
    assert_eq!(refused.refused(409), "INVALID_STATE");
    assert!(refused.body["error"]["message"].as_str().is_some_and(|it| it.contains("restart")));
}
