//! The rules for texts of a known format: instants, e-mail and web addresses.
//!
//! Deliberately absent: the checks that an address may be called and that mail arrives there.

use callboard_domain::{Rule, Timestamp};
use serde_json::json;
use url::Url;

use super::{Parse, characters, rule, short, take_text, text};

/// The longest URL, in characters.
pub const MAX_URL: usize = 2048;

/// A timestamp of ISO 8601.
#[must_use]
pub fn instant() -> impl Parse<Timestamp> {
    rule(
        |field| {
            let hint = if field.mode.from_query { " (a + is written %2B here)" } else { "" };
            let (path, mode, text) = take_text(field)?;
            text.parse().map_err(|_| {
                let says = "must be an instant of ISO 8601 such as 2026-11-21T04:53:00.000Z, not";
                let hint = if text.contains(' ') { hint } else { "" };
                mode.refuse(&path, Rule::Format, format_args!("{says} {}{hint}", short(&text)))
            })
        },
        |_| json!({"type": "string", "format": "date-time", "pattern": "^(19[7-9]|[2-9][0-9]{2})[0-9]-"}),
    )
}

/// An e-mail address, of at most 254 characters.
#[must_use]
pub fn email() -> impl Parse<String> {
    let says = "must be an e-mail address such as ada@example.com";
    text(characters(1..=254))
        .only(|text| is_email(text), Rule::Format, says)
        .with(move || json!({"format": "email"}))
}

/// True for one `@` with a name before it, a host after it, and no blanks: only a mail can show
/// that the address exists.
fn is_email(text: &str) -> bool {
    let Some((name, host)) = text.rsplit_once('@') else {
        return false;
    };
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !"@<>,;:\\\"()[]".contains(c);
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_alphanumeric() || c == '-')
    };
    (1..=64).contains(&name.len())
        && name.chars().all(plain)
        && !name.starts_with('.')
        && !name.ends_with('.')
        && !name.contains("..")
        && host.split('.').all(label)
}

/// An http or https URL with a host, without user and password, of at most [`MAX_URL`] characters;
/// returned as given. The permission to call it is not checked here.
#[must_use]
pub fn url() -> impl Parse<String> {
    rule(
        |field| {
            let (path, mode) = (field.path, field.mode);
            let text = text(characters(1..=MAX_URL)).parse(field)?;
            let says = match Url::parse(&text) {
                Ok(url) if !matches!(url.scheme(), "http" | "https") => {
                    "must begin with http or https"
                }
                Ok(url) if !url.username().is_empty() || url.password().is_some() => {
                    "must not contain a user or a password"
                }
                Ok(url) if url.has_host() => return Ok(text),
                Ok(_) | Err(_) => "must be a URL such as https://example.com/hook",
            };
            Err(mode.refuse(&path, Rule::Format, says))
        },
        |_| json!({"type": "string", "format": "uri", "maxLength": MAX_URL, "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://[^@/?#]+"}),
    )
}
