//! The way back in of a server whose admins have lost theirs: whoever may open the store gives an admin a password.
//!
//! On PostgreSQL the process joins the cluster for as long as the change takes, and writes only as its active node.

use std::sync::Arc;

use callboard_common::secret::Secret;
use callboard_domain::access::Role;
use callboard_domain::account::password::Rules;
use callboard_domain::account::{Email, User, display_name};
use callboard_domain::session::signing::{SigningKeyId, SigningKeys};
use callboard_runtime::accounts::{NewUser, OfflineAccounts};
use callboard_runtime::membership::{Membership, Part, Term, take_part};
use callboard_runtime::ports::Ports;
use callboard_store::Store;
use callboard_store::ownership::NodeId;
use callboard_store::postgres::Address;
use tokio::sync::Notify;

use super::{Error, broken, failed, open_store, settings};
use crate::auth::password::Passwords;
use crate::backend::{self, Shared};
use crate::config::Config;

/// The address of a process that answers nobody.
const NOWHERE: &str = "http://admin-reset.invalid";

/// The wanted admin.
#[derive(Debug, Clone, Default)]
pub struct AdminReset {
    /// The e-mail; `None` is the only admin.
    pub email: Option<String>,
    /// The password; `None` makes one that must be changed at the next sign-in.
    pub password: Option<Secret>,
}

/// An admin with a new password.
#[derive(Debug)]
pub struct ResetAdmin {
    /// The e-mail.
    pub email: Email,
    /// The password that was made.
    pub made: Option<Secret>,
}

impl AdminReset {
    /// Gives the admin the password in the store that the settings name. No server may run on the store.
    ///
    /// # Errors
    /// There is no store, a server runs on it, or the e-mail or the password breaks a rule. Nothing has changed then.
    pub async fn run(self, config: &Config) -> Result<ResetAdmin, Error> {
        if let Some(database) = config.store.shared.clone() {
            return self.run_shared(config, database).await;
        }
        let dir = &config.server.data_dir;
        if !dir.join("store").exists() {
            return Err(Error(format!("there is no store in {}", dir.display())));
        }
        let store: Arc<dyn Store> = open_store(config).await?;
        self.over(&store, config).await
    }

    async fn run_shared(self, config: &Config, database: Address) -> Result<ResetAdmin, Error> {
        let on_failure = Box::new(|error: &callboard_store::Error| broken(&error.to_string()));
        let node = NodeId(rand::random());
        let shared = backend::open_shared(database, node, config.cluster.term, on_failure).await;
        let Shared { store, ownership } = shared.map_err(|e| failed("store.url")(&e))?;
        self.join(config, Shared { store, ownership }).await
    }

    /// Joins as a node, and gives the admin the password once it is the active one.
    pub(crate) async fn join(self, config: &Config, shared: Shared) -> Result<ResetAdmin, Error> {
        let Shared { store, ownership } = shared;
        let cannot_join = |e| failed("the cluster cannot be joined")(&e);
        let membership = Membership::join(ownership, NOWHERE).await.map_err(cannot_join)?;
        let done = Arc::new(Notify::new());
        let mut part = Once { reset: self, config, store, outcome: None, done: Arc::clone(&done) };
        let ended = take_part(membership, &mut part, done.notified()).await;
        ended.map_err(|e| failed("the node has ended")(&e))?;
        part.outcome.expect("the part notifies once it has an outcome")
    }

    /// Gives the admin the password in a store that nobody else writes.
    async fn over(&self, store: &Arc<dyn Store>, config: &Config) -> Result<ResetAdmin, Error> {
        let rules = Rules::with_minimum(config.auth.password_min_length)
            .ok_or_else(|| Error("auth.password_min_length must be 8 to 128".into()))?;
        // No session is judged here, so any name of a key will do.
        let settings = settings(config, SigningKeys::new(SigningKeyId::of("")))?;
        let accounts = OfflineAccounts::open(store, settings, Ports::of_this_machine()).await;
        let accounts = accounts.map_err(|e| failed("the accounts cannot be read")(&e))?;
        let refused = |e: callboard_domain::Error| failed("the admin has no new password")(&e);
        let email = match &self.email {
            Some(email) => Email::parse(email).map_err(refused)?,
            None => only_admin(&accounts.users())?,
        };
        let made = self
            .password
            .is_none()
            .then(|| Secret::new(format!("{:032x}", rand::random::<u128>())));
        let password = self.password.as_ref().or(made.as_ref()).map(Secret::expose);
        let password = password.unwrap_or_default().to_owned();
        rules.check(&password, &email).map_err(refused)?;
        let password_hash = Passwords::new().hash(password).await.map_err(refused)?;
        let name = display_name(email.local_part()).map_err(refused)?;
        let admin = NewUser {
            email: email.clone(),
            name,
            role: Role::Admin,
            tier: None,
            must_change_password: false,
            external: None,
            password_hash,
        };
        let uid = rustix::process::getuid().as_raw();
        accounts.reset_admin(admin, made.is_some(), uid).await.map_err(refused)?;
        Ok(ResetAdmin { email, made })
    }
}

/// The e-mail of the only admin.
fn only_admin(users: &[User]) -> Result<Email, Error> {
    let admins = users.iter().filter(|user| user.role == Role::Admin);
    let admins: Vec<_> = admins.map(|user| &user.email).collect();
    match admins.as_slice() {
        [only] => Ok((*only).clone()),
        [] => Err(Error("there is no admin: name one to make with --email".into())),
        several => {
            let names: Vec<_> = several.iter().map(ToString::to_string).collect();
            Err(Error(format!(
                "there are several admins: name one with --email: {}",
                names.join(", ")
            )))
        }
    }
}

/// The part of a node that is active once, for the change.
struct Once<'a> {
    reset: AdminReset,
    config: &'a Config,
    store: Arc<dyn Store>,
    outcome: Option<Result<ResetAdmin, Error>>,
    done: Arc<Notify>,
}

impl Part for Once<'_> {
    type Running = ();
    type Failed = Error;

    async fn begin(&mut self, _: Term) -> Result<(), Error> {
        self.outcome = Some(self.reset.over(&self.store, self.config).await);
        self.done.notify_one();
        Ok(())
    }

    async fn lost(&self, (): &()) {
        std::future::pending::<()>().await;
    }

    async fn end(&mut self, (): ()) {}

    fn stand_by(&mut self, active: Option<&str>) {
        if let (Some(address), None) = (active, &self.outcome) {
            let term = self.config.cluster.term.as_secs();
            let why = format!(
                "the node at {address} is active: stop all nodes; one that did not stop in order counts as active \
                 for {term} s more"
            );
            self.outcome = Some(Err(Error(why)));
            self.done.notify_one();
        }
    }
}
