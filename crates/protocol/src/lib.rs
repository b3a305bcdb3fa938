//! JSON that the server and its own clients both read and write. Deliberately absent: the requests and
//! answers of the HTTP interface, which only the server's `wire` reads.

pub mod workers;
