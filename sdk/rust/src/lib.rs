//! The client and worker library of Callboard, async on tokio.
//!
//! - `Callboard` (feature `api`): every operation as a method, with types; waits and streams that go on over broken
//!   connections.
//! - `Worker` (feature `worker`): runs tasks on models, and calls functions, of your own.
//! - [`Client`]: single calls, for what has no method.
//!
//! ```no_run
//! use callboard_client::{Call, Client, Credential, Error, Secret, Server};
//! use serde_json::json;
//!
//! # async fn example(key: String) -> Result<(), Error> {
//! let server = Server::parse("http://127.0.0.1:8080")?;
//! let client = Client::new(server, Credential::Key(Secret::new(key)))?;
//!
//! let task = json!({"prompt": "Name three uses of a message queue."});
//! let task = client.data(Call::post(&["tasks"]).json(&task)).await?;
//! let page = client.page(Call::get(&["tasks"]).query("status", Some("pending"))).await?;
//! match client.data(Call::delete(&["tasks", "dt_task_9"])).await {
//!     Err(Error::Api(error)) => assert_eq!(error.code, "NOT_FOUND"),
//!     other => drop(other?),
//! }
//! # drop((task, page));
//! # Ok(())
//! # }
//! ```
//!
//! The client reads the envelope of every answer, repeats a call that is safe to repeat when the server
//! asks for patience, and renews the token of a login before it ends. Data stays JSON, so a program shows
//! fields that its version of the client does not know. Deliberately absent: output. [`Client::on_retry`]
//! reports a repeated call.

#[cfg(feature = "api")]
mod api;
mod call;
mod client;
mod error;
mod events;
#[cfg(unix)]
pub mod logins;
mod server;
mod session;
#[cfg(feature = "api")]
pub mod webhook;
#[cfg(feature = "worker")]
pub mod worker;

#[cfg(feature = "api")]
pub use api::*;
pub use call::Call;
pub use callboard_common::secret::Secret;
pub use client::{Answer, Carried, Client, Credential, Page, Retry};
pub use error::{ApiError, Error, ErrorKind};
pub use events::{Event, EventStream, Events, StreamItem};
pub use reqwest::header::HeaderMap;
pub use reqwest::{Request, Response};
pub use server::Server;
pub use session::{LockFuture, LockedLogin, Login, LoginStore, Session, StoreError};
#[cfg(feature = "worker")]
pub use worker::Worker;

/// The examples of the README, which are compiled with the documentation.
#[cfg(all(doctest, feature = "api", feature = "worker"))]
#[doc = include_str!("../README.md")]
struct Readme;
