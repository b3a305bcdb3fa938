//! The announcements of keys that end soon: a warning in the log once a day, and a mail to each admin 14 and 3 days
//! before. The rule is in [`callboard_domain::credential`].

use callboard_domain::Error;
use callboard_domain::access::Role;
use callboard_domain::delivery::{KeyEnd, Notification};
use callboard_domain::id::Environment;
use callboard_domain::unit;

use super::{Accounts, PARTITION};
use crate::commit::durable;
use crate::limits::reservation::Reservation;
use crate::tables::deliveries;

/// The most mails that are ordered at once; the others follow within minutes.
const MOST_MAILS: usize = 200;

impl Accounts {
    /// Warns of the keys that end within two weeks, at the start and once a day.
    pub(super) fn warn_of_ends(&self) {
        const DAY_MS: u64 = 24 * 3_600 * 1_000;
        const SOON_SECONDS: f64 = 14.0 * 24.0 * 3_600.0;
        let (node, now) = (&self.0, self.0.now());
        if !node.state.audit.begins_day(now.as_millis() / DAY_MS) {
            return;
        }
        let ends = node.state.accounts.key_ends(now);
        for key in ends.iter().filter(|key| key.left_seconds <= SOON_SECONDS) {
            let days = key.left_seconds / 86_400.0;
            tracing::warn!(
                key = key.id,
                name = key.name,
                role = key.role,
                days_left = format!("{days:.1}"),
                "an API key ends soon, or has ended: callboard keys rotate makes its successor"
            );
        }
    }

    /// Orders the mails that are due. Each exists once: its identifier follows from the key, the admin and the notice.
    pub(super) async fn mail_of_ends(&self) -> Result<(), Error> {
        let (node, now) = (&self.0, self.0.now());
        if node.kernel.ports.mailer.is_none() || node.settings.stands_still {
            return Ok(());
        }
        let unreadable = |_| Error::Unavailable("the deliveries could not be read");
        let mut users = node.state.accounts.users();
        users.retain(|user| user.role == Role::Admin);
        let (store, mut ordered) = (&*node.shard(PARTITION).store, 0);
        for known in node.state.accounts.keys() {
            let Some(at) = known.key.notice(now) else { continue };
            for admin in &users {
                let mail = KeyEnd::new(known.key.id, admin.id, at);
                let known = deliveries::delivery(store, Environment::LIVE, mail.id).await;
                if known.map_err(unreadable)?.is_some() {
                    continue;
                }
                let unit = unit::of_new_delivery(Notification::KeyEnd(mail), now);
                let reserved = Reservation::default();
                let stored = durable::commit(node, Environment::LIVE, PARTITION, unit, reserved);
                stored.await.map_err(|_| Error::Unavailable("a mail could not be stored"))?;
                ordered += 1;
                if ordered == MOST_MAILS {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
