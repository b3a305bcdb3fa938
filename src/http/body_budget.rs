//! How much of all requests' bodies is held at once.
//!
//! What of a body is more than a connection's buffer holds anyway counts until its request is
//! answered, so that many slow or large ones are refused before they fill the memory, and small ones
//! go on. Deliberately absent: how large one may be, and how long
//! it may take, which [`super::body`] says.

use std::sync::{Arc, Mutex, PoisonError};

use callboard_domain::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What one permit stands for, in bytes.
const UNIT: usize = 1024;
/// What of each body does not count.
const FREE: usize = 8 * UNIT;

/// What is left, for all requests.
#[derive(Debug, Clone)]
pub(super) struct BodyBudget(Arc<Semaphore>);

/// What one request has taken; an extension of it. Given back when the last copy is dropped.
#[derive(Debug, Clone)]
pub(super) struct Share {
    budget: BodyBudget,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: usize,
    permit: Option<OwnedSemaphorePermit>,
}

impl BodyBudget {
    /// `BodyBudget` for so many bytes, in whole units.
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new((bytes / UNIT).min(Semaphore::MAX_PERMITS))))
    }

    /// A request that has taken nothing yet.
    pub(super) fn share(&self) -> Share {
        Share { budget: self.clone(), taken: Arc::default() }
    }
}

impl Share {
    /// Takes room for so many bytes more.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if there is none.
    pub(super) fn take(&self, bytes: usize) -> Result<(), Error> {
        let full = Error::Unavailable("too much is being sent at once");
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let units = |bytes: usize| bytes.saturating_sub(FREE).div_ceil(UNIT);
        let units = units(taken.bytes + bytes) - units(taken.bytes);
        if units > 0 {
            let units = u32::try_from(units).map_err(|_| full.clone())?;
            let more =
                Arc::clone(&self.budget.0).try_acquire_many_owned(units).map_err(|_| full)?;
            match &mut taken.permit {
                Some(permit) => permit.merge(more),
                none => *none = Some(more),
            }
        }
        taken.bytes += bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_given_back_with_the_request() {
        let budget = BodyBudget::new(4 * UNIT);
        let (first, second) = (budget.share(), budget.share());
        assert_eq!(first.take(FREE + 1), Ok(()));
        assert_eq!(first.take(2 * UNIT), Ok(()));
        assert_eq!(second.take(FREE + UNIT), Ok(()));
        assert!(second.take(1).is_err(), "the first has three units");
        assert_eq!(first.take(UNIT - 1), Ok(()), "what it has is not full");
        assert_eq!(budget.share().take(FREE), Ok(()), "small ones go on");
        drop(first);
        assert_eq!(second.take(3 * UNIT), Ok(()));
    }
}
