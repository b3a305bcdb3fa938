//! The sources of settings, and their precedence.
//!
//! ```text
//! flag  over  CALLBOARD_<SECTION>__<NAME>  over  the given file  over  the shipped file
//! ```
//!
//! A setting that is given and never asked for is refused as unknown, so the code that asks is the list
//! of settings. Deliberately absent: single underscores. A container platform sets variables such
//! as `CALLBOARD_PORT` for a service of that name, so only those with two are taken for settings.

use std::collections::{BTreeMap, BTreeSet};

use toml::de::{DeTable, DeValue};

use super::error::{Error, Place};
use super::rule::{self, Raw, Read};

const PREFIX: &str = "CALLBOARD_";

/// The variables of other programs that count here too.
const FOREIGN: [&str; 1] = ["PGPASSWORD"];

/// The variables of the program that are no settings, and those of its commands.
const OTHERS: [&str; 17] = [
    "CALLBOARD_ADMIN_EMAIL",
    "CALLBOARD_ADMIN_PASSWORD",
    "CALLBOARD_ADMIN_PASSWORD_FILE",
    "CALLBOARD_API_KEY",
    "CALLBOARD_API_KEY_FILE",
    "CALLBOARD_CELL",
    "CALLBOARD_LOG",
    "CALLBOARD_NEW_PASSWORD",
    "CALLBOARD_NEW_PASSWORD_FILE",
    "CALLBOARD_PAGER",
    "CALLBOARD_PASSWORD",
    "CALLBOARD_PASSWORD_FILE",
    "CALLBOARD_PROJECT",
    "CALLBOARD_SERVER",
    "CALLBOARD_SETUP_TOKEN",
    "CALLBOARD_SETUP_TOKEN_FILE",
    "CALLBOARD_WEBHOOK_SECRET",
];

/// The file that has every default.
pub(super) const SHIPPED: &str = include_str!("../../config/callboard.toml");

/// A setting's section and name.
type Key = (String, String);

/// Every setting that was given, and the names of those that were asked for.
#[derive(Debug)]
pub(super) struct Source {
    given: BTreeMap<Key, Vec<(Place, Raw)>>,
    variables: BTreeMap<String, String>,
    foreign: BTreeMap<String, String>,
    asked: BTreeSet<Key>,
}

impl Source {
    /// The shipped file alone.
    pub(super) fn new() -> Result<Self, Error> {
        let mut source = Self {
            given: BTreeMap::new(),
            variables: BTreeMap::new(),
            foreign: BTreeMap::new(),
            asked: BTreeSet::new(),
        };
        source.add_file("the built-in configuration", SHIPPED)?;
        Ok(source)
    }

    /// Overlays a file.
    pub(super) fn add_file(&mut self, name: &str, text: &str) -> Result<(), Error> {
        let line_at =
            |offset: usize| text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1;
        let table = DeTable::parse(text).map_err(|error| Error {
            place: Place::Line(name.to_owned(), error.span().map(|span| line_at(span.start))),
            says: format!("not TOML: {}", error.message().replace('\n', ", ")),
        })?;
        let mut found = Vec::new();
        walk("", table.get_ref(), &mut found);
        for (section, key, offset, raw) in found {
            let place = Place::Line(name.to_owned(), Some(line_at(offset)));
            self.put((section, key), place, raw);
        }
        Ok(())
    }

    /// Overlays environment variables.
    pub(super) fn add_variables(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        for (name, value) in variables {
            let Some(rest) = name.strip_prefix(PREFIX) else {
                if FOREIGN.contains(&name.as_str()) {
                    self.foreign.insert(name, value);
                }
                continue;
            };
            if let Some((section, key)) = rest.split_once("__") {
                let key = (section.to_lowercase().replace('_', "."), key.to_lowercase());
                self.put(key, Place::Variable(name), Raw::Plain(value));
            } else {
                self.variables.insert(name, value);
            }
        }
    }

    /// Overlays a flag.
    pub(super) fn add_flag(&mut self, flag: &'static str, key: (&str, &str), value: String) {
        let key = (key.0.to_owned(), key.1.to_owned());
        self.put(key, Place::Flag(flag), Raw::Plain(value));
    }

    fn put(&mut self, key: Key, place: Place, raw: Raw) {
        self.given.entry(key).or_default().push((place, raw));
    }

    /// A setting that the shipped file has a value for.
    pub(super) fn get<T>(
        &mut self,
        section: &str,
        name: &str,
        rule: impl Fn(&Raw) -> Read<T>,
    ) -> Result<T, Error> {
        let found = self.optional(section, name, rule)?;
        found.ok_or_else(|| Error {
            place: Place::Line("the built-in configuration".to_owned(), None),
            says: format!("{section}.{name} has no default"),
        })
    }

    /// A setting that may be absent.
    pub(super) fn optional<T>(
        &mut self,
        section: &str,
        name: &str,
        rule: impl Fn(&Raw) -> Read<T>,
    ) -> Result<Option<T>, Error> {
        let key = (section.to_owned(), name.to_owned());
        let mut found = None;
        // A value that loses is checked too: it may win tomorrow.
        for (place, raw) in self.given.get(&key).into_iter().flatten() {
            let read = rule(raw).map_err(|right| Error {
                place: place.clone(),
                says: format!("{section}.{name} must be {right}, not {raw}"),
            })?;
            found = Some(read);
        }
        self.asked.insert(key);
        Ok(found)
    }

    /// The names of the sections within a section, such as those of models.
    pub(super) fn sections_under(&self, section: &str) -> BTreeSet<String> {
        let within =
            |(found, _): &Key| found.strip_prefix(section)?.strip_prefix('.').map(str::to_owned);
        self.given.keys().filter_map(within).collect()
    }

    /// The place of a setting of a section.
    pub(super) fn first_place(&self, section: &str) -> Place {
        let name = self.given.keys().find(|(found, _)| found == section).map(|(_, name)| name);
        self.place(section, name.map_or("", String::as_str))
    }

    /// A secret setting, which only a variable may hold, and its place.
    pub(super) fn secret(
        &mut self,
        section: &str,
        name: &str,
    ) -> Result<Option<(Place, String)>, Error> {
        let key = (section.to_owned(), name.to_owned());
        let mut found = None;
        for (place, raw) in self.given.remove(&key).unwrap_or_default() {
            match (place, raw) {
                (place @ Place::Variable(_), Raw::Plain(text)) => found = Some((place, text)),
                (place, _) => {
                    let variable = variable(section, name);
                    let says = format!(
                        "{section}.{name} is a secret: set {variable}, or {name}_file to a path"
                    );
                    return Err(Error { place, says });
                }
            }
        }
        self.asked.insert(key);
        Ok(found)
    }

    /// A secret setting that a file may hold as well, and its place. Its value is never shown.
    pub(super) fn secret_of_any(
        &mut self,
        section: &str,
        name: &str,
    ) -> Result<Option<(Place, String)>, Error> {
        let key = (section.to_owned(), name.to_owned());
        let given = self.given.remove(&key).unwrap_or_default();
        self.asked.insert(key);
        let Some((place, raw)) = given.into_iter().next_back() else { return Ok(None) };
        match rule::text(&raw) {
            Ok(text) => Ok(Some((place, text))),
            Err(right) => Err(Error { place, says: format!("{section}.{name} must be {right}") }),
        }
    }

    /// A variable that is no setting, such as `CALLBOARD_ADMIN_EMAIL`.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// A variable of other programs that counts here too.
    pub(super) fn foreign(&self, name: &str) -> Option<&str> {
        self.foreign.get(name).map(String::as_str)
    }

    /// True if no source overlays the shipped file's value.
    pub(super) fn is_default(&self, section: &str, name: &str) -> bool {
        let given = self.given.get(&(section.to_owned(), name.to_owned()));
        given.is_none_or(|given| given.len() == 1)
    }

    /// The place of a setting's winning value.
    pub(super) fn place(&self, section: &str, name: &str) -> Place {
        let given = self.given.get(&(section.to_owned(), name.to_owned()));
        let last = given.and_then(|given| given.last());
        last.map_or_else(|| Place::Variable(variable(section, name)), |(place, _)| place.clone())
    }

    /// Passes if every setting that was given was asked for.
    pub(super) fn finish(&self) -> Result<(), Error> {
        let unknown = self.given.iter().find(|(key, _)| !self.asked.contains(*key));
        let Some(((section, name), given)) = unknown else {
            return Ok(());
        };
        let place = given.last().map(|(place, _)| place.clone());
        let place = place.unwrap_or_else(|| Place::Variable(variable(section, name)));
        let names: Vec<_> = self.asked.iter().filter(|(other, _)| other == section).collect();
        let path = if section.is_empty() { name.clone() } else { format!("{section}.{name}") };
        let says = if names.is_empty() {
            let sections: BTreeSet<_> =
                self.asked.iter().map(|(other, _)| other.as_str()).collect();
            let sections: Vec<_> = sections.into_iter().collect();
            format!("unknown setting {path}; sections: {}", sections.join(", "))
        } else {
            let names: Vec<_> = names.into_iter().map(|(_, name)| name.as_str()).collect();
            format!("unknown setting {path}; allowed in [{section}]: {}", names.join(", "))
        };
        Err(Error { place, says })
    }

    /// A warning for each variable that is named like a setting and is none. Every setting was asked for.
    pub(super) fn ignored(&self) -> Vec<String> {
        let names = self.variables.keys().map(String::as_str);
        let warning = |name: &str| match self.meant_by(name) {
            Some(setting) => {
                Some(format!("{name} is not a setting and is ignored; {setting} is one"))
            }
            None if is_of_a_platform(name) => None,
            None => Some(format!(
                "{name} is not a setting and is ignored; settings are named {PREFIX}<SECTION>__<NAME>, with \
                 two underscores"
            )),
        };
        names.filter(|name| !OTHERS.contains(name)).filter_map(warning).collect()
    }

    /// The variable of the setting that has this name if one underscore is doubled.
    fn meant_by(&self, name: &str) -> Option<String> {
        let rest = name.strip_prefix(PREFIX)?.to_lowercase();
        let splits = rest.match_indices('_').map(|(at, _)| (&rest[..at], &rest[at + 1..]));
        let mut keys = splits.map(|(section, key)| (section.replace('_', "."), key.to_owned()));
        let (section, key) = keys.find(|key| self.asked.contains(key))?;
        Some(variable(&section, &key))
    }

    /// The settings that were asked for.
    #[cfg(test)]
    pub(super) fn asked(&self) -> impl Iterator<Item = (&str, &str)> {
        self.asked.iter().map(|(section, name)| (section.as_str(), name.as_str()))
    }
}

/// True for a variable that a container platform sets for a service named `callboard`, or `callboard-…`.
fn is_of_a_platform(name: &str) -> bool {
    let is_port =
        |text: &str| text.split_once('_').map_or(text, |(port, _)| port).parse::<u16>().is_ok();
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.ends_with("_PORT")
        || name.split_once("_PORT_").is_some_and(|(_, rest)| is_port(rest))
}

/// The variable of a setting.
fn variable(section: &str, name: &str) -> String {
    let section = section.replace('.', "_").to_uppercase();
    format!("{PREFIX}{section}__{}", name.to_uppercase())
}

/// Lists the values of a table and of the tables in it, each with the byte at which it begins.
fn walk(section: &str, table: &DeTable<'_>, found: &mut Vec<(String, String, usize, Raw)>) {
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        if let DeValue::Table(inner) = value.get_ref() {
            let inner_section =
                if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") };
            walk(&inner_section, inner, found);
        } else {
            let raw = raw(value.get_ref());
            found.push((section.to_owned(), name.to_owned(), key.span().start, raw));
        }
    }
}

fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Raw::Number(number.as_str().to_owned()),
        DeValue::Integer(number) => Raw::Number(number.to_string()),
        DeValue::Float(number) => Raw::Number(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Raw::Flag(*flag),
        DeValue::Array(items) => Raw::List(items.iter().map(|item| raw(item.get_ref())).collect()),
        DeValue::Datetime(_) => Raw::Other("date"),
        DeValue::Table(_) => Raw::Other("table"),
    }
}
