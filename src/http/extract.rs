//! The extractors of handlers: a body, a query, the identifier in the path.
//!
//! Deliberately absent: the caller, which authentication determines.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use bytes::Bytes;
use callboard_domain::access::{Account, Caller};
use callboard_domain::audit::By;
use callboard_domain::id::Environment;
use callboard_domain::{Error, id};
use callboard_wire::cells::CellName;
use callboard_wire::cluster::NodeName;
use callboard_wire::queues::QueueName;
use callboard_wire::read::{self, Format, Read};
use serde_json::{Map, Value, json};

use super::describe::{Input, Operation};
use super::names::{self, Knows};
use super::{App, Failure, body};

const JSON: &str = "application/json";

/// A JSON body, read into its shape.
#[derive(Debug)]
pub struct Body<T>(pub T);

impl<T: Read + Send + 'static, S: Knows> FromRequest<S> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        body::expect_json(request.headers())?;
        let sender = sender(&request);
        let bytes = body::read(request).await?;
        finished(state, sender, bytes).await.map(Self)
    }
}

/// The account that sends a request, and its environment.
fn sender(request: &Request) -> Option<(Account, Environment)> {
    request.extensions().get::<Caller>().map(|caller| (caller.account, caller.environment))
}

/// The value of a body that was received.
async fn finished<T: Read + Send + 'static>(
    state: &impl Knows,
    sender: Option<(Account, Environment)>,
    bytes: Bytes,
) -> Result<T, Failure> {
    let unread = Unread { bytes, format: Format::Json };
    let reading = match state.app() {
        Some(app) => app.read(sender, unread, |_, value| read::reading(value)).await?,
        None => read::reading(read::parse(&unread.bytes, unread.format)?),
    };
    let environment = sender.map(|(_, environment)| environment);
    Ok(names::finish(state, environment, reading).await?)
}

impl<T: Read> Input for Body<T> {
    fn describe(operation: &mut Operation) {
        operation.body::<T>(true, &[JSON]);
    }
}

/// A JSON body that may be absent, which counts as `{}`.
#[derive(Debug)]
pub struct OptionalBody<T>(pub T);

impl<T: Read + Send + 'static, S: Knows> FromRequest<S> for OptionalBody<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let is_json = body::expect_json(request.headers());
        let sender = sender(&request);
        let bytes = body::read(request).await?;
        if bytes.is_empty() {
            return Ok(Self(read::value(Value::Object(Map::new()))?));
        }
        is_json?;
        finished(state, sender, bytes).await.map(Self)
    }
}

impl<T: Read> Input for OptionalBody<T> {
    fn describe(operation: &mut Operation) {
        operation.body::<T>(false, &[JSON]);
    }
}

/// A definition that was received, to be read by its own module (`App::read`).
#[derive(Debug)]
pub struct Unread {
    /// The text.
    pub bytes: Bytes,
    /// The notation of the text.
    pub format: Format,
}

/// A definition in JSON.
#[derive(Debug)]
pub struct Json<T>(pub Unread, pub PhantomData<T>);

impl<T, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        body::expect_json(request.headers())?;
        let bytes = body::read(request).await?;
        Ok(Self(Unread { bytes, format: Format::Json }, PhantomData))
    }
}

impl<T: Read> Input for Json<T> {
    fn describe(operation: &mut Operation) {
        operation.body::<T>(true, &[JSON]);
    }
}

/// A definition in JSON or YAML.
#[derive(Debug)]
pub struct JsonOrYaml<T>(pub Unread, pub PhantomData<T>);

impl<T, S: Send + Sync> FromRequest<S> for JsonOrYaml<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        let format = body::expect_json_or_yaml(request.headers())?;
        let bytes = body::read(request).await?;
        Ok(Self(Unread { bytes, format }, PhantomData))
    }
}

impl<T: Read> Input for JsonOrYaml<T> {
    fn describe(operation: &mut Operation) {
        operation.body::<T>(true, &[JSON, "application/yaml", "text/yaml"]);
    }
}

/// The query, read into its shape.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: Read, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        Ok(Self(read::query::parse(parts.uri.query().unwrap_or(""))?))
    }
}

impl<T: Read> Input for Query<T> {
    fn describe(operation: &mut Operation) {
        let parameters = operation.components.parameters::<T>();
        operation.parameters.extend(parameters);
        operation.refusals.insert(400);
    }
}

/// The caller and its address, for the audit log.
#[derive(Debug, Clone, Copy)]
pub struct Asker(pub By);

impl FromRequestParts<Arc<App>> for Asker {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let caller = parts.extensions.get::<Caller>();
        let account = caller.map(|caller| caller.account);
        let project = caller.map(|caller| caller.environment.slot()).unwrap_or_default();
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let address = peer.map(|ConnectInfo(peer)| app.client_address(*peer, &parts.headers));
        Ok(Self(By { account, address, project }))
    }
}

impl Input for Asker {
    fn describe(_: &mut Operation) {}
}

/// The identifier in the path, of which there is one. A malformed one does not exist.
#[derive(Debug)]
pub struct Id<T>(pub T);

/// A kind of item that a path can name.
pub trait Named: FromStr {
    /// The kind's name in a message.
    const NOUN: &'static str;
}

impl<T: Named, S: Send + Sync> FromRequestParts<S> for Id<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| Error::NoRoute)?;
        let (_, text) = params.iter().next().ok_or(Error::NoRoute)?;
        let id = text.parse().map_err(|_| Error::not_found(T::NOUN, text))?;
        Ok(Self(id))
    }
}

impl<T: Named> Input for Id<T> {
    fn describe(operation: &mut Operation) {
        // The route knows the parameter's name.
        operation.parameters.push(json!({
            "in": "path", "required": true, "description": format!("the id of the {}", T::NOUN),
            "schema": {"type": "string"},
        }));
        operation.refusals.insert(404);
    }
}

/// Two identifiers in the path.
#[derive(Debug)]
pub struct TwoIds<T, U = T>(pub T, pub U);

impl<T: Named, U: Named, S: Send + Sync> FromRequestParts<S> for TwoIds<T, U> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| Error::NoRoute)?;
        let mut texts = params.iter().map(|(_, text)| text);
        let (one, other) =
            (texts.next().ok_or(Error::NoRoute)?, texts.next().ok_or(Error::NoRoute)?);
        Ok(Self(
            one.parse().map_err(|_| Error::not_found(T::NOUN, one))?,
            other.parse().map_err(|_| Error::not_found(U::NOUN, other))?,
        ))
    }
}

impl<T: Named, U: Named> Input for TwoIds<T, U> {
    fn describe(operation: &mut Operation) {
        Id::<T>::describe(operation);
        Id::<U>::describe(operation);
    }
}

/// The execution and the step in the path.
#[derive(Debug)]
pub struct ItemsOf(pub id::ExecutionId, pub String);

impl<S: Send + Sync> FromRequestParts<S> for ItemsOf {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| Error::NoRoute)?;
        let mut texts = params.iter().map(|(_, text)| text);
        let (execution, step) =
            (texts.next().ok_or(Error::NoRoute)?, texts.next().ok_or(Error::NoRoute)?);
        let id = execution.parse().map_err(|_| Error::not_found("execution", execution))?;
        Ok(Self(id, step.to_owned()))
    }
}

impl Input for ItemsOf {
    fn describe(operation: &mut Operation) {
        Id::<id::ExecutionId>::describe(operation);
        operation.parameters.push(json!({
            "in": "path", "required": true, "description": "the id of the step in its plan",
            "schema": {"type": "string"},
        }));
    }
}

/// The second name in the path, unescaped.
#[derive(Debug)]
pub struct Inner(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Inner {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| Error::NoRoute)?;
        let (_, text) = params.iter().nth(1).ok_or(Error::NoRoute)?;
        Ok(Self(text.to_owned()))
    }
}

impl Input for Inner {
    fn describe(operation: &mut Operation) {
        // The route knows the parameter's name.
        operation.parameters.push(json!({
            "in": "path", "required": true, "description": "the name",
            "schema": {"type": "string", "minLength": 1, "maxLength": 64},
        }));
        operation.refusals.insert(404);
    }
}

impl Named for NodeName {
    const NOUN: &'static str = "node";
}

impl Named for CellName {
    const NOUN: &'static str = "cell";
}

impl Named for QueueName {
    const NOUN: &'static str = "queue";
}

macro_rules! named {
    ($($id:ident = $noun:literal),* $(,)?) => {$(
        impl Named for id::$id {
            const NOUN: &'static str = $noun;
        }
    )*};
}

/// Declares names in paths, of which any text may be one.
macro_rules! words {
    ($($(#[$doc:meta])* $kind:ident = $noun:literal,)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $kind(pub String);

            impl FromStr for $kind {
                type Err = Infallible;

                fn from_str(text: &str) -> Result<Self, Infallible> {
                    Ok(Self(text.to_owned()))
                }
            }

            impl Named for $kind {
                const NOUN: &'static str = $noun;
            }
        )*
    };
}

words! {
    /// The name of a model.
    ModelName = "model",
    /// The id of a template.
    TemplateId = "template",
    /// The id or the name of a project.
    ProjectName = "project",
    /// The id or the e-mail of a user.
    Person = "user",
}

named! {
    TaskId = "task",
    BatchId = "batch",
    PlanId = "plan",
    ExecutionId = "execution",
    UserId = "user",
    SessionId = "session",
    KeyId = "key",
    InvitationId = "invitation",
    WorkerId = "worker",
    DeliveryId = "delivery",
    ScheduleId = "schedule",
    BulkId = "bulk job",
    TemplateBatchId = "batch",
    ChatBatchId = "batch",
    BudgetId = "budget",
    FileId = "file",
    ViewId = "view",
}
