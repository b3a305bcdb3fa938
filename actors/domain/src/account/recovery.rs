//! The limit on mails about forgotten passwords (docs/reference/accounts.md).
//!
//! ```text
//!   5 requests a minute from one address    a further one is refused
//!   3 mails an hour to one account          a further request is answered alike, and sends nothing
//! ```
//!
//! The limit of an account is never told, because the answer must not tell whether there is an account.
//! Deliberately absent: the mail and its link. The counts are kept in memory only: a restart forgets them.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::IpAddr;
use std::time::Duration;

use super::Email;
use crate::Timestamp;
use crate::error::Error;
use crate::rate::network;

/// Mails per hour to one account.
pub const PER_ACCOUNT: usize = 3;

/// Requests per minute from one address; an IPv6 network of 64 bits counts as one address.
pub const PER_ADDRESS: u32 = 5;

/// The most accounts, and the most addresses, that are remembered; a further one displaces all whose
/// requests no longer count, or else the whole.
const MAX_ENTRIES: usize = 10_000;

/// The latest requests and mails.
#[derive(Debug)]
pub struct Recoveries {
    accounts: Counts<String>,
    addresses: Counts<IpAddr>,
}

impl Default for Recoveries {
    fn default() -> Self {
        Self {
            accounts: Counts::within(Duration::from_hours(1)),
            addresses: Counts::within(Duration::from_mins(1)),
        }
    }
}

impl Recoveries {
    /// Counts a request from an address.
    ///
    /// # Errors
    /// [`Error::RateLimited`] if the address has made too many in the last minute.
    pub fn admit(&mut self, address: IpAddr, now: Timestamp) -> Result<(), Error> {
        let counted = self.addresses.count(network(address), PER_ADDRESS as usize, now);
        counted.map_err(|left| {
            let retry_after = u64::try_from(left.as_millis().div_ceil(1_000)).unwrap_or(u64::MAX);
            Error::RateLimited { limit: PER_ADDRESS, retry_after }
        })
    }

    /// True if a mail may go to the account of this e-mail, which is then counted.
    pub fn may_mail(&mut self, email: &Email, now: Timestamp) -> bool {
        self.accounts.count(email.key(), PER_ACCOUNT, now).is_ok()
    }
}

/// The instants of what counts, by its key, the oldest first.
#[derive(Debug)]
struct Counts<K> {
    instants: HashMap<K, VecDeque<Timestamp>>,
    /// The time for which an instant counts.
    window: Duration,
}

impl<K: Hash + Eq> Counts<K> {
    fn within(window: Duration) -> Self {
        Self { instants: HashMap::new(), window }
    }

    /// Counts one more, or says for how long there is no room.
    fn count(&mut self, key: K, most: usize, now: Timestamp) -> Result<(), Duration> {
        let (all, window) = (&mut self.instants, self.window);
        let counts = |at: &Timestamp| now < at.after(window);
        if all.len() >= MAX_ENTRIES && !all.contains_key(&key) {
            all.retain(|_, instants| instants.back().is_some_and(counts));
            if all.len() >= MAX_ENTRIES {
                all.clear();
            }
        }
        let instants = all.entry(key).or_default();
        instants.retain(counts);
        match instants.front() {
            Some(first) if instants.len() >= most => Err(first.after(window).since(now)),
            Some(_) | None => {
                instants.push_back(now);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    #[test]
    fn an_address_waits_out_its_minute_and_others_do_not() {
        let mut recoveries = Recoveries::default();
        let (one, other): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        for second in 0..u64::from(PER_ADDRESS) {
            let now = START.after(Duration::from_secs(second));
            assert_eq!(recoveries.admit(one, now), Ok(()));
        }
        let now = START.after(Duration::from_secs(20));
        let refused = Err(Error::RateLimited { limit: PER_ADDRESS, retry_after: 40 });
        assert_eq!(recoveries.admit(one, now), refused);
        assert_eq!(recoveries.admit(other, now), Ok(()));
        assert_eq!(recoveries.admit(one, START.after(Duration::from_mins(1))), Ok(()));
    }

    #[test]
    fn an_account_gets_three_mails_an_hour_however_its_e_mail_is_written() {
        let mut recoveries = Recoveries::default();
        let email = |text: &str| Email::parse(text).expect("an e-mail");
        for spelling in ["ada@example.com", "Ada@example.com", "ADA@EXAMPLE.COM"] {
            assert!(recoveries.may_mail(&email(spelling), START));
        }
        assert!(
            !recoveries.may_mail(&email("ada@example.com"), START.after(Duration::from_mins(59)))
        );
        assert!(recoveries.may_mail(&email("bob@example.com"), START));
        assert!(
            recoveries.may_mail(&email("ada@example.com"), START.after(Duration::from_hours(1)))
        );
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut counts = Counts::within(Duration::from_hours(1));
        for key in 0..2 * MAX_ENTRIES {
            assert_eq!(counts.count(key, 1, START), Ok(()));
        }
        assert!(counts.instants.len() <= MAX_ENTRIES);
    }
}
