//! A node of a cluster: while it is active it runs the actors and the edge, otherwise it forwards.
//!
//! Every active period begins like a start of the server, from the store alone, and ends like a stop of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use callboard_common::secret::Secret;
use callboard_runtime::System;
use callboard_runtime::membership::{Ended, Membership, Part, Term, take_part};
use callboard_runtime::ports::Ports;
use callboard_store::Store;
use callboard_store::postgres::Address;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use url::Url;

use super::cells::Cells;
use super::forwarded::ClusterKey;
use super::front::{Front, Role};
use super::identity::node_id;
use super::store::{FailedReads, WatchedStore};
use crate::backend::{self, Shared};
use crate::config::Config;
use crate::http::serve::Limits;
use crate::http::{self, App, ClusterDoor};
use crate::sandbox;
use crate::service::{Assembled, Error, Opened, Place, Port, Reload, broken, limits};

/// The time for open requests when an active period ends in order.
const FINISH: Duration = Duration::from_secs(3);

/// A node that has joined.
pub(crate) struct Node {
    port: Port,
    membership: Membership,
    member: Member,
    limits: Limits,
}

impl Node {
    /// Opens the store at `database`, listens and joins. `on_setup` receives the link with which the first admin
    /// is made.
    ///
    /// # Errors
    /// The obstacle and its remedy.
    pub(crate) async fn start(
        config: Config,
        database: Address,
        on_setup: impl Fn(&Secret) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        shared_secrets(&config)?;
        let opened = Port::open(&config)?;
        let path = config.server.data_dir.join("node.id");
        let id = tokio::task::spawn_blocking(move || node_id(&path)).await;
        let id = id.map_err(|e| Error::new("a thread broke", &e))?;
        let id = id.map_err(|e| Error::new("the node has no identifier", &e))?;
        let on_failure = Box::new(|error: &callboard_store::Error| broken(&error.to_string()));
        let shared = backend::open_shared(database, id, config.cluster.term, on_failure).await;
        let shared = shared.map_err(|e| Error::new("store.url", &e))?;
        Self::join(config, opened, shared, on_setup).await
    }

    /// Joins, behind an open port.
    pub(super) async fn join(
        config: Config,
        (port, place): (Port, Place),
        shared: Shared,
        on_setup: impl Fn(&Secret) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let key = shared_secrets(&config)?;
        let address = advertised(&config, &port)?;
        let clock = Ports::of_this_machine().clock;
        let Shared { store, ownership } = shared;
        let of_database = Arc::clone(&ownership);
        let fault = Box::new(move || of_database.fault());
        let (key, timeout) = (ClusterKey::new(key), config.server.body_timeout);
        let front = Front::new(key, timeout, move || clock.now(), fault);
        let joined = Membership::join(Arc::clone(&ownership), address.as_str()).await;
        let membership = joined.map_err(|e| Error::new("the cluster cannot be joined", &e))?;
        tracing::info!(%address, "joined the cluster");
        let (door, on_setup) = (ClusterDoor::new(&membership, ownership), Box::new(on_setup));
        let (limits, reload) = (limits(&config), Reload::new(config, port.tls.clone()));
        let member = Member { reload, store, door, front, place, on_setup };
        Ok(Self { port, membership, member, limits })
    }

    /// The reader of settings while the node runs.
    pub(crate) fn reload(&self) -> Reload {
        self.member.reload.clone()
    }

    /// The URL at which the node listens.
    pub(crate) fn url(&self) -> String {
        self.port.url()
    }

    /// Answers or forwards until `shutdown` is ready; then hands its role to another node and
    /// stops.
    ///
    /// # Errors
    /// The listener failed, an active period could not begin, or another process joined as this node.
    pub(crate) async fn serve(
        self,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), Error> {
        let Self { port, membership, mut member, limits } = self;
        let (stopping, mut stopped) = watch::channel(false);
        let (front, streams) = (member.front.clone(), member.front.clone());
        let serving = port.serve(front, limits, async move {
            // The wait fails only if the sender is gone, which is a reason to stop as well.
            let _ = stopped.wait_for(|stop| *stop).await;
        });
        let part = async {
            let ended = take_part(membership, &mut member, shutdown).await;
            streams.stop();
            stopping.send_replace(true);
            ended
        };
        let (served, ended) = tokio::join!(serving, part);
        match ended {
            Ok(()) => served,
            Err(Ended::Failed(error)) => Err(error),
            Err(Ended::Replaced) => {
                Err(Error::new("the node has ended", &Ended::<Error>::Replaced))
            }
        }
    }
}

/// The cluster's key, if the settings hold every secret that all nodes must share.
fn shared_secrets(config: &Config) -> Result<&Secret, Error> {
    let lacks = |setting: &str| {
        Error::new(
            "nodes of a cluster share their secrets",
            &format!("{setting} must be set, to the same on each"),
        )
    };
    if config.auth.signing_key.is_none() {
        return Err(lacks("auth.signing_key_file"));
    }
    if config.webhooks.secret.is_none() {
        return Err(lacks("webhooks.secret_file"));
    }
    config.cluster.key.as_ref().ok_or_else(|| lacks("cluster.key_file"))
}

fn advertised(config: &Config, port: &Port) -> Result<Url, Error> {
    if let Some(url) = &config.cluster.advertise {
        return Ok(url.clone());
    }
    if config.server.listen.ip().is_unspecified() {
        let says = "set it to the address at which the other nodes reach this one";
        return Err(Error::new("cluster.advertise", &says));
    }
    Url::parse(&port.url()).map_err(|e| Error::new("cluster.advertise", &e))
}

struct Member {
    reload: Reload,
    store: Arc<dyn Store>,
    door: ClusterDoor,
    front: Front,
    place: Place,
    on_setup: Box<dyn Fn(&Secret) + Send + Sync>,
}

/// An active period under way.
struct Running {
    system: System,
    app: Arc<App>,
    sandbox: JoinHandle<()>,
    batches: JoinHandle<()>,
    following: Option<JoinHandle<()>>,
    term: Term,
    /// An actor broke that all others need.
    broken: Arc<Notify>,
    /// True once the active period ends.
    over: Arc<AtomicBool>,
    /// Closed once no request is under way.
    handled: mpsc::Receiver<()>,
}

impl Part for Member {
    type Running = Running;
    type Failed = Error;

    async fn begin(&mut self, term: Term) -> Result<Running, Error> {
        let failed = FailedReads::default();
        let opened = Opened {
            store: Arc::new(WatchedStore::new(Arc::clone(&self.store), failed.clone())),
            embedded: Weak::new(),
            cluster: Some(self.door.clone()),
        };
        let broken = Arc::new(Notify::new());
        let breaks = Arc::clone(&broken);
        let on_break = Box::new(move |why: String| {
            tracing::error!(
                why,
                "this node stops being the active one, because it cannot go on safely"
            );
            breaks.notify_one();
        });
        let assembled =
            Assembled::over(opened, self.reload.config(), &self.place, on_break).await?;
        let Assembled { system, app, edge, setup_url } = assembled;
        self.reload.serves(&app);
        if let Some(url) = setup_url {
            (self.on_setup)(&url);
        }
        let sandbox = tokio::spawn(sandbox::run(system.handle()));
        let batches = tokio::spawn(http::run_batches(Arc::clone(&app)));
        let service = http::service(Arc::clone(&app), edge);
        let cells = Cells::of(&self.reload.config().cluster, &app);
        let follow = |cells: &Arc<Cells>| tokio::spawn(Arc::clone(cells).run(self.front.clone()));
        let following = cells.as_ref().map(follow);
        let (handling, handled) = mpsc::channel(1);
        let over = Arc::new(AtomicBool::new(false));
        let (current, handle, ends) = (term.clone(), system.handle(), Arc::clone(&over));
        self.front.set_role(Role::Active {
            service,
            is_current: Arc::new(move || {
                current.is_current() && !handle.is_lost() && !ends.load(Ordering::Relaxed)
            }),
            failed,
            cells,
            _handling: handling,
        });
        tracing::info!("this node is active");
        Ok(Running { system, app, sandbox, batches, following, term, broken, over, handled })
    }

    async fn lost(&self, running: &Running) {
        tokio::select! {
            () = running.system.lost() => {}
            () = running.broken.notified() => {}
        }
    }

    async fn end(&mut self, running: Running) {
        let Running { system, app, sandbox, batches, following, term, over, mut handled, .. } =
            running;
        if let Some(following) = following {
            following.abort();
        }
        over.store(true, Ordering::Relaxed);
        tracing::info!("this node is not active any more");
        system.drain();
        app.stopping.send_replace(true);
        if term.is_current() {
            // The wait ends once the last request has its answer, or too late.
            let _ = tokio::time::timeout(FINISH, handled.recv()).await;
            let _ = tokio::time::timeout(FINISH, system.store_uses()).await;
        }
        system.stop().await;
        sandbox.abort();
        batches.abort();
    }

    fn stand_by(&mut self, active: Option<&str>) {
        let active = active.and_then(|address| {
            let url = Url::parse(address);
            url.inspect_err(|error| tracing::error!(address, %error, "a node's address is no URL"))
                .ok()
        });
        self.front.set_role(Role::Standby(active));
    }
}
