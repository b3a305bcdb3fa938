//! What handlers share.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::http::HeaderMap;
use callboard_domain::Error;
use callboard_domain::access::Caller;
use callboard_domain::account::password::Rules;
use callboard_domain::account::throttle::Throttle;
use callboard_domain::audit::Record;
use callboard_runtime::{Handle, Owner};
use ipnet::IpNet;
use tokio::sync::Notify;

use super::limit::{Limiter, OpenLimit};
use crate::auth::password::Passwords;
use crate::auth::token::AccessTokens;
use crate::wire::tasks::Defaults;

/// The most worker connections that an account has open (PROTOCOL.md 8).
const WORKER_SOCKETS: u32 = 500;

/// What the service is made of.
pub struct Parts {
    /// The runtime's door.
    pub handle: Handle,
    /// What fills in what requests leave out.
    pub defaults: Defaults,
    /// The environment variables that plans and templates may use.
    pub env_allow: Vec<String>,
    /// Everybody's rate limits.
    pub limiter: Limiter,
    /// The most event streams and sockets that an account has open.
    pub streams: u32,
    /// Access tokens.
    pub tokens: AccessTokens,
    /// What hashes passwords.
    pub passwords: Passwords,
    /// What passwords must be like.
    pub password_rules: Rules,
    /// Proxies whose `X-Forwarded-For` counts.
    pub trusted_proxies: Vec<IpNet>,
}

/// What handlers share.
pub struct App {
    pub(crate) handle: Handle,
    pub(super) defaults: Defaults,
    pub(super) env_allow: Vec<String>,
    pub(super) limiter: Limiter,
    pub(super) streams: OpenLimit,
    pub(crate) worker_sockets: OpenLimit,
    pub(super) tokens: AccessTokens,
    pub(super) passwords: Passwords,
    pub(super) password_rules: Rules,
    /// Somebody's try of a password ended: whoever waits may ask again.
    pub(super) tries_settled: Notify,
    pub(super) started: Instant,
    throttle: Mutex<Throttle>,
    trusted_proxies: Vec<IpNet>,
}

impl App {
    /// The service as made of these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self {
            handle: parts.handle,
            defaults: parts.defaults,
            env_allow: parts.env_allow,
            limiter: parts.limiter,
            streams: OpenLimit::new("event streams", parts.streams),
            worker_sockets: OpenLimit::new("worker connections", WORKER_SOCKETS),
            tokens: parts.tokens,
            passwords: parts.passwords,
            password_rules: parts.password_rules,
            tries_settled: Notify::new(),
            started: Instant::now(),
            throttle: Mutex::default(),
            trusted_proxies: parts.trusted_proxies,
        }
    }

    /// Runs a check on a thread that no other request waits for: that of a definition takes up to a quarter
    /// of a second.
    ///
    /// # Errors
    /// What the check refuses.
    pub(super) async fn aside<T: Send + 'static>(
        self: &Arc<Self>,
        check: impl FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let app = Arc::clone(self);
        let checked = tokio::task::spawn_blocking(move || check(&app)).await;
        checked.unwrap_or(Err(Error::Internal))
    }

    /// Whom the things that a caller makes belong to.
    pub(crate) fn owner(&self, caller: &Caller) -> Owner {
        Owner {
            id: caller.account.to_string(),
            environment: caller.environment,
            concurrent: self.limiter.concurrent(caller.tier),
        }
    }

    /// Writes to the audit log what has happened already: if that fails, the action stands.
    pub(super) async fn record(&self, record: Record) {
        let action = record.action;
        if let Err(error) = self.handle.record(record).await {
            tracing::error!(%action, %error, "an action is not in the audit log");
        }
    }

    /// Writes a refused sign-in to the audit log.
    pub(super) async fn record_refusal(&self, record: Record) {
        if let Err(error) = self.handle.record_refusal(record).await {
            tracing::error!(%error, "a refused sign-in is not in the audit log");
        }
    }

    /// A name that nobody can guess, for a token.
    pub(super) fn fresh_name() -> String {
        format!("{:032x}", rand::random::<u128>())
    }

    pub(super) fn throttle(&self) -> MutexGuard<'_, Throttle> {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whom a request comes from: the peer, or, behind trusted proxies, the last address of
    /// `X-Forwarded-For` that is none of them.
    pub(super) fn client_address(&self, peer: SocketAddr, headers: &HeaderMap) -> IpAddr {
        let trusted = |ip: IpAddr| self.trusted_proxies.iter().any(|net| net.contains(&ip));
        let mut client = peer.ip().to_canonical();
        let forwarded = headers.get_all("x-forwarded-for");
        let forwarded: Vec<_> = forwarded.iter().filter_map(|value| value.to_str().ok()).collect();
        for hop in forwarded.iter().flat_map(|value| value.split(',')).rev() {
            if !trusted(client) {
                break;
            }
            let Ok(ip) = hop.trim().parse::<IpAddr>() else { break };
            client = ip.to_canonical();
        }
        client
    }
}
