//! Query strings: the same rules as for bodies, each parameter a text.
//!
//! `+` is a blank, as forms write it. Deliberately absent: `api_key`, which is a credential and
//! may stand in any query; whoever authenticates reads it.

use std::borrow::Cow;

use callboard_domain::{Error, Rule};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::fields::Mode;
use super::{Field, Fields, Path, Read};

/// The parameter that carries a key (SPEC.md, Authentication).
pub const API_KEY: &str = "api_key";

const ROOT: Path<'static> = Path::Root("query");

/// Reads the query of a request, without its `?`.
///
/// # Errors
///
/// [`Error::Invalid`] for broken percent-encoding, a parameter given twice, the first that breaks
/// its rule, or one that is unknown.
pub fn parse<T: Read>(query: &str) -> Result<T, Error> {
    let mut members = Map::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decode(ROOT, name)?;
        if name == API_KEY {
            continue;
        }
        let path = Path::Member(&ROOT, &name);
        let value = decode(path, value)?;
        if members.contains_key(name.as_ref()) {
            return Err(Field::at(path).refuse(Rule::Type, "is given twice, once would be right"));
        }
        members.insert(name.into_owned(), Value::String(value.into_owned()));
    }
    let mut fields = Fields::new(ROOT, members, Mode::default().in_query());
    let value = T::read(&mut fields)?;
    fields.finish()?;
    Ok(value)
}

fn decode<'a>(path: Path<'_>, text: &'a str) -> Result<Cow<'a, str>, Error> {
    if !text.contains(['%', '+']) {
        return Ok(Cow::Borrowed(text));
    }
    let refuse = |says: &str| Field::at(path).refuse(Rule::Format, says);
    let whole = |escape: &str| {
        let mut digits = escape.bytes();
        let two = [digits.next(), digits.next()];
        two.iter().all(|digit| digit.is_some_and(|digit| digit.is_ascii_hexdigit()))
    };
    if !text.split('%').skip(1).all(whole) {
        return Err(refuse("holds a % without two hexadecimal digits after it"));
    }
    let blanks = text.replace('+', " ");
    let decoded = percent_decode_str(&blanks).decode_utf8();
    let decoded = decoded.map_err(|_| refuse("is no UTF-8 once its %-escapes are read"))?;
    Ok(Cow::Owned(decoded.into_owned()))
}

#[cfg(test)]
mod tests;
