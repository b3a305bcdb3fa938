//! The steps' rows, cheap to copy: a copy shares its unchanged rows.
//!
//! ```text
//!   [ ▪ ▪ ▪ … ]            one pointer per 32 steps: cloned whole
//!     │ └▶ [ • • • … 32 ]  one pointer per step: cloned when one of them changes
//!     │      └▶ row        cloned when it changes
//! ```
//!
//! A commit writes the rows that two states do not share.

use std::sync::Arc;

use super::step::StepState;

const CHUNK: usize = 32;

/// One row per step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rows(Vec<Arc<Vec<Arc<StepState>>>>);

impl Rows {
    pub(super) fn get(&self, step: u16) -> Option<&StepState> {
        let step = usize::from(step);
        self.0.get(step / CHUNK)?.get(step % CHUNK).map(|row| &**row)
    }

    /// The row to change. Panics if there is no such step.
    pub(super) fn at(&mut self, step: u16) -> &mut StepState {
        let step = usize::from(step);
        let chunk = Arc::make_mut(&mut self.0[step / CHUNK]);
        Arc::make_mut(&mut chunk[step % CHUNK])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, &StepState)> {
        (0..).zip(self.shared().map(|row| &**row))
    }

    pub(super) fn shared(&self) -> impl Iterator<Item = &Arc<StepState>> {
        self.0.iter().flat_map(|chunk| chunk.iter())
    }

    /// The rows that are not the same ones in `before`.
    pub(super) fn changed_since<'a>(
        &'a self,
        before: &'a Self,
    ) -> impl Iterator<Item = (u16, &'a StepState)> {
        let chunks = (0..).step_by(CHUNK).zip(self.0.iter().zip(&before.0));
        chunks.filter(|(_, (ours, theirs))| !Arc::ptr_eq(ours, theirs)).flat_map(
            |(first, (ours, theirs))| {
                (first..)
                    .zip(ours.iter().zip(theirs.iter()))
                    .filter(|(_, (ours, theirs))| !Arc::ptr_eq(ours, theirs))
                    .map(|(step, (ours, _))| (step, &**ours))
            },
        )
    }
}

impl<T: Into<Arc<StepState>>> FromIterator<T> for Rows {
    fn from_iter<I: IntoIterator<Item = T>>(rows: I) -> Self {
        let rows: Vec<_> = rows.into_iter().map(Into::into).collect();
        Self(rows.chunks(CHUNK).map(|chunk| Arc::new(chunk.to_vec())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_and_leaves_the_copy_before_it_alone() {
        let before: Rows = (0..100).map(|_| StepState::default()).collect();
        let mut after = before.clone();
        after.at(31).runs = 1;
        after.at(32).runs = 2;
        after.at(99).runs = 3;
        let changed: Vec<_> =
            after.changed_since(&before).map(|(step, row)| (step, row.runs)).collect();
        assert_eq!(changed, [(31, 1), (32, 2), (99, 3)]);
        assert!(before.iter().all(|(_, row)| row.runs == 0));
        assert_eq!((after.get(99).map(|row| row.runs), after.get(100)), (Some(3), None));
    }
}
