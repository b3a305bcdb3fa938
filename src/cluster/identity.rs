//! The identifier of a node, made at its first start and kept in a file of its data directory.

use std::io;
use std::path::Path;

use callboard_store::ownership::NodeId;

use crate::auth::token::key::write_private;

/// The identifier in this file; a new one, if there is none. The call blocks.
///
/// # Errors
/// The file cannot be read or made, or holds something else; it is never replaced.
pub(super) fn node_id(path: &Path) -> Result<NodeId, String> {
    let shown = path.display();
    match std::fs::read_to_string(path) {
        Ok(text) => u128::from_str_radix(text.trim_end(), 16).map(NodeId).map_err(|_| {
            format!("{shown} must hold the 32 hexadecimal digits of a node; remove it to make another node")
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let id = NodeId(rand::random());
            let written = write_private(path, id.to_string().as_bytes());
            written.map_err(|error| format!("cannot make {shown}: {error}"))?;
            Ok(id)
        }
        Err(error) => Err(format!("cannot read {shown}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_keeps_its_identifier_and_a_damaged_one_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("node.id");
        let made = node_id(&path).expect("a writable directory");
        assert_eq!(node_id(&path), Ok(made));
        std::fs::write(&path, "nonsense").expect("a file");
        let refused = node_id(&path).expect_err("no identifier");
        assert!(refused.contains("must hold the 32 hexadecimal digits"), "{refused}");
    }
}
