//! Connections to PostgreSQL, and calls that outlast an outage.
//!
//! A read that fails with its connection is repeated on a new one, for as long as the store's patience lasts. A server
//! that takes no writes any more is left: every connection is made anew, at the host that does.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::Sleep;
use tokio_postgres::Client;

use super::errors::{Remedy, explain, failed, reason, remedy};
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
    readers: [Mutex<Option<Reader>>; READERS],
    turn: AtomicUsize,
    closing: AtomicBool,
    /// True once a connection was made.
    opened: AtomicBool,
    /// Counts the moves to another server; connections of before are not used any more.
    moves: AtomicU64,
    /// The reason why the last call failed, until one that writes succeeds.
    fault: Lock<Option<String>>,
}

/// A connection for reads, and the move after which it was made.
struct Reader {
    client: Arc<Client>,
    made_after: u64,
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
            moves: AtomicU64::new(0),
            fault: Lock::default(),
        }
    }

    /// The moves so far: a connection is to be made anew after one.
    pub(super) fn moves(&self) -> u64 {
        self.moves.load(Ordering::SeqCst)
    }

    /// The reason why the database does not take the node's calls.
    pub(super) fn fault(&self) -> Option<String> {
        self.lock_fault().clone()
    }

    /// Notes that the database took a write.
    pub(super) fn works(&self) {
        if self.lock_fault().take().is_some() {
            tracing::info!("the database takes the node's calls again");
        }
    }

    /// Notes the reason of a failed call, and logs the first one with its details.
    fn fails(&self, reason: String, details: &dyn std::fmt::Display) {
        if self.lock_fault().replace(reason).is_none() {
            tracing::warn!(error = %details, "the database does not take the node's calls");
        }
    }

    fn lock_fault(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a call that has no answer after `limit`, and goes on waiting for it.
    pub(super) async fn warn_if_silent<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = T>,
    ) -> T {
        let mut call = std::pin::pin!(call);
        tokio::select! {
            done = &mut call => return done,
            () = self.timer(limit) => {
                let text = "the database does not answer";
                self.fails(text.into(), &text);
            }
        }
        call.await
    }

    /// A timer of the store's runtime, whichever runtime waits for it.
    fn timer(&self, after: Duration) -> Sleep {
        let _entered = self.runtime.enter();
        tokio::time::sleep(after)
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
        loop {
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
            self.fails(none.reason(), &none);
            let (has_worked, waited) = (self.opened.load(Ordering::Relaxed), begun.elapsed());
            let is_mute = !has_worked && none.is_silence() && waited >= SILENT;
            if none.is_final(has_worked) {
                return Err(Error::Io(none.to_string().into()));
            }
            if is_mute || Instant::now() >= deadline {
                return Err(Error::Io(format!("{none}; waited {} s", waited.as_secs()).into()));
            }
            self.rest().await?;
        }
    }

    /// Waits before the next attempt, unless the error stays or the time is over.
    pub(super) async fn pause(
        &self,
        error: &tokio_postgres::Error,
        deadline: Instant,
    ) -> Result<(), Error> {
        self.fails(reason(error), &explain(error));
        match remedy(error) {
            Remedy::Fail => return Err(failed(error)),
            Remedy::MoveOn => {
                self.moves.fetch_add(1, Ordering::SeqCst);
            }
            Remedy::Repeat => {}
        }
        if Instant::now() >= deadline {
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
            let left = deadline.saturating_duration_since(Instant::now());
            let answered = tokio::select! {
                biased;
                answered = call(client) => answered,
                () = self.timer(left) => {
                    // The connection may stay silent for ever.
                    self.moves.fetch_add(1, Ordering::SeqCst);
                    let text = format!("PostgreSQL has not answered for {} s", self.patience.as_secs());
                    return Err(Error::Io(text.into()));
                }
            };
            match answered {
                Ok(read) => return Ok(read),
                Err(error) => self.pause(&error, deadline).await?,
            }
        }
    }

    async fn reader(&self, deadline: Instant) -> Result<Arc<Client>, Error> {
        let at = self.turn.fetch_add(1, Ordering::Relaxed) % READERS;
        let mut reader = self.readers[at].lock().await;
        let made_after = self.moves();
        let is_right = |it: &&Reader| !it.client.is_closed() && it.made_after == made_after;
        if let Some(reader) = reader.as_ref().filter(is_right) {
            return Ok(Arc::clone(&reader.client));
        }
        let client = Arc::new(self.connect(deadline).await?);
        *reader = Some(Reader { client: Arc::clone(&client), made_after });
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
