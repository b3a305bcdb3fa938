//! The errors of a database: what a node does about them, and their texts.

use std::io;

use tokio_postgres::error::SqlState;

use crate::Error;

/// The reaction of a node to an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// The call again, on a new connection if that one broke: the network failed, or the server starts, stops or
    /// lacks resources.
    Repeat,
    /// The call again, on new connections to the host that takes writes: this server takes none any more.
    MoveOn,
    /// The call fails, as it would again.
    Fail,
}

pub(super) fn remedy(error: &tokio_postgres::Error) -> Remedy {
    // Without a code the error comes from the network, not from the server.
    error.code().map_or(Remedy::Repeat, of_code)
}

fn of_code(code: &SqlState) -> Remedy {
    if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
        return Remedy::MoveOn;
    }
    match &code.code()[..2] {
        "08" | "40" | "53" | "57" | "58" => Remedy::Repeat,
        _ => Remedy::Fail,
    }
}

/// True if the same call may succeed later.
pub(super) fn passes(error: &tokio_postgres::Error) -> bool {
    remedy(error) != Remedy::Fail
}

/// The error as anybody may read it in the health of a node: without names of hosts and users.
pub(super) fn reason(error: &tokio_postgres::Error) -> String {
    let Some(told) = error.as_db_error() else { return explain(error) };
    let code = told.code().code();
    if code.starts_with("28") {
        return format!("the server refuses the node's credentials (SQLSTATE {code})");
    }
    format!("{} (SQLSTATE {code})", told.message())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_a_server_has_its_remedy() {
        for (code, right) in [
            (SqlState::READ_ONLY_SQL_TRANSACTION, Remedy::MoveOn),
            (SqlState::ADMIN_SHUTDOWN, Remedy::Repeat),
            (SqlState::CRASH_SHUTDOWN, Remedy::Repeat),
            (SqlState::CANNOT_CONNECT_NOW, Remedy::Repeat),
            (SqlState::QUERY_CANCELED, Remedy::Repeat),
            (SqlState::DISK_FULL, Remedy::Repeat),
            (SqlState::TOO_MANY_CONNECTIONS, Remedy::Repeat),
            (SqlState::T_R_SERIALIZATION_FAILURE, Remedy::Repeat),
            (SqlState::INSUFFICIENT_PRIVILEGE, Remedy::Fail),
            (SqlState::INVALID_PASSWORD, Remedy::Fail),
            (SqlState::INVALID_CATALOG_NAME, Remedy::Fail),
            (SqlState::UNDEFINED_TABLE, Remedy::Fail),
        ] {
            assert_eq!(of_code(&code), right, "{code:?}");
        }
    }
}
