//! Keys and refresh tokens: every accepted one has the documented form.
#![no_main]

#[path = "../bound.rs"]
mod bound;

use bound::bounded;
use callboard_domain::credential::{self, refresh::RefreshToken};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if bounded(|| credential::parse(text).is_ok() || RefreshToken::parse(text).is_ok()) {
        let random = text.rsplit('_').next().expect("a split has a last part");
        assert_eq!(random.len(), 38);
        assert!(random.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }
});
