//! The disk under the whole program: it loses power, fails, fills up, and rots.
//!
//! Each test is a program under the shim of `tests/disk`, a load with a list of all that was
//! acknowledged (`load.rs`), a disaster, and another start that must show all of that list, right,
//! and work on, or say why it does not start. `CALLBOARD_LONG=1` makes many more disasters;
//! `CALLBOARD_SEED=<seed>` begins with the seed that a failure printed.

mod compact;
mod damage;
mod faults;
mod kills;
mod large;
mod ledger;
mod load;
mod pool;
mod power_loss;
mod program;
mod worker;

/// Whether this is the long form of `./test`.
fn long() -> bool {
    std::env::var_os("CALLBOARD_LONG").is_some()
}
