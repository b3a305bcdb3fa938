//! E-mails, names, and the last admin.

use proptest::prelude::*;

use super::*;

fn user(number: u128, role: Role) -> User {
    User {
        id: UserId::from_u128(number << 10),
        email: Email::parse(&format!("user{number}@example.com")).expect("an e-mail"),
        name: format!("User {number}"),
        role,
        tier: None,
        password_hash: PasswordHash::new("$argon2id$secret".to_owned()),
        must_change_password: false,
        external: None,
        created_at: Timestamp::from_millis(0),
    }
}

fn rule(refused: Result<impl fmt::Debug, Error>) -> Rule {
    match refused {
        Err(Error::Invalid(fault)) => fault.rule,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn an_email_is_trimmed_and_its_domain_is_lower_case() {
    for (text, email, key) in [
        ("ada@example.com", "ada@example.com", "ada@example.com"),
        (" Ada@EXAMPLE.com\n", "Ada@example.com", "ada@example.com"),
        ("a.b+c_d@x.co", "a.b+c_d@x.co", "a.b+c_d@x.co"),
        ("admin@localhost", "admin@localhost", "admin@localhost"),
        (
            "o'neil@xn--bcher-kva.example",
            "o'neil@xn--bcher-kva.example",
            "o'neil@xn--bcher-kva.example",
        ),
    ] {
        let parsed = Email::parse(text).expect(text);
        assert_eq!((parsed.as_str(), parsed.key().as_str()), (email, key));
    }
}

#[test]
fn what_cannot_be_written_to_is_no_email() {
    for text in [
        "",
        "ada",
        "@example.com",
        "ada@",
        "ada@b@example.com",
        "ada lovelace@example.com",
        "ada@exam ple.com",
        "ada@example.com\r\nBcc: all@example.com",
        "<ada@example.com>",
        "\"ada\"@example.com",
        ".ada@example.com",
        "ada..l@example.com",
        "ada@.example.com",
        "ada@example.com.",
        "ada@-example.com",
        "ada@exa_mple.com",
        "ada@[127.0.0.1]",
        "àda@example.com",
        "ada@exämple.com",
        "ada\0@example.com",
    ] {
        assert_eq!(rule(Email::parse(text)), Rule::Format, "{text:?}");
    }
    let local = "a".repeat(65);
    assert_eq!(rule(Email::parse(&format!("{local}@example.com"))), Rule::Format);
}

#[test]
fn an_email_has_at_most_254_characters() {
    let label = "d".repeat(63);
    let of_254 = format!("{}@{label}.{label}.{}", "a".repeat(64), "d".repeat(61));
    assert_eq!(of_254.len(), 254);
    assert!(Email::parse(&of_254).is_ok());
    assert_eq!(rule(Email::parse(&format!("{of_254}d"))), Rule::Length);
}

#[test]
fn a_name_is_trimmed_and_has_1_to_100_characters() {
    assert_eq!(display_name("  Ada Lovelace "), Ok("Ada Lovelace".to_owned()));
    assert_eq!(display_name(&"ü".repeat(100)), Ok("ü".repeat(100)));
    assert_eq!(rule(display_name("  ")), Rule::Length);
    assert_eq!(rule(display_name(&"ü".repeat(101))), Rule::Length);
    assert_eq!(rule(display_name("Ada\u{1b}[2J")), Rule::Pattern);
}

#[test]
fn the_last_admin_is_neither_demoted_nor_deleted() {
    let users = [user(1, Role::Admin), user(2, Role::Operator)];
    let id = users[0].id;
    for (change, deed) in [
        (Change::Role(Role::Operator), "demoted"),
        (Change::Role(Role::Worker), "demoted"),
        (Change::Deletion, "deleted"),
    ] {
        let message = format!(
            "user {id} is the last admin and cannot be {deed}: make another user an admin first"
        );
        let refused = keep_an_admin(&users, id, change);
        assert_eq!(refused, Err(Error::InvalidState(message)));
    }
    assert_eq!(keep_an_admin(&users, id, Change::Role(Role::Admin)), Ok(()));
    assert_eq!(keep_an_admin(&users, users[1].id, Change::Deletion), Ok(()));
}

#[test]
fn one_of_two_admins_may_go() {
    let users = [user(1, Role::Admin), user(2, Role::Admin)];
    for change in [Change::Role(Role::Viewer), Change::Deletion] {
        assert_eq!(keep_an_admin(&users, users[0].id, change), Ok(()));
    }
}

#[test]
fn an_unknown_user_does_not_exist_whatever_the_change() {
    let users = [user(1, Role::Admin)];
    for change in [Change::Role(Role::Admin), Change::Deletion] {
        let refused = keep_an_admin(&users, UserId::from_u128(9 << 10), change);
        assert!(matches!(refused, Err(Error::NotFound { kind: "user", .. })));
    }
}

#[test]
fn a_stored_user_reads_back_and_its_hash_is_not_shown() {
    let user = user(1, Role::Viewer);
    let text = serde_json::to_string(&user).expect("a record is JSON");
    assert_eq!(serde_json::from_str::<User>(&text).expect("its own text"), user);
    assert!(!format!("{user:?}").contains("argon2id"));
}

proptest! {
    #[test]
    fn what_is_read_once_is_read_again_as_itself(text in "\\PC{0,20}@\\PC{0,20}") {
        if let Ok(email) = Email::parse(&text) {
            prop_assert_eq!(Email::parse(email.as_str()), Ok(email));
        }
    }
}
