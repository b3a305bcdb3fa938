//! The messages of the actor that writes users, API keys and sessions, and what they carry.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use callboard_domain::access::Role;
use callboard_domain::account::external::ExternalId;
use callboard_domain::account::{Email, PasswordHash, User, WorkLeft};
use callboard_domain::audit::By;
use callboard_domain::cell::{Assigned, Cell};
use callboard_domain::credential::invitation::Invitation;
use callboard_domain::credential::refresh::RefreshToken;
use callboard_domain::credential::selection::KeySelection;
use callboard_domain::credential::{ApiKey, Secret};
use callboard_domain::digest::Digest;
use callboard_domain::id::{
    Environment, InvitationId, KeyId, MoveId, ProjectId, SessionId, UserId,
};
use callboard_domain::moving::Part;
use callboard_domain::project::{self, Member, Project};
use callboard_domain::rate::Tier;
use callboard_domain::session::Session;
use callboard_domain::session::signing::SigningKeys;
use callboard_domain::{Error, Timestamp};
use tokio::sync::oneshot;

/// A user to be made.
#[derive(Debug, Clone)]
pub struct NewUser {
    /// The e-mail by which the user signs in.
    pub email: Email,
    /// The name.
    pub name: String,
    /// The role.
    pub role: Role,
    /// The billing tier; `None` means the configured default.
    pub tier: Option<Tier>,
    /// The hash of the user's password; that of an unknown one if the user signs in elsewhere.
    pub password_hash: PasswordHash,
    /// True if the user must choose another password first.
    pub must_change_password: bool,
    /// The identity of a user who signs in at a provider.
    pub external: Option<ExternalId>,
}

/// A change that an admin makes to a user; `None` leaves a member as it is.
#[derive(Debug, Clone, Default)]
pub struct UserChange {
    /// The role.
    pub role: Option<Role>,
    /// The billing tier.
    pub tier: Option<Tier>,
    /// The hash of a password.
    pub password_hash: Option<PasswordHash>,
    /// True if the user must choose another password first; by default if there is a new hash.
    pub must_change_password: Option<bool>,
}

/// An invitation to be made.
#[derive(Debug, Clone)]
pub struct NewInvitation {
    /// The e-mail of the invited person, if it is known.
    pub email: Option<Email>,
    /// The name of the person.
    pub name: Option<String>,
    /// The role of the account.
    pub role: Role,
    /// The time for which the invitation counts.
    pub lifetime: Duration,
}

/// A user's own change of the password.
#[derive(Debug, Clone)]
pub struct PasswordChange {
    /// The user.
    pub user: UserId,
    /// The session that asks, which goes on.
    pub session: SessionId,
    /// The hash that the current password was compared with.
    pub verified: PasswordHash,
    /// The hash of the new password.
    pub password_hash: PasswordHash,
}

/// A key to be made.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The name that the key's maker gave.
    pub name: String,
    /// The role.
    pub role: Role,
    /// The environment.
    pub environment: Environment,
    /// The key's own tier, if it has one.
    pub tier: Option<Tier>,
    /// The queues that a worker key is bound to, if it is.
    pub queues: Vec<String>,
    /// The time for which the key is valid.
    pub lifetime: Duration,
}

pub(crate) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// A project to be made.
#[derive(Debug, Clone)]
pub struct NewProject {
    /// The name.
    pub name: String,
    /// The text for people.
    pub description: Option<String>,
    /// The cell; `None` for the one with the fewest projects.
    pub cell: Option<String>,
}

/// A message to the accounts.
#[derive(Debug)]
pub(crate) enum Message {
    /// Make a user.
    CreateUser(NewUser, By, Reply<User>),
    /// Make the first admin, unless there is one.
    CreateFirstAdmin(NewUser, By, Reply<Option<User>>),
    /// Make the user whom a provider signed in, or give the known user this role.
    AdmitExternal(NewUser, By, Reply<User>),
    /// Give a user another role, tier or password.
    ChangeUser(UserId, UserChange, By, Reply<User>),
    /// Replace a user's password by the user's own wish.
    ChangePassword(PasswordChange, By, Reply<User>),
    /// Set the password of a user who has shown the link of a mail; all sessions end.
    ResetPassword(UserId, PasswordHash, By, Reply<User>),
    /// Invite a person.
    Invite(NewInvitation, By, Reply<(Invitation, Secret)>),
    RevokeInvitation(InvitationId, By, Reply<Invitation>),
    /// Make the account of an invited person.
    AcceptInvitation(Invited, By, Reply<User>),
    DeleteUser(UserId, Option<WorkLeft>, By, Reply<User>),
    CreateProject(NewProject, By, Reply<Arc<Project>>),
    ChangeProject(ProjectId, project::Change, By, Reply<Arc<Project>>),
    DeleteProject(ProjectId, String, By, Reply<Arc<Project>>),
    /// Add a cell, or give one other addresses.
    PutCell(Cell, By, Reply<Cell>),
    /// Remove a cell that has no project.
    RemoveCell(String, By, Reply<Cell>),
    /// Bring the projects and people of this cell, which has this name, up to date with home's list.
    Follow(String, Assigned, Reply<()>),
    /// Take a step in a move of a project.
    Move(MoveCommand),
    /// Note that so many rows of a deleted project were removed and none is left; true if its place is free.
    PurgedProject(Arc<Project>, u64, bool, Reply<()>),
    SetMember(ProjectId, UserId, Role, By, Reply<Member>),
    RemoveMember(ProjectId, UserId, By, Reply<Member>),
    /// Make a key.
    CreateKey(NewKey, By, Reply<(ApiKey, Secret)>),
    RevokeKey(KeyId, By, Reply<Arc<KnownKey>>),
    /// Revoke these keys, if they are as many as expected.
    RevokeKeys(KeySelection, Option<u64>, Option<String>, By, Reply<Vec<Arc<KnownKey>>>),
    /// Replace a key; the old one ends after the overlap.
    RotateKey(KeyId, Duration, By, Reply<(ApiKey, Secret)>),
    /// A user has signed in with the password of this hash, or with a link of this session: begin a session.
    BeginSession(UserId, PasswordHash, Option<SessionId>, By, Reply<SignedIn>),
    /// A refresh token came in, at this instant.
    RenewSession(RefreshToken, Timestamp, By, Reply<SignedIn>),
    EndSession(SessionId, By, Reply<Arc<Session>>),
    /// End all sessions of a user.
    EndSessions(UserId, By, Reply<usize>),
    /// Other keys sign access tokens.
    ChangeSigningKeys(SigningKeys, By, Reply<()>),
    /// Store the last uses of keys.
    StoreUses(Reply<()>),
    /// Write the audit records that wait.
    WriteAudit,
    /// Forget expired sessions, and do the other work that is due once a minute.
    Tidy,
}

/// A step in a move of a project.
#[derive(Debug)]
pub(crate) enum MoveCommand {
    /// Begin to move a project to the cell of this name.
    Begin(ProjectId, String, By, Reply<Arc<Project>>),
    /// Give up a move of a project.
    Stay(ProjectId, By, Reply<Arc<Project>>),
    /// The project of this number is in its new cell.
    Switch(u32, MoveId, Reply<()>),
    /// All rows of a project have come.
    Copied(Box<Part>, Reply<()>),
    /// All rows of a part are removed.
    Cleared(Arc<Part>, Reply<()>),
}

/// The person who accepts an invitation.
#[derive(Debug, Clone)]
pub struct Invited {
    /// The digest of the token.
    pub digest: Digest,
    /// The e-mail, if the invitation is to no address.
    pub email: Option<Email>,
    /// The name; by default the invitation's, else the part of the e-mail before the `@`.
    pub name: Option<String>,
    /// The hash of the person's password.
    pub password_hash: PasswordHash,
}

/// A session that was begun or renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedIn {
    /// The user who signed in, as it is now.
    pub user: User,
    /// The session that the access token names.
    pub session: SessionId,
    /// The refresh token, returned only here.
    pub refresh_token: RefreshToken,
}

/// An API key and its last use.
#[derive(Debug, Clone)]
pub struct KnownKey {
    /// The key.
    pub key: ApiKey,
    pub(crate) uses: Arc<Uses>,
}

/// The times of a key's last use, in milliseconds; 0 for never.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    pub(crate) last: AtomicU64,
    pub(crate) stored: AtomicU64,
}

impl KnownKey {
    /// The time of the last use; after a crash, up to a minute earlier.
    #[must_use]
    pub fn last_used_at(&self) -> Option<Timestamp> {
        let last = self.uses.last.load(Ordering::Relaxed);
        (last > 0).then(|| Timestamp::from_millis(last))
    }

    /// Remembers a use.
    pub(crate) fn used(&self, now: Timestamp) {
        self.uses.last.store(now.as_millis(), Ordering::Relaxed);
    }
}
