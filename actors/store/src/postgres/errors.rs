//! The errors of a database: what a node does about them, and their texts.

use std::io;

use tokio_postgres::error::SqlState;

use crate::Error;

/// True if the same call may succeed later: the connection broke, or the server starts, stops, lacks
/// resources, or is a standby for now.
pub(super) fn passes(error: &tokio_postgres::Error) -> bool {
    let Some(code) = error.code() else {
        // The error comes from the network, not from the server.
        return true;
    };
    let class = &code.code()[..2];
    matches!(class, "08" | "40" | "53" | "57" | "58")
        || *code == SqlState::READ_ONLY_SQL_TRANSACTION
}

/// True if the server refuses TLS or its certificate is refused, its name does not exist, or the settings lack what
/// the server asks for.
pub(super) fn is_misdirected(error: &tokio_postgres::Error) -> bool {
    let mut causes =
        std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let io = causes.find_map(|cause| cause.downcast_ref::<io::Error>());
    let text = explain(error);
    let is_of_settings =
        ["invalid configuration", "authentication error"].iter().any(|it| text.starts_with(it));
    match io {
        Some(io) => {
            let cause = io.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
            cause.is_some() || is_no_name(io)
        }
        None => is_of_settings || text.contains("TLS handshake"),
    }
}

fn is_no_name(error: &io::Error) -> bool {
    let text = error.to_string();
    text.starts_with("failed to lookup address") && !text.contains("Temporary failure")
}

pub(super) fn failed(error: &tokio_postgres::Error) -> Error {
    Error::Io(format!("PostgreSQL: {}", explain(error)).into())
}

/// The error with its causes.
pub(super) fn explain(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
