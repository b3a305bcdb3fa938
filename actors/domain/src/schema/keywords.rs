//! The keywords of patterns of ECMA 262, which run on callers' patterns and on callers' texts: on fuel.
//!
//! The patterns of that keyword are small, and every look at a member's name burns fuel for all of them.

use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::json::Node;
use jsonschema::paths::Location;
use jsonschema::{Keyword, ValidationError};
use serde_json::{Map, Value};

use super::metered::{Instance, Metered, burn, burning};
use crate::pattern::{Pattern, Patterns, Scratch, is_ecma};

/// The largest sum of the compiled patterns of one schema, in bytes.
pub(super) const MAX_PATTERNS: usize = 1024 * 1024;

/// The largest compiled pattern, in bytes: as much as all of a schema.
pub(super) const MAX_PATTERN: usize = MAX_PATTERNS;

/// The largest compiled pattern of a member's name, in bytes.
pub(super) const MAX_NAME_PATTERN: usize = 32 * 1024;

/// The scratch memory that a pattern keeps between two texts, in bytes.
const KEPT_SCRATCH: usize = 32 * 1024;

type KeywordResult<'a> = Result<Box<dyn for<'i> Keyword<'i, Metered>>, ValidationError<'a>>;

/// The keyword `pattern`, whose value is the number of a text; `patterns` are those of the whole schema.
pub(super) fn pattern(
    texts: Vec<String>,
    patterns: Arc<Mutex<Patterns>>,
) -> impl for<'a> Fn(&'a Map<String, Value>, &'a Value, Location) -> KeywordResult<'a> + Send + Sync
{
    move |_, value, _| {
        let number = value.as_str().and_then(|number| number.parse::<usize>().ok());
        // A keyword where the rewriting knew none has its own text.
        let text = number.and_then(|number| texts.get(number)).map(String::as_str);
        let text = text.or(value.as_str()).unwrap_or_default();
        let compiled =
            patterns.lock().unwrap_or_else(PoisonError::into_inner).compile(text, MAX_PATTERN);
        // A pattern that is no regular expression was refused before.
        let pattern = compiled.map_err(|_| ValidationError::custom("is not a pattern"))?;
        Ok(Box::new(Matches { pattern, kept: Mutex::new(None) }))
    }
}

/// A string must match the pattern.
struct Matches {
    pattern: Arc<Pattern>,
    kept: Mutex<Option<Scratch>>,
}

impl<'i> Keyword<'i, Metered> for Matches {
    fn validate(&self, instance: Instance<'i>) -> Result<(), ValidationError<'i>> {
        if Keyword::<Metered>::is_valid(self, instance) {
            Ok(())
        } else {
            Err(ValidationError::custom(PATTERN_FAULT))
        }
    }

    fn is_valid(&self, instance: Instance<'i>) -> bool {
        let Some(text) = instance.as_string() else { return true };
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (matched, scratch) = burning(|fuel| {
            let mut scratch = match kept {
                Some(scratch) => scratch,
                None => self.pattern.scratch(fuel)?,
            };
            Ok((self.pattern.is_match(&text, &mut scratch, fuel)?, scratch))
        });
        if scratch.size() <= KEPT_SCRATCH {
            *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(scratch);
        }
        matched
    }
}

/// The message of a text that does not match.
pub(super) const PATTERN_FAULT: &str = "does not match the pattern";

/// The format `regex`: a pattern that is read, and not compiled.
pub(super) fn is_regex(text: &str) -> bool {
    burn(text.len() as u64 * 20);
    is_ecma(text, |work| {
        burn(work / 2);
        true
    })
}
