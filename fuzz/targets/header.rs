//! Headers that callers send: trace contexts, identifiers, versions.
#![no_main]

#[path = "../bound.rs"]
mod bound;

use bound::bounded;
use callboard_domain::id::TaskId;
use callboard_domain::template::Version;
use callboard_domain::trace::TraceContext;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(context) = bounded(|| text.parse::<TraceContext>()) {
        assert_eq!(context.to_string().parse(), Ok(context));
    }
    if let Ok(id) = bounded(|| text.parse::<TaskId>()) {
        assert_eq!(id.to_string().parse().ok(), Some(id));
    }
    if let Ok(version) = bounded(|| text.parse::<Version>()) {
        assert_eq!(version.to_string().parse().ok(), Some(version));
    }
});
