//! Formats that the server and its own clients both read: the worker frames, the entries of an approval's
//! history, and documents in JSON or YAML. Deliberately absent: the requests and answers of the HTTP
//! interface, which only the server's `wire` reads.

pub mod audit;
pub mod document;
pub mod history;
pub mod workers;
