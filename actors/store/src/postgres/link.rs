//! Connections to PostgreSQL, and calls that outlast an outage.
//!
//! A read that fails with its connection is repeated on a new one, for as long as the store's patience
//! lasts. Deliberately absent: the repetition of commits, which is the engine's.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio_postgres::Client;

use super::errors::{explain, failed, passes};
use super::session::{Address, Warned};
use crate::Error;

/// The least version of PostgreSQL, as `server_version_num` says it.
const LEAST_VERSION: u32 = 150_000;
/// The time in which a server must be heard once, if it takes connections.
const SILENT: Duration = Duration::from_secs(10);
/// The pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(100);
/// The connections for reads.
const READERS: usize = 4;

/// The connections of a store.
pub(super) struct Link {
    address: Address,
    runtime: Handle,
    patience: Duration,
    readers: [Mutex<Option<Arc<Client>>>; READERS],
    turn: AtomicUsize,
    closing: AtomicBool,
    /// True once a connection was made.
    opened: AtomicBool,
}

impl Link {
    pub(super) fn new(address: Address, runtime: Handle, patience: Duration) -> Self {
        Self {
            address,
            runtime,
            patience,
            readers: std::array::from_fn(|_| Mutex::new(None)),
            turn: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            opened: AtomicBool::new(false),
        }
    }

    /// Ends every wait for a connection.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// The time at which a call that begins now gives up.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.patience
    }

    /// A connection of the caller's own; waits for the database until `deadline`.
    pub(super) async fn connect(&self, deadline: Instant) -> Result<Client, Error> {
        Ok(self.connect_watched(deadline).await?.0)
    }

    /// The same, with the connection's warnings.
    pub(super) async fn connect_watched(
        &self,
        deadline: Instant,
    ) -> Result<(Client, Warned), Error> {
        let begun = Instant::now();
        for attempt in 0_u32.. {
            // The connection belongs to the store's runtime, whichever runtime asks for it.
            let (address, runtime) = (self.address.clone(), self.runtime.clone());
            let connect = async move { address.connect(&runtime).await };
            let none = match self.runtime.spawn(connect).await.map_err(|_| Error::Stopped)? {
                Ok(connected) => {
                    self.opened.store(true, Ordering::Relaxed);
                    return Ok(connected);
                }
                Err(none) => none,
            };
            let (has_worked, waited) = (self.opened.load(Ordering::Relaxed), begun.elapsed());
            let is_mute = !has_worked && none.is_silence() && waited >= SILENT;
            if none.is_final(has_worked) {
                return Err(Error::Io(none.to_string().into()));
            }
            if is_mute || Instant::now() >= deadline {
                return Err(Error::Io(format!("{none}; waited {} s", waited.as_secs()).into()));
            }
            if attempt == 0 {
                tracing::warn!(error = %none, "the database cannot be reached yet");
            }
            self.rest().await?;
        }
        Err(Error::Stopped)
    }

    /// Waits before the next attempt, unless the error stays or the time is over.
    pub(super) async fn pause(
        &self,
        error: &tokio_postgres::Error,
        deadline: Instant,
    ) -> Result<(), Error> {
        if !passes(error) || Instant::now() >= deadline {
            return Err(failed(error));
        }
        tracing::debug!(error = %explain(error), "the database does not answer; the call is repeated");
        self.rest().await
    }

    async fn rest(&self) -> Result<(), Error> {
        self.runtime.spawn(tokio::time::sleep(PAUSE)).await.map_err(|_| Error::Stopped)?;
        if self.closing.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Reads by `call`, again on a new connection if the first one fails.
    pub(super) async fn read<T, F>(&self, call: impl Fn(Arc<Client>) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, tokio_postgres::Error>>,
    {
        let deadline = self.deadline();
        loop {
            let client = self.reader(deadline).await?;
            match call(client).await {
                Ok(read) => return Ok(read),
                Err(error) => self.pause(&error, deadline).await?,
            }
        }
    }

    async fn reader(&self, deadline: Instant) -> Result<Arc<Client>, Error> {
        let at = self.turn.fetch_add(1, Ordering::Relaxed) % READERS;
        let mut reader = self.readers[at].lock().await;
        if let Some(client) = reader.as_ref().filter(|client| !client.is_closed()) {
            return Ok(Arc::clone(client));
        }
        let client = Arc::new(self.connect(deadline).await?);
        *reader = Some(Arc::clone(&client));
        Ok(client)
    }

    /// Refuses a server that is too old, and warns of one that may lose acknowledged commits.
    pub(super) async fn check(&self) -> Result<(), Error> {
        let settings = self
            .read(async |client| {
                let names = "SELECT current_setting('server_version_num'), \
                             current_setting('synchronous_standby_names'), \
                             current_setting('fsync'), current_setting('full_page_writes')";
                client.query_one(names, &[]).await
            })
            .await?;
        let version: u32 = settings.get::<_, &str>(0).parse().unwrap_or(0);
        if version < LEAST_VERSION {
            let text =
                format!("PostgreSQL {} is too old: 15 is the least version", version / 10_000);
            return Err(Error::Io(text.into()));
        }
        if settings.get::<_, &str>(2) == "off" || settings.get::<_, &str>(3) == "off" {
            let text =
                "the server runs with fsync or full_page_writes off: a crash may destroy the data";
            return Err(Error::Io(text.into()));
        }
        if settings.get::<_, &str>(1).is_empty() {
            tracing::warn!(
                "PostgreSQL replicates to no synchronous standby: a failover may lose acknowledged work; \
                 set synchronous_standby_names (Patroni: synchronous_mode_strict)"
            );
        }
        Ok(())
    }
}
