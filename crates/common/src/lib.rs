//! Small parts that several packages share. Deliberately absent: anything that only one package uses.

pub mod duration;
pub mod proxy;
pub mod secret;
pub mod sse;
pub mod text;
pub mod tls;
