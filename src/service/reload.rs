//! The settings that a running server reads again at SIGHUP: the log, the limits, the prices, the certificate.
//!
//! All of them are taken or none. Deliberately absent: settings that a start alone reads, which are named in the log
//! if they have changed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use callboard_domain::audit::Action;

use super::{Error, failed, live, settings_record};
use crate::config::{Config, Flags};
use crate::http::App;
use crate::telemetry;
use crate::tls::Tls;

/// The reader; clones share their state.
#[derive(Clone)]
pub(crate) struct Reload(Arc<Inner>);

struct Inner {
    /// The settings that the server runs with.
    config: Mutex<Config>,
    /// The edge that serves; none on a node that stands by.
    app: Mutex<Weak<App>>,
    tls: Option<Tls>,
}

impl Reload {
    pub(crate) fn new(config: Config, tls: Option<Tls>) -> Self {
        Self(Arc::new(Inner { config: Mutex::new(config), app: Mutex::default(), tls }))
    }

    /// The settings as they were read last.
    pub(crate) fn config(&self) -> Config {
        self.lock().clone()
    }

    /// This edge serves from now on.
    pub(crate) fn serves(&self, app: &Arc<App>) {
        *self.0.app.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(app);
    }

    /// Reads the settings again, and logs what has changed. A fault leaves all settings as they are.
    pub(crate) async fn run(&self, flags: Flags, environment: Vec<(String, String)>) {
        if let Some(tls) = &self.0.tls {
            tls.read_again();
        }
        let read = Config::load(flags, environment).map_err(|error| Error(error.to_string()));
        let taken = match read {
            Ok(config) => self.take(config).await,
            Err(error) => Err(error),
        };
        if let Err(error) = taken {
            tracing::error!(%error, "the settings stay as they are");
        }
    }

    async fn take(&self, read: Config) -> Result<(), Error> {
        let live = live(&read)?;
        let before = self.config();
        let mut now = before.clone();
        now.server.log.clone_from(&read.server.log);
        now.limits = read.limits.clone();
        now.models.limits.clone_from(&read.models.limits);
        now.models.prices.clone_from(&read.models.prices);
        if std::env::var_os(telemetry::VARIABLE).is_none() {
            telemetry::set_filter(&now.server.log).map_err(|e| failed("server.log")(&e))?;
        }
        let app = self.0.app.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(app) = &app {
            app.adopt(now.limits.streams, live).await;
        }
        changes(&before, &now, &read);
        *self.lock() = now.clone();
        if let Some(app) = app {
            app.record(settings_record(Action::SettingsRead, &now)).await;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Config> {
        self.0.config.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs the settings that were taken, and those that have changed and wait for a start.
fn changes(before: &Config, now: &Config, read: &Config) {
    let pairs = |one: &Config, other: &Config| {
        let other = other.shown();
        let changed = one.shown().into_iter().filter(move |pair| !other.contains(pair));
        changed.collect::<Vec<_>>()
    };
    for (name, value) in pairs(now, before) {
        tracing::info!("the settings were read again: {name} is now {value}");
    }
    let waiting = pairs(read, now);
    for (name, value) in &waiting {
        tracing::warn!(
            "the settings were read again: {name} = {value} takes effect at the next start"
        );
    }
    if read != now && waiting.is_empty() {
        tracing::warn!(
            "the settings were read again: some have changed that take effect at the next start"
        );
    }
    tracing::info!("the settings and the prices were read again");
}
