//! The origin of the page that sent a request: a browser names the origin, and adds cookies for any
//! page.

use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};
use callboard_domain::Error;

use super::App;

/// The origin of the page that sent a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A program, or a browser that names no origin.
    None,
    /// The server's own, or an allowed one.
    Own,
    /// Any other origin.
    Foreign,
}

impl Origin {
    /// The origin of a request with these headers.
    pub(crate) fn of(app: &App, headers: &HeaderMap) -> Self {
        let Some(origin) = headers.get(ORIGIN) else { return Self::None };
        let origin = origin.to_str().unwrap_or_default().to_ascii_lowercase();
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        let is_own = authority.zip(host).is_some_and(|(own, host)| own.eq_ignore_ascii_case(host));
        if is_own || app.allowed_origins.contains(&origin) { Self::Own } else { Self::Foreign }
    }

    /// The refusal of a foreign page.
    pub(crate) fn refusal() -> Error {
        let message = "the origin of the page is neither the server's own nor one of [server] \
                       allowed_origins";
        Error::Forbidden(message.into())
    }
}
