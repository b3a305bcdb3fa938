//! Tests of the tests.
