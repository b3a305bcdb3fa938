//! The client of an identity provider (OIDC Core 1.0, authorization code with PKCE).
//!
//! ```text
//!   discovery ─▶ where to send the browser      kept for an hour
//!   code ─▶ token endpoint ─▶ ID token ─▶ signature by the provider's keys ─▶ claims
//!                                            └ an unknown key: read the keys again, at most each 10 s
//! ```
//!
//! Every call is bounded in time and bytes, and no redirect is followed.

use std::time::{Duration, Instant};

use callboard_domain::Error;
use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use reqwest::header::{ACCEPT, CONTENT_TYPE, DATE};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use url::{Url, form_urlencoded};

use crate::config::{self, Oidc};

/// The time for one call and its answer.
const TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The largest answer, in bytes.
const MAX_ANSWER: usize = 512 * 1024;
/// The time that metadata and keys are kept.
const KEPT: Duration = Duration::from_hours(1);
/// The pause after a failure of the provider, and between two searches for an unknown key.
const PAUSE: Duration = Duration::from_secs(10);
/// The seconds by which the clocks may differ.
const SKEW: u64 = 60;
/// The longest subject, in bytes (OIDC Core 1.0, section 2).
const MAX_SUBJECT: usize = 255;

/// Algorithms of ID tokens that are accepted: public keys only.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

const DOWN: Error = Error::Unavailable("the identity provider does not answer as it should");

/// A client of one provider.
#[derive(Debug)]
pub struct Provider {
    http: Client,
    settings: Oidc,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    metadata: Option<(Instant, Metadata)>,
    keys: Option<(Instant, Vec<Jwk>)>,
    /// The last time that the keys were read again for an unknown one.
    searched: Option<Instant>,
    failed: Option<Instant>,
}

/// The part of the provider's metadata that is used (OIDC Discovery 1.0, section 3).
#[derive(Debug, Clone, Deserialize)]
struct Metadata {
    issuer: String,
    authorization_endpoint: Url,
    token_endpoint: Url,
    jwks_uri: Url,
    userinfo_endpoint: Option<Url>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// A sign-in that the provider has confirmed.
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    /// The user's identifier at the provider.
    pub subject: String,
    /// The claims of the ID token, and those of the user-info endpoint.
    pub claims: Map<String, Value>,
}

/// The authorization code that a browser or program brings back from the provider, with its request.
#[derive(Debug, Clone, Copy)]
pub struct AuthorizationGrant<'a> {
    /// The authorization code.
    pub code: &'a str,
    /// The PKCE verifier of the request.
    pub verifier: &'a str,
    /// The nonce of the request.
    pub nonce: &'a str,
    /// The redirect URI of the request.
    pub redirect_uri: &'a str,
}

/// A request for a sign-in.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The value that the provider returns with the code.
    pub state: &'a str,
    /// The value that the ID token must contain.
    pub nonce: &'a str,
    /// The SHA-256 of the PKCE verifier.
    pub challenge: &'a str,
    /// The address to which the provider sends the browser back.
    pub redirect_uri: &'a str,
}

impl Provider {
    /// A client; no request is sent yet.
    ///
    /// # Errors
    /// The system's certificates cannot be used.
    pub fn new(settings: Oidc) -> reqwest::Result<Self> {
        crate::auth::signature::install();
        let mut http = Client::builder()
            .user_agent(concat!("callboard/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .redirect(Policy::none());
        if settings.issuer.starts_with("http:") {
            // Plain HTTP is for this machine alone: without a proxy, and without certificates.
            http = http.no_proxy().tls_certs_only([]);
        }
        Ok(Self { http: http.build()?, settings, known: Mutex::default() })
    }

    /// The settings.
    #[must_use]
    pub const fn settings(&self) -> &Oidc {
        &self.settings
    }

    /// The provider's page on which a browser signs in.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn authorization_url(&self, request: Request<'_>) -> Result<Url, Error> {
        let metadata = self.metadata().await?;
        let mut url = metadata.authorization_endpoint;
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", request.redirect_uri)
            .append_pair("scope", &self.settings.scopes.join(" "))
            .append_pair("state", request.state)
            .append_pair("nonce", request.nonce)
            .append_pair("code_challenge", request.challenge)
            .append_pair("code_challenge_method", "S256");
        Ok(url)
    }

    /// Exchanges a code and verifies the ID token.
    ///
    /// # Errors
    /// [`Error::InvalidToken`] if the provider refuses the code or its ID token is not valid,
    /// [`Error::Unavailable`].
    pub async fn identify(&self, grant: AuthorizationGrant<'_>) -> Result<Identity, Error> {
        let metadata = self.metadata().await?;
        let answer = self.exchange(&metadata, grant).await?;
        let token = answer.get("id_token").and_then(Value::as_str).ok_or_else(|| {
            tracing::warn!("the identity provider sent no ID token: is openid among oidc.scopes?");
            DOWN
        })?;
        let mut claims = self.verify(&metadata, token, grant.nonce).await?;
        let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default().to_owned();
        if subject.is_empty() || subject.len() > MAX_SUBJECT {
            return Err(invalid("sub"));
        }
        let access = answer.get("access_token").and_then(Value::as_str);
        if let (true, Some(url), Some(access)) =
            (self.settings.policy.lacks(&claims), &metadata.userinfo_endpoint, access)
        {
            let request = self.http.get(url.clone()).bearer_auth(access);
            let (status, user_info) = self.call(request).await?;
            let about = user_info.get("sub").and_then(Value::as_str);
            // Without an answer it is not known who may sign in: that refuses nobody for good.
            let (true, Some(about)) = (status.is_success(), about) else {
                tracing::warn!(%status, "the identity provider's user-info endpoint gives an answer that is \
                                         not valid");
                return Err(DOWN);
            };
            // The answer counts only if it is about the same user (OIDC Core 1.0, 5.3.2).
            if about == subject {
                for (name, value) in user_info {
                    claims.entry(name).or_insert(value);
                }
            }
        }
        Ok(Identity { subject, claims })
    }

    async fn exchange(
        &self,
        metadata: &Metadata,
        grant: AuthorizationGrant<'_>,
    ) -> Result<Map<String, Value>, Error> {
        let Oidc { client_id, client_secret, .. } = &self.settings;
        let methods = metadata.token_endpoint_auth_methods_supported.as_ref();
        let is_basic = methods.is_none_or(|all| all.iter().any(|it| it == "client_secret_basic"));
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", grant.code),
            ("redirect_uri", grant.redirect_uri),
            ("code_verifier", grant.verifier),
        ];
        let mut request = self.http.post(metadata.token_endpoint.clone());
        match client_secret {
            // Id and secret are form-encoded before they are joined (RFC 6749, 2.3.1).
            Some(secret) if is_basic => {
                let encoded = |text: &str| -> String {
                    form_urlencoded::byte_serialize(text.as_bytes()).collect()
                };
                request = request.basic_auth(encoded(client_id), Some(encoded(secret.expose())));
            }
            Some(secret) => {
                form.extend([("client_id", &**client_id), ("client_secret", secret.expose())]);
            }
            None => form.push(("client_id", client_id)),
        }
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form);
        let (status, answer) = self.call(request).await?;
        if status.is_success() {
            return Ok(answer);
        }
        let error = answer.get("error").and_then(Value::as_str).unwrap_or_default();
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        match error {
            "invalid_client" | "unauthorized_client" => {
                tracing::error!(
                    error,
                    "the identity provider refuses oidc.client_id or its secret"
                );
                Err(DOWN)
            }
            error if (1..=64).contains(&error.len()) && error.bytes().all(is_name) => {
                let message = format!("the identity provider refused the code: {error}");
                Err(Error::InvalidToken(message))
            }
            _ => {
                tracing::warn!(%status, "the identity provider's token endpoint gives an answer that is not valid");
                Err(DOWN)
            }
        }
    }

    /// The claims of an ID token that is valid now (OIDC Core 1.0, 3.1.3.7).
    async fn verify(
        &self,
        metadata: &Metadata,
        token: &str,
        nonce: &str,
    ) -> Result<Map<String, Value>, Error> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| invalid("header"))?;
        if header.crit.is_some() || !ALGORITHMS.contains(&header.alg) {
            return Err(invalid("header"));
        }
        let key = self.key(metadata, header.kid.as_deref(), header.alg).await?;
        let mut rules = Validation::new(header.alg);
        rules.leeway = SKEW;
        rules.validate_nbf = true;
        rules.set_audience(&[&self.settings.client_id]);
        rules.set_issuer(&[&self.settings.issuer]);
        rules.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        let decoded = jsonwebtoken::decode::<Map<String, Value>>(token, &key, &rules);
        let claims = decoded.map_err(|error| {
            tracing::debug!(%error, "an ID token is refused");
            invalid("signature or claims")
        })?;
        let claims = claims.claims;
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        if text("nonce") != Some(nonce) {
            return Err(invalid("nonce"));
        }
        let is_for_many = matches!(claims.get("aud"), Some(Value::Array(all)) if all.len() > 1);
        let party = text("azp");
        let is_ours = party.is_none_or(|party| party == self.settings.client_id);
        if !is_ours || (is_for_many && party.is_none()) {
            return Err(invalid("azp"));
        }
        Ok(claims)
    }

    /// The provider's key of this name. An unknown key may be new, so the keys are read again.
    async fn key(
        &self,
        metadata: &Metadata,
        kid: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<DecodingKey, Error> {
        let mut known = self.known.lock().await;
        loop {
            if let Some((at, keys)) = &known.keys {
                let found = (at.elapsed() < KEPT).then(|| select(keys, kid, algorithm)).flatten();
                if let Some(key) = found {
                    return DecodingKey::from_jwk(key).map_err(|_| invalid("key"));
                }
                if at.elapsed() < KEPT {
                    // A caller that makes up names must not make the provider busy.
                    if known.searched.is_some_and(|at| at.elapsed() < PAUSE) {
                        return Err(invalid("key"));
                    }
                    known.searched = Some(Instant::now());
                }
            }
            let (status, answer) = self.call(self.http.get(metadata.jwks_uri.clone())).await?;
            let keys = answer.get("keys").and_then(Value::as_array).filter(|_| status.is_success());
            let keys = keys.ok_or_else(|| {
                tracing::warn!(url = %metadata.jwks_uri, "the identity provider sends no keys");
                DOWN
            })?;
            // The server cannot use a key of an unknown kind.
            let keys = keys.iter().filter_map(|key| Jwk::deserialize(key).ok()).collect();
            known.keys = Some((Instant::now(), keys));
        }
    }

    async fn metadata(&self) -> Result<Metadata, Error> {
        let mut known = self.known.lock().await;
        match &known.metadata {
            Some((at, metadata)) if at.elapsed() < KEPT => return Ok(metadata.clone()),
            Some(_) | None => {}
        }
        if known.failed.is_some_and(|at| at.elapsed() < PAUSE) {
            return Err(DOWN);
        }
        match self.discover().await {
            Ok(metadata) => {
                known.metadata = Some((Instant::now(), metadata.clone()));
                Ok(metadata)
            }
            Err(error) => {
                known.failed = Some(Instant::now());
                Err(error)
            }
        }
    }

    /// Asks for the metadata. Returns the time that the provider's answer names, in the form of HTTP.
    ///
    /// # Errors
    /// The obstacle on the way to the provider, or in its answer.
    pub async fn check(&self) -> Result<Option<String>, String> {
        let sent =
            self.http.get(self.well_known()).send().await.map_err(reqwest::Error::without_url);
        let answer = sent.map_err(|error| explain(&error))?;
        let date =
            answer.headers().get(DATE).and_then(|date| date.to_str().ok()).map(str::to_owned);
        let status = answer.status();
        match self.discover().await {
            Ok(_) => Ok(date),
            Err(_) => Err(format!(
                "its answer (status {}) is not metadata of this issuer",
                status.as_u16()
            )),
        }
    }

    fn well_known(&self) -> String {
        let issuer = self.settings.issuer.trim_end_matches('/');
        format!("{issuer}/.well-known/openid-configuration")
    }

    async fn discover(&self) -> Result<Metadata, Error> {
        let (issuer, url) = (&self.settings.issuer, self.well_known());
        let (status, answer) = self.call(self.http.get(&url)).await?;
        let strange = |why: &str| {
            tracing::warn!(url, %status, why, "the identity provider's metadata cannot be used");
            DOWN
        };
        let metadata = Metadata::deserialize(Value::Object(answer))
            .map_err(|error| strange(&error.to_string()))?;
        if metadata.issuer != *issuer {
            return Err(strange("its issuer is not oidc.issuer"));
        }
        let endpoints =
            [&metadata.authorization_endpoint, &metadata.token_endpoint, &metadata.jwks_uri];
        let all = endpoints.into_iter().chain(&metadata.userinfo_endpoint);
        if all.into_iter().any(|url| !config::is_private(url)) {
            return Err(strange("an endpoint is neither https nor on this machine"));
        }
        Ok(metadata)
    }

    /// Sends a request; the answer is a JSON object, or empty for any other content.
    async fn call(
        &self,
        request: RequestBuilder,
    ) -> Result<(StatusCode, Map<String, Value>), Error> {
        let failed = |error: &dyn std::fmt::Display| {
            tracing::warn!(%error, "the identity provider cannot be asked");
            DOWN
        };
        let request = request.header(ACCEPT, "application/json");
        let sent = request.send().await.map_err(reqwest::Error::without_url);
        let mut answer = sent.map_err(|error| failed(&error))?;
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|e| failed(&e.without_url()))? {
            if bytes.len() + chunk.len() > MAX_ANSWER {
                return Err(failed(&"its answer is too large"));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok((answer.status(), serde_json::from_slice(&bytes).unwrap_or_default()))
    }
}

/// The key of this name that fits the algorithm; without a name, the only key that fits.
fn select<'a>(keys: &'a [Jwk], kid: Option<&str>, algorithm: Algorithm) -> Option<&'a Jwk> {
    let fits = |key: &&Jwk| {
        let common = &key.common;
        let is_of_its_kind =
            DecodingKey::from_jwk(key).is_ok_and(|key| key.family() == algorithm.family());
        let is_for_signing =
            common.public_key_use.as_ref().is_none_or(|it| *it == PublicKeyUse::Signature);
        let is_for_it =
            common.key_algorithm.is_none_or(|it| it.to_string() == format!("{algorithm:?}"));
        is_of_its_kind && is_for_signing && is_for_it
    };
    let mut fitting = keys
        .iter()
        .filter(fits)
        .filter(|key| kid.is_none_or(|kid| key.common.key_id.as_deref() == Some(kid)));
    let first = fitting.next();
    if kid.is_none() && fitting.next().is_some() { None } else { first }
}

/// The error with its causes.
fn explain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn invalid(what: &str) -> Error {
    Error::InvalidToken(format!("the identity provider's ID token is not valid: {what}"))
}
