//! The rows of a batch by their keys, in 20 bytes for each.

use callboard_domain::id::{Environment, TemplateBatchId};
use callboard_store::Error;
use sha2::{Digest as _, Sha256};

use super::PAGE;
use crate::node::Node;
use crate::tables::batches;

/// A part of the digest of a key, by which keys are told apart.
type Digest = [u8; 16];

/// The first row of each key, in the order of the digests.
#[derive(Debug)]
pub(crate) struct Keys(Vec<(Digest, u32)>);

fn digest_of(key: &str) -> Digest {
    let digest: [u8; 32] = Sha256::digest(key).into();
    let (digest, _) = digest.split_first_chunk().expect("a digest has 32 bytes");
    *digest
}

impl<'k> FromIterator<(&'k str, u32)> for Keys {
    fn from_iter<I: IntoIterator<Item = (&'k str, u32)>>(rows: I) -> Self {
        Self(rows.into_iter().map(|(key, row)| (digest_of(key), row)).collect()).sorted()
    }
}

impl Keys {
    /// The rows of a batch; none if it is gone.
    pub(crate) async fn of(
        node: &Node,
        environment: Environment,
        batch: TemplateBatchId,
    ) -> Result<Self, Error> {
        let (mut keys, mut after) = (Vec::new(), None);
        loop {
            let page = batches::rows(node.store(), environment, batch, after, PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            keys.extend(page.iter().map(|(number, row)| (digest_of(&row.key), *number)));
            tokio::task::yield_now().await;
        }
        Ok(Self(keys).sorted())
    }

    fn sorted(mut self) -> Self {
        self.0.sort_unstable();
        self.0.dedup_by_key(|(key, _)| *key);
        self
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(Digest, u32)> {
        self.0.iter()
    }

    pub(super) fn find(&self, key: &Digest) -> Option<u32> {
        self.0.binary_search_by_key(key, |(key, _)| *key).ok().map(|at| self.0[at].1)
    }

    /// The row of a key.
    pub(crate) fn row(&self, key: &str) -> Option<u32> {
        self.find(&digest_of(key))
    }
}
