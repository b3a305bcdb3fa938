//! Webhooks: the check of their signatures.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::Error;

/// The bytes of a block of SHA-256.
const BLOCK: usize = 64;
/// The usual greatest age of a webhook.
pub const TOLERANCE: Duration = Duration::from_mins(5);

/// A webhook whose signature was checked.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Webhook {
    /// The event, such as `task.completed`.
    pub event: String,
    /// The `webhook-id`, the same for each attempt: keep those that you handled, since a webhook may come twice.
    pub delivery: String,
    /// The whole body: docs/webhooks.md names its members.
    pub body: Value,
}

/// Checks the signature of a webhook (docs/webhooks.md) and reads it. `header` gives the value of a header by its
/// name in lower case; `body` is the body as it arrived, byte for byte; `tolerance` is the greatest age, which stops
/// replays ([`TOLERANCE`]).
///
/// ```
/// use callboard_client::webhook;
///
/// let refused = webhook::verify("whsec_c2VjcmV0", b"{}", |_| None, webhook::TOLERANCE);
/// assert!(refused.is_err());
/// ```
///
/// # Errors
/// [`Error::InvalidSignature`].
pub fn verify<'a>(
    secret: &str,
    body: &[u8],
    header: impl Fn(&str) -> Option<&'a str>,
    tolerance: Duration,
) -> Result<Webhook, Error> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    verified(secret, body, header, tolerance, since)
}

fn verified<'a>(
    secret: &str,
    body: &[u8],
    header: impl Fn(&str) -> Option<&'a str>,
    tolerance: Duration,
    now: Duration,
) -> Result<Webhook, Error> {
    let refused = |why| Error::InvalidSignature(why);
    let needed = |name| header(name).ok_or_else(|| refused("a header of the webhook is missing"));
    let (id, at, signatures) =
        (needed("webhook-id")?, needed("webhook-timestamp")?, needed("webhook-signature")?);
    let sent: u64 = at.parse().map_err(|_| refused("the webhook's time is no number"))?;
    if now.as_secs().abs_diff(sent) > tolerance.as_secs() {
        return Err(refused("the webhook is too old, or from the future"));
    }
    let key = STANDARD.decode(secret.trim().trim_start_matches("whsec_"));
    let key = key.map_err(|_| refused("the secret is none: it begins with whsec_"))?;
    let expected = hmac(&key, &[id.as_bytes(), b".", at.as_bytes(), b".", body]);
    let given =
        signatures.split(' ').filter_map(|it| STANDARD.decode(it.strip_prefix("v1,")?).ok());
    // Each is compared, and each to its end: the time says nothing about the signature.
    let fits = given.fold(false, |fits, given| fits | same(&given, &expected));
    if !fits {
        return Err(refused("no signature of the webhook is that of the secret"));
    }
    let body: Value =
        serde_json::from_slice(body).map_err(|_| refused("the webhook's body is no JSON"))?;
    let event = body["event"].as_str().unwrap_or_default().to_owned();
    Ok(Webhook { event, delivery: id.to_owned(), body })
}

fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// HMAC with SHA-256 (RFC 2104).
fn hmac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut block = [0_u8; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let padded = |pad: u8| block.map(|byte| byte ^ pad);
    let mut inner = Sha256::new();
    inner.update(padded(0x36));
    for part in parts {
        inner.update(part);
    }
    let mut outer = Sha256::new();
    outer.update(padded(0x5c));
    outer.update(inner.finalize());
    outer.finalize().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification of Standard Webhooks.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;

    fn check(signature: &'static str, body: &[u8], now: u64) -> Result<Webhook, Error> {
        let header = |name: &str| match name {
            "webhook-id" => Some("msg_p5jXN8AQM9LWM0D4loKWxJek"),
            "webhook-timestamp" => Some("1614265330"),
            "webhook-signature" => Some(signature),
            _ => None,
        };
        verified(SECRET, body, header, TOLERANCE, Duration::from_secs(now))
    }

    #[test]
    fn the_example_of_the_specification_is_taken_and_a_change_of_it_is_not() {
        let good = "v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        let taken = check(good, BODY, 1_614_265_331).unwrap();
        assert_eq!(taken.delivery, "msg_p5jXN8AQM9LWM0D4loKWxJek");
        assert!(check(good, b"{}", 1_614_265_331).is_err());
        assert!(check("v1,AAAA", BODY, 1_614_265_331).is_err());
        assert!(check(good, BODY, 1_614_265_331 + 301).is_err());
    }
}
