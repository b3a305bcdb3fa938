//! Tokens of ours, and every hostile one that there is a name for.

use hmac::Hmac;
use proptest::prelude::*;
use serde_json::json;
use sha2::{Sha256, Sha384, Sha512};

use super::key::SigningKey;
use super::*;

const SECRET: &str = "a signing key of thirty-two bytes";
const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_700);
const SECONDS: u64 = 1_800_000_000;
const USER: UserId = UserId::from_u128(7 << 10);
const SESSION: SessionId = SessionId::from_u128(9 << 10);

fn key(text: &str) -> SigningKey {
    SigningKey::configured(text).expect("long enough")
}

fn tokens() -> AccessTokens {
    AccessTokens::new(key(SECRET).into(), DEFAULT_LIFETIME).expect("an allowed lifetime")
}

fn encoded(json: &Value) -> String {
    URL_SAFE_NO_PAD.encode(json.to_string())
}

/// A token with our signature and any claims.
fn signed(header: &Value, claims: &Value) -> String {
    signed_as(header, claims, SECRET)
}

fn signed_as(header: &Value, claims: &Value, secret: &str) -> String {
    with_mac::<Hmac<Sha256>>(&format!("{}.{}", encoded(header), encoded(claims)), secret)
}

fn with_mac<M: hmac::Mac + hmac::KeyInit>(message: &str, secret: &str) -> String {
    let mac = <M as hmac::KeyInit>::new_from_slice(secret.as_bytes()).expect("a key of any length");
    let signature = mac.chain_update(message).finalize().into_bytes();
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn header() -> Value {
    json!({"typ": "JWT", "alg": "HS256"})
}

fn claims() -> Value {
    json!({
        "iss": "callboard",
        "aud": "callboard-api",
        "sub": USER.to_string(),
        "exp": SECONDS + 60,
        "jti": "one",
        "typ": "access",
        "sid": SESSION.to_string(),
    })
}

/// The claims with one of them changed, or taken away by null.
fn but(name: &str, value: Value) -> Value {
    let mut claims = claims();
    let members = claims.as_object_mut().expect("an object");
    if value.is_null() {
        members.shift_remove(name);
    } else {
        members.insert(name.to_owned(), value);
    }
    claims
}

fn is_invalid(token: &str) -> bool {
    matches!(tokens().verify(token, NOW), Err(Error::InvalidToken(_)))
}

#[test]
fn an_issued_token_is_read_back_until_it_expires() {
    let issued = tokens().issue(USER, SESSION, "one", NOW);
    let day = Duration::from_hours(24);
    assert_eq!(issued.expires_at, Timestamp::from_millis(SECONDS * 1000).after(day));
    let access = Access {
        user: USER,
        session: SESSION,
        id: "one".to_owned(),
        expires_at: issued.expires_at,
    };
    assert_eq!(tokens().verify(&issued.token, NOW), Ok(access.clone()));
    let last = Timestamp::from_millis(issued.expires_at.as_millis() - 1);
    assert_eq!(tokens().verify(&issued.token, last), Ok(access));
    let expired = tokens().verify(&issued.token, issued.expires_at);
    assert_eq!(expired, Err(Error::TokenExpired("access token")));
}

#[test]
fn a_token_says_what_the_protocol_lists() {
    let issued = tokens().issue(USER, SESSION, "one", NOW);
    let parts: Vec<&str> = issued.token.split('.').collect();
    let header: Value = part(parts[0]).expect("JSON");
    assert_eq!(header, json!({"typ": "JWT", "alg": "HS256", "kid": key(SECRET).id().to_string()}));
    let claims: Value = part(parts[1]).expect("JSON");
    let expected = json!({
        "iss": "callboard", "aud": "callboard-api", "sub": USER.to_string(),
        "exp": SECONDS + 86_400, "iat": SECONDS, "jti": "one", "typ": "access", "sid": SESSION.to_string(),
    });
    assert_eq!(claims, expected);
}

#[test]
fn key_hints_are_not_looked_at_whatever_they_hold() {
    for (name, value) in [
        ("jku", json!("https://keys.example/jwks.json")),
        ("jwk", json!({"kty": "oct", "k": "AAAA"})),
        ("jwk", json!("nonsense")),
        ("x5u", json!("https://keys.example/cert.pem")),
        ("x5c", json!("nonsense")),
        ("x5t", json!([])),
        ("b64", json!(false)),
        ("zip", json!("DEF")),
    ] {
        let mut header = header();
        header[name] = value;
        let access = tokens().verify(&signed(&header, &claims()), NOW);
        assert_eq!(access.map(|access| access.user), Ok(USER), "{header}");
    }
}

#[test]
fn kid_selects_among_our_own_keys_alone() {
    let other = "another key of thirty-two bytes!";
    let until = NOW.after(Duration::from_secs(30));
    let mut keys = Keyring::from(key(SECRET));
    keys.previous = vec![(key(other), Some(until))];
    let tokens = AccessTokens::new(keys, DEFAULT_LIFETIME).expect("an allowed lifetime");
    let verified = |kid: Value, secret: &str, now| {
        let mut header = header();
        header["kid"] = kid;
        let token = signed_as(&header, &claims(), secret);
        tokens.verify(&token, now).map(|access| access.expires_at)
    };
    let id = |secret: &str| json!(key(secret).id().to_string());
    let exp = Timestamp::from_millis((SECONDS + 60) * 1000);
    assert_eq!(verified(id(SECRET), SECRET, NOW), Ok(exp));
    assert_eq!(verified(id(other), other, NOW), Ok(until), "the token ends with its key");
    assert!(verified(id(other), other, until).is_err());
    assert!(verified(id(other), SECRET, NOW).is_err());
    assert!(verified(id(SECRET), other, NOW).is_err());
    let unknown = [json!("../../dev/null"), json!(""), json!(5), json!(null), json!(["a"])];
    for kid in unknown.into_iter().chain([json!("0123456789abcdef"), json!(SECRET)]) {
        assert!(verified(kid.clone(), SECRET, NOW).is_err(), "{kid}");
    }
    tokens.adopt(key(other).into());
    assert!(verified(id(SECRET), SECRET, NOW).is_err());
    assert_eq!(verified(id(other), other, NOW), Ok(exp));
}

#[test]
fn a_key_in_the_header_signs_nothing() {
    let other = "another key of thirty-two bytes!";
    let mut header = header();
    header["jwk"] = json!({"kty": "oct", "k": URL_SAFE_NO_PAD.encode(other)});
    assert!(is_invalid(&signed_as(&header, &claims(), other)));
}

#[test]
fn another_algorithm_is_refused_even_with_our_signature() {
    for algorithm in ["none", "None", "", "hs256", "HS384", "HS512", "RS256", "ES256", "EdDSA"] {
        let header = json!({"typ": "JWT", "alg": algorithm});
        assert!(is_invalid(&signed(&header, &claims())), "{algorithm}");
    }
    for header in
        [json!({"typ": "JWT"}), json!({"alg": ["HS256"]}), json!({"alg": null}), json!([])]
    {
        assert!(is_invalid(&signed(&header, &claims())), "{header}");
    }
}

#[test]
fn a_token_without_a_signature_is_refused() {
    for header in [header(), json!({"alg": "none"})] {
        let message = format!("{}.{}", encoded(&header), encoded(&claims()));
        assert!(is_invalid(&message));
        assert!(is_invalid(&format!("{message}.")));
    }
}

#[test]
fn our_key_with_another_hash_is_refused() {
    for header in [header(), json!({"alg": "HS384"}), json!({"alg": "HS512"})] {
        let message = format!("{}.{}", encoded(&header), encoded(&claims()));
        assert!(is_invalid(&with_mac::<Hmac<Sha384>>(&message, SECRET)));
        assert!(is_invalid(&with_mac::<Hmac<Sha512>>(&message, SECRET)));
    }
}

#[test]
fn crit_is_refused_whatever_it_lists() {
    for crit in [json!(["exp"]), json!([]), json!(null), json!("exp")] {
        let mut header = header();
        header["crit"] = crit;
        assert!(is_invalid(&signed(&header, &claims())), "{header}");
    }
}

#[test]
fn claims_that_are_wrong_missing_or_of_another_type_are_refused() {
    assert!(tokens().verify(&signed(&header(), &claims()), NOW).is_ok());
    for (name, value) in [
        ("iss", json!("someone")),
        ("iss", json!(["callboard"])),
        ("iss", json!(null)),
        ("aud", json!("someone")),
        ("aud", json!(["someone", "callboard-api"])),
        ("aud", json!(null)),
        ("sub", json!("key_00000000000000000000000000")),
        ("sub", json!("admin")),
        ("sub", json!(7)),
        ("sub", json!(null)),
        ("sid", json!("family")),
        ("sid", json!(USER.to_string())),
        ("sid", json!(null)),
        ("jti", json!(null)),
        ("typ", json!("refresh")),
        ("typ", json!(null)),
        ("exp", json!(null)),
        ("exp", json!((SECONDS + 60).to_string())),
        ("exp", json!(1.8e9 + 60.5)),
        ("exp", json!(-1)),
        ("exp", json!(true)),
        ("nbf", json!(SECONDS + 6)),
        ("nbf", json!(u64::MAX)),
        ("nbf", json!((SECONDS - 60).to_string())),
    ] {
        let claims = but(name, value);
        assert!(is_invalid(&signed(&header(), &claims)), "{claims}");
    }
}

#[test]
fn nbf_is_honoured_within_five_seconds() {
    for nbf in [0, SECONDS, SECONDS + 5] {
        let token = signed(&header(), &but("nbf", json!(nbf)));
        assert!(tokens().verify(&token, NOW).is_ok(), "{nbf}");
    }
}

#[test]
fn an_expired_token_is_told_apart_only_when_all_else_is_right() {
    let expired = but("exp", json!(SECONDS));
    let answer = tokens().verify(&signed(&header(), &expired), NOW);
    assert_eq!(answer, Err(Error::TokenExpired("access token")));
    let zero = signed(&header(), &but("exp", json!(0)));
    assert_eq!(tokens().verify(&zero, NOW), Err(Error::TokenExpired("access token")));
    let other = "another key of thirty-two bytes!";
    assert!(is_invalid(&signed_as(&header(), &expired, other)));
    let mut foreign = expired;
    foreign["aud"] = json!("someone");
    assert!(is_invalid(&signed(&header(), &foreign)));
}

#[test]
fn a_claim_given_twice_is_refused() {
    let twice = claims().to_string().replacen('{', "{\"exp\":9999999999,", 1);
    let message = format!("{}.{}", encoded(&header()), URL_SAFE_NO_PAD.encode(twice));
    assert!(is_invalid(&with_mac::<Hmac<Sha256>>(&message, SECRET)));
}

#[test]
fn another_payload_under_the_same_signature_is_refused() {
    let token = signed(&header(), &claims());
    let parts: Vec<&str> = token.split('.').collect();
    let other = but("sub", json!(UserId::from_u128(8 << 10).to_string()));
    assert!(is_invalid(&format!("{}.{}.{}", parts[0], encoded(&other), parts[2])));
}

#[test]
fn texts_of_another_shape_are_refused() {
    let token = signed(&header(), &claims());
    for text in [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        "a.b.c".to_owned(),
        format!("{token}."),
        format!(".{token}"),
        format!("{token}.{token}"),
        format!("{token}="),
        format!("{token} "),
        format!("Bearer {token}"),
        token.replace('.', ":"),
        "x".repeat(1 << 20),
    ] {
        assert!(is_invalid(&text), "{text:.80}");
    }
}

#[test]
fn a_lifetime_is_at_most_seven_days() {
    let with = |lifetime| AccessTokens::new(key(SECRET).into(), lifetime).is_some();
    assert!(with(MAX_LIFETIME));
    assert!(!with(MAX_LIFETIME + Duration::from_secs(1)));
    assert!(!with(Duration::ZERO));
    assert!(!with(Duration::from_millis(999)));
}

proptest! {
    #[test]
    fn a_token_with_any_character_changed_is_refused(place in any::<prop::sample::Index>(), other in "[A-Za-z0-9_.=-]") {
        let token = tokens().issue(USER, SESSION, "one", NOW).token;
        let place = place.index(token.len());
        let changed = format!("{}{other}{}", &token[..place], &token[place + 1..]);
        prop_assert_eq!(tokens().verify(&changed, NOW).is_ok(), changed == token);
    }

    #[test]
    fn no_text_makes_the_verifier_panic(text in "\\PC{0,80}", parts in "[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,40}") {
        prop_assert!(is_invalid(&text));
        prop_assert!(is_invalid(&parts));
    }
}
