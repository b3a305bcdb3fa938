//! Users, keys and sessions (docs/reference/accounts.md).

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::access::{Account, Action, Caller};
use callboard_domain::account::external::ExternalId;
use callboard_domain::account::{Email, PasswordHash, User, WorkLeft};
use callboard_domain::audit::{By, Entry, Record};
use callboard_domain::credential::invitation::Invitation;
use callboard_domain::credential::refresh::RefreshToken;
use callboard_domain::credential::selection::KeySelection;
use callboard_domain::credential::{ApiKey, Secret};
use callboard_domain::digest::Digest;
use callboard_domain::id::{InvitationId, KeyId, SessionId, Slot, UserId};
use callboard_domain::query::{AuditQuery, Page};
use callboard_domain::session::Session;
use callboard_domain::session::signing::SigningKeys;
use callboard_domain::{Error, Timestamp};
use tokio::sync::oneshot;

use super::{COMMAND, Handle, STOPPING, within};
use crate::items::accounts::{
    self, Invited, KnownKey, Message, NewInvitation, NewKey, NewUser, PasswordChange,
    PermissionWatch, SignedIn, UserChange,
};
use crate::read::{self, unreadable};

impl Handle {
    /// The account of an API key, if the key is valid now.
    ///
    /// # Errors
    /// [`Error::InvalidToken`], [`Error::TokenExpired`], [`Error::Unavailable`] while the project is being moved.
    pub fn caller_of_key(&self, digest: &Digest) -> Result<Caller, Error> {
        let register = &self.node.state.accounts;
        let caller = accounts::caller_of_key(register, digest, self.node.now())?;
        register.check_here(caller.environment.slot())?;
        Ok(caller)
    }

    /// The user of a session in a project, as it is now.
    ///
    /// # Errors
    /// [`Error::InvalidToken`] if the session is over or not this user's, or its signing key or the user is gone;
    /// [`Error::NotFound`] of the project for a user who is no member.
    pub fn caller_of_session(
        &self,
        session: SessionId,
        user: UserId,
        project: Slot,
    ) -> Result<Caller, Error> {
        let (register, now) = (&self.node.state.accounts, self.node.now());
        register.check_here(project)?;
        accounts::caller_of_session(register, session, (user, project), now)
    }

    /// The caller that the credentials of an earlier one are now.
    ///
    /// # Errors
    /// [`Error::InvalidToken`] if they count no more, [`Error::TokenExpired`].
    pub fn caller_now(&self, caller: &Caller) -> Result<Caller, Error> {
        let place = (caller.account, caller.environment.slot());
        self.node.state.accounts.check_here(place.1)?;
        accounts::caller_now(&self.node, place, caller.session)
    }

    /// A caller's right to an action, for a stream or socket that outlives its request.
    #[must_use]
    pub fn right(&self, caller: &Caller, action: Action) -> PermissionWatch {
        PermissionWatch::new(Arc::clone(&self.node), caller, action)
    }

    /// Begins a session of a user whose password was right; `user` is the
    /// user with whose hash the password was compared.
    ///
    /// # Errors
    /// [`Error::InvalidCredentials`] if the user is gone or has another password by now,
    /// [`Error::Unavailable`].
    pub async fn sign_in(&self, user: User, by: By) -> Result<SignedIn, Error> {
        self.sign_in_within(None, user, by).await
    }

    /// Begins a session of a user, as the child of the session `parent`, with which it ends.
    ///
    /// # Errors
    /// As [`Self::sign_in`]; [`Error::InvalidToken`] or [`Error::TokenExpired`] if the parent is over.
    pub async fn sign_in_within(
        &self,
        parent: Option<SessionId>,
        user: User,
        by: By,
    ) -> Result<SignedIn, Error> {
        let (id, hash) = (user.id, user.password_hash);
        self.account_command(|reply| Message::BeginSession(id, hash, parent, by, reply)).await
    }

    /// Renews the session of a refresh token, which is replaced. An `Err` to a token
    /// that was replaced long before also ends the session.
    ///
    /// # Errors
    /// [`Error::InvalidToken`], [`Error::TokenExpired`], [`Error::Unavailable`].
    pub async fn refresh(&self, token: RefreshToken, by: By) -> Result<SignedIn, Error> {
        // The token's arrival counts: the wait for its turn is not its holder's doing.
        let at = self.node.now();
        self.account_command(|reply| Message::RenewSession(token, at, by, reply)).await
    }

    /// The open sessions of a user, or of all, the newest first.
    #[must_use]
    pub fn sessions(&self, user: Option<UserId>) -> Vec<Arc<Session>> {
        let register = &self.node.state.accounts;
        let mut sessions = match user {
            Some(user) => register.sessions_of(user),
            None => register.sessions(),
        };
        sessions.sort_by_key(|session| std::cmp::Reverse(session.id));
        sessions
    }

    /// Ends a session: one's own, or any one for an admin. Its tokens are refused once this returns.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn end_session(&self, id: SessionId, by: By) -> Result<Arc<Session>, Error> {
        self.account_command(|reply| Message::EndSession(id, by, reply)).await
    }

    /// Ends all sessions of a user; returns their number.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn end_sessions(&self, user: UserId, by: By) -> Result<usize, Error> {
        self.account_command(|reply| Message::EndSessions(user, by, reply)).await
    }

    /// The user who signs in with this e-mail.
    #[must_use]
    pub fn user_by_email(&self, email: &Email) -> Option<User> {
        self.node.state.accounts.user_by_email(email)
    }

    /// All users, oldest first.
    #[must_use]
    pub fn users(&self) -> Vec<User> {
        self.node.state.accounts.users()
    }

    /// The users of a project, each with the role there, oldest first.
    #[must_use]
    pub fn users_in(&self, project: Slot) -> Vec<User> {
        self.node.state.accounts.users_in(project)
    }

    /// A user.
    #[must_use]
    pub fn user(&self, id: UserId) -> Option<User> {
        self.node.state.accounts.user(id)
    }

    /// Makes a user.
    ///
    /// # Errors
    /// [`Error::EmailExists`], [`Error::Unavailable`].
    pub async fn create_user(&self, new: NewUser, by: By) -> Result<User, Error> {
        self.account_command(|reply| Message::CreateUser(new, by, reply)).await
    }

    /// True if a user is an admin.
    #[must_use]
    pub fn has_admin(&self) -> bool {
        self.node.state.accounts.has_admin()
    }

    /// Makes the first admin; `None` if there is one.
    ///
    /// # Errors
    /// [`Error::EmailExists`], [`Error::Unavailable`].
    pub async fn create_first_admin(&self, new: NewUser, by: By) -> Result<Option<User>, Error> {
        self.account_command(|reply| Message::CreateFirstAdmin(new, by, reply)).await
    }

    /// The user of this identity at a provider.
    #[must_use]
    pub fn user_by_external(&self, id: &ExternalId) -> Option<User> {
        self.node.state.accounts.user_by_external(id)
    }

    /// Makes the user of an identity at a provider, or gives the known one the role of `new`.
    ///
    /// # Errors
    /// [`Error::EmailExists`], [`Error::InvalidState`] for the last admin, [`Error::Unavailable`].
    pub async fn admit_external(&self, new: NewUser, by: By) -> Result<User, Error> {
        self.account_command(|reply| Message::AdmitExternal(new, by, reply)).await
    }

    /// Gives a user another role, tier or password, from the next request on. The change ends the
    /// keys whose role the user could no longer give, and a new password ends all sessions.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] for the last admin, [`Error::Unavailable`].
    pub async fn change_user(&self, id: UserId, change: UserChange, by: By) -> Result<User, Error> {
        self.account_command(|reply| Message::ChangeUser(id, change, by, reply)).await
    }

    /// Replaces a user's own password; all other sessions end.
    ///
    /// # Errors
    /// [`Error::InvalidCredentials`] if the password or the session changed meanwhile,
    /// [`Error::Unavailable`].
    pub async fn change_password(&self, change: PasswordChange, by: By) -> Result<User, Error> {
        self.account_command(|reply| Message::ChangePassword(change, by, reply)).await
    }

    /// Sets the password of a user who has shown the link of a mail; all sessions end.
    ///
    /// # Errors
    /// [`Error::InvalidToken`] if the user is gone, [`Error::Unavailable`].
    pub async fn reset_password(
        &self,
        id: UserId,
        hash: PasswordHash,
        by: By,
    ) -> Result<User, Error> {
        self.account_command(|reply| Message::ResetPassword(id, hash, by, reply)).await
    }

    /// Invites a person, and returns the only copy of the token.
    ///
    /// # Errors
    /// [`Error::EmailExists`], [`Error::InvalidState`] if too many are open, [`Error::Unavailable`].
    pub async fn invite(&self, new: NewInvitation, by: By) -> Result<(Invitation, Secret), Error> {
        self.account_command(|reply| Message::Invite(new, by, reply)).await
    }

    /// The open invitations, the newest first.
    #[must_use]
    pub fn invitations(&self) -> Vec<Invitation> {
        let mut open = self.node.state.accounts.invitations(self.node.now());
        open.reverse();
        open
    }

    /// The invitation of a token, if it counts now.
    ///
    /// # Errors
    /// [`Error::InvalidToken`], [`Error::TokenExpired`].
    pub fn invitation(&self, digest: &Digest) -> Result<Invitation, Error> {
        self.node.state.accounts.invitation(digest, self.node.now())
    }

    /// Revokes an open invitation, which is refused once this returns.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn revoke_invitation(&self, id: InvitationId, by: By) -> Result<Invitation, Error> {
        self.account_command(|reply| Message::RevokeInvitation(id, by, reply)).await
    }

    /// Makes the account of an invited person, and uses up the invitation.
    ///
    /// # Errors
    /// [`Error::InvalidToken`], [`Error::TokenExpired`], [`Error::EmailExists`], [`Error::Invalid`] for an e-mail
    /// that is missing or another one, [`Error::Unavailable`].
    pub async fn accept_invitation(&self, invited: Invited, by: By) -> Result<User, Error> {
        self.account_command(|reply| Message::AcceptInvitation(invited, by, reply)).await
    }

    /// Deletes a user with all sessions, and revokes the keys that the user answers for. `work` says what becomes of
    /// the unfinished work.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] for the last admin, or if there is unfinished work and nothing is
    /// said about it, [`Error::Invalid`] for a user who cannot take it over, [`Error::Unavailable`].
    pub async fn delete_user(
        &self,
        id: UserId,
        work: Option<WorkLeft>,
        by: By,
    ) -> Result<User, Error> {
        self.account_command(|reply| Message::DeleteUser(id, work, by, reply)).await
    }

    /// The keys of a project, the newest first; revoked and expired ones too.
    #[must_use]
    pub fn keys(&self, project: Slot) -> Vec<Arc<KnownKey>> {
        let mut keys = self.node.state.accounts.keys_in(project);
        keys.reverse();
        keys
    }

    /// The end of the key of an account, if it lies at most so far ahead.
    #[must_use]
    pub fn ends_soon(&self, account: Account, ahead: Duration) -> Option<Timestamp> {
        let Account::Key(id) = account else { return None };
        let key = self.node.state.accounts.key_by_id(id)?;
        let ends_at =
            key.key.revoked_at.map_or(key.key.expires_at, |at| at.min(key.key.expires_at));
        (ends_at <= self.node.now().after(ahead)).then_some(ends_at)
    }

    /// Makes an API key, and returns the only copy of its text.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such kind of key, [`Error::Unavailable`].
    pub async fn create_key(&self, new: NewKey, by: By) -> Result<(ApiKey, Secret), Error> {
        self.account_command(|reply| Message::CreateKey(new, by, reply)).await
    }

    /// Revokes a key; one that has ended stays as it is. The key is refused once this returns.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn revoke_key(&self, id: KeyId, by: By) -> Result<Arc<KnownKey>, Error> {
        self.account_command(|reply| Message::RevokeKey(id, by, reply)).await
    }

    /// The keys of a selection in a project that count now, the oldest first.
    #[must_use]
    pub fn selected_keys(&self, project: Slot, selection: KeySelection) -> Vec<Arc<KnownKey>> {
        self.node.state.accounts.selected_keys(project, selection, self.node.now())
    }

    /// Revokes the keys of a selection. They are refused once this returns.
    ///
    /// # Errors
    /// [`Error::InvalidState`] if another number than expected matches, [`Error::Unavailable`]; then some may be
    /// revoked, and another call revokes the rest.
    pub async fn revoke_keys(
        &self,
        selection: KeySelection,
        expect: Option<u64>,
        reason: Option<String>,
        by: By,
    ) -> Result<Vec<Arc<KnownKey>>, Error> {
        self.account_command(|reply| Message::RevokeKeys(selection, expect, reason, by, reply))
            .await
    }

    /// Makes the successor of a key, which is refused after `overlap`.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] if the key has ended or was rotated before,
    /// [`Error::Unavailable`].
    pub async fn rotate_key(
        &self,
        id: KeyId,
        overlap: Duration,
        by: By,
    ) -> Result<(ApiKey, Secret), Error> {
        self.account_command(|reply| Message::RotateKey(id, overlap, by, reply)).await
    }

    /// Makes other keys sign access tokens. The sessions whose key is gone are over once this returns.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn change_signing_keys(&self, keys: SigningKeys, by: By) -> Result<(), Error> {
        self.account_command(|reply| Message::ChangeSigningKeys(keys, by, reply)).await
    }

    /// Writes a record to the audit log. The record is durable once this returns.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn record(&self, record: Record) -> Result<(), Error> {
        self.account_command(|reply| {
            self.node.state.audit.add(record, reply);
            Message::WriteAudit
        })
        .await
    }

    /// Writes a refused sign-in to the audit log, unless there are too many: then it is counted,
    /// and one entry a minute counts all of them.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn record_refusal(&self, record: Record) -> Result<(), Error> {
        if self.node.state.audit.admits_refusal(self.node.now()) {
            self.record(record).await
        } else {
            Ok(())
        }
    }

    /// A page of the audit log, the newest entry first.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn audit(&self, query: &AuditQuery) -> Result<Page<Entry>, Error> {
        read::audit::entries(&self.node, query).await.map_err(|error| unreadable(&error))
    }

    /// Stores the last uses of keys.
    pub(crate) async fn store_uses(&self) -> Result<(), Error> {
        self.account_command(Message::StoreUses).await
    }

    pub(super) async fn account_command<T>(
        &self,
        message: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Message,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        self.tell_accounts(message(reply))?;
        within(COMMAND, answer).await?
    }

    pub(crate) fn tell_accounts(&self, message: Message) -> Result<(), Error> {
        let writer = self.node.actors.account_writer.get().ok_or(STOPPING)?;
        writer.cast(message).map_err(|_| STOPPING)
    }
}
