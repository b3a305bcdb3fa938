//! An identity provider that a test scripts: wrong claims, wrong signatures, wrong answers.

#![expect(clippy::wildcard_enum_match_arm, reason = "each lie is told in one place")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use callboard::auth::sign_on::challenge;
use callboard::auth::signature::hmac_sha256;
use hmac::Mac as _;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use url::form_urlencoded;

/// What is wrong with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lie {
    None,
    Nonce,
    NoNonce,
    Issuer,
    Audience,
    ManyAudiences,
    AnotherParty,
    Expired,
    NoExpiry,
    NotYet,
    NoSubject,
    LongSubject,
    AnotherKey,
    AlgorithmNone,
    Hmac,
    Crit,
    UnknownKid,
    Garbage,
    RefusedCode,
    NoToken,
    Redirect,
    Endless,
    NoJson,
    BadClient,
    HalfAMinuteOld,
    MailInUserInfo,
    UserInfoOfAnother,
    UserInfoFails,
    UserInfoTellsNothing,
    GroupsInUserInfo,
    FlagInUserInfo,
    NoKid,
}

impl Lie {
    /// Answers that prove nothing.
    pub(super) const INVALID: [Self; 17] = [
        Self::Nonce,
        Self::NoNonce,
        Self::Issuer,
        Self::Audience,
        Self::ManyAudiences,
        Self::AnotherParty,
        Self::Expired,
        Self::NoExpiry,
        Self::NotYet,
        Self::NoSubject,
        Self::LongSubject,
        Self::AnotherKey,
        Self::AlgorithmNone,
        Self::Hmac,
        Self::Crit,
        Self::Garbage,
        Self::RefusedCode,
    ];

    /// Answers that no provider gives.
    pub(super) const BROKEN: [Self; 5] =
        [Self::NoToken, Self::Redirect, Self::Endless, Self::NoJson, Self::BadClient];
}

struct Code {
    nonce: String,
    challenge: String,
    lie: Lie,
}

struct Key {
    kid: String,
    pair: EcdsaKeyPair,
}

impl Key {
    fn new(kid: &str) -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).expect("a key");
        Self { kid: kid.to_owned(), pair }
    }

    fn public(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let [x, y] = [&point[1..33], &point[33..]].map(|half| URL_SAFE_NO_PAD.encode(half));
        json!({"kty": "EC", "crv": "P-256", "alg": "ES256", "kid": self.kid, "x": x, "y": y})
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims);
        let signature = self.pair.sign(&SystemRandom::new(), message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.expect("a signature")))
    }
}

fn message(header: &Value, claims: &Value) -> String {
    let [header, claims] = [header, claims].map(|json| URL_SAFE_NO_PAD.encode(json.to_string()));
    format!("{header}.{claims}")
}

struct Inner {
    issuer: String,
    codes: HashMap<String, Code>,
    key: Key,
}

#[derive(Clone)]
pub(super) struct Liar {
    pub(super) issuer: String,
    inner: Arc<Mutex<Inner>>,
    key_reads: Arc<AtomicUsize>,
}

impl Liar {
    pub(super) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let issuer = format!("http://{}", listener.local_addr().expect("an address"));
        let inner = Inner { issuer: issuer.clone(), codes: HashMap::new(), key: Key::new("one") };
        let key_reads = Arc::default();
        let liar = Self { issuer, inner: Arc::new(Mutex::new(inner)), key_reads };
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(metadata))
            .route("/keys", get(keys))
            .route("/token", post(token))
            .route("/userinfo", get(user_info))
            .with_state(liar.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        liar
    }

    /// A code for a sign-in with this nonce and PKCE challenge, at whose exchange the liar lies.
    pub(super) fn code(&self, nonce: &str, challenge: &str, lie: Lie) -> String {
        let code = format!("{:x}", rand::random::<u128>());
        let (nonce, challenge) = (nonce.to_owned(), challenge.to_owned());
        self.inner().codes.insert(code.clone(), Code { nonce, challenge, lie });
        code
    }

    /// Signs with another key from now on.
    pub(super) fn rotate(&self) {
        self.inner().key = Key::new("two");
    }

    /// How often the keys were read.
    pub(super) fn key_reads(&self) -> usize {
        self.key_reads.load(Ordering::SeqCst)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("not poisoned")
    }
}

/// An answer in JSON.
fn json_answer(value: &Value) -> Response {
    ([(CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

async fn metadata(State(liar): State<Liar>) -> Response {
    let issuer = &liar.issuer;
    json_answer(&json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/keys"),
        "userinfo_endpoint": format!("{issuer}/userinfo"),
        "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
    }))
}

async fn keys(State(liar): State<Liar>) -> Response {
    liar.key_reads.fetch_add(1, Ordering::SeqCst);
    let unknown = json!({"kty": "later", "kid": "three"});
    json_answer(&json!({"keys": [unknown, liar.inner().key.public()]}))
}

/// Claims of the user-info endpoint, whose access token is a lie of its own.
async fn user_info(headers: HeaderMap) -> Response {
    let (subject, email) = ("42", "ada@example.com");
    let claims = json!({
        "sub": subject, "email": email, "email_verified": true, "groups": ["staff"],
    });
    match headers["authorization"].to_str() {
        Ok("Bearer another") => {
            json_answer(&json!({"sub": "another", "email": email, "email_verified": true}))
        }
        Ok("Bearer fails") => {
            (StatusCode::INTERNAL_SERVER_ERROR, json_answer(&claims)).into_response()
        }
        Ok("Bearer nothing") => json_answer(&json!({})),
        Ok(_) | Err(_) => json_answer(&claims),
    }
}

async fn token(State(liar): State<Liar>, headers: HeaderMap, body: String) -> Response {
    let form: HashMap<String, String> =
        form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let refuse = |error: &str| {
        (StatusCode::BAD_REQUEST, json_answer(&json!({"error": error, "error_description": "x"})))
            .into_response()
    };
    // The client proves who it is, and that it began this sign-in.
    let secret =
        form_urlencoded::byte_serialize(b"a secret of the client: 100 %").collect::<String>();
    let basic = format!("Basic {}", STANDARD.encode(format!("callboard:{secret}")));
    if headers["authorization"] != *basic || form["grant_type"] != "authorization_code" {
        return refuse("invalid_client");
    }
    let Some(code) = liar.inner().codes.remove(&form["code"]) else {
        return refuse("invalid_grant");
    };
    if challenge(&form["code_verifier"]) != code.challenge {
        return refuse("invalid_grant");
    }
    match code.lie {
        Lie::RefusedCode => return refuse("invalid_grant"),
        Lie::BadClient => return refuse("invalid_client"),
        Lie::NoToken => return json_answer(&json!({"access_token": "a"})),
        Lie::Redirect => {
            let elsewhere = format!("{}/keys", liar.issuer);
            return (StatusCode::TEMPORARY_REDIRECT, [("location", elsewhere)]).into_response();
        }
        Lie::Endless => {
            return format!("{{\"id_token\":\"{}\"}}", "x".repeat(1 << 20)).into_response();
        }
        Lie::NoJson => return "id_token".into_response(),
        _ => {}
    }
    let access = match code.lie {
        Lie::UserInfoOfAnother => "another",
        Lie::UserInfoFails => "fails",
        Lie::UserInfoTellsNothing => "nothing",
        _ => "own",
    };
    let token = id_token(&liar.inner(), &code);
    json_answer(&json!({"access_token": access, "token_type": "Bearer", "id_token": token}))
}

fn id_token(liar: &Inner, Code { nonce, lie, .. }: &Code) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.expect("after 1970").as_secs();
    let mut claims = json!({
        "iss": liar.issuer, "aud": "callboard", "sub": "42", "exp": now + 300, "iat": now,
        "nonce": nonce, "email": "ada@example.com", "email_verified": true, "groups": ["staff"],
    });
    let mut header = json!({"typ": "JWT", "alg": "ES256", "kid": liar.key.kid});
    let wrong: &[(&str, Value)] = &match lie {
        Lie::Nonce => vec![("nonce", json!("another"))],
        Lie::NoNonce => vec![("nonce", json!(null))],
        Lie::Issuer => vec![("iss", json!("https://evil.example"))],
        Lie::Audience => vec![("aud", json!("another"))],
        Lie::ManyAudiences => vec![("aud", json!(["callboard", "another"]))],
        Lie::AnotherParty => vec![("azp", json!("another"))],
        Lie::Expired => vec![("exp", json!(now - 120))],
        Lie::HalfAMinuteOld => vec![("exp", json!(now - 30))],
        Lie::NoExpiry => vec![("exp", json!(null))],
        Lie::NotYet => vec![("nbf", json!(now + 120))],
        Lie::NoSubject => vec![("sub", json!(null))],
        Lie::LongSubject => vec![("sub", json!("x".repeat(256)))],
        Lie::MailInUserInfo
        | Lie::UserInfoOfAnother
        | Lie::UserInfoFails
        | Lie::UserInfoTellsNothing => {
            vec![("email", json!(null)), ("email_verified", json!(null))]
        }
        Lie::GroupsInUserInfo => vec![("groups", json!(null))],
        Lie::FlagInUserInfo => vec![("email_verified", json!(null))],
        _ => Vec::new(),
    };
    let members = claims.as_object_mut().expect("an object");
    for (name, value) in wrong {
        members.shift_remove(*name);
        if !value.is_null() {
            members.insert((*name).to_owned(), value.clone());
        }
    }
    match lie {
        Lie::AnotherKey => return Key::new("one").sign(&header, &claims),
        Lie::AlgorithmNone => return format!("{}.", message(&json!({"alg": "none"}), &claims)),
        Lie::Hmac => {
            header["alg"] = json!("HS256");
            let message = message(&header, &claims);
            let mac = hmac_sha256(liar.key.public().to_string().as_bytes()).chain_update(&message);
            return format!("{message}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()));
        }
        Lie::Crit => header["crit"] = json!(["exp"]),
        Lie::UnknownKid => header["kid"] = json!("unknown"),
        Lie::NoKid => {
            header.as_object_mut().expect("an object").shift_remove("kid");
        }
        Lie::Garbage => return "a.b.c".to_owned(),
        _ => {}
    }
    liar.key.sign(&header, &claims)
}
