//! The accounts of a store over which no system runs, for the way back in of a server whose admins have lost theirs.
//!
//! Access to the files of the store is the only right that is needed.

use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::access::Role;
use callboard_domain::account::User;
use callboard_domain::audit::{Action, By, Record};
use callboard_store::Store;

use super::users::Endings;
use super::{Accounts, NUMBER, NewUser};
use crate::kernel::ports::Ports;
use crate::node::{Node, Settings};
use crate::tables::USERS;

/// The accounts of a store over which no system runs.
#[derive(Debug)]
pub struct OfflineAccounts(Accounts);

impl OfflineAccounts {
    /// Reads all accounts. The caller holds the store alone.
    ///
    /// # Errors
    /// The store's.
    pub async fn open(
        store: &Arc<dyn Store>,
        settings: Settings,
        ports: Ports,
    ) -> Result<Self, callboard_store::Error> {
        let accounts = Accounts(Arc::new(Node::new(store, settings, ports)));
        accounts.load().await?;
        Ok(Self(accounts))
    }

    /// All users, oldest first.
    #[must_use]
    pub fn users(&self) -> Vec<User> {
        self.0.0.state.accounts.users()
    }

    /// Makes the user with the e-mail of `admin` an admin with its password, or makes that user; `must_change` asks for
    /// another password at the next sign-in. All sessions of the user end. `uid` is the user of the system who asks,
    /// for the audit log. The change is durable once this returns.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn reset_admin(
        &self,
        admin: NewUser,
        must_change: bool,
        uid: u32,
    ) -> Result<User, Error> {
        let Accounts(node) = &self.0;
        let known = node.state.accounts.user_by_email(&admin.email);
        let mut record = Record::new(Action::AdminReset, By::SYSTEM)
            .with("email", &admin.email)
            .with("uid", uid)
            .with("made", known.is_none());
        let mut user = known.unwrap_or_else(|| self.0.user_of(admin.clone()));
        if user.role != Role::Admin {
            record = record.with("previousRole", user.role);
        }
        (user.role, user.password_hash) = (Role::Admin, admin.password_hash);
        user.must_change_password = must_change;
        let mut endings = Endings::default();
        endings.records.push(record.of(user.id));
        self.0.end_all_sessions(&mut endings, user.id, None, By::SYSTEM, "password reset");
        endings.ops.push(USERS.put(NUMBER, &user.id.as_u128(), &user, None));
        self.0.end(endings).await?;
        node.state.accounts.put_user(user.clone());
        Ok(user)
    }
}
