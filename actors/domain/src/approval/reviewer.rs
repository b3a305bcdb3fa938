//! Who is asked, and what is asked of a model again (PROTOCOL.md 6).
//!
//! Deliberately absent: how many items each reviewer has; the runtime counts them.

use crate::access::Role;
use crate::account::User;
use crate::id::UserId;

/// Among whom a reviewer is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Operators and admins.
    Anybody,
    /// Admins, but not this user, who had it before.
    AdminBut(Option<UserId>),
}

/// Who is asked: of those who may decide, the one with the fewest open items; of several, the one
/// with the oldest account. Keys are no reviewers.
#[must_use]
pub fn choose(users: &[User], wanted: Wanted, open: impl Fn(UserId) -> usize) -> Option<UserId> {
    let may = |user: &&User| match wanted {
        Wanted::Anybody => matches!(user.role, Role::Admin | Role::Operator),
        Wanted::AdminBut(before) => user.role == Role::Admin && Some(user.id) != before,
    };
    let load = |user: &&User| (open(user.id), user.created_at, user.id);
    users.iter().filter(may).min_by_key(load).map(|user| user.id)
}

/// What the model is asked after a rejection: the reviewer's prompt, or the one before, and the
/// reason. Both are taken as text, never as a template.
#[must_use]
pub fn prompt_again(before: &str, given: Option<&str>, reason: &str) -> String {
    format!("{}\n\nFeedback:\n{reason}", given.unwrap_or(before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;
    use crate::account::{Email, PasswordHash};

    fn user(number: u128, role: Role) -> User {
        User {
            id: UserId::from_u128(number << 10),
            email: Email::parse(&format!("u{number}@example.com")).expect("an e-mail"),
            name: "u".into(),
            role,
            plan: None,
            password_hash: PasswordHash::new("$argon2id$".into()),
            created_at: Timestamp::from_millis(u64::try_from(number).expect("small")),
        }
    }

    #[test]
    fn the_least_loaded_is_asked_and_of_several_the_oldest() {
        use Role::{Admin, Operator, Viewer, Worker};
        let users = [user(1, Viewer), user(2, Operator), user(3, Admin), user(4, Worker)];
        let id = |number: u128| Some(UserId::from_u128(number << 10));
        let nobody_busy = |wanted| choose(&users, wanted, |_| 0);
        assert_eq!(nobody_busy(Wanted::Anybody), id(2));
        let busy = |user| usize::from(Some(user) == id(2));
        assert_eq!(choose(&users, Wanted::Anybody, busy), id(3));
        assert_eq!(nobody_busy(Wanted::AdminBut(None)), id(3));
        assert_eq!(nobody_busy(Wanted::AdminBut(id(3))), None);
    }

    #[test]
    fn the_reason_follows_the_prompt() {
        assert_eq!(prompt_again("Do {{x}}.", None, "Shorter."), "Do {{x}}.\n\nFeedback:\nShorter.");
        assert_eq!(prompt_again("a", Some("b"), "c"), "b\n\nFeedback:\nc");
    }
}
