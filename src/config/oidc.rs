//! `[oidc]`, read: only with an issuer is there single sign-on.

use callboard_domain::access::Role;
use callboard_domain::account::external::Policy;
use url::Url;

use super::error::{Error, Place};
use super::read::secret;
use super::rule::Raw;
use super::source::Source;
use super::{Secret, rule};

const SECTION: &str = "oidc";

/// `[oidc]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oidc {
    /// The provider, exactly as it calls itself.
    pub issuer: String,
    /// This server's name at the provider.
    pub client_id: String,
    /// The proof of that name; a public client has none.
    pub client_secret: Option<Secret>,
    /// The scopes to ask for.
    pub scopes: Vec<String>,
    /// The rule of admission.
    pub policy: Policy,
}

impl Oidc {
    pub(super) fn read(source: &mut Source) -> Result<Option<Self>, Error> {
        const DEFAULT_ROLES: &[(&str, Option<Role>)] = &[
            ("none", None),
            ("admin", Some(Role::Admin)),
            ("operator", Some(Role::Operator)),
            ("reviewer", Some(Role::Reviewer)),
            ("viewer", Some(Role::Viewer)),
        ];
        let issuer = source.optional(SECTION, "issuer", issuer)?;
        let client_id = source.optional(SECTION, "client_id", rule::text)?;
        let secret = secret(source, SECTION, ("client_secret", "client_secret_file"))?;
        let scopes = source.get(SECTION, "scopes", rule::list(scope))?;
        let policy = Policy {
            role_claim: source.optional(SECTION, "role_claim", rule::text)?,
            role_map: source.get(SECTION, "role_map", rule::list(mapping))?,
            default_role: source.get(SECTION, "default_role", rule::one_of(DEFAULT_ROLES))?,
            allowed_domains: source.get(SECTION, "allowed_domains", rule::list(domain))?,
            trusts_email: source.get(SECTION, "trust_email", rule::flag)?,
        };
        let wrong = |name: &str, says: &str| {
            Err(Error { place: source.place(SECTION, name), says: says.to_owned() })
        };
        let Some(issuer) = issuer else {
            if let Some((place, _)) = secret {
                return Err(without_issuer(place, "client_secret"));
            }
            return match client_id {
                Some(_) => Err(without_issuer(source.place(SECTION, "client_id"), "client_id")),
                None => Ok(None),
            };
        };
        let Some(client_id) = client_id else {
            return wrong("issuer", "oidc.client_id must be set too");
        };
        if !scopes.iter().any(|scope| scope == "openid") {
            return wrong("scopes", "oidc.scopes must contain openid");
        }
        if !policy.role_map.is_empty() && policy.role_claim.is_none() {
            return wrong("role_map", "oidc.role_claim must be set too");
        }
        if policy.role_map.is_empty() && policy.default_role.is_none() {
            let says = "nobody could sign in: oidc.role_map or oidc.default_role must be set too";
            return wrong("issuer", says);
        }
        let client_secret = secret.map(|(_, secret)| Secret::new(secret));
        Ok(Some(Self { issuer, client_id, client_secret, scopes, policy }))
    }
}

fn without_issuer(place: Place, name: &str) -> Error {
    Error { place, says: format!("oidc.{name} must not be set without oidc.issuer") }
}

/// True if a request to the URL cannot be read on its way: TLS, or this machine.
pub(crate) fn is_private(url: &Url) -> bool {
    let is_loopback = match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && is_loopback)
}

/// The issuer, unchanged: a URL parser would add a slash, and another issuer is another provider.
fn issuer(raw: &Raw) -> Result<String, String> {
    let right = "an address such as https://id.example.com; plain http only on this machine";
    let url = rule::url(raw).map_err(|_| right.to_owned())?;
    if is_private(&url) { rule::text(raw) } else { Err(right.to_owned()) }
}

fn scope(raw: &Raw) -> Result<String, String> {
    let right = || "a scope such as groups".to_owned();
    let text = rule::text(raw).map_err(|_| right())?;
    if text.bytes().all(|byte| byte.is_ascii_graphic()) { Ok(text) } else { Err(right()) }
}

fn domain(raw: &Raw) -> Result<String, String> {
    let right = || "a domain such as example.com".to_owned();
    let text = rule::text(raw).map_err(|_| right())?.trim().to_ascii_lowercase();
    let is_domain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    if is_domain { Ok(text) } else { Err(right()) }
}

/// A value and its role. The value may have an equals sign, the role has none.
fn mapping(raw: &Raw) -> Result<(String, Role), String> {
    let right = || {
        "a value and a role, \"value=admin\", \"value=operator\", \"value=reviewer\" or \"value=viewer\"".to_owned()
    };
    let text = rule::text(raw).map_err(|_| right())?;
    let (value, role) = text.rsplit_once('=').ok_or_else(right)?;
    match Role::parse(role.trim()) {
        Some(role) if !matches!(role, Role::Worker | Role::Backup) && !value.trim().is_empty() => {
            Ok((value.trim().to_owned(), role))
        }
        Some(_) | None => Err(right()),
    }
}
