//! Query strings: the same rules as for bodies, each parameter a text.
//!
//! `+` is a blank, as forms write it. `api_key` and `project` may stand in any query: the authentication reads them.

use std::borrow::Cow;

use callboard_domain::{Error, Rule};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::fields::{Faults, Mode};
use super::{Fields, Members, Path, Read, Refused, refusal};

/// The parameters of every query: the key, the project of a session, and the cell that is meant as a whole.
pub const EVERYWHERE: [&str; 3] = ["api_key", "cell", "project"];

/// The query of a request that takes no parameter.
#[derive(Debug, Clone, Copy)]
pub struct NoParameters;

impl Read for NoParameters {
    const NAME: &'static str = "NoParameters";

    fn read(_: &mut Fields<'_>) -> Result<Self, Refused> {
        Ok(Self)
    }

    fn describe(_: &mut Members<'_>) {}
}

const ROOT: Path<'static> = Path::Root("query");

/// Reads the query of a request, without its `?`.
///
/// # Errors
///
/// Those of [`super::value`]; also for broken percent-encoding, and a parameter that is given twice.
pub fn parse<T: Read>(query: &str) -> Result<T, Error> {
    let faults = Faults::default();
    match read(query, Mode { from_query: true, faults: &faults }) {
        Ok(read) if faults.is_empty() => Ok(read),
        _ => Err(refusal(faults.into_inner().0)),
    }
}

fn read<T: Read>(query: &str, mode: Mode<'_>) -> Result<T, Refused> {
    let mut members = Map::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decode(ROOT, mode, name)?;
        if EVERYWHERE.contains(&&*name) {
            continue;
        }
        let path = Path::Member(&ROOT, &name);
        let value = decode(path, mode, value)?;
        if members.contains_key(name.as_ref()) {
            return Err(mode.refuse(&path, Rule::Type, "is given twice: give it once"));
        }
        members.insert(name.into_owned(), Value::String(value.into_owned()));
    }
    let mut fields = Fields::new(ROOT, members, mode);
    let value = T::read(&mut fields);
    fields.finish();
    value
}

fn decode<'a>(path: Path<'_>, mode: Mode<'_>, text: &'a str) -> Result<Cow<'a, str>, Refused> {
    if !text.contains(['%', '+']) {
        return Ok(Cow::Borrowed(text));
    }
    let refuse = |says: &str| mode.refuse(&path, Rule::Format, says);
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
    let decoded = decoded.map_err(|_| refuse("must be UTF-8 after percent-decoding"))?;
    Ok(Cow::Owned(decoded.into_owned()))
}

#[cfg(test)]
mod tests;
