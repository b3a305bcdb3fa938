//! The rules of settings: each reads a raw value, or names the right form.
//!
//! A file has types, a flag or a variable is plain text. Deliberately absent: defaults, which
//! stand in `config/callboard.toml` alone.

use std::fmt::{self, Display};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use callboard_common::duration::format as shown;
use callboard_domain::worker::ConfidenceTrust;
use ipnet::IpNet;
use lettre::message::Mailbox;
use url::Url;

use crate::telemetry;

/// A value as it was given.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Raw {
    /// A flag's or a variable's text, of any type.
    Plain(String),
    /// A text of a file.
    Text(String),
    /// A number of a file, in decimal.
    Number(String),
    /// True or false in a file.
    Flag(bool),
    /// A list of a file.
    List(Vec<Raw>),
    /// A value of a file that no setting can have, by its kind.
    Other(&'static str),
}

impl Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(text) | Self::Text(text) => write!(f, "{text:?}"),
            Self::Number(number) => f.write_str(number),
            Self::Flag(flag) => flag.fmt(f),
            Self::List(items) => {
                let items: Vec<_> = items.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Self::Other(kind) => write!(f, "a {kind}"),
        }
    }
}

/// A filter of the log.
pub(super) fn log_filter(raw: &Raw) -> Read<String> {
    let right = || "a log filter such as \"info\" or \"warn,callboard=debug\"".to_owned();
    let given = text(raw)?;
    telemetry::read(Some(&given)).map(|_| given).map_err(|_| right())
}

impl Raw {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Plain(text) | Self::Text(text) => Some(text),
            Self::Number(_) | Self::Flag(_) | Self::List(_) | Self::Other(_) => None,
        }
    }

    fn number(&self) -> Option<&str> {
        match self {
            Self::Plain(text) | Self::Number(text) => Some(text),
            Self::Text(_) | Self::Flag(_) | Self::List(_) | Self::Other(_) => None,
        }
    }
}

/// The result of a rule: the value, or the text after `must be`.
pub(super) type Read<T> = Result<T, String>;

fn parsed<T: FromStr>(text: Option<&str>, right: &str) -> Read<T> {
    text.and_then(|text| text.parse().ok()).ok_or_else(|| right.to_owned())
}

/// A text that is not empty.
pub(super) fn text(raw: &Raw) -> Read<String> {
    let text = raw.text().filter(|text| !text.trim().is_empty());
    text.map(str::to_owned).ok_or_else(|| "a text".to_owned())
}

pub(super) fn path(raw: &Raw) -> Read<PathBuf> {
    text(raw).map(PathBuf::from).map_err(|_| "a path".to_owned())
}

/// An address and a port.
pub(super) fn address(raw: &Raw) -> Read<SocketAddr> {
    parsed(raw.text(), "an IP address and a port such as 127.0.0.1:8080")
}

/// A network, or one address.
pub(super) fn network(raw: &Raw) -> Read<IpNet> {
    let text = raw.text();
    let one = text.and_then(|text| text.parse::<IpAddr>().ok().map(IpNet::from));
    one.map_or_else(|| parsed(text, "a network such as 10.0.0.0/8"), Ok)
}

/// The name or the address of a host; an empty text is none.
pub(super) fn host(raw: &Raw) -> Read<Option<String>> {
    let right = || "a host such as smtp.example.com, without a port".to_owned();
    let text = raw.text().ok_or_else(right)?.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    let is_host = is_name || text.parse::<IpAddr>().is_ok();
    is_host.then(|| Some(text.to_owned())).ok_or_else(right)
}

/// The sender of a mail.
pub(super) fn mailbox(raw: &Raw) -> Read<Mailbox> {
    let right = "an address such as callboard@example.com or Callboard <callboard@example.com>";
    let mailbox: Mailbox = parsed(raw.text(), right)?;
    let is_plain = !mailbox.to_string().chars().any(char::is_control);
    if is_plain && mailbox.email.to_string().is_ascii() {
        Ok(mailbox)
    } else {
        Err(right.to_owned())
    }
}

/// The address of a web site or a page.
pub(super) fn url(raw: &Raw) -> Read<Url> {
    let right = "an address such as https://callboard.example.com";
    let url: Url = parsed(raw.text(), right)?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    let is_plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    if is_web && is_plain { Ok(url) } else { Err(right.to_owned()) }
}

/// The origin of a page, in lower case: scheme, host, and the port unless it is the scheme's own.
pub(super) fn origin(raw: &Raw) -> Read<String> {
    let right = "an origin such as https://dashboard.example.com, without a path";
    let url: Url = parsed(raw.text(), right)?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    let is_bare = matches!(url.path(), "" | "/") && url.query().is_none();
    let is_plain = url.fragment().is_none() && url.username().is_empty();
    let origin = url.origin().ascii_serialization();
    if is_web && is_bare && is_plain { Ok(origin) } else { Err(right.to_owned()) }
}

/// True or false.
pub(super) fn flag(raw: &Raw) -> Read<bool> {
    match raw {
        Raw::Flag(flag) => Ok(*flag),
        Raw::Plain(text) => parsed(Some(text), "true or false"),
        Raw::Text(_) | Raw::Number(_) | Raw::List(_) | Raw::Other(_) => {
            Err("true or false".to_owned())
        }
    }
}

/// The workers whose confidence counts: `all`, `none`, or a list of keys.
pub(super) fn trust(raw: &Raw) -> Read<ConfidenceTrust> {
    match raw.text() {
        Some("all") => return Ok(ConfidenceTrust::All),
        Some("none") => return Ok(ConfidenceTrust::None),
        Some(_) | None => {}
    }
    let keys = list(text)(raw).map(ConfidenceTrust::Only);
    keys.map_err(|_| "all, none, or a list of the names or ids of worker keys".to_owned())
}

/// A whole number in `range`.
pub(super) fn whole<T>(range: RangeInclusive<T>) -> impl Fn(&Raw) -> Read<T>
where
    T: FromStr + PartialOrd + Display,
{
    move |raw| {
        let right = format!("a whole number from {} to {}", range.start(), range.end());
        let number = raw.number().map(|number| number.replace('_', ""));
        let number: T = parsed(number.as_deref(), &right)?;
        range.contains(&number).then_some(number).ok_or(right)
    }
}

/// A share: a number from 0 to 1.
pub(super) fn share(raw: &Raw) -> Read<f64> {
    let right = "a number from 0 to 1";
    let share: f64 = parsed(raw.number(), right)?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(right.to_owned()) }
}

/// A whole number in `range`, which begins at 1, or `unlimited`, which is none.
pub(super) fn cap<T>(range: RangeInclusive<T>) -> impl Fn(&Raw) -> Read<Option<T>>
where
    T: FromStr + PartialOrd + Display,
{
    let number = whole(range);
    move |raw| {
        if raw.text() == Some("unlimited") {
            return Ok(None);
        }
        let number = number(raw).map(Some);
        number.map_err(|_| "a whole number above 0, or \"unlimited\"".to_owned())
    }
}

/// A length of time in `range`, such as `500ms`, `60s`, `5m`, `24h` or `90d`.
pub(super) fn duration(range: RangeInclusive<Duration>) -> impl Fn(&Raw) -> Read<Duration> {
    move |raw| {
        let found = raw.text().and_then(callboard_common::duration::parse);
        let found = found.filter(|found| range.contains(found));
        found.ok_or_else(|| {
            let (from, to) = (shown(*range.start()), shown(*range.end()));
            format!("a duration from {from} to {to}, such as 500ms, 60s, 5m, 24h or 90d")
        })
    }
}

/// A length of time in `range`, or `forever`, which is none.
pub(super) fn kept(range: RangeInclusive<Duration>) -> impl Fn(&Raw) -> Read<Option<Duration>> {
    let duration = duration(range);
    move |raw| {
        if raw.text() == Some("forever") {
            return Ok(None);
        }
        duration(raw).map(Some).map_err(|right| format!("{right}, or \"forever\""))
    }
}

/// One of a few words.
pub(super) fn one_of<T: Copy + 'static>(
    all: &'static [(&'static str, T)],
) -> impl Fn(&Raw) -> Read<T> {
    move |raw| {
        let given = raw.text();
        let found = all.iter().find(|(name, _)| Some(*name) == given);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
            format!("one of {}", names.join(", "))
        })
    }
}

/// A list; in a flag or a variable, its items have commas between them.
pub(super) fn list<T>(of: impl Fn(&Raw) -> Read<T>) -> impl Fn(&Raw) -> Read<Vec<T>> {
    move |raw| {
        let each = |items: &mut dyn Iterator<Item = Raw>| {
            let read =
                items.map(|item| of(&item).map_err(|right| format!("a list, each item {right}")));
            read.collect()
        };
        match raw {
            Raw::List(items) => each(&mut items.iter().cloned()),
            Raw::Plain(text) if text.trim().is_empty() => Ok(Vec::new()),
            Raw::Plain(text) => {
                each(&mut text.split(',').map(|item| Raw::Plain(item.trim().to_owned())))
            }
            Raw::Text(_) | Raw::Number(_) | Raw::Flag(_) | Raw::Other(_) => {
                Err("a list".to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_may_be_one_address() {
        let read = |text: &str| network(&Raw::Text(text.to_owned()));
        assert_eq!(read("10.1.2.3").map(|net| net.to_string()), Ok("10.1.2.3/32".to_owned()));
        assert_eq!(read("fc00::/7").map(|net| net.to_string()), Ok("fc00::/7".to_owned()));
        assert_eq!(read("10.0.0.0/33"), Err("a network such as 10.0.0.0/8".to_owned()));
    }

    #[test]
    fn a_file_has_types_and_a_variable_has_none() {
        let plain = |text: &str| Raw::Plain(text.to_owned());
        assert_eq!(whole(1..=9_u8)(&plain("5")), Ok(5));
        assert_eq!(whole(1..=9_u8)(&Raw::Number("5".to_owned())), Ok(5));
        let right = Err("a whole number from 1 to 9".to_owned());
        assert_eq!(whole(1..=9_u8)(&Raw::Text("5".to_owned())), right);
        assert_eq!(whole(1..=9_u8)(&plain("10")), right);
        assert_eq!(list(text)(&plain(" a, b ")), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(list(text)(&plain("")), Ok(Vec::new()));
        assert_eq!(list(text)(&Raw::Text("a,b".to_owned())), Err("a list".to_owned()));
        let cap = cap(1..=u32::MAX);
        assert_eq!(cap(&plain("unlimited")), Ok(None));
        assert_eq!(cap(&Raw::Number("7".to_owned())), Ok(Some(7)));
        assert!(cap(&Raw::Number("0".to_owned())).is_err());
    }

    #[test]
    fn what_is_kept_is_kept_for_a_time_or_forever() {
        let kept = kept(Duration::from_secs(1)..=Duration::from_hours(24));
        assert_eq!(kept(&Raw::Text("forever".to_owned())), Ok(None));
        assert_eq!(kept(&Raw::Plain("60s".to_owned())), Ok(Some(Duration::from_mins(1))));
        let right = "a duration from 1s to 1d, such as 500ms, 60s, 5m, 24h or 90d, or \"forever\"";
        for wrong in ["0s", "0", "2d", "never", ""] {
            assert_eq!(kept(&Raw::Text(wrong.to_owned())), Err(right.to_owned()), "{wrong}");
        }
    }
}
