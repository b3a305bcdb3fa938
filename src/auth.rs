//! Proofs of a caller's identity that take a secret, randomness or time: passwords and access tokens.
//!
//! The rules about them are pure and live in the domain (`credential`, `account`, `access`).
//! Deliberately absent: the look-up of users. Both halves judge a text alone.

pub mod password;
pub mod setup;
pub mod sign_on;
pub mod signature;
pub mod token;
