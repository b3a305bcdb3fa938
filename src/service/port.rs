//! The port of a server, and the place for its data: made ready before there is a store.
//!
//! Deliberately absent: connections, which the edge serves.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use callboard_otlp::Exporter;
use tokio::net::{TcpListener, TcpSocket};

use super::{Error, failed, files};
use crate::config::Config;
use crate::http::serve::{self, Answers, Limits};
use crate::outbound::{self, traces::Traces};
use crate::tls::Tls;

/// The most connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// The place that a server has in its process and its network.
pub(crate) struct Place {
    /// The address of the server's port.
    pub(crate) address: SocketAddr,
    /// The receiver of the server's spans.
    pub(crate) traces: Option<Traces>,
    /// The server's certificate.
    pub(crate) tls: Option<Tls>,
}

/// A port that takes no connections yet.
pub(super) struct Bound {
    socket: TcpSocket,
    address: SocketAddr,
    tls: Option<Tls>,
    exporter: Option<Exporter>,
}

impl Bound {
    pub(super) fn new(config: &Config, tls: Option<Tls>) -> Result<Self, Error> {
        let (socket, address) = bound(config.server.listen).map_err(|e| not_bound(config)(&e))?;
        let exporter = outbound::exporter(config).map_err(|e| failed("[otel]")(&e))?;
        Ok(Self { socket, address, tls, exporter })
    }

    pub(super) fn place(&self, config: &Config) -> Place {
        let ratio = config.otel.sample_ratio;
        let traces = self.exporter.as_ref().map(|it| Traces::new(it.spans(), ratio));
        Place { address: self.address, traces, tls: self.tls.clone() }
    }

    pub(super) fn listen(self, config: &Config) -> Result<Port, Error> {
        let Self { socket, address, tls, exporter } = self;
        let listener = socket.listen(BACKLOG).map_err(|e| not_bound(config)(&e))?;
        Ok(Port { listener, address, tls, exporter })
    }
}

fn not_bound(config: &Config) -> impl FnOnce(&dyn std::fmt::Display) -> Error {
    let listen = config.server.listen;
    move |why| Error(format!("cannot listen on {listen}: {why}"))
}

/// Prepares the process and the data directory; returns the certificate.
pub(super) fn prepare(config: &Config) -> Result<Option<Tls>, Error> {
    files::raise_limit();
    let tls = config.tls.clone().map(Tls::load).transpose().map_err(|e| failed("[tls]")(&e))?;
    check_exposure(config, tls.as_ref())?;
    create_durable(&config.server.data_dir).map_err(|e| {
        let why = format!("{e}{}", callboard_store::advice(&e));
        failed("the data directory cannot be made")(&why)
    })?;
    Ok(tls)
}

/// The listening port of a server, and everything else of it that outlives the ownership of its store.
pub(crate) struct Port {
    listener: TcpListener,
    pub(super) address: SocketAddr,
    pub(crate) tls: Option<Tls>,
    pub(super) exporter: Option<Exporter>,
}

impl Port {
    /// Prepares the process and the data directory, and listens.
    ///
    /// # Errors
    /// The obstacle and its remedy.
    pub(crate) fn open(config: &Config) -> Result<(Self, Place), Error> {
        let tls = prepare(config)?;
        let bound = Bound::new(config, tls)?;
        let place = bound.place(config);
        Ok((bound.listen(config)?, place))
    }

    /// The URL at which the server listens.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Answers until `shutdown` is ready, and lets open requests finish.
    ///
    /// # Errors
    /// The listener failed.
    pub(crate) async fn serve(
        self,
        service: impl Answers,
        limits: Limits,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let Self { listener, tls, exporter, .. } = self;
        let followed = tls.clone().map(|tls| tokio::spawn(tls.follow()));
        let served = serve::serve(listener, tls, service, limits, shutdown).await;
        if let Some(exporter) = exporter {
            exporter.finish().await;
        }
        if let Some(followed) = followed {
            followed.abort();
        }
        served.map_err(|e| failed("the server failed")(&e))
    }
}

/// Passes unless passwords and keys would cross a network in clear text.
fn check_exposure(config: &Config, tls: Option<&Tls>) -> Result<(), Error> {
    let server = &config.server;
    if server.listen.ip().is_loopback() || tls.is_some() || server.behind_proxy {
        return Ok(());
    }
    Err(Error(format!(
        "{} is reached from other machines, and passwords and keys would travel there in clear text: \
         set [tls] cert and key, or [server] behind_proxy = true if a proxy in front speaks TLS",
        server.listen
    )))
}

/// A socket at this address that takes no connections yet, and its port if any was asked for.
fn bound(address: SocketAddr) -> io::Result<(TcpSocket, SocketAddr)> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A port whose last connections are still being forgotten is free.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}

/// A directory that only its owner may enter, and that a power cut does not take away: its name is
/// durable once its parent was synced. An earlier start may have died between the two.
fn create_durable(dir: &Path) -> io::Result<()> {
    let missing = dir.ancestors().take_while(|dir| !dir.exists()).count();
    callboard_store::create_private(dir)?;
    for parent in dir.ancestors().skip(1).take(missing.max(1)) {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        match std::fs::File::open(parent) {
            Ok(parent) => parent.sync_all()?,
            // The directory belongs to another user, who made it for us.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
