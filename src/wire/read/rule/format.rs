//! The rules for texts of a known format: instants, e-mail and web addresses.
//!
//! Deliberately absent: whether an address may be called and whether mail arrives there.

use callboard_domain::{Error, Rule, Timestamp};
use url::Url;

use super::{Field, characters, check_size, refuse, short, take_text};

/// How long an address may be, in characters (PROTOCOL.md 2, Limits).
pub const MAX_URL: usize = 2048;

/// An instant of ISO 8601.
///
/// # Errors
///
/// Rule `type` or `format`.
pub fn instant(field: Field<'_>) -> Result<Timestamp, Error> {
    let hint = if field.mode.from_query { " (a + is written %2B here)" } else { "" };
    let (path, text) = take_text(field)?;
    text.parse().map_err(|_| {
        let says = "must be an instant of ISO 8601 such as 2026-11-21T04:53:00.000Z, not";
        let hint = if text.contains(' ') { hint } else { "" };
        refuse(path, Rule::Format, format_args!("{says} {}{hint}", short(&text)))
    })
}

/// An e-mail address, of at most 254 characters.
///
/// # Errors
///
/// Rule `type`, `length` or `format`.
pub fn email(field: Field<'_>) -> Result<String, Error> {
    let (path, text) = take_text(field)?;
    check_size(&path, &text, &characters(1..=254))?;
    if is_email(&text) {
        return Ok(text);
    }
    Err(refuse(path, Rule::Format, "must be an e-mail address such as ada@example.com"))
}

/// One `@` with a name before it and a host after it, no blanks: whether mail arrives there is
/// for the mail to find out.
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

/// An http or https address with a host, without user and password, of at most [`MAX_URL`]
/// characters. Whether it may be called is not told here.
///
/// # Errors
///
/// Rule `type`, `length` or `format`.
pub fn url(field: Field<'_>) -> Result<Url, Error> {
    let (path, text) = take_text(field)?;
    check_size(&path, &text, &characters(1..=MAX_URL))?;
    let says = match Url::parse(&text) {
        Ok(url) if !matches!(url.scheme(), "http" | "https") => "must begin with http or https",
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            "must not hold a user or a password"
        }
        Ok(url) if url.has_host() => return Ok(url),
        Ok(_) | Err(_) => "must be an address such as https://example.com/hook",
    };
    Err(refuse(path, Rule::Format, says))
}
