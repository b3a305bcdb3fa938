//! The open invitations in memory.

use callboard_domain::access::Action as Permission;
use callboard_domain::credential::invitation::Invitation;
use callboard_domain::digest::Digest;
use callboard_domain::id::{InvitationId, Slot};
use callboard_domain::{Error, Timestamp};

use super::Register;
use crate::node::rights::caller_of;

impl Register {
    pub(crate) fn put_invitation(&self, invitation: Invitation) {
        self.write().invitations.insert(invitation.id, invitation);
    }

    pub(crate) fn remove_invitation(&self, id: InvitationId) {
        self.write().invitations.remove(&id);
    }

    /// The open invitations that have not expired, oldest first.
    pub(crate) fn invitations(&self, now: Timestamp) -> Vec<Invitation> {
        let inner = self.read();
        inner.invitations.values().filter(|it| it.check(now).is_ok()).cloned().collect()
    }

    /// The invitation of a token, which counts now.
    pub(crate) fn invitation(&self, digest: &Digest, now: Timestamp) -> Result<Invitation, Error> {
        // A token has 190 random bits, so the time of its look-up tells nothing.
        let found = self.read().invitations.values().find(|it| it.digest == *digest).cloned();
        let refused = || {
            let message = "the invitation is not known: it was accepted or revoked before";
            Error::InvalidToken(message.to_owned())
        };
        let invitation = found.ok_or_else(refused)?;
        invitation.check(now)?;
        if let Some(maker) = invitation.created_by {
            let may = caller_of(self, maker, Slot::DEFAULT, now)
                .and_then(|it| it.may(Permission::UsersManage));
            may.map_err(|_| {
                let message = "the user who made the invitation may not invite people any more: ask an admin \
                               for another one";
                Error::InvalidToken(message.to_owned())
            })?;
        }
        Ok(invitation)
    }
}
