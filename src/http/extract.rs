//! What handlers ask for: a body, a query, the identifier in the path.
//!
//! Deliberately absent: who is asking, which authentication finds out.

use std::str::FromStr;

use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use callboard_domain::{Error, id};
use serde_json::Value;

use super::{Failure, body};
use crate::wire::read::{self, Format, Read};

/// A JSON body, read into its shape.
#[derive(Debug)]
pub struct Body<T>(pub T);

impl<T: Read, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        body::expect_json(request.headers())?;
        let bytes = body::read(request).await?;
        Ok(Self(read::body(&bytes)?))
    }
}

/// A JSON body, parsed: a definition, of which every fault is told.
#[derive(Debug)]
pub struct Json(pub Value);

impl<S: Send + Sync> FromRequest<S> for Json {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        body::expect_json(request.headers())?;
        let bytes = body::read(request).await?;
        Ok(Self(read::parse(&bytes, Format::Json)?))
    }
}

/// A body in JSON or YAML, parsed.
#[derive(Debug)]
pub struct JsonOrYaml(pub Value);

impl<S: Send + Sync> FromRequest<S> for JsonOrYaml {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        let format = body::expect_json_or_yaml(request.headers())?;
        let bytes = body::read(request).await?;
        Ok(Self(read::parse(&bytes, format)?))
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

/// The identifier in the path, of which there is one. A malformed one does not exist (PROTOCOL.md 1).
#[derive(Debug)]
pub struct Id<T>(pub T);

/// A kind of thing that a path can name.
pub trait Named: FromStr {
    /// What it is called in a message.
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

macro_rules! named {
    ($($id:ident = $noun:literal),* $(,)?) => {$(
        impl Named for id::$id {
            const NOUN: &'static str = $noun;
        }
    )*};
}

named! {
    TaskId = "task",
    BatchId = "batch",
    PlanId = "plan",
    ExecutionId = "execution",
    UserId = "user",
    KeyId = "key",
    WorkerId = "worker",
    DeliveryId = "delivery",
}
