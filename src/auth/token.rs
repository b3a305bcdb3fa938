//! Access tokens: JWT, HS256 and nothing else (docs/reference/accounts.md).
//!
//! The crate's `encode` and `crypto::verify` do the cryptography. Its `decode` is not used for two
//! reasons: it reads the clock itself, while here time is an argument; and it refuses a token whose
//! key hints it cannot read, while this module ignores all of them but `kid`, which selects one of
//! our own keys.
//!
//! Deliberately absent: the user's existence and role, and the revocation of its session. All three
//! are read live; no claim speaks for them.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, crypto};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use callboard_domain::id::{SessionId, UserId};
use callboard_domain::session::signing::SigningKeyId;
use callboard_domain::{Error, Timestamp, session};

use self::key::Keyring;
use crate::auth::signature;

pub mod key;

const ISSUER: &str = "callboard";
const AUDIENCE: &str = "callboard-api";
const TYPE: &str = "access";
/// The claim `typ` of a token in a browser's cookie.
const COOKIE_TYPE: &str = "cookie";

/// The longest token that is read, in bytes; ours have about 350.
const MAX_LEN: usize = 8 * 1024;

/// The seconds by which `nbf` may lie ahead, for clocks that disagree. `exp` has no leeway: a token
/// ends when it says so.
const NOT_BEFORE_LEEWAY: u64 = 5;

/// The lifetime of an access token unless configured otherwise.
pub const DEFAULT_LIFETIME: Duration = Duration::from_hours(24);

/// The longest lifetime that may be configured.
pub const MAX_LIFETIME: Duration = session::MAX_ACCESS_LIFETIME;

/// Issues and verifies access tokens.
pub struct AccessTokens {
    ring: RwLock<LoadedKeys>,
    lifetime: Duration,
}

/// Keys, ready to use.
struct LoadedKeys {
    keys: Keyring,
    signs: EncodingKey,
    /// The key that signs comes first.
    verifies: Vec<VerificationKey>,
}

struct VerificationKey {
    id: SigningKeyId,
    key: DecodingKey,
    /// The instant from which the key does not count; `None` is never.
    until: Option<Timestamp>,
}

/// A token as it was issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issued {
    /// The JWT.
    pub token: String,
    /// The first instant at which the token is refused; a whole second.
    pub expires_at: Timestamp,
}

/// The claims of a valid token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The user to whom the token was issued.
    pub user: UserId,
    /// The session (the family of refresh tokens) of the token; revoking it revokes the token.
    pub session: SessionId,
    /// The token's own identifier, `jti`.
    pub id: String,
    /// The first instant at which the token is refused.
    pub expires_at: Timestamp,
}

#[skip_serializing_none]
#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    aud: String,
    sub: UserId,
    exp: u64,
    nbf: Option<u64>,
    iat: Option<u64>,
    jti: String,
    typ: String,
    sid: SessionId,
}

/// The members of a header that are read. A member that is given twice is refused.
#[derive(Deserialize)]
struct JoseHeader {
    alg: String,
    #[serde(default, deserialize_with = "present")]
    kid: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    crit: Option<Value>,
}

/// A member that is present, even as null.
fn present<'de, D: Deserializer<'de>>(member: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(member).map(Some)
}

impl AccessTokens {
    /// Tokens signed with these keys that live for `lifetime`, in whole seconds: `None` unless that
    /// lies between a second and [`MAX_LIFETIME`].
    #[must_use]
    pub fn new(keys: Keyring, lifetime: Duration) -> Option<Self> {
        signature::install();
        let is_allowed = (Duration::from_secs(1)..=MAX_LIFETIME).contains(&lifetime);
        is_allowed.then(|| Self { ring: RwLock::new(LoadedKeys::new(keys)), lifetime })
    }

    /// The keys.
    #[must_use]
    pub fn keys(&self) -> Keyring {
        self.ring().keys.clone()
    }

    /// Signs and verifies with these keys from now on.
    pub fn adopt(&self, keys: Keyring) {
        *self.ring.write().unwrap_or_else(PoisonError::into_inner) = LoadedKeys::new(keys);
    }

    fn ring(&self) -> RwLockReadGuard<'_, LoadedKeys> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Issues a token of this session at `now`. Each token needs an `id` of its own.
    #[must_use]
    pub fn issue(&self, user: UserId, session: SessionId, id: &str, now: Timestamp) -> Issued {
        self.sign(TYPE, user, session, id, now, self.lifetime)
    }

    /// Issues a token for a browser's cookie, which counts nowhere else.
    #[must_use]
    pub fn issue_cookie(
        &self,
        user: UserId,
        session: SessionId,
        id: &str,
        now: Timestamp,
        lifetime: Duration,
    ) -> Issued {
        self.sign(COOKIE_TYPE, user, session, id, now, lifetime)
    }

    fn sign(
        &self,
        purpose: &str,
        user: UserId,
        session: SessionId,
        id: &str,
        now: Timestamp,
        lifetime: Duration,
    ) -> Issued {
        let issued = now.as_millis() / 1000;
        let expires = issued + lifetime.as_secs();
        let claims = Claims {
            iss: ISSUER.to_owned(),
            aud: AUDIENCE.to_owned(),
            sub: user,
            exp: expires,
            nbf: None,
            iat: Some(issued),
            jti: id.to_owned(),
            typ: purpose.to_owned(),
            sid: session,
        };
        let ring = self.ring();
        let kid = Some(ring.keys.current.id().to_string());
        let header = Header { kid, ..Header::new(Algorithm::HS256) };
        let token = jsonwebtoken::encode(&header, &claims, &ring.signs);
        Issued {
            token: token.expect("claims are JSON and the key is one for HS256"),
            expires_at: instant(expires),
        }
    }

    /// Reads a token that was issued here and has not expired at `now`.
    ///
    /// # Errors
    /// [`Error::TokenExpired`] if it was valid once, else [`Error::InvalidToken`].
    pub fn verify(&self, token: &str, now: Timestamp) -> Result<Access, Error> {
        self.read(TYPE, token, now)
    }

    /// Reads the token of a cookie, as [`AccessTokens::verify`] does an access token.
    ///
    /// # Errors
    /// Those of [`AccessTokens::verify`].
    pub fn verify_cookie(&self, token: &str, now: Timestamp) -> Result<Access, Error> {
        self.read(COOKIE_TYPE, token, now)
    }

    fn read(&self, purpose: &str, token: &str, now: Timestamp) -> Result<Access, Error> {
        let (claims, end_of_key) = self.ring().signed_claims(token, now).ok_or_else(invalid)?;
        if claims.iss != ISSUER || claims.aud != AUDIENCE || claims.typ != purpose {
            return Err(invalid());
        }
        let seconds = now.as_millis() / 1000;
        if claims.nbf.is_some_and(|nbf| nbf > seconds + NOT_BEFORE_LEEWAY) {
            let message = "the access token is not valid yet";
            return Err(Error::InvalidToken(message.to_owned()));
        }
        if claims.exp <= seconds {
            return Err(Error::TokenExpired("access token"));
        }
        Ok(Access {
            user: claims.sub,
            session: claims.sid,
            id: claims.jti,
            expires_at: end_of_key.map_or(instant(claims.exp), |end| end.min(instant(claims.exp))),
        })
    }
}

impl LoadedKeys {
    fn new(keys: Keyring) -> Self {
        let all = keys.previous.iter().map(|(key, until)| (key, *until));
        let all = std::iter::once((&keys.current, None)).chain(all);
        let verifies = all.map(|(key, until)| VerificationKey {
            id: key.id(),
            key: DecodingKey::from_secret(key.as_bytes()),
            until,
        });
        let verifies = verifies.collect();
        Self { signs: EncodingKey::from_secret(keys.current.as_bytes()), verifies, keys }
    }

    /// The unchecked claims of a token that has our signature, and the end of the key that
    /// signed it.
    fn signed_claims(&self, token: &str, now: Timestamp) -> Option<(Claims, Option<Timestamp>)> {
        if token.len() > MAX_LEN {
            return None;
        }
        let (message, signature) = token.rsplit_once('.')?;
        let (header, payload) = message.split_once('.')?;
        let JoseHeader { alg, kid, crit } = part(header)?;
        // Each parameter in `crit` would have to be understood, and nothing beyond `alg` is.
        if alg != "HS256" || crit.is_some() {
            return None;
        }
        let by = self.named(kid.as_ref(), now)?;
        match crypto::verify(signature, message.as_bytes(), &by.key, Algorithm::HS256) {
            Ok(true) => part(payload).map(|claims| (claims, by.until)),
            Ok(false) | Err(_) => None,
        }
    }

    /// The key of this name if it counts at `now`; without a name, the key that signs.
    fn named(&self, kid: Option<&Value>, now: Timestamp) -> Option<&VerificationKey> {
        let mut all = self.verifies.iter();
        let Some(kid) = kid else { return all.next() };
        let id: SigningKeyId = kid.as_str()?.parse().ok()?;
        all.find(|by| by.id == id && by.until.is_none_or(|until| now < until))
    }
}

/// Reads one part of a token. A further dot is no base64, so there are three parts or none.
fn part<T: for<'de> Deserialize<'de>>(text: &str) -> Option<T> {
    let json = URL_SAFE_NO_PAD.decode(text).ok()?;
    serde_json::from_slice(&json).ok()
}

fn instant(seconds: u64) -> Timestamp {
    Timestamp::from_millis(seconds.saturating_mul(1000))
}

fn invalid() -> Error {
    Error::InvalidToken("the access token is not valid".to_owned())
}

#[cfg(test)]
mod tests;
