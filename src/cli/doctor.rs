//! `callboard doctor --config FILE`: the obstacles on the machine of a server, before and while it runs.
//!
//! Every check reads, but for one file that is written, synced and removed in the data directory. Deliberately
//! absent: the checks through the server's interface, which are the command line's, and repairs.

mod disk;
pub(super) mod files;
mod services;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use callboard_cli::doctor::{Doctor, Finding, Machine};
use callboard_cli::process::{block_on, exit};
use callboard_common::tls;

use crate::config::{Config, Flags};

/// Runs the checks that were asked for. Returns the exit code.
pub(super) fn run(asked: Doctor) -> u8 {
    if asked.config.is_none() && asked.data_dir.is_none() {
        return callboard_cli::examine(asked, None);
    }
    tls::install_provider();
    let data_dir = asked.data_dir.as_ref().map(|path| path.display().to_string());
    let flags = Flags { config: asked.config.clone(), data_dir, ..Flags::default() };
    match block_on(async { Ok(machine(flags).await) }) {
        Ok(machine) => callboard_cli::examine(asked, Some(machine)),
        Err(why) => exit(Err(why)),
    }
}

/// Checks the machine of a server with these settings.
pub(super) async fn machine(flags: Flags) -> Machine {
    let config = match Config::load(flags, Config::environment()) {
        Ok(config) => config,
        Err(error) => {
            let advice = "callboard serve --init --config NEW writes a file with every setting";
            let findings = vec![Finding::broken("settings", error.to_string(), advice)];
            return Machine { findings, server: None };
        }
    };
    let mut findings = vec![Finding::ok("settings", "every setting is known and valid")];
    let unknown = |text: &String| Finding::warn("settings", text, "correct or remove the variable");
    findings.extend(config.ignored.iter().map(unknown));
    let server = &config.server;
    let store = server.data_dir.join("store");
    let runs = config.store.shared.is_none() && callboard_store::is_in_use(&store).unwrap_or(false);
    findings.extend(disk::check(&server.data_dir));
    findings.push(files::check(&store, runs, server.max_connections));
    findings.push(port(server.listen, runs));
    findings.extend(services::check(&config).await);
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let url = server.public_url.as_ref().map_or_else(
        || format!("{scheme}://{}", reachable(server.listen)),
        |url| url.as_str().trim_end_matches('/').to_owned(),
    );
    let is_shared = config.store.shared.is_some();
    Machine { findings, server: (runs || is_shared).then_some(url) }
}

/// The address at which this machine reaches a server that listens there.
fn reachable(listen: SocketAddr) -> SocketAddr {
    match listen {
        SocketAddr::V4(at) if at.ip().is_unspecified() => ([127, 0, 0, 1], at.port()).into(),
        SocketAddr::V6(at) if at.ip().is_unspecified() => {
            (std::net::Ipv6Addr::LOCALHOST, at.port()).into()
        }
        at @ (SocketAddr::V4(_) | SocketAddr::V6(_)) => at,
    }
}

/// The port: free, or held by the server that runs.
fn port(listen: SocketAddr, runs: bool) -> Finding {
    const CHECK: &str = "port";
    let number = listen.port();
    match TcpListener::bind(listen) {
        Ok(_) if runs && number != 0 => Finding::warn(
            CHECK,
            format!("a server uses the data directory, and none listens on {listen}"),
            "it was started with another --listen: name these settings in both places",
        ),
        Ok(_) => Finding::ok(CHECK, format!("{listen} is free")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && runs => {
            Finding::ok(CHECK, format!("{listen} is in use while the server runs"))
        }
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Finding::broken(
            CHECK,
            format!("{listen} is in use by another program"),
            format!(
                "stop it (ss -ltnp 'sport = :{number}' names it), or choose another port: [server] listen"
            ),
        ),
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Finding::broken(
            CHECK,
            format!("{listen}: this machine has no such address"),
            "ip address lists the addresses of the machine; 127.0.0.1 is behind a proxy on it",
        ),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Finding::broken(
            CHECK,
            format!("{listen}: this user may not listen on a port below 1024"),
            "choose a port from 1024 on, or AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit",
        ),
        Err(error) => {
            Finding::broken(CHECK, format!("{listen}: {error}"), "correct [server] listen")
        }
    }
}

/// The existing directory at `path`, or the nearest one above it.
fn existing(path: &Path) -> Option<std::path::PathBuf> {
    let whole = std::path::absolute(path).ok()?;
    let found = whole.ancestors().find(|path| path.is_dir())?.canonicalize();
    found.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_free_held_by_the_server_or_by_another_program() {
        let held = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = held.local_addr().expect("an address");
        let found = port(at, false);
        assert!(found.is_broken() && found.detail().contains("another program"), "{found:?}");
        assert!(port(at, true).is_ok());
        drop(held);
        assert!(port(at, false).is_ok());
        assert!(!port(at, true).is_ok() && !port(at, true).is_broken());
        // TEST-NET-1 belongs to no machine.
        let found = port(([192, 0, 2, 1], 1).into(), false);
        assert!(found.is_broken() && found.detail().contains("no such address"), "{found:?}");
    }
}
