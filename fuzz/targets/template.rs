//! Templates and plans, as YAML or JSON: read, compiled, and read again from their faults or meaning.
#![no_main]

use callboard_wire::templates;
use callboard_domain::template::Template;
use callboard_protocol::document::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for format in [Format::Yaml, Format::Json] {
        if let Ok(source) = templates::source_from(bytes, format) {
            let names = ["HOME".to_owned()];
            if let Ok(template) = Template::compile(source, &names) {
                assert!(template.same_content(&template));
            }
        }
    }
});
