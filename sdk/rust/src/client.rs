//! The client: credentials, envelope, patience.
//!
//! ```text
//! Call ─▶ bearer (renewed before it ends) ─▶ HTTP ─▶ envelope ─▶ Answer | Error
//!           ▲                                 │
//!           └──── 401: renewed, once ── 429, 503: repeated as asked, if safe to repeat
//! ```

use std::error::Error as _;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use callboard_common::secret::Secret;
use callboard_common::tls::explained;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::call::ANY_TYPE;
use crate::{ApiError, Call, Error, Login, Server, Session};

/// The header by which a login names its project.
const PROJECT: &str = "callboard-project";
/// The header by which a call about a whole server names a cell.
const CELL: &str = "callboard-cell";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);
/// The number of times that a call is repeated if it is safe to repeat.
const REPEATS: u32 = 3;
/// The longest pause that the client makes before it repeats a call.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// A client of one server. Clones share its connections and its login.
#[derive(Debug, Clone)]
pub struct Client {
    transport: Transport,
    server: Server,
    credential: Arc<Credential>,
    project: Option<HeaderValue>,
    cell: Option<HeaderValue>,
    on_retry: Hook,
}

/// The way of a request to the server.
#[derive(Debug, Clone)]
enum Transport {
    Network(reqwest::Client),
    InProcess(Carrier),
}

/// The answer of a server in the same process.
pub type Carried = Pin<Box<dyn Future<Output = Response> + Send>>;

#[derive(Clone)]
struct Carrier(Arc<dyn Fn(Request) -> Carried + Send + Sync>);

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Carrier")
    }
}

/// The credentials of a client.
#[derive(Debug)]
pub enum Credential {
    /// None: for a login, or for the health of a server.
    None,
    /// An API key, or the access token of a login that another program renews.
    Key(Secret),
    /// A login, which the client renews.
    Session(Box<Session>),
}

/// The answer to a call, without its envelope.
#[derive(Debug)]
pub struct Answer {
    /// The data.
    pub data: Value,
    /// The place of a page in its list: total, limit, offset, hasMore; null for other data.
    pub pagination: Value,
    /// The headers.
    pub headers: HeaderMap,
}

/// One page of a list.
#[derive(Debug)]
pub struct Page {
    /// The items.
    pub data: Vec<Value>,
    /// Total, limit, offset, hasMore.
    pub pagination: Value,
}

/// A call that the client is about to repeat, because the server asked for patience.
#[derive(Debug, Clone, Copy)]
pub struct Retry<'a> {
    /// The server.
    pub server: &'a Server,
    /// The status of the answer: 429 or 503.
    pub status: u16,
    /// The pause before the call is sent again.
    pub wait: Duration,
}

impl AsRef<Self> for Client {
    fn as_ref(&self) -> &Self {
        self
    }
}

#[derive(Clone)]
struct Hook(Arc<dyn Fn(Retry<'_>) + Send + Sync>);

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

impl Client {
    /// A client of `server`.
    ///
    /// # Errors
    /// [`Error::InvalidKey`], [`Error::Setup`].
    pub fn new(server: Server, credential: Credential) -> Result<Self, Error> {
        if let Credential::Key(key) = &credential
            && HeaderValue::from_str(key.expose()).is_err()
        {
            return Err(Error::InvalidKey);
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
        let http = builder.build().map_err(|error| Error::Setup(innermost(&error)))?;
        Ok(Self::over(Transport::Network(http), server, credential))
    }

    /// A client of a server in the same process: `carry` answers each request in place of a connection.
    #[must_use]
    pub fn in_process(
        server: Server,
        credential: Credential,
        carry: impl Fn(Request) -> Carried + Send + Sync + 'static,
    ) -> Self {
        Self::over(Transport::InProcess(Carrier(Arc::new(carry))), server, credential)
    }

    fn over(transport: Transport, server: Server, credential: Credential) -> Self {
        let on_retry = Hook(Arc::new(|_| ()));
        let credential = Arc::new(credential);
        Self { transport, server, credential, project: None, cell: None, on_retry }
    }

    /// Calls `hook` whenever a call is about to be repeated.
    #[must_use]
    pub fn on_retry(self, hook: impl Fn(Retry<'_>) + Send + Sync + 'static) -> Self {
        Self { on_retry: Hook(Arc::new(hook)), ..self }
    }

    /// The same client for a project, by its name or id, of which a login sees `default` otherwise.
    ///
    /// # Errors
    /// [`Error::Setup`] for a name that no header can have.
    pub fn in_project(self, project: &str) -> Result<Self, Error> {
        let named = HeaderValue::from_bytes(project.as_bytes());
        let named = named.map_err(|_| Error::Setup(format!("no project is named {project}")))?;
        Ok(Self { project: Some(named), ..self })
    }

    /// The same client for a cell as a whole, by its name: for its audit log, its backups, its nodes.
    ///
    /// # Errors
    /// [`Error::Setup`] for a name that no header can have.
    pub fn in_cell(self, cell: &str) -> Result<Self, Error> {
        let named = HeaderValue::from_bytes(cell.as_bytes());
        let named = named.map_err(|_| Error::Setup(format!("no cell is named {cell}")))?;
        Ok(Self { cell: Some(named), ..self })
    }

    /// The same client without credentials.
    #[must_use]
    pub fn anonymous(&self) -> Self {
        Self { credential: Arc::new(Credential::None), ..self.clone() }
    }

    /// The server.
    #[must_use]
    pub const fn server(&self) -> &Server {
        &self.server
    }

    /// The credentials.
    #[must_use]
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Signs in, without the client's own credentials.
    ///
    /// # Errors
    /// [`Error::NotSignedIn`] for a wrong password, and those of [`Client::send`].
    pub async fn log_in(&self, email: &str, password: &Secret) -> Result<Login, Error> {
        let body = json!({"email": email, "password": password.expose()});
        let session = self.anonymous().data(Call::post(&["auth", "login"]).json(&body)).await?;
        Login::read(&session).ok_or_else(|| self.unexpected("with no session"))
    }

    /// Sends a call and returns the data of its answer.
    ///
    /// # Errors
    /// Those of [`Client::send`].
    pub async fn data(&self, call: Call<'_>) -> Result<Value, Error> {
        self.send(&call).await.map(|answer| answer.data)
    }

    /// Sends a call and returns the page of a list that answers it.
    ///
    /// # Errors
    /// Those of [`Client::send`].
    pub async fn page(&self, call: Call<'_>) -> Result<Page, Error> {
        let Answer { data, pagination, .. } = self.send(&call).await?;
        if let Value::Array(data) = data {
            return Ok(Page { data, pagination });
        }
        Err(self.unexpected("with no list"))
    }

    /// Sends a call.
    ///
    /// # Errors
    /// [`Error::Api`], if the server refuses the call, and the others of [`Error`].
    pub async fn send(&self, call: &Call<'_>) -> Result<Answer, Error> {
        let response = self.open(call, Some(ANSWER_TIMEOUT)).await?;
        self.decode(response).await
    }

    /// Sends a call for server-sent events or bytes and returns the open answer.
    ///
    /// # Errors
    /// Those of [`Client::send`].
    pub async fn stream(&self, call: &Call<'_>) -> Result<Response, Error> {
        let response = self.open(call, None).await?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let fits = |kind: &str| call.accept == ANY_TYPE || kind.starts_with(call.accept);
        if response.status().is_success() && kind.is_some_and(fits) {
            return Ok(response);
        }
        let refusal = tokio::time::timeout(ANSWER_TIMEOUT, self.decode(response)).await;
        refusal.map_err(|_| self.too_late())?.and_then(|_| Err(self.unexpected("with no stream")))
    }

    async fn open(&self, call: &Call<'_>, timeout: Option<Duration>) -> Result<Response, Error> {
        let mut may_renew = call.renews;
        // A large body takes its time.
        let megabytes = call.body.as_ref().map_or(0, |(_, body)| body.len() as u64 >> 20);
        let for_body = Duration::from_secs(megabytes);
        let mut repeats = if call.is_safe_to_repeat() { 0..REPEATS } else { 0..0 };
        loop {
            let bearer = self.bearer().await?;
            let mut request = self.request(call, bearer.as_ref())?;
            *request.timeout_mut() = timeout.map(|timeout| timeout + for_body);
            // The head of an answer has this time in any case, its body only if `timeout` says so.
            let answered = tokio::time::timeout(ANSWER_TIMEOUT + for_body, self.carry(request));
            let response = answered
                .await
                .map_err(|_| self.too_late())?
                .map_err(|error| self.not_answered(&error))?;
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
                    (self.on_retry.0)(Retry { server: &self.server, status, wait });
                    tokio::time::sleep(wait).await;
                }
                _ => return Ok(response),
            }
        }
    }

    fn request(&self, call: &Call<'_>, bearer: Option<&Secret>) -> Result<Request, Error> {
        let mut request = Request::new(call.method.clone(), call.url(&self.server));
        let headers = request.headers_mut();
        *headers = call.headers();
        headers.insert(ACCEPT, HeaderValue::from_static(call.accept));
        if let Some(project) = &self.project {
            headers.insert(PROJECT, project.clone());
        }
        if let Some(cell) = &self.cell {
            headers.insert(CELL, cell.clone());
        }
        if let Some(bearer) = bearer {
            let value = HeaderValue::try_from(format!("Bearer {}", bearer.expose()));
            let mut value = value.map_err(|_| Error::InvalidKey)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        if let Some((kind, body)) = &call.body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            *request.body_mut() = Some(body.clone().into());
        }
        Ok(request)
    }

    async fn carry(&self, request: Request) -> Result<Response, reqwest::Error> {
        match &self.transport {
            Transport::Network(http) => http.execute(request).await,
            Transport::InProcess(Carrier(carry)) => Ok(carry(request).await),
        }
    }

    /// The token that the calls carry, renewed if it is about to end.
    ///
    /// # Errors
    /// A token about to end cannot be renewed.
    pub async fn bearer(&self) -> Result<Option<Secret>, Error> {
        Ok(match &*self.credential {
            Credential::None => None,
            Credential::Key(key) => Some(key.clone()),
            Credential::Session(session) => {
                let login = session.login().await;
                let token = Secret::new(login.token.clone());
                if !login.ends_soon() {
                    return Ok(Some(token));
                }
                match self.renew(Some(&token)).await {
                    Ok(_) => Some(Secret::new(session.login().await.token)),
                    // The token counts for a moment yet.
                    Err(error) if error.is_transient() && !login.has_ended() => Some(token),
                    Err(error) => return Err(error),
                }
            }
        })
    }

    /// Replaces a refused token; false if there is none to replace it.
    async fn renew(&self, refused: Option<&Secret>) -> Result<bool, Error> {
        match (&*self.credential, refused) {
            (Credential::Session(_), Some(refused)) => {
                // A refresh token counts once: a renewal goes on after its caller has left.
                let (client, refused) = (self.clone(), refused.clone());
                let renewal = tokio::spawn(async move {
                    match &*client.credential {
                        Credential::Session(session) => session.renew(&client, &refused).await,
                        Credential::None | Credential::Key(_) => Ok(()),
                    }
                });
                let renewed = renewal.await.map_err(|_| self.unexpected("and a renewal broke"))?;
                renewed.map(|()| true)
            }
            (Credential::None | Credential::Key(_) | Credential::Session(_), _) => Ok(false),
        }
    }

    async fn decode(&self, response: Response) -> Result<Answer, Error> {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await.map_err(|error| self.not_answered(&error))?;
        let Ok(mut body) = serde_json::from_slice::<Value>(&bytes) else {
            return Err(self.strange(status, &bytes));
        };
        match body["success"].as_bool() {
            Some(true) => {
                let (data, pagination) = (body["data"].take(), body["pagination"].take());
                Ok(Answer { data, pagination, headers })
            }
            Some(false) => {
                let refusal = Box::new(ApiError::read(status, &body));
                if status == 401 && matches!(*self.credential, Credential::None) {
                    return Err(Error::NotSignedIn { server: self.server.to_string(), refusal });
                }
                Err(Error::Api(refusal))
            }
            None => Err(self.strange(status, &bytes)),
        }
    }

    fn not_answered(&self, error: &reqwest::Error) -> Error {
        if error.is_timeout() && !error.is_connect() {
            return self.too_late();
        }
        Error::Unreachable { server: self.server.to_string(), reason: explained(innermost(error)) }
    }

    fn too_late(&self) -> Error {
        Error::TimedOut { server: self.server.to_string(), limit: ANSWER_TIMEOUT }
    }

    /// The error for an answer of another program, such as a proxy in front of a server that is away.
    fn strange(&self, status: u16, bytes: &[u8]) -> Error {
        if matches!(status, 502..=504) {
            let reason = format!("a proxy answered {status}");
            return Error::Unreachable { server: self.server.to_string(), reason };
        }
        let text: String = String::from_utf8_lossy(bytes).chars().take(120).collect();
        self.unexpected(&format!("{status}, not as a Callboard server does: {text}"))
    }

    fn unexpected(&self, problem: &str) -> Error {
        Error::UnexpectedAnswer { server: self.server.to_string(), problem: problem.into() }
    }
}

/// The seconds that the server asks to wait.
fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The innermost cause, which says most. The error that holds it names the address.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    let mut text = error.to_string();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests;
