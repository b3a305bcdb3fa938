//! A thin client of the HTTP interface: address, credentials, envelope, patience.
//!
//! ```text
//! Call ─▶ bearer (renewed when it is about to end) ─▶ HTTP ─▶ envelope ─▶ Answer | Failure
//!           ▲                                          │
//!           └──── 401: renewed, once ── 429, 503: waits as asked, a few times, if safe to repeat
//! ```
//!
//! Deliberately absent: what the data means. It stays JSON, so that a newer server's fields are
//! shown by an older program.

mod call;
mod server;

use std::error::Error as _;
use std::time::Duration;

use callboard_common::secret::Secret;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Method, Response, StatusCode};
use serde_json::Value;

pub(super) use call::Call;
pub(super) use server::Server;

use super::failure::{Failure, Refusal};
use super::login::Session;
use super::output::{Page, note};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);
/// How often a call that is safe to repeat is sent again.
const REPEATS: u32 = 3;
/// A server that asks for more than this is believed, and not waited for.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// A client of one server.
pub(super) struct Client {
    http: reqwest::Client,
    server: Server,
    credential: Credential,
}

/// In whose name the calls are made.
pub(super) enum Credential {
    /// Nobody's.
    None,
    /// An API key.
    Key(Secret),
    /// A stored login.
    Session(Box<Session>),
}

/// What a call was answered with, outside of its envelope.
#[derive(Debug)]
pub(super) struct Answer {
    /// The data.
    pub(super) data: Value,
    /// Where it is one page of a list.
    pub(super) pagination: Value,
    /// The headers.
    pub(super) headers: HeaderMap,
}

impl Client {
    /// A client of `server`.
    pub(super) fn new(server: Server, credential: Credential) -> Result<Self, Failure> {
        if let Credential::Key(key) = &credential
            && HeaderValue::from_str(key.expose()).is_err()
        {
            let told = "the API key holds characters that no key has";
            return Err(Failure::NotSignedIn(told.into()));
        }
        callboard_common::tls::install_provider();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("callboard/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            // A credential must not travel to another host.
            .redirect(Policy::none());
        if server.is_local() {
            builder = builder.no_proxy();
        }
        if !server.is_encrypted() {
            // Without TLS a machine without certificates must not fail over them.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| {
            Failure::Other(format!("the HTTP client could not be set up: {}", causes(&error)))
        })?;
        Ok(Self { http, server, credential })
    }

    /// The server.
    pub(super) const fn server(&self) -> &Server {
        &self.server
    }

    /// In whose name the calls are made.
    pub(super) const fn credential(&self) -> &Credential {
        &self.credential
    }

    /// The data that a call is answered with.
    pub(super) async fn data(&self, call: Call<'_>) -> Result<Value, Failure> {
        self.send(&call).await.map(|answer| answer.data)
    }

    /// The page that a call is answered with.
    pub(super) async fn page(&self, call: Call<'_>) -> Result<Page, Failure> {
        let Answer { data, pagination, .. } = self.send(&call).await?;
        if let Value::Array(data) = data {
            return Ok(Page { data, pagination });
        }
        Err(Failure::Other(format!("{} answered with no list", self.server)))
    }

    /// What a call is answered with.
    pub(super) async fn send(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let response = self.open(call, Some(ANSWER_TIMEOUT)).await?;
        self.decode(response).await
    }

    /// The open answer to a call for a stream; it has no end that could be waited for.
    pub(super) async fn stream(&self, call: &Call<'_>) -> Result<Response, Failure> {
        let response = self.open(call, None).await?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if response.status().is_success()
            && kind.is_some_and(|k| k.starts_with("text/event-stream"))
        {
            return Ok(response);
        }
        match self.decode(response).await {
            Err(failure) => Err(failure),
            Ok(_) => Err(Failure::Other(format!("{} answered with no stream", self.server))),
        }
    }

    /// What went wrong on the way, in words that name the server.
    pub(super) fn broken(&self, error: &reqwest::Error) -> Failure {
        if error.is_timeout() && !error.is_connect() {
            let seconds = ANSWER_TIMEOUT.as_secs();
            let text = format!("{} did not answer within {seconds} seconds", self.server);
            return Failure::TimedOut(text);
        }
        let reason = causes(error);
        Failure::Unreachable { server: self.server.to_string(), reason }
    }

    async fn open(&self, call: &Call<'_>, timeout: Option<Duration>) -> Result<Response, Failure> {
        let mut may_renew = true;
        let mut repeats = if call.is_safe_to_repeat() { 0..REPEATS } else { 0..0 };
        loop {
            let bearer = self.bearer().await?;
            let mut request = self
                .http
                .request(call.method.clone(), call.url(&self.server))
                .headers(call.headers())
                .header(ACCEPT, call.accept);
            if let Some(bearer) = &bearer {
                request = request.bearer_auth(bearer.expose());
            }
            if let Some((kind, body)) = &call.body {
                request = request.header(CONTENT_TYPE, *kind).body(body.clone());
            }
            if let Some(timeout) = timeout {
                request = request.timeout(timeout);
            }
            let response = request.send().await.map_err(|error| self.broken(&error))?;
            match response.status() {
                StatusCode::UNAUTHORIZED if std::mem::take(&mut may_renew) => {
                    if !self.renew(bearer.as_ref()).await? {
                        return Ok(response);
                    }
                }
                StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                    let Some(repeat) = repeats.next() else { return Ok(response) };
                    let wait = retry_after(&response).unwrap_or(Duration::from_secs(1 << repeat));
                    if wait > LONGEST_WAIT {
                        return Ok(response);
                    }
                    let status = response.status().as_u16();
                    note(&format!("{} answered {status}: trying again in {wait:?}", self.server));
                    tokio::time::sleep(wait).await;
                }
                _ => return Ok(response),
            }
        }
    }

    /// What its calls carry, renewed if it is about to end.
    pub(super) async fn bearer(&self) -> Result<Option<Secret>, Failure> {
        Ok(match &self.credential {
            Credential::None => None,
            Credential::Key(key) => Some(key.clone()),
            Credential::Session(session) => Some(session.bearer(self).await?),
        })
    }

    /// Whether there is a fresh token instead of the refused one.
    async fn renew(&self, refused: Option<&Secret>) -> Result<bool, Failure> {
        match (&self.credential, refused) {
            (Credential::Session(session), Some(refused)) => {
                session.renew(self, refused).await.map(|()| true)
            }
            (Credential::None | Credential::Key(_) | Credential::Session(_), _) => Ok(false),
        }
    }

    /// Sends a call without credentials: signing in, going on with a session, health.
    pub(super) async fn send_as_nobody(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let nobody = Self {
            http: self.http.clone(),
            server: self.server.clone(),
            credential: Credential::None,
        };
        // Boxed: it is also called on the way to a credential.
        Box::pin(nobody.send(call)).await
    }

    async fn decode(&self, response: Response) -> Result<Answer, Failure> {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await.map_err(|error| self.broken(&error))?;
        let Ok(mut body) = serde_json::from_slice::<Value>(&bytes) else {
            return Err(self.strange(status, &bytes));
        };
        match body["success"].as_bool() {
            Some(true) => {
                let (data, pagination) = (body["data"].take(), body["pagination"].take());
                Ok(Answer { data, pagination, headers })
            }
            Some(false) => {
                let refusal = Refusal::read(status, &body);
                if status == 401 && matches!(self.credential, Credential::None) {
                    return Err(self.nobody(&refusal));
                }
                Err(Failure::Refused(Box::new(refusal)))
            }
            None => Err(self.strange(status, &bytes)),
        }
    }

    fn nobody(&self, refusal: &Refusal) -> Failure {
        if refusal.code == "INVALID_CREDENTIALS" || refusal.code == "INVALID_TOKEN" {
            return Failure::NotSignedIn(refusal.message.clone());
        }
        Failure::NotSignedIn(format!(
            "not signed in at {0}: callboard auth login --server {0} --email YOU, or set \
             CALLBOARD_API_KEY_FILE",
            self.server
        ))
    }

    /// Something else answers there, such as a proxy in front of a server that is away.
    fn strange(&self, status: u16, bytes: &[u8]) -> Failure {
        if matches!(status, 502..=504) {
            let reason = format!("a proxy answered {status}");
            return Failure::Unreachable { server: self.server.to_string(), reason };
        }
        let text: String = String::from_utf8_lossy(bytes).chars().take(120).collect();
        Failure::Other(format!(
            "{} answered {status}, not as a Callboard server does: {text}",
            self.server
        ))
    }
}

/// The seconds that the server asks to wait.
fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The innermost cause says most; the address is named by whoever tells it.
fn causes(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    let mut text = error.to_string();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}

/// Whether a method changes nothing.
fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}
