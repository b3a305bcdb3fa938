//! The members of objects by their names, of which two are the same if they are in Unicode's NFC (UAX 15):
//! é may be one character or two.
//!
//! Deliberately absent: the few characters beyond ASCII whose NFC is in ASCII, such as the Kelvin sign.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// A name in NFC.
pub(crate) fn normal(name: &str) -> Cow<'_, str> {
    if name.is_ascii() || is_nfc_quick(name.chars()) == IsNormalized::Yes {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(name.nfc().collect())
    }
}

/// The member of a name in NFC, at the cost of all names if it is written in another form.
pub(crate) fn member<'v>(members: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    let is_same = |(known, _): &(&String, &Value)| !known.is_ascii() && normal(known) == name;
    members.get(name).or_else(|| {
        (!name.is_ascii()).then(|| members.iter().find(is_same).map(|(_, value)| value)).flatten()
    })
}

/// Many looks at the members of the same objects: the names of an object are read once at most.
#[derive(Default)]
pub(super) struct Members {
    /// The names that are not in NFC, by their NFC, of each object by its address.
    others: HashMap<usize, HashMap<String, String>>,
}

impl Members {
    /// The member of a name in NFC; the object must stay where it is.
    pub(super) fn get<'v>(
        &mut self,
        members: &'v Map<String, Value>,
        name: &str,
    ) -> Option<&'v Value> {
        let found = members.get(name);
        if found.is_some() || name.is_ascii() {
            return found;
        }
        let address = std::ptr::from_ref(members).addr();
        let others = self.others.entry(address).or_insert_with(|| others(members));
        members.get(others.get(name)?)
    }

    /// The value at a path.
    pub(super) fn at<'v>(&mut self, root: &'v Value, path: &[String]) -> Option<&'v Value> {
        path.iter().try_fold(root, |value, segment| match value {
            Value::Object(members) => self.get(members, segment),
            Value::Array(items) => items.get(segment.parse::<usize>().ok()?),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        })
    }
}

fn others(members: &Map<String, Value>) -> HashMap<String, String> {
    let other = |name: &String| match normal(name) {
        Cow::Owned(normal) => Some((normal, name.clone())),
        Cow::Borrowed(_) => None,
    };
    members.keys().filter_map(other).collect()
}
