//! The generated parts are those of the server's document, and every route has a method.

use std::path::Path;
use std::process::Command;

#[test]
fn the_types_the_methods_and_the_table_are_as_generated() {
    let generate = Path::new(env!("CARGO_MANIFEST_DIR")).join("generate");
    let checked = Command::new("python3").arg(generate).arg("--check").output().expect("python3");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
