//! The parameters of handlers, for the OpenAPI document: read from their types, so that the two
//! cannot differ.
//!
//! A handler's parameters are its [`Inputs`]; each is an [`Input`] that adds its part of the
//! request to the [`Operation`]. Deliberately absent: the answers of handlers, which their
//! `utoipa::path` names.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{ConnectInfo, Path, RawQuery, State};
use axum::http::HeaderMap;
use callboard_wire::read::{Components, Read};
use serde_json::{Value, json};

use super::App;

/// The request of one route.
#[derive(Debug, Default)]
pub struct Operation {
    /// The schemas that the operation refers to.
    pub components: Components,
    /// Parameters of the path, the query and the headers.
    pub parameters: Vec<Value>,
    /// The request body, if the route takes one.
    pub body: Option<Value>,
    /// The statuses of refusals of such a request.
    pub refusals: BTreeSet<u16>,
}

impl Operation {
    /// A body of `T` in one of these media types.
    pub fn body<T: Read>(&mut self, required: bool, media_types: &[&str]) {
        let schema = self.components.reference::<T>();
        let content: serde_json::Map<_, _> = media_types
            .iter()
            .map(|media| ((*media).to_owned(), json!({"schema": schema})))
            .collect();
        self.body = Some(json!({"required": required, "content": content}));
        self.refusals.extend([400, 408, 413, 415]);
    }

    /// A header that may be given.
    pub fn header(&mut self, name: &str, text: &str, schema: &Value) {
        self.parameters.push(json!({
            "name": name, "in": "header", "required": false, "description": text, "schema": schema,
        }));
        self.refusals.insert(400);
    }
}

/// A parameter of a handler.
pub trait Input {
    /// Adds the parts of a request that the parameter reads.
    fn describe(operation: &mut Operation);
}

macro_rules! nothing {
    ($($type:ty),* $(,)?) => {$(
        impl Input for $type {
            fn describe(_: &mut Operation) {}
        }
    )*};
}

nothing!(State<Arc<App>>, HeaderMap, ConnectInfo<SocketAddr>, Path<String>, RawQuery);

impl<T> Input for Extension<T> {
    fn describe(_: &mut Operation) {}
}

/// The parameters of a handler, as axum names its kind.
pub trait Inputs {
    /// Adds the parts of a request that the parameters read.
    fn describe(operation: &mut Operation);
}

impl Inputs for ((),) {
    fn describe(_: &mut Operation) {}
}

macro_rules! inputs {
    ($($input:ident)*) => {
        impl<M, $($input: Input),*> Inputs for (M, $($input,)*) {
            fn describe(operation: &mut Operation) {
                $($input::describe(operation);)*
            }
        }
    };
}

inputs!(A);
inputs!(A B);
inputs!(A B C);
inputs!(A B C D);
inputs!(A B C D E);
inputs!(A B C D E F);
inputs!(A B C D E F G);
