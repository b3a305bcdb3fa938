//! Invitations: made, accepted once, revoked, forgotten. The rule is [`callboard_domain::credential::invitation`].
//!
//! An invitation counts while its maker may manage users. Deliberately absent: the password of the invited
//! person, whose hash the edge makes.

use callboard_domain::Error;
use callboard_domain::access::Action as Permission;
use callboard_domain::account::User;
use callboard_domain::audit::{Action, By, Record};
use callboard_domain::credential::Secret;
use callboard_domain::credential::invitation::{Invitation, MAX_OPEN, mint};
use callboard_domain::id::InvitationId;

use super::{Accounts, NUMBER, NewInvitation, NewUser, PARTITION};
use crate::messages::accounts::Invited;
use crate::tables::INVITATIONS;

impl Accounts {
    pub(super) async fn invite(
        &self,
        new: NewInvitation,
        by: By,
    ) -> Result<(Invitation, Secret), Error> {
        self.permit(&by, Permission::UsersManage)?;
        let (register, now) = (&self.0.state.accounts, self.0.now());
        let NewInvitation { email, name, role, lifetime } = new;
        if let Some(email) = email.as_ref().filter(|email| register.user_by_email(email).is_some())
        {
            return Err(Error::EmailExists(email.as_str().to_owned()));
        }
        if register.invitations(now).len() >= MAX_OPEN {
            let message = format!("{MAX_OPEN} invitations are open: revoke some first");
            return Err(Error::InvalidState(message));
        }
        let secret = self.random(mint);
        let invitation = Invitation {
            id: InvitationId::from_u128(self.0.fresh_id(now, PARTITION)),
            digest: secret.digest(),
            email,
            name,
            role,
            created_by: by.account,
            expires_at: now.after(lifetime),
        };
        let record = Record::new(Action::InvitationCreated, by).of(invitation.id);
        let mut record = record.with("role", role);
        if let Some(email) = &invitation.email {
            record = record.with("email", email);
        }
        let row = INVITATIONS.put(NUMBER, &invitation.id.as_u128(), &invitation, None);
        self.store(vec![row], vec![record]).await?;
        register.put_invitation(invitation.clone());
        Ok((invitation, secret))
    }

    pub(super) async fn revoke_invitation(
        &self,
        id: InvitationId,
        by: By,
    ) -> Result<Invitation, Error> {
        self.permit(&by, Permission::UsersManage)?;
        let open = self.0.state.accounts.invitations(self.0.now());
        let found = open.into_iter().find(|open| open.id == id);
        let invitation = found.ok_or_else(|| Error::not_found("invitation", id))?;
        let record = Record::new(Action::InvitationRevoked, by).of(id);
        self.store(vec![INVITATIONS.delete(NUMBER, &id.as_u128())], vec![record]).await?;
        self.0.state.accounts.remove_invitation(id);
        Ok(invitation)
    }

    /// Makes the account of an invited person; the invitation is used up in the same commit.
    pub(super) async fn accept_invitation(&self, invited: Invited, by: By) -> Result<User, Error> {
        let invitation = self.0.state.accounts.invitation(&invited.digest, self.0.now())?;
        let email = invitation.email_of(invited.email)?;
        let name = invited.name.or(invitation.name);
        let new = NewUser {
            name: name.unwrap_or_else(|| email.local_part().to_owned()),
            email,
            role: invitation.role,
            tier: None,
            password_hash: invited.password_hash,
            must_change_password: false,
            external: None,
        };
        let user = self.create_invited(new, Some(invitation.id), by).await?;
        self.0.state.accounts.remove_invitation(invitation.id);
        Ok(user)
    }

    /// Takes away the rows of expired invitations.
    pub(super) async fn forget_invitations(&self) -> Result<(), Error> {
        let now = self.0.now();
        let over: Vec<_> = {
            let inner = self.0.state.accounts.read();
            let over = inner.invitations.values().filter(|it| it.check(now).is_err());
            over.map(|invitation| invitation.id).collect()
        };
        if over.is_empty() {
            return Ok(());
        }
        let rows = over.iter().map(|id| INVITATIONS.delete(NUMBER, &id.as_u128()));
        self.store(rows.collect(), Vec::new()).await?;
        for id in over {
            self.0.state.accounts.remove_invitation(id);
        }
        Ok(())
    }
}
