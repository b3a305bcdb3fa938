//! Names of models, queues and tags ([`callboard_domain::grammar`]).
//!
//! A text that is no name of the grammar may be the name of something that is there already, which the
//! reader cannot know: it notes the text, and [`super::super::Reading::finish`] asks.

use callboard_domain::grammar::{self, Kind};
use callboard_domain::{Fault, Rule};
use serde_json::Value;

use super::Parse;
use crate::read::fields::Unfit;
use crate::read::{Components, Field, Refused};

/// A name of this kind; `text` knows its length.
#[must_use]
pub fn name(kind: Kind, text: impl Parse<String>) -> impl Parse<String> {
    Name(kind, text)
}

struct Name<P>(Kind, P);

impl<P: Parse<String>> Parse<String> for Name<P> {
    fn parse(&self, field: Field<'_>) -> Result<String, Refused> {
        let (path, mode) = (field.path, field.mode);
        let name = self.1.parse(field)?;
        if let Some(says) = grammar::fault(&name) {
            let (field, message) = (path.to_string(), format!("{path} {says}"));
            let fault = Fault { field, rule: Rule::Pattern, message };
            mode.faults.note(Unfit { kind: self.0, name: name.clone(), fault })?;
        }
        Ok(name)
    }

    fn schema(&self, components: &mut Components) -> Value {
        self.1.schema(components)
    }
}
