//! Many keys to revoke together, after a leak.
//!
//! ```text
//!   key A ─ made ─▶ B ─ made ─▶ C      made by A: A, B and C
//! ```

use std::collections::BTreeSet;

use super::ApiKey;
use crate::Timestamp;
use crate::access::Account;
use crate::id::{KeyId, UserId};

/// The keys that match every member; a selection without members matches every key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeySelection {
    /// Keys that this account made, and those that they made in turn; a key counts as made by itself.
    pub made_by: Option<Account>,
    /// Keys that this user answers for.
    pub user: Option<UserId>,
    /// Keys that were made before this instant.
    pub before: Option<Timestamp>,
    /// A key that stays.
    pub except: Option<KeyId>,
}

impl KeySelection {
    /// The matching keys that still count, in their order. `keys` are all keys: one that has ended may have made
    /// others.
    pub fn of<'k>(
        &self,
        keys: impl Iterator<Item = &'k ApiKey> + Clone,
        now: Timestamp,
    ) -> Vec<&'k ApiKey> {
        let made = self.made_by.map(|maker| made_by(maker, &keys));
        let matches = |key: &&ApiKey| {
            made.as_ref().is_none_or(|made| made.contains(&key.id))
                && self.user.is_none_or(|user| key.user == Some(user))
                && self.before.is_none_or(|before| key.created_at < before)
                && self.except != Some(key.id)
                && key.check(now).is_ok()
        };
        keys.filter(matches).collect()
    }
}

/// The keys that the account made, and those that they made, to the last.
fn made_by<'k>(
    maker: Account,
    keys: &(impl Iterator<Item = &'k ApiKey> + Clone),
) -> BTreeSet<KeyId> {
    let mut made = BTreeSet::new();
    if let Account::Key(key) = maker {
        made.insert(key);
    }
    loop {
        let before = made.len();
        let by_one_of = |by: Option<Account>| match by {
            Some(Account::Key(key)) => made.contains(&key),
            Some(Account::User(_)) | None => false,
        };
        let further =
            keys.clone().filter(|key| key.created_by == Some(maker) || by_one_of(key.created_by));
        let further: Vec<_> = further.map(|key| key.id).collect();
        made.extend(further);
        if made.len() == before {
            return made;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::access::Role;
    use crate::credential::{Kind, mint};
    use crate::id::{Environment, Mode};

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn key(number: u128, by: Account) -> ApiKey {
        let kind = Kind::of(Role::Operator, Mode::Live).expect("a kind");
        let secret = mint(kind, 0, &[7; 64]).expect("enough entropy");
        ApiKey {
            id: KeyId::from_u128(number << 10),
            name: number.to_string(),
            role: Role::Operator,
            environment: Environment::LIVE,
            tier: None,
            queues: Vec::new(),
            digest: secret.digest(),
            prefix: kind.prefix().to_owned(),
            last4: secret.last4().to_owned(),
            created_at: Timestamp::from_millis(u64::try_from(number).expect("small")),
            expires_at: NOW.after(Duration::from_mins(1)),
            revoked_at: None,
            created_by: Some(by),
            user: Some(UserId::from_u128(1 << 10)),
        }
    }

    fn names(selection: KeySelection, keys: &[ApiKey]) -> Vec<&str> {
        selection.of(keys.iter(), NOW).iter().map(|key| key.name.as_str()).collect()
    }

    #[test]
    fn the_keys_of_a_leaked_key_are_those_it_made_to_the_last() {
        let (ann, bob) = (UserId::from_u128(1 << 10), UserId::from_u128(2 << 10));
        let of = |number: u128| Account::Key(KeyId::from_u128(number << 10));
        let mut keys = vec![
            key(4, of(3)),
            key(1, Account::User(ann)),
            key(2, of(1)),
            key(3, of(2)),
            key(5, Account::User(bob)),
        ];
        let made_by = |by| KeySelection { made_by: Some(by), ..KeySelection::default() };
        assert_eq!(names(made_by(of(1)), &keys), ["4", "1", "2", "3"]);
        assert_eq!(names(made_by(Account::User(bob)), &keys), ["5"]);
        assert_eq!(names(KeySelection::default(), &keys).len(), 5);
        // An ended key in between does not hide those behind it.
        keys[2].revoked_at = Some(NOW);
        assert_eq!(names(made_by(of(1)), &keys), ["4", "1", "3"]);
        let except = KeySelection { except: Some(keys[0].id), ..made_by(of(1)) };
        assert_eq!(names(except, &keys), ["1", "3"]);
        let before = Some(Timestamp::from_millis(4));
        assert_eq!(names(KeySelection { before, ..made_by(of(1)) }, &keys), ["1", "3"]);
        keys[0].user = Some(bob);
        let user = KeySelection { user: Some(bob), ..KeySelection::default() };
        assert_eq!(names(user, &keys), ["4"]);
    }
}
