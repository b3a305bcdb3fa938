//! A call in flight; dropping it releases the call's reservation.

use std::sync::Arc;

use callboard_domain::model_limits::{Call, CallEnd};

use super::Shared;

/// A counted call. Dropped before its task has the lease, it was never made; dropped after that,
/// its end is not known.
#[derive(Debug)]
pub(crate) struct CallPermit(Box<Counted>);

/// Boxed, because every lease would pay for fields that only metered models have.
#[derive(Debug)]
struct Counted {
    shared: Arc<Shared>,
    model: Arc<str>,
    call: Option<Call>,
    is_given: bool,
}

impl CallPermit {
    pub(super) fn new(shared: Arc<Shared>, model: Arc<str>, call: Call) -> Self {
        Self(Box::new(Counted { shared, model, call: Some(call), is_given: false }))
    }

    pub(super) fn is_of(&self, model: &str) -> bool {
        *self.0.model == *model
    }

    /// The call, for changes under the lock.
    pub(super) fn into_call(mut self) -> Call {
        self.0.call.take().expect("a permit has its call until it ends")
    }

    /// The task has the lease: the call is made.
    pub(crate) fn given(mut self) -> Self {
        self.0.is_given = true;
        self
    }

    /// The call has ended.
    pub(crate) fn end(mut self, end: CallEnd) {
        self.0.settle(end);
    }
}

impl Counted {
    fn settle(&mut self, end: CallEnd) {
        if let Some(call) = self.call.take() {
            let closed = |meter: &mut callboard_domain::model_limits::Meter, now| {
                meter.settle(call, end, now);
            };
            self.shared.end(&self.model, closed);
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.is_given {
            self.settle(CallEnd::Unknown);
        } else if let Some(call) = self.call.take() {
            self.shared.end(&self.model, |meter, _| meter.abandon(call));
        }
    }
}
