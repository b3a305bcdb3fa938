//! A sign-in by OIDC between two requests: the browser's cookie, and the code that the browser hands on.
//!
//! ```text
//!   start ─▶ Attempt, in a cookie ─▶ provider ─▶ callback: the state is the cookie's ─▶ Codes ─▶ token
//! ```
//!
//! A code counts only with its [`Proof`]: the cookie of its attempt, so that nobody is signed in by the code of
//! somebody else, or the verifier of the program that began. State, nonce and PKCE verifier are derived from the
//! cookie with a key of this process, so a sign-in that is never finished costs the server nothing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callboard_domain::digest::Digest;
use callboard_domain::id::{SessionId, UserId};
use callboard_domain::{Error, Timestamp};
use hmac::Mac as _;

use super::signature::{HmacSha256, hmac_sha256};

/// The time that a user has at the provider.
pub const ATTEMPT_LIFETIME: Duration = Duration::from_mins(10);
/// The time that a code waits for its exchange.
const CODE_LIFETIME: Duration = Duration::from_mins(1);
/// The most codes that wait.
const MAX_CODES: usize = 10_000;
/// The most codes of one user that wait.
const MAX_CODES_OF_USER: usize = 20;

/// The key by which this process recognises its attempts.
pub struct Attempts(HmacSha256);

/// A sign-in that was begun: the text of its cookie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt(String);

/// The parameters that an attempt sends to the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derived {
    /// The value that the provider returns beside the code.
    pub state: String,
    /// The value that the ID token must contain.
    pub nonce: String,
    /// The PKCE verifier.
    pub verifier: String,
}

/// The receiver of the code.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Waiting {
    /// The port of a program on 127.0.0.1; `None` is the page at /.
    pub port: Option<u16>,
    /// The SHA-256 of the verifier that is needed for the exchange.
    pub challenge: Option<String>,
}

impl Default for Attempts {
    fn default() -> Self {
        Self(hmac_sha256(&rand::random::<[u8; 32]>()))
    }
}

impl Attempts {
    /// Begins a sign-in.
    #[must_use]
    pub fn begin(&self, waiting: &Waiting, now: Timestamp) -> Attempt {
        let id = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>());
        let end = now.after(ATTEMPT_LIFETIME).as_millis();
        let port = waiting.port.map(|port| port.to_string()).unwrap_or_default();
        let challenge = waiting.challenge.as_deref().unwrap_or_default();
        Attempt(format!("{id}.{end}.{port}.{challenge}"))
    }

    /// The parameters that an attempt sends to the provider.
    #[must_use]
    pub fn derive(&self, attempt: &Attempt) -> Derived {
        let of = |purpose: &str| self.mac(purpose, &attempt.0);
        Derived { state: of("state"), nonce: of("nonce"), verifier: of("verifier") }
    }

    /// The attempt of a cookie with the state that came back, and the receiver of its end.
    ///
    /// # Errors
    /// [`Error::InvalidToken`] unless the sign-in began here, in this browser, in time.
    pub fn finish(
        &self,
        cookie: Option<&str>,
        state: Option<&str>,
        now: Timestamp,
    ) -> Result<(Attempt, Waiting), Error> {
        let refused = || {
            let message = "the sign-in did not begin in this browser, or more than 10 minutes ago: begin again";
            Error::InvalidToken(message.to_owned())
        };
        let attempt = Attempt(cookie.ok_or_else(refused)?.to_owned());
        let expected = Digest::of(&self.derive(&attempt).state);
        // Digests are compared, so the time says nothing about the state.
        if Digest::of(state.ok_or_else(refused)?) != expected {
            return Err(refused());
        }
        let (end, waiting) = attempt.parts().ok_or_else(refused)?;
        if end <= now {
            return Err(refused());
        }
        Ok((attempt, waiting))
    }

    fn mac(&self, purpose: &str, text: &str) -> String {
        let mac = self.0.clone().chain_update(format!("{purpose}:{text}"));
        URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
    }
}

impl Attempt {
    /// The text of the cookie.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The end of the attempt, and the receiver of its code.
    fn parts(&self) -> Option<(Timestamp, Waiting)> {
        let parts: Vec<_> = self.0.split('.').collect();
        let [_, end, port, challenge] = parts[..] else { return None };
        let challenge = (!challenge.is_empty()).then(|| challenge.to_owned());
        let waiting = Waiting { port: port.parse().ok(), challenge };
        Some((Timestamp::from_millis(end.parse().ok()?), waiting))
    }
}

/// The receiver of the code of an attempt, from a cookie that a [`Proof`] has shown to be the attempt's.
#[must_use]
pub fn receiver(cookie: &str) -> Option<Waiting> {
    Attempt(cookie.to_owned()).parts().map(|(_, waiting)| waiting)
}

/// The PKCE challenge of a verifier (RFC 7636, S256).
#[must_use]
pub fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Digest::of(verifier).as_bytes())
}

/// Codes that wait for their exchange, each for one user.
#[derive(Debug)]
pub struct Codes {
    waiting: Mutex<HashMap<Digest, Code>>,
    lifetime: Duration,
}

/// The user whom a code signs in, and the session that made it, which must still be there.
pub type Bearer = (UserId, Option<SessionId>);

#[derive(Debug)]
struct Code {
    bearer: Bearer,
    proof: Proof,
    expires_at: Timestamp,
}

/// The proof that must come with a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// None: the code is enough.
    Nothing,
    /// The verifier of this challenge.
    Verifier(String),
    /// The cookie of the attempt with this digest.
    Cookie(Digest),
}

/// The proofs that a request brings beside a code.
#[derive(Debug, Clone, Copy, Default)]
pub struct Brought<'a> {
    /// A verifier.
    pub verifier: Option<&'a str>,
    /// The cookie of an attempt.
    pub cookie: Option<&'a str>,
}

impl Proof {
    /// The proof of the browser in which an attempt began.
    #[must_use]
    pub fn of(attempt: &Attempt) -> Self {
        Self::Cookie(Digest::of(attempt.as_str()))
    }

    fn is_in(&self, brought: Brought<'_>) -> bool {
        match (self, brought.verifier) {
            (Self::Nothing, None) => true,
            (Self::Verifier(expected), Some(verifier)) => challenge(verifier) == *expected,
            (Self::Cookie(expected), None) => {
                brought.cookie.is_some_and(|cookie| Digest::of(cookie) == *expected)
            }
            (Self::Nothing | Self::Cookie(_), Some(_)) | (Self::Verifier(_), None) => false,
        }
    }
}

impl Default for Codes {
    fn default() -> Self {
        Self::lasting(CODE_LIFETIME)
    }
}

impl Codes {
    /// Codes that each count for `lifetime`.
    #[must_use]
    pub fn lasting(lifetime: Duration) -> Self {
        Self { waiting: Mutex::default(), lifetime }
    }

    /// A code for this user, in place of the user's oldest one if there are many.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if too many wait.
    pub fn issue(&self, bearer: Bearer, proof: Proof, now: Timestamp) -> Result<String, Error> {
        let code = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>());
        let mut codes = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|_, code| now < code.expires_at);
        let own = || codes.iter().filter(|(_, code)| code.bearer.0 == bearer.0);
        if own().count() >= MAX_CODES_OF_USER
            && let Some(oldest) = own().min_by_key(|(_, code)| code.expires_at).map(|(key, _)| *key)
        {
            codes.remove(&oldest);
        }
        if codes.len() >= MAX_CODES {
            return Err(Error::Unavailable(
                "too many sign-ins at once: try again in a few seconds",
            ));
        }
        let expires_at = now.after(self.lifetime);
        codes.insert(Digest::of(&code), Code { bearer, proof, expires_at });
        Ok(code)
    }

    /// Drops the codes of a user, whose sessions were ended, but for those that end with their session.
    pub fn forget(&self, user: UserId) {
        let mut codes = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|_, code| code.bearer != (user, None));
    }

    /// Takes a code: it counts once.
    ///
    /// # Errors
    /// [`Error::InvalidToken`] if there is none, or its proof is missing.
    pub fn take(&self, code: &str, brought: Brought<'_>, now: Timestamp) -> Result<Bearer, Error> {
        let mut codes = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let found = codes.remove(&Digest::of(code)).filter(|code| now < code.expires_at);
        drop(codes);
        found.filter(|code| code.proof.is_in(brought)).map(|code| code.bearer).ok_or_else(unknown)
    }

    /// The bearer and the end of a code, which stays.
    ///
    /// # Errors
    /// [`Error::InvalidToken`] if there is none, or its proof is missing.
    pub fn look(
        &self,
        code: &str,
        brought: Brought<'_>,
        now: Timestamp,
    ) -> Result<(Bearer, Timestamp), Error> {
        let codes = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let found = codes.get(&Digest::of(code)).filter(|code| now < code.expires_at);
        let found = found.filter(|code| code.proof.is_in(brought));
        found.map(|code| (code.bearer, code.expires_at)).ok_or_else(unknown)
    }
}

fn unknown() -> Error {
    let message = "the sign-in code is not known, was used, its time is over, or another browser began the sign-in";
    Error::InvalidToken(message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
    const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

    fn waiting() -> Waiting {
        Waiting { port: Some(4711), challenge: Some(challenge(VERIFIER)) }
    }

    #[test]
    fn a_challenge_is_that_of_rfc_7636() {
        assert_eq!(challenge(VERIFIER), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn an_attempt_ends_with_its_own_state_in_its_own_browser_and_in_time() {
        let attempts = Attempts::default();
        let attempt = attempts.begin(&waiting(), NOW);
        let Derived { state, nonce, verifier } = attempts.derive(&attempt);
        assert_eq!((state.len(), nonce.len(), verifier.len()), (43, 43, 43));
        assert!(state != nonce && nonce != verifier && verifier != state);
        let finish = |cookie: &str, state: &str, now| {
            attempts.finish(Some(cookie), Some(state), now).map(|(_, waiting)| waiting)
        };
        assert_eq!(finish(attempt.as_str(), &state, NOW), Ok(waiting()));
        let other = attempts.begin(&Waiting::default(), NOW);
        let of_other = attempts.derive(&other).state;
        assert_eq!(finish(other.as_str(), &of_other, NOW), Ok(Waiting::default()));
        let moved = attempt.as_str().replace(".4711.", ".4712.");
        for (cookie, state) in [
            (attempt.as_str(), &*of_other),
            (other.as_str(), &state),
            (&moved, &state),
            (attempt.as_str(), ""),
            (attempt.as_str(), &nonce),
            ("", &state),
        ] {
            assert!(finish(cookie, state, NOW).is_err(), "{cookie} {state}");
        }
        assert!(attempts.finish(None, Some(&state), NOW).is_err());
        assert!(attempts.finish(Some(attempt.as_str()), None, NOW).is_err());
        assert!(finish(attempt.as_str(), &state, NOW.after(ATTEMPT_LIFETIME)).is_err());
        // Another process knows nothing of it.
        let elsewhere = Attempts::default();
        assert!(elsewhere.finish(Some(attempt.as_str()), Some(&state), NOW).is_err());
    }

    const NOTHING: Brought<'static> = Brought { verifier: None, cookie: None };

    #[test]
    fn a_code_counts_once_for_a_minute_with_its_verifier() {
        let (codes, user) = (Codes::default(), (UserId::from_u128(7 << 10), None));
        let issue = || {
            let proof = Proof::Verifier(challenge(VERIFIER));
            codes.issue(user, proof, NOW).expect("few wait")
        };
        let right = Brought { verifier: Some(VERIFIER), ..NOTHING };
        let code = issue();
        assert_eq!(codes.take(&code, right, NOW), Ok(user));
        assert!(codes.take(&code, right, NOW).is_err(), "it was used");
        for verifier in [None, Some("x")] {
            assert!(codes.take(&issue(), Brought { verifier, ..NOTHING }, NOW).is_err());
        }
        assert!(codes.take(&issue(), right, NOW.after(CODE_LIFETIME)).is_err());
        assert!(codes.take("nonsense", NOTHING, NOW).is_err());
        let open = codes.issue(user, Proof::Nothing, NOW).expect("few wait");
        assert_eq!(codes.take(&open, NOTHING, NOW), Ok(user));
        let late = NOW.after(CODE_LIFETIME);
        codes.issue(user, Proof::Nothing, late).expect("few wait");
        assert_eq!(codes.waiting.lock().expect("not poisoned").len(), 1, "the old ones are gone");
    }

    #[test]
    fn a_code_of_a_browser_counts_in_that_browser_alone() {
        let (codes, user) = (Codes::default(), (UserId::from_u128(7 << 10), None));
        let attempts = Attempts::default();
        let (own, other) = (attempts.begin(&waiting(), NOW), attempts.begin(&waiting(), NOW));
        let issue = || codes.issue(user, Proof::of(&own), NOW).expect("few wait");
        let with = |cookie| Brought { verifier: None, cookie };
        for cookie in [None, Some(""), Some(other.as_str())] {
            assert!(codes.take(&issue(), with(cookie), NOW).is_err(), "{cookie:?}");
        }
        let both = Brought { verifier: Some(VERIFIER), cookie: Some(own.as_str()) };
        assert!(codes.take(&issue(), both, NOW).is_err(), "it has no verifier");
        assert_eq!(codes.take(&issue(), with(Some(own.as_str())), NOW), Ok(user));
        assert_eq!(receiver(own.as_str()), Some(waiting()));
    }

    #[test]
    fn a_look_at_a_code_uses_nothing_up() {
        let (codes, user) = (Codes::default(), (UserId::from_u128(7 << 10), None));
        let code = codes.issue(user, Proof::Nothing, NOW).expect("few wait");
        for _ in 0..2 {
            assert_eq!(codes.look(&code, NOTHING, NOW), Ok((user, NOW.after(CODE_LIFETIME))));
        }
        assert_eq!(codes.take(&code, NOTHING, NOW), Ok(user));
        assert!(codes.look(&code, NOTHING, NOW).is_err(), "it was used");
        let of_browser = Proof::Cookie(Digest::of("x"));
        let code = codes.issue(user, of_browser, NOW).expect("few wait");
        assert!(codes.look(&code, NOTHING, NOW).is_err());
        assert!(codes.look(&code, NOTHING, NOW.after(CODE_LIFETIME)).is_err());
    }

    #[test]
    fn the_codes_of_one_user_can_be_dropped() {
        let codes = Codes::default();
        let user = |n: u128| (UserId::from_u128(n << 10), None);
        let issue = |n| codes.issue(user(n), Proof::Nothing, NOW).expect("few wait");
        let (first, second, other) = (issue(1), issue(1), issue(2));
        codes.forget(user(1).0);
        for dropped in [first, second] {
            assert!(codes.take(&dropped, NOTHING, NOW).is_err());
        }
        assert_eq!(codes.take(&other, NOTHING, NOW), Ok(user(2)));
        let of_session = (user(1).0, Some(SessionId::from_u128(3 << 10)));
        let code = codes.issue(of_session, Proof::Nothing, NOW).expect("few wait");
        codes.forget(user(1).0);
        assert_eq!(codes.take(&code, NOTHING, NOW), Ok(of_session));
    }

    #[test]
    fn a_user_with_many_codes_takes_no_room_from_others() {
        let codes = Codes::default();
        let user = |n: u128| (UserId::from_u128(n << 10), None);
        let issue = |n, later| {
            codes.issue(user(n), Proof::Nothing, NOW.after(later)).expect("there is room")
        };
        let first = issue(1, Duration::ZERO);
        let others = issue(2, Duration::ZERO);
        let mut last = String::new();
        for n in 1..=20 {
            last = issue(1, Duration::from_millis(n));
        }
        assert!(codes.take(&first, NOTHING, NOW).is_err(), "the oldest one is gone");
        assert_eq!(codes.take(&last, NOTHING, NOW), Ok(user(1)));
        assert_eq!(codes.take(&others, NOTHING, NOW), Ok(user(2)));
    }
}
