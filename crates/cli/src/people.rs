//! Users by e-mail: taken where a command wants a user, shown where an answer names one.
//!
//! The server's answers name users by identifier alone, so their e-mails are read beside them. JSON keeps
//! the identifiers. Deliberately absent: a cache.

use callboard_client::{Call, Client};
use serde_json::Value;

use super::failure::Failure;

/// The largest page of a list, and the most pages that are read.
const PAGE: u64 = 100;
const MOST_PAGES: u64 = 100;

/// The identifier of the user whom `text` names by identifier or e-mail; the server lists users for admins.
pub(super) async fn user(client: &Client, text: String) -> Result<String, Failure> {
    if !text.contains('@') {
        return Ok(text);
    }
    People::read(client, &["auth", "users"]).await?.named("user", &text)
}

/// Some users: identifier, e-mail, name.
#[derive(Debug, Default)]
pub(super) struct People(Vec<[String; 3]>);

impl People {
    /// The users who decide on outputs.
    pub(super) async fn reviewers(client: &Client) -> Result<Self, Failure> {
        Self::read(client, &["hitl", "reviewers"]).await
    }

    /// The users who decide on outputs, or none if the server does not list them.
    pub(super) async fn known_reviewers(client: &Client) -> Self {
        Self::reviewers(client).await.unwrap_or_default()
    }

    async fn read(client: &Client, path: &[&str]) -> Result<Self, Failure> {
        let mut found = Vec::new();
        for page in 0..MOST_PAGES {
            let call = Call::get(path).query("limit", Some(PAGE));
            let page = client.page(call.query("offset", Some(page * PAGE))).await?;
            let text =
                |user: &Value, name: &str| user[name].as_str().unwrap_or_default().to_owned();
            let users = page.data.iter();
            found.extend(users.map(|user| ["id", "email", "name"].map(|name| text(user, name))));
            if page.pagination["hasMore"] != true {
                break;
            }
        }
        Ok(Self(found))
    }

    /// The identifier of the user whom `text` names by identifier, e-mail or name.
    pub(super) fn id(&self, text: &str) -> Option<&str> {
        let by = |field: usize| {
            let same = move |user: &&[String; 3]| user[field].eq_ignore_ascii_case(text);
            let mut users = self.0.iter().filter(same);
            // Two users may have the same name.
            users.next().filter(|_| users.next().is_none())
        };
        let user = by(0).or_else(|| by(1)).or_else(|| by(2));
        user.filter(|_| !text.is_empty()).map(|user| user[0].as_str())
    }

    /// The identifier of the user whom `text` names, or the failure that lists the candidates;
    /// `what` names the user's part.
    pub(super) fn named(&self, what: &str, text: &str) -> Result<String, Failure> {
        self.id(text).map(str::to_owned).ok_or_else(|| {
            let known: Vec<_> =
                self.0.iter().take(10).map(|[_, email, _]| email.as_str()).collect();
            let known = known.join(", ");
            Failure::Missing(format!(
                "{what} {text} does not exist; use an e-mail, such as {known}"
            ))
        })
    }

    /// Puts e-mails in the place of the identifiers at these members of an item.
    pub(super) fn show(&self, item: &mut Value, members: &[&str]) {
        for member in members {
            let place = member.split('.').try_fold(&mut *item, |place, name| place.get_mut(name));
            let Some(place) = place else { continue };
            let user = place.as_str().and_then(|id| self.0.iter().find(|user| user[0] == id));
            if let Some([_, email, _]) = user.filter(|[_, email, _]| !email.is_empty()) {
                *place = email.as_str().into();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn people() -> People {
        let user = |id: &str, email: &str, name: &str| [id.into(), email.into(), name.into()];
        People(vec![
            user("usr_1", "ann@callboard.example", "ann"),
            user("usr_2", "bob@callboard.example", "bob"),
            user("usr_3", "bob@other.example", "bob"),
        ])
    }

    #[test]
    fn a_user_is_named_by_identifier_e_mail_or_a_name_that_one_user_has() {
        let people = people();
        for (text, id) in [
            ("usr_2", Some("usr_2")),
            ("Bob@other.example", Some("usr_3")),
            ("ann", Some("usr_1")),
            ("bob", None),
            ("", None),
            ("usr_9", None),
        ] {
            assert_eq!(people.id(text), id, "{text}");
        }
        let failure = people.named("reviewer", "nobody").unwrap_err();
        assert_eq!(failure.exit_code(), 3);
        assert!(failure.words().starts_with("reviewer nobody does not exist; use"), "{failure:?}");
    }

    #[test]
    fn an_item_names_users_by_e_mail_and_what_is_no_user_stays() {
        let mut item =
            json!({"assignedTo": "usr_1", "actor": "system", "decision": {"by": "usr_2"}});
        people().show(&mut item, &["assignedTo", "actor", "decision.by", "claimedBy"]);
        let shown = json!({"assignedTo": "ann@callboard.example", "actor": "system",
                           "decision": {"by": "bob@callboard.example"}});
        assert_eq!(item, shown);
    }
}
