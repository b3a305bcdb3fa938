//! Stores for tests: one in memory, one whose disk fails, and the contract that every store keeps.

pub mod contract;
pub mod faulty;
pub mod memory;
