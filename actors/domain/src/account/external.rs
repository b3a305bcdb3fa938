//! Users of an identity provider: their admission and their role (docs/reference/accounts.md).
//!
//! A user is matched by issuer and subject, never by e-mail.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Email, MAX_NAME, display_name};
use crate::access::Role;
use crate::error::Error;

/// The identity of a user at a provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExternalId {
    /// The provider.
    pub issuer: String,
    /// The provider's identifier of the user, which it never gives to another one.
    pub subject: String,
}

/// The rules that admit a user of the identity provider and give the role.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// The claim that holds the user's roles or groups: a name, or a path with dots.
    pub role_claim: Option<String>,
    /// The values of the claim with their roles; the first that the user has decides.
    pub role_map: Vec<(String, Role)>,
    /// The role of a user with none of these values; `None` admits no such user.
    pub default_role: Option<Role>,
    /// The domains of admitted e-mails, in lower case; none admits all.
    pub allowed_domains: Vec<String>,
    /// True if an e-mail counts as verified where the provider tells no `email_verified`.
    pub trusts_email: bool,
}

/// A user who may sign in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// The verified e-mail.
    pub email: Email,
    /// The name for people.
    pub name: String,
    /// The role.
    pub role: Role,
}

impl Policy {
    /// Decides by the claims of a verified ID token.
    ///
    /// # Errors
    /// [`Error::Forbidden`] names the reason why the user may not sign in.
    pub fn admit(&self, claims: &Map<String, Value>) -> Result<Admitted, Error> {
        let refused = |why: &str| Error::Forbidden(format!("this user may not sign in: {why}"));
        let email = claims.get("email").and_then(Value::as_str);
        let email = email.ok_or_else(|| {
            refused(
                "the identity provider sends no e-mail: the claim email is missing. Let the provider put it \
                 into the ID token, and let the user have an e-mail there",
            )
        })?;
        match claims.get("email_verified") {
            Some(Value::Bool(true)) => {}
            // Some providers write the flag as a text.
            Some(Value::String(flag)) if flag == "true" => {}
            None | Some(Value::Null) if self.trusts_email => {}
            None | Some(Value::Null) => {
                return Err(refused(
                    "the identity provider has not verified the e-mail: the claim email_verified is \
                     missing. Let the provider send it, or set oidc.trust_email = true if only its \
                     admins set e-mails",
                ));
            }
            Some(_) => {
                return Err(refused(
                    "the identity provider has not verified the e-mail: the claim email_verified is \
                     not true. The user verifies the e-mail there, and signs in again",
                ));
            }
        }
        let email = Email::parse(email)
            .map_err(|_| refused("the e-mail must be an address such as ada@example.com"))?;
        let domain = email.as_str().rsplit_once('@').map_or("", |(_, domain)| domain);
        if !self.allowed_domains.is_empty() && !self.allowed_domains.iter().any(|it| it == domain) {
            return Err(refused("the domain of the e-mail is not in oidc.allowed_domains"));
        }
        let role = self.role(claims);
        let role = role.ok_or_else(|| refused(&self.without_role(claims)))?;
        let name = claims.get("name").and_then(Value::as_str).unwrap_or_default();
        let name: String =
            name.trim().chars().filter(|it| !it.is_control()).take(MAX_NAME).collect();
        let name = display_name(&name).unwrap_or_else(|_| email.local_part().to_owned());
        Ok(Admitted { email, name, role })
    }

    /// True if these claims leave open who the user is or which role is theirs: the provider may
    /// tell more elsewhere.
    #[must_use]
    pub fn lacks(&self, claims: &Map<String, Value>) -> bool {
        let is_role_open =
            || self.role_claim.as_deref().is_some_and(|it| find(claims, it).is_none());
        let is_unverified = !self.trusts_email && !claims.contains_key("email_verified");
        !claims.contains_key("email") || is_unverified || is_role_open()
    }

    /// The reason why these claims give no role.
    fn without_role(&self, claims: &Map<String, Value>) -> String {
        let why = match self.role_claim.as_deref() {
            None => "oidc.role_claim is not set".to_owned(),
            Some(name) if find(claims, name).is_none() => {
                format!("the claim {name} is missing. Let the provider put it into the ID token")
            }
            Some(name) => {
                format!("the claim {name} has none of its values. Add one to oidc.role_map")
            }
        };
        format!("no role of oidc.role_map is theirs: {why}, or set oidc.default_role")
    }

    fn role(&self, claims: &Map<String, Value>) -> Option<Role> {
        let claim = self.role_claim.as_deref().and_then(|name| find(claims, name));
        let has = |value: &str| match claim {
            Some(Value::String(one)) => one == value,
            Some(Value::Array(all)) => all.iter().any(|one| one == value),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
                false
            }
        };
        let mapped = self.role_map.iter().find(|(value, _)| has(value));
        mapped.map(|(_, role)| *role).or(self.default_role)
    }
}

/// The claim of this name, else the one at this path: names may have dots.
fn find<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    claims.get(name).or_else(|| {
        let mut path = name.split('.');
        let first = claims.get(path.next()?)?;
        path.try_fold(first, |value, name| value.get(name))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy() -> Policy {
        Policy {
            role_claim: Some("groups".into()),
            role_map: vec![("chiefs".into(), Role::Admin), ("staff".into(), Role::Operator)],
            default_role: None,
            allowed_domains: vec!["example.com".into()],
            trusts_email: false,
        }
    }

    fn admit(policy: &Policy, changes: Value) -> Result<Admitted, String> {
        let mut claims = json!({
            "email": "Ada@Example.COM", "email_verified": true, "name": " Ada ", "groups": ["staff"],
        });
        let claims = claims.as_object_mut().expect("an object");
        let Value::Object(changes) = changes else { panic!("an object") };
        claims.extend(changes);
        policy.admit(claims).map_err(|error| error.to_string())
    }

    #[test]
    fn the_first_value_of_the_map_that_the_user_has_decides_the_role() {
        let admitted = admit(&policy(), json!({})).expect("staff");
        assert_eq!((admitted.email.as_str(), &*admitted.name), ("Ada@example.com", "Ada"));
        assert_eq!(admitted.role, Role::Operator);
        let role = |groups| admit(&policy(), json!({"groups": groups})).map(|it| it.role).ok();
        assert_eq!(role(json!(["staff", "chiefs"])), Some(Role::Admin));
        assert_eq!(role(json!("staff")), Some(Role::Operator));
        for none in [
            json!([]),
            json!(["Staff"]),
            json!("chiefs staff"),
            json!(5),
            json!(null),
            json!({"staff": 1}),
        ] {
            assert_eq!(role(none), None);
        }
        let lenient = Policy { default_role: Some(Role::Viewer), ..policy() };
        let viewer = admit(&lenient, json!({"groups": ["guests"]})).expect("by default");
        assert_eq!(viewer.role, Role::Viewer);
    }

    #[test]
    fn a_claim_is_found_by_its_name_or_by_its_path() {
        let nested =
            json!({"realm_access": {"roles": ["chiefs"]}, "https://x.example/roles": "staff"});
        for (claim, role) in [
            ("realm_access.roles", Some(Role::Admin)),
            ("https://x.example/roles", Some(Role::Operator)),
            ("realm_access", None),
            ("realm_access.roles.0", None),
            ("", None),
        ] {
            let policy = Policy { role_claim: Some(claim.into()), ..policy() };
            assert_eq!(admit(&policy, nested.clone()).map(|it| it.role).ok(), role, "{claim}");
        }
    }

    #[test]
    fn an_e_mail_counts_only_if_it_is_verified_and_of_an_allowed_domain() {
        for (changes, why) in [
            (json!({"email": null}), "sends no e-mail"),
            (json!({"email": "ada"}), "must be an address"),
            (json!({"email": "ada@evil.example"}), "domain"),
            (json!({"email": "ada@sub.example.com"}), "domain"),
            (json!({"email": "ada@example.com.evil.example"}), "domain"),
            (json!({"email_verified": false}), "not verified"),
            (json!({"email_verified": "yes"}), "not verified"),
            (json!({"email_verified": 1}), "not verified"),
            (json!({"email_verified": null}), "not verified"),
        ] {
            let refused = admit(&policy(), changes.clone()).expect_err("refused");
            assert!(refused.contains(why), "{changes}: {refused}");
        }
        assert!(admit(&policy(), json!({"email_verified": "true"})).is_ok());
        let missing = admit(&policy(), json!({"email_verified": null})).expect_err("refused");
        assert!(missing.contains("email_verified is missing"), "{missing}");
        assert!(missing.contains("oidc.trust_email"), "{missing}");
        // What a provider says counts, also where its silence is trusted.
        let trusting = Policy { trusts_email: true, ..policy() };
        assert!(admit(&trusting, json!({"email_verified": null})).is_ok());
        for said in [json!(false), json!("false"), json!(0)] {
            let refused = admit(&trusting, json!({"email_verified": said})).expect_err("refused");
            assert!(refused.contains("email_verified is not true"), "{refused}");
        }
        let claims = |text: &str| serde_json::from_str(text).expect("an object");
        let entra = claims(r#"{"email": "ada@example.com", "groups": []}"#);
        assert!(policy().lacks(&entra) && !trusting.lacks(&entra));
        let missing = policy().without_role(&claims("{}"));
        assert!(missing.contains("the claim groups is missing"), "{missing}");
        assert!(policy().without_role(&entra).contains("groups has none of its values"));
        let anywhere = Policy { allowed_domains: Vec::new(), ..policy() };
        assert!(admit(&anywhere, json!({"email": "ada@evil.example"})).is_ok());
    }

    #[test]
    fn a_name_that_breaks_the_rules_of_names_is_mended() {
        let name = |name| admit(&policy(), json!({"name": name})).expect("staff").name;
        assert_eq!(name(json!("A\u{7}da")), "Ada");
        assert_eq!(name(json!("x".repeat(200))), "x".repeat(MAX_NAME));
        assert_eq!((name(json!("")), name(json!(7))), ("Ada".into(), "Ada".into()));
    }
}
