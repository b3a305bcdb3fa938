//! Frames that wait for the socket: those that keep leases alive go before those that carry text.
//!
//! The users bound the outbox: deltas are taken only while there is room, results are at most one
//! per lease, and a connection that takes no heartbeat is given up. Deliberately absent: memory
//! beyond a connection; the session keeps the frames that must survive one.

use std::collections::VecDeque;

use super::frames::FromWorker;

/// The frames from which on no delta is taken.
const ROOM: usize = 64;

/// The frames that were not written yet.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    urgent: VecDeque<FromWorker>,
    ordered: VecDeque<FromWorker>,
}

impl Outbox {
    /// Adds a frame. Deltas and results keep their order among themselves.
    pub(super) fn push(&mut self, frame: FromWorker) {
        match frame {
            FromWorker::Register(_)
            | FromWorker::Heartbeat { .. }
            | FromWorker::Drain
            | FromWorker::Return { .. } => {
                self.urgent.push_back(frame);
            }
            FromWorker::Delta(_) | FromWorker::Result(_) => {
                self.ordered.push_back(frame);
            }
        }
    }

    /// The frame to write next.
    pub(super) fn pop(&mut self) -> Option<FromWorker> {
        self.urgent.pop_front().or_else(|| self.ordered.pop_front())
    }

    /// True if no frame waits.
    pub(super) fn is_empty(&self) -> bool {
        self.urgent.is_empty() && self.ordered.is_empty()
    }

    /// True if another delta may be taken.
    pub(super) fn has_room(&self) -> bool {
        self.ordered.len() < ROOM
    }

    /// Drops the unwritten frames of a connection that is gone.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::run_loop::frames::Delta;

    #[test]
    fn a_heartbeat_goes_before_any_number_of_deltas_which_keep_their_order() {
        let mut outbox = Outbox::default();
        let delta = |n: usize| FromWorker::Delta(Delta { lease: n.to_string(), text: "x".into() });
        for n in 0..ROOM {
            assert!(outbox.has_room());
            outbox.push(delta(n));
        }
        assert!(!outbox.has_room());
        let beat = FromWorker::Heartbeat { leases: Vec::new() };
        outbox.push(beat.clone());
        assert_eq!(outbox.pop(), Some(beat));
        assert_eq!((outbox.pop(), outbox.pop()), (Some(delta(0)), Some(delta(1))));
        outbox.clear();
        assert!(outbox.is_empty() && outbox.pop().is_none());
    }
}
