//! Users, keys and sessions (SPEC.md, Authentication; PROTOCOL.md 7).

use callboard_domain::Error;
use callboard_domain::access::{Caller, Role};
use callboard_domain::account::{Email, User};
use callboard_domain::credential::refresh::RefreshToken;
use callboard_domain::credential::{ApiKey, Secret};
use callboard_domain::digest::Digest;
use callboard_domain::id::{SessionId, UserId};
use tokio::sync::oneshot;

use super::{COMMAND, Handle, STOPPING, within};
use crate::accounts::{self, NewKey, NewUser, SignedIn};

impl Handle {
    /// Who an API key stands for, if it is valid now.
    ///
    /// # Errors
    /// [`Error::InvalidToken`], [`Error::TokenExpired`].
    pub fn caller_of_key(&self, digest: &Digest) -> Result<Caller, Error> {
        accounts::caller_of_key(&self.node.accounts, digest, self.node.now())
    }

    /// Who a session stands for: the user as it is now.
    ///
    /// # Errors
    /// [`Error::InvalidToken`] if the session is over or not this user's, or the user is gone.
    pub fn caller_of_session(&self, session: SessionId, user: UserId) -> Result<Caller, Error> {
        accounts::caller_of_session(&self.node.accounts, session, user)
    }

    /// Begins a session of a user whose password was right (SPEC.md, "JWT sessions").
    ///
    /// # Errors
    /// [`Error::InvalidCredentials`] if the user is gone, [`Error::Unavailable`].
    pub async fn sign_in(&self, user: UserId) -> Result<SignedIn, Error> {
        self.account_command(|reply| accounts::Message::BeginSession(user, reply)).await
    }

    /// Renews the session of a refresh token, which is replaced (PROTOCOL.md 7). After `Err` to one
    /// that was replaced long before, the session is over.
    ///
    /// # Errors
    /// [`Error::InvalidToken`], [`Error::TokenExpired`], [`Error::Unavailable`].
    pub async fn refresh(&self, token: RefreshToken) -> Result<SignedIn, Error> {
        // The time at which it came in: how long it waits for its turn is not its holder's doing.
        let at = self.node.now();
        self.account_command(|reply| accounts::Message::RenewSession(token, at, reply)).await
    }

    /// The user who signs in with this e-mail.
    #[must_use]
    pub fn user_by_email(&self, email: &Email) -> Option<User> {
        self.node.accounts.user_by_email(email)
    }

    /// All users, oldest first.
    #[must_use]
    pub fn users(&self) -> Vec<User> {
        self.node.accounts.users()
    }

    /// Makes a user (SPEC.md, Authentication endpoints).
    ///
    /// # Errors
    /// [`Error::EmailExists`], [`Error::Unavailable`].
    pub async fn create_user(&self, new: NewUser) -> Result<User, Error> {
        self.account_command(|reply| accounts::Message::CreateUser(new, reply)).await
    }

    /// Makes the first user, unless there is one; says whether it was made.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn create_first_user(&self, new: NewUser) -> Result<Option<User>, Error> {
        self.account_command(|reply| accounts::Message::CreateFirstUser(new, reply)).await
    }

    /// Gives a user another role, from the next request on.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] for the last admin, [`Error::Unavailable`].
    pub async fn set_role(&self, id: UserId, role: Role) -> Result<User, Error> {
        self.account_command(|reply| accounts::Message::SetRole(id, role, reply)).await
    }

    /// Makes an API key. Its text is told here and never again.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such kind of key, [`Error::Unavailable`].
    pub async fn create_key(&self, new: NewKey) -> Result<(ApiKey, Secret), Error> {
        self.account_command(|reply| accounts::Message::CreateKey(new, reply)).await
    }

    async fn account_command<T>(
        &self,
        message: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> accounts::Message,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        self.tell_accounts(message(reply))?;
        within(COMMAND, answer).await?
    }

    pub(crate) fn tell_accounts(&self, message: accounts::Message) -> Result<(), Error> {
        let writer = self.node.account_writer.get().ok_or(STOPPING)?;
        writer.cast(message).map_err(|_| STOPPING)
    }
}
