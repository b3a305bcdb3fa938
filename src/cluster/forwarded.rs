//! The signed header of a forwarded request: the nodes that it passed and its caller's address, signed with the
//! cluster's key.
//!
//! ```text
//! callboard-forwarded: hops;certificate;address;milliseconds;signature of these, the method and the path
//! callboard-forwarded: hops;certificate;address;milliseconds;user;session;end of the session;signature
//! ```
//!
//! The node that answers authenticates the caller again, but for a person whose session home has verified.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method, Uri};
use callboard_common::secret::Secret;
use callboard_domain::Timestamp;
use hmac::Mac as _;

use crate::auth::signature::{HmacSha256, hmac_sha256, sign};
use crate::http::Vouched;
use crate::tls::Certificate;

/// The name of the header.
pub(super) const FORWARDED: HeaderName = HeaderName::from_static("callboard-forwarded");
/// The age up to which a header counts, and as much for a clock that is ahead.
const FRESH: Duration = Duration::from_mins(5);

/// A forwarded request's past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Forwarded {
    /// The number of nodes that have forwarded the request.
    pub(super) hops: u8,
    /// The address of the caller, as the first node saw it.
    pub(super) client: SocketAddr,
    /// The caller's certificate, as the first node saw it.
    pub(super) certificate: Certificate,
    /// The person whose session home has verified.
    pub(super) person: Option<Vouched>,
}

impl Forwarded {
    /// The header of a request that a cell makes itself.
    pub(super) fn of_cell() -> Self {
        let client = SocketAddr::from(([0, 0, 0, 0], 0));
        Self { hops: 0, client, certificate: Certificate::NotAsked, person: None }
    }

    /// True for a request that a cell has made, and true for none that a node has forwarded for a caller: that names
    /// the caller's address.
    pub(super) fn is_of_cell(&self) -> bool {
        self.hops > 0 && *self == Self { hops: self.hops, ..Self::of_cell() }
    }
}

/// The key that all nodes of a cluster share.
pub(crate) struct ClusterKey(HmacSha256);

impl std::fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClusterKey")
    }
}

impl ClusterKey {
    /// The key made of a secret.
    pub(crate) fn new(secret: &Secret) -> Self {
        Self(hmac_sha256(secret.expose().as_bytes()))
    }

    /// The header's text.
    pub(super) fn sign(
        &self,
        forwarded: Forwarded,
        (method, uri): (&Method, &Uri),
        now: Timestamp,
    ) -> HeaderValue {
        let Forwarded { hops, client, certificate, person } = forwarded;
        let mut says = format!("{hops};{};{client};{}", letter(certificate), now.as_millis());
        if let Some(Vouched { user, session, expires_at }) = person {
            let end = expires_at.map_or(0, Timestamp::as_millis);
            write!(says, ";{user};{session};{end}").expect("a string takes every write");
        }
        let signature = sign(&self.0, &signed(&says, method, uri));
        let mut text = format!("{says};");
        for byte in signature {
            write!(text, "{byte:02x}").expect("a string takes every write");
        }
        HeaderValue::try_from(text).expect("it is visible ASCII")
    }

    /// The header of a text, if a node of this cluster wrote it for this request a short while ago.
    pub(super) fn read(
        &self,
        text: &HeaderValue,
        (method, uri): (&Method, &Uri),
        now: Timestamp,
    ) -> Option<Forwarded> {
        let (says, hex) = text.to_str().ok()?.rsplit_once(';')?;
        let code = self.0.clone().chain_update(signed(says, method, uri));
        code.verify_slice(&bytes_of(hex)?).ok()?;
        let mut parts = says.split(';');
        let hops = parts.next()?.parse().ok()?;
        let named = parts.next()?;
        let certificate = CERTIFICATES.into_iter().find(|it| letter(*it) == named)?;
        let client = parts.next()?.parse().ok()?;
        let at = Timestamp::from_millis(parts.next()?.parse().ok()?);
        let person = match parts.next() {
            None => None,
            Some(user) => {
                let (user, session) = (user.parse().ok()?, parts.next()?.parse().ok()?);
                let end = Some(parts.next()?.parse().ok()?).filter(|end| *end != 0);
                Some(Vouched { user, session, expires_at: end.map(Timestamp::from_millis) })
            }
        };
        let fresh = now.since(at) <= FRESH && at.since(now) <= FRESH;
        fresh.then_some(Forwarded { hops, client, certificate, person })
    }
}

const CERTIFICATES: [Certificate; 3] =
    [Certificate::NotAsked, Certificate::Missing, Certificate::Verified];

const fn letter(certificate: Certificate) -> &'static str {
    match certificate {
        Certificate::NotAsked => "n",
        Certificate::Missing => "m",
        Certificate::Verified => "v",
    }
}

fn signed(says: &str, method: &Method, uri: &Uri) -> Vec<u8> {
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    format!("{says}\n{method}\n{target}").into_bytes()
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn key(secret: &str) -> ClusterKey {
        ClusterKey::new(&Secret::new(secret.to_owned()))
    }

    #[test]
    fn a_note_counts_for_its_request_its_cluster_and_its_time_only() {
        let client = "[2001:db8::7]:4711".parse().expect("an address");
        let user = "usr_01kahj9d2z4x0v5y8m3n7r6q4e".parse().expect("an identifier");
        let session = "ses_01kahj9d2z4x0v5y8m3n7r6q4e".parse().expect("an identifier");
        let person = Vouched { user, session, expires_at: Some(NOW) };
        for person in [None, Some(person), Some(Vouched { expires_at: None, ..person })] {
            counts_for_its_own(Forwarded {
                hops: 1,
                client,
                certificate: Certificate::Verified,
                person,
            });
        }
    }

    #[test]
    fn a_request_that_a_node_forwards_for_a_caller_is_none_of_a_cell() {
        let next = |forwarded: Forwarded| Forwarded { hops: forwarded.hops + 1, ..forwarded };
        assert!(next(Forwarded::of_cell()).is_of_cell());
        assert!(next(next(Forwarded::of_cell())).is_of_cell(), "a standby has passed it on");
        assert!(!Forwarded::of_cell().is_of_cell(), "no node has signed it");
        let client = "192.0.2.1:4711".parse().expect("an address");
        assert!(!next(Forwarded { client, ..Forwarded::of_cell() }).is_of_cell());
    }

    fn counts_for_its_own(forwarded: Forwarded) {
        let uri: Uri = "/api/tasks?limit=1".parse().expect("a target");
        let of = (&Method::GET, &uri);
        let text = key("a").sign(forwarded, of, NOW);
        assert_eq!(key("a").read(&text, of, NOW), Some(forwarded));
        assert_eq!(key("a").read(&text, of, NOW.after(FRESH)), Some(forwarded));

        let late = NOW.after(FRESH + Duration::from_millis(1));
        assert_eq!(key("a").read(&text, of, late), None);
        assert_eq!(key("b").read(&text, of, NOW), None);
        assert_eq!(key("a").read(&text, (&Method::POST, &uri), NOW), None);
        let other: Uri = "/api/tasks?limit=2".parse().expect("a target");
        assert_eq!(key("a").read(&text, (&Method::GET, &other), NOW), None);
        let changed = text.to_str().expect("ASCII").replace("::7", "::8");
        let changed = HeaderValue::try_from(changed).expect("ASCII");
        assert_eq!(key("a").read(&changed, of, NOW), None);
        for malformed in ["", "1", ";;;", "1;x;y;z", "1;n;127.0.0.1:1;1;é"] {
            let text = HeaderValue::from_bytes(malformed.as_bytes()).expect("bytes of a header");
            assert_eq!(key("a").read(&text, of, NOW), None, "{malformed}");
        }
    }
}
