//! Tokens that nobody was given: forged, stale, broken. Each is refused, by header and by query.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use callboard_domain::id::{SessionId, UserId};
use callboard_domain::session::signing::SigningKeyId;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Sha256, Sha384, Sha512};

use super::*;

const KEY: &str = "a signing key of more than 32 bytes";
const OTHER: &str = "another signing key of over 32 bytes";
const INVALID: &str = "INVALID_TOKEN";

type Hs256 = Hmac<Sha256>;

/// A fault, a token that has it, and the code of its refusal.
type Forged = (&'static str, String, &'static str);

/// Makes tokens like the server's, with one thing wrong.
struct Forger {
    header: Value,
    claims: Value,
    real: String,
}

impl Forger {
    fn new(token: &str) -> Self {
        let part = |number: usize| -> Value {
            let part = token.split('.').nth(number).expect("three parts");
            let json = URL_SAFE_NO_PAD.decode(part).expect("base64");
            serde_json::from_slice(&json).expect("JSON")
        };
        Self { header: part(0), claims: part(1), real: token.to_owned() }
    }

    fn header(&self, name: &str, value: Value) -> String {
        let mut header = self.header.clone();
        header[name] = value;
        sign::<Hs256>(&header.to_string(), &self.claims.to_string(), KEY)
    }

    fn claim(&self, name: &str, value: Value) -> String {
        let mut claims = self.claims.clone();
        if value.is_null() {
            claims.as_object_mut().expect("an object").shift_remove(name);
        } else {
            claims[name] = value;
        }
        sign::<Hs256>(&self.header.to_string(), &claims.to_string(), KEY)
    }

    fn signed<M: Mac + KeyInit>(&self, key: &str) -> String {
        sign::<M>(&self.header.to_string(), &self.claims.to_string(), key)
    }

    fn part(&self, number: usize) -> &str {
        self.real.split('.').nth(number).expect("three parts")
    }
}

fn sign<M: Mac + KeyInit>(header: &str, claims: &str, key: &str) -> String {
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let mac = <M as KeyInit>::new_from_slice(key.as_bytes()).expect("a key of any length");
    let signature = mac.chain_update(&message).finalize().into_bytes();
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// Tokens with a false header or signature.
fn false_headers(forger: &Forger) -> Vec<Forged> {
    let named = |algorithm: &str| forger.header("alg", json!(algorithm));
    let payload = forger.part(1);
    let double_alg = r#"{"alg":"none","alg":"HS256"}"#;
    let mut with_jwk = forger.header.clone();
    with_jwk["jwk"] = json!({"kty": "oct", "k": URL_SAFE_NO_PAD.encode(OTHER)});
    let other_kid = json!(SigningKeyId::of(OTHER).to_string());
    let mut of_other = forger.header.clone();
    of_other["kid"] = other_kid.clone();
    let plain = forger.claims.to_string();
    vec![
        (
            "alg none, no signature",
            format!("{}.{payload}.", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#)),
            INVALID,
        ),
        ("alg none, our signature", named("none"), INVALID),
        ("alg NONE", named("NONE"), INVALID),
        ("alg in lower case", named("hs256"), INVALID),
        ("alg HS384 in name", named("HS384"), INVALID),
        ("alg HS512 in name", named("HS512"), INVALID),
        ("alg HS384 in deed", forger.signed::<Hmac<Sha384>>(KEY), INVALID),
        ("alg HS512 in deed", forger.signed::<Hmac<Sha512>>(KEY), INVALID),
        ("alg RS256 with our key as the public one", named("RS256"), INVALID),
        ("alg ES256", named("ES256"), INVALID),
        ("alg EdDSA", named("EdDSA"), INVALID),
        ("alg as a list", forger.header("alg", json!(["HS256"])), INVALID),
        ("alg as null", forger.header("alg", json!(null)), INVALID),
        ("alg twice", sign::<Hs256>(double_alg, &plain, KEY), INVALID),
        ("another key", forger.signed::<Hmac<Sha256>>(OTHER), INVALID),
        (
            "another key with its own kid",
            sign::<Hs256>(&of_other.to_string(), &plain, OTHER),
            INVALID,
        ),
        ("an empty key", forger.signed::<Hs256>(""), INVALID),
        ("a key in the header", sign::<Hs256>(&with_jwk.to_string(), &plain, OTHER), INVALID),
        ("an unknown kid", forger.header("kid", other_kid), INVALID),
        ("a kid that is a path", forger.header("kid", json!("../../../../dev/null")), INVALID),
        ("a kid that is a query", forger.header("kid", json!("x' UNION SELECT 'k")), INVALID),
        ("a kid that is a number", forger.header("kid", json!(0)), INVALID),
        (
            "a kid in upper case",
            forger.header("kid", json!(text(&forger.header, "kid").to_uppercase() + "A")),
            INVALID,
        ),
        ("an empty kid", forger.header("kid", json!("")), INVALID),
        ("crit", forger.header("crit", json!(["exp"])), INVALID),
        ("an empty crit", forger.header("crit", json!([])), INVALID),
    ]
}

/// Tokens with false claims, or of another shape.
fn false_claims(forger: &Forger, now: u64) -> Vec<Forged> {
    let real = &forger.real;
    let (header, payload, signature) = (forger.part(0), forger.part(1), forger.part(2));
    let other_user = json!(UserId::from_u128(7 << 10).to_string());
    let other_session = json!(SessionId::from_u128(7 << 10).to_string());
    let twice = forger.claims.to_string().replacen('{', "{\"exp\":9999999999,", 1);
    let plain = forger.claims.to_string();
    let standard = STANDARD.encode(forger.header.to_string());
    vec![
        ("another issuer", forger.claim("iss", json!("https://evil.example")), INVALID),
        ("no issuer", forger.claim("iss", Value::Null), INVALID),
        ("another audience", forger.claim("aud", json!("another-api")), INVALID),
        ("an audience among others", forger.claim("aud", json!(["callboard-api", "x"])), INVALID),
        ("no audience", forger.claim("aud", Value::Null), INVALID),
        ("typ refresh", forger.claim("typ", json!("refresh")), INVALID),
        ("no typ", forger.claim("typ", Value::Null), INVALID),
        ("no exp", forger.claim("exp", Value::Null), INVALID),
        ("exp as a text", forger.claim("exp", json!("9999999999")), INVALID),
        ("a negative exp", forger.claim("exp", json!(-1)), INVALID),
        ("a fractional exp", forger.claim("exp", json!(9_999_999_999.5)), INVALID),
        ("expired", forger.claim("exp", json!(now - 1)), "TOKEN_EXPIRED"),
        ("expired in 1970", forger.claim("exp", json!(0)), "TOKEN_EXPIRED"),
        ("not valid yet", forger.claim("nbf", json!(now + 600)), INVALID),
        ("not valid for ages", forger.claim("nbf", json!(u64::MAX)), INVALID),
        ("another user", forger.claim("sub", other_user), INVALID),
        ("no user", forger.claim("sub", Value::Null), INVALID),
        (
            "a key as the user",
            forger.claim("sub", json!("key_00000000000000000000000100")),
            INVALID,
        ),
        ("another session", forger.claim("sid", other_session), INVALID),
        ("no session", forger.claim("sid", Value::Null), INVALID),
        ("no jti", forger.claim("jti", Value::Null), INVALID),
        ("a claim twice", sign::<Hs256>(&forger.header.to_string(), &twice, KEY), INVALID),
        ("claims that are a list", sign::<Hs256>(&forger.header.to_string(), "[]", KEY), INVALID),
        ("claims that are no JSON", sign::<Hs256>(&forger.header.to_string(), "{", KEY), INVALID),
        (
            "a byte-order mark",
            sign::<Hs256>(&forger.header.to_string(), &format!("\u{feff}{plain}"), KEY),
            INVALID,
        ),
        (
            "another payload, same signature",
            format!(
                "{header}.{}.{signature}",
                URL_SAFE_NO_PAD.encode(plain.replace("viewer", "admin") + " ")
            ),
            INVALID,
        ),
        ("an empty signature", format!("{header}.{payload}."), INVALID),
        ("no signature", format!("{header}.{payload}"), INVALID),
        ("a cut signature", real[..real.len() - 1].to_owned(), INVALID),
        ("a padded signature", format!("{real}="), INVALID),
        ("a fourth part", format!("{real}.{signature}"), INVALID),
        ("a leading dot", format!(".{real}"), INVALID),
        ("the token twice", format!("{real}.{real}"), INVALID),
        ("dots alone", "..".to_owned(), INVALID),
        ("a header in standard base64", format!("{standard}.{payload}.{signature}"), INVALID),
        ("12 KiB of a payload", forger.claim("jti", json!("x".repeat(9_000))), INVALID),
        ("a word", "admin".to_owned(), INVALID),
    ]
}

/// Texts in the shape of keys and other credentials.
fn keys(live: &str, refresh: &str) -> Vec<(&'static str, String)> {
    let (body, checksum) = live["svc_live_".len()..].split_at(32);
    vec![
        ("a refresh token as an access token", refresh.to_owned()),
        ("a setup token", format!("svc_setup_{}", "A".repeat(43))),
        ("a key with a wrong checksum", format!("svc_live_{body}000000")),
        ("a key with another kind", format!("svc_worker_{body}{checksum}")),
        ("a live key as a test key", format!("svc_test_{body}{checksum}")),
        ("a key of an unknown kind", format!("svc_root_{body}{checksum}")),
        ("a prefix alone", "svc_live_".to_owned()),
        ("a key in upper case", live.to_uppercase()),
        ("a key with a blank in it", live.replacen("svc_live_", "svc_live_ ", 1)),
        ("a key and more", format!("{live}0")),
        ("a key cut short", live[..live.len() - 1].to_owned()),
        ("a prefix twice", format!("svc_live_{live}")),
        ("svc_ and nothing", "svc_".to_owned()),
    ]
}

#[tokio::test]
async fn sixty_forged_and_stale_tokens_are_refused() {
    let unlimited = ("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000");
    let server = Server::with(&[unlimited, ("AUTH__SIGNING_KEY", KEY)]);
    let admin = server.admin().await;
    let ada = user(&server, &admin, "viewer").await;
    let forger = Forger::new(text(&ada.session, "token"));
    // The forger's way of writing is not what is refused.
    for right in
        [forger.claim("jti", json!("x")), forger.header("jku", json!("https://evil.example"))]
    {
        Client::new(&server.url, &right).get("/api/tasks").await.expect_ok();
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut tokens = false_headers(&forger);
    tokens.extend(false_claims(&forger, now.expect("after 1970").as_secs()));
    assert!(tokens.len() >= 40, "{}", tokens.len());
    for (fault, token, code) in &tokens {
        let answer = Client::new(&server.url, token).get("/api/tasks").await;
        assert_eq!(answer.status, 401, "{fault}: {:#}", answer.body);
        assert_eq!(answer.body["error"]["code"], *code, "{fault}");
        assert_eq!(answer.headers["www-authenticate"], "Bearer", "{fault}");
    }
    let live = server.key("viewer").await;
    for (fault, token) in keys(&live, text(&ada.session, "refreshToken")) {
        let answer = Client::new(&server.url, &token).get("/api/tasks").await;
        assert_eq!(
            (answer.status.as_u16(), answer.refused(401)),
            (401, "INVALID_TOKEN"),
            "{fault}"
        );
    }
    // Where a key is taken, an access token is not; other schemes are none.
    let anybody = Client::new(&server.url, "");
    let by_query = |token: &str| format!("/api/tasks?api_key={token}");
    anybody.get(&by_query(&live)).await.expect_ok();
    for (_, token, _) in tokens.iter().filter(|(_, token, _)| token.len() < 2_000) {
        let token: String = url::form_urlencoded::byte_serialize(token.as_bytes()).collect();
        assert_eq!(anybody.get(&by_query(&token)).await.status, 401);
    }
    assert_eq!(anybody.get(&by_query(&forger.real)).await.refused(401), "INVALID_TOKEN");
    for header in
        ["", "Bearer", "Bearer ", "Basic YWRtaW46YWRtaW4=", "bearer\t", "Token x", "Bearer a b"]
    {
        let request = anybody.request(Method::GET, "/api/tasks").header("authorization", header);
        assert_eq!(anybody.send(request).await.status, 401, "{header:?}");
    }
    // The session that all of them were cut from goes on; ended, its own token is stale.
    Client::new(&server.url, &forger.real).get("/api/tasks").await.expect_ok();
    ada.client.post_raw("/api/auth/logout", "").await.expect_ok();
    let stale = Client::new(&server.url, &forger.real).get("/api/tasks").await;
    assert_eq!(stale.refused(401), "INVALID_TOKEN");
}
