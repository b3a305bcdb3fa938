//! The choice of a reviewer, the recorded decider, and the prompt of a retry (docs/reference/approvals.md).

use std::iter;

use super::{Decider, Decision};
use crate::access::{Account, Action, Caller, Role, allows};
use crate::account::User;
use crate::error::{Error, Rule};
use crate::id::UserId;
use crate::task::Spec;

/// The users from whom a reviewer is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewerPool {
    /// Every user who may decide: admins, operators and reviewers.
    Anybody,
    /// Admins, but not this user, who had the approval before.
    AdminBut(Option<UserId>),
}

/// The chosen reviewer: of the users who may decide, the one with the fewest open items; of several,
/// the one with the oldest account. Keys are no reviewers.
#[must_use]
pub fn choose(
    users: &[User],
    wanted: ReviewerPool,
    open: impl Fn(UserId) -> usize,
) -> Option<UserId> {
    let may = |user: &&User| match wanted {
        ReviewerPool::Anybody => allows(user.role, Action::HitlDecide),
        ReviewerPool::AdminBut(before) => user.role == Role::Admin && Some(user.id) != before,
    };
    let load = |user: &&User| (open(user.id), user.created_at, user.id);
    users.iter().filter(may).min_by_key(load).map(|user| user.id)
}

/// The decider of a request that names `claimed` as `reviewerId`: a session speaks for itself, an
/// admin's also for other users; the name that a key claims is recorded beside the key.
///
/// # Errors
/// [`Error::Forbidden`] when a session that is no admin's names another, [`Error::Invalid`] when an
/// admin's names an identifier that is not a user's.
pub fn decider(
    caller: &Caller,
    claimed: Option<String>,
    is_user: impl FnOnce(UserId) -> bool,
) -> Result<Decider, Error> {
    let account = caller.account.to_string();
    let reviewer = claimed.filter(|name| *name != account);
    match (caller.account, &reviewer) {
        (Account::Key(_), _) | (Account::User(_), None) => {}
        (Account::User(_), Some(_)) if caller.role != Role::Admin => {
            let message = "only an admin may decide in another user's name";
            return Err(Error::Forbidden(message.to_owned()));
        }
        (Account::User(_), Some(name)) => {
            if !name.parse().is_ok_and(is_user) {
                let message = format!("reviewerId must be a user, and there is no user {name}");
                return Err(Error::invalid("reviewerId", Rule::Enum, message));
            }
        }
    }
    Ok(Decider { account, reviewer, bulk: None })
}

/// Passes if an approval is by another person than the submitters of the task (`[hitl] four_eyes`).
/// `person` names the person of an account: a user, or the user who answers for a key. An approval in the
/// submitter's name is refused too.
///
/// # Errors
/// [`Error::Forbidden`].
pub fn check_four_eyes(
    spec: &Spec,
    by: &Decider,
    person: impl Fn(&str) -> String,
) -> Result<(), Error> {
    let submitters: Vec<_> = spec.submitters().map(&person).collect();
    let mut names = iter::once(&by.account).chain(&by.reviewer);
    if names.any(|name| submitters.contains(&person(name))) {
        let message = format!(
            "the person who submitted {} or wrote its prompt may only reject it: under hitl.four_eyes \
             somebody else must approve it",
            spec.id
        );
        return Err(Error::Forbidden(message));
    }
    Ok(())
}

/// Passes if the caller may take a decision back: whoever made it may, and operators and admins may take back anybody's.
/// `person` names the person of an account.
///
/// # Errors
/// [`Error::Forbidden`].
pub fn check_reopener(
    caller: &Caller,
    decision: &Decision,
    person: impl Fn(&str) -> String,
) -> Result<(), Error> {
    let own = person(&caller.account.to_string());
    let mut names = iter::once(&decision.by.account).chain(&decision.by.reviewer);
    if caller.role != Role::Reviewer || names.any(|name| person(name) == own) {
        return Ok(());
    }
    let by = decision.by.name();
    Err(Error::Forbidden(format!(
        "the decision is by {by}: a reviewer can take back only their own decisions; ask an operator or an admin"
    )))
}

/// The prompt after a rejection: the reviewer's prompt, or the one before, and the
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
    use crate::id::{Environment, KeyId};

    fn user(number: u128, role: Role) -> User {
        User {
            id: UserId::from_u128(number << 10),
            email: Email::parse(&format!("u{number}@example.com")).expect("an e-mail"),
            name: "u".into(),
            role,
            tier: None,
            password_hash: PasswordHash::new("$argon2id$".into()),
            must_change_password: false,
            external: None,
            created_at: Timestamp::from_millis(u64::try_from(number).expect("small")),
        }
    }

    fn caller(account: Account, role: Role) -> Caller {
        Caller {
            account,
            name: "me".into(),
            role,
            environment: Environment::LIVE,
            tier: None,
            queues: Vec::new(),
            session: None,
            must_change_password: false,
            expires_at: None,
        }
    }

    #[test]
    fn the_least_loaded_is_asked_and_of_several_the_oldest() {
        use Role::{Admin, Operator, Reviewer, Viewer, Worker};
        let users = [
            user(1, Viewer),
            user(2, Operator),
            user(3, Admin),
            user(4, Worker),
            user(5, Reviewer),
        ];
        let id = |number: u128| Some(UserId::from_u128(number << 10));
        let nobody_busy = |wanted| choose(&users, wanted, |_| 0);
        assert_eq!(nobody_busy(ReviewerPool::Anybody), id(2));
        let busy = |user| usize::from(Some(user) == id(2));
        assert_eq!(choose(&users, ReviewerPool::Anybody, busy), id(3));
        let busy = |user| usize::from(Some(user) != id(5));
        assert_eq!(choose(&users, ReviewerPool::Anybody, busy), id(5));
        assert_eq!(nobody_busy(ReviewerPool::AdminBut(None)), id(3));
        assert_eq!(nobody_busy(ReviewerPool::AdminBut(id(3))), None);
    }

    #[test]
    fn a_session_decides_for_itself_an_admin_for_other_users_and_a_key_for_whom_it_says() {
        use Role::{Admin, Operator};
        let (me, ann) = (UserId::from_u128(1 << 10), UserId::from_u128(2 << 10));
        let (session, key) = (Account::User(me), Account::Key(KeyId::from_u128(3 << 10)));
        let (me_id, ann_id, key_id) = (me.to_string(), ann.to_string(), key.to_string());
        let gone = UserId::from_u128(4 << 10).to_string();
        let by = |account: &str, reviewer: Option<&str>| {
            Ok(Decider {
                account: account.into(),
                reviewer: reviewer.map(str::to_owned),
                bulk: None,
            })
        };
        let forbidden =
            || Err(Error::Forbidden("only an admin may decide in another user's name".into()));
        let unknown = |name: &str| {
            let message = format!("reviewerId must be a user, and there is no user {name}");
            Err(Error::invalid("reviewerId", Rule::Enum, message))
        };
        let table = [
            (session, Operator, None, by(&me_id, None)),
            (session, Operator, Some(&*me_id), by(&me_id, None)),
            (session, Operator, Some(&*ann_id), forbidden()),
            (session, Operator, Some("ada"), forbidden()),
            (session, Admin, None, by(&me_id, None)),
            (session, Admin, Some(&*me_id), by(&me_id, None)),
            (session, Admin, Some(&*ann_id), by(&me_id, Some(&ann_id))),
            (session, Admin, Some(&*gone), unknown(&gone)),
            (session, Admin, Some("ada"), unknown("ada")),
            (key, Operator, None, by(&key_id, None)),
            (key, Operator, Some(&*key_id), by(&key_id, None)),
            (key, Operator, Some("ada"), by(&key_id, Some("ada"))),
        ];
        for (account, role, claimed, expected) in table {
            let caller = caller(account, role);
            let by = decider(&caller, claimed.map(str::to_owned), |user| user == me || user == ann);
            assert_eq!(by, expected, "{account} as {role:?} names {claimed:?}");
        }
    }

    #[test]
    fn a_reviewer_takes_back_only_their_own_decision_and_others_any() {
        use Role::{Admin, Operator, Reviewer};
        let (me, ann) = (UserId::from_u128(1 << 10), UserId::from_u128(2 << 10));
        let key = KeyId::from_u128(3 << 10);
        // The key is Ann's.
        let person = |account: &str| {
            if account == key.to_string() { ann.to_string() } else { account.to_owned() }
        };
        for (account, role, by, expected) in [
            (Account::User(me), Reviewer, me.to_string(), true),
            (Account::User(me), Reviewer, ann.to_string(), false),
            (Account::User(me), Reviewer, crate::approval::SYSTEM.to_owned(), false),
            (Account::User(ann), Reviewer, key.to_string(), true),
            (Account::Key(key), Reviewer, ann.to_string(), true),
            (Account::User(me), Operator, ann.to_string(), true),
            (Account::User(me), Admin, ann.to_string(), true),
        ] {
            let caller = caller(account, role);
            let by = Decider { account: by, reviewer: None, bulk: None };
            let outcome = crate::approval::Outcome::Approved { edited: false };
            let decision = Decision { at: Timestamp::from_millis(1), by, outcome };
            let may = check_reopener(&caller, &decision, person).is_ok();
            assert_eq!(may, expected, "{account} as {role:?}, {decision:?}");
        }
    }

    #[test]
    fn the_reason_follows_the_prompt() {
        assert_eq!(prompt_again("Do {{x}}.", None, "Shorter."), "Do {{x}}.\n\nFeedback:\nShorter.");
        assert_eq!(prompt_again("a", Some("b"), "c"), "b\n\nFeedback:\nc");
    }
}
