use callboard_domain::query::Window;
use callboard_domain::{Fault, Timestamp};

use super::*;
use crate::common::Paging;
use crate::read::rule::{self, Parse};
use crate::read::shape;
use crate::request;

request! {
    #[derive(Debug, PartialEq)]
    struct Wanted as "Wanted" {
        /// In the name.
        search: Option<String> = optional("search", rule::text(rule::characters(1..=10))),
        /// One of these.
        status: Option<Vec<&'static str>> = optional("status", rule::commas(1..=3, status())),
        /// Created at this instant or later.
        created_after: Option<Timestamp> = optional("createdAfter", rule::instant()),
        /// Expired ones, too.
        include_expired: Option<bool> = optional("includeExpired", rule::flag()),
        /// From 0 to 1.
        threshold: Option<f64> = optional("threshold", rule::number(0.0..=1.0)),
        /// Which page.
        page: Paging = flat(shape::<Paging>()),
    }
}

fn status() -> impl Parse<&'static str> {
    rule::one_of(&["pending", "running"], |word| word)
}

#[test]
fn parameters_are_decoded_and_typed() {
    assert_eq!(
        parse::<Wanted>(
            "limit=5&offset=7&search=a+b%26%C3%A9&status=running,pending&api_key=x&api_key=y\
             &createdAfter=1970-01-01T02:00:01%2B02:00&includeExpired=true&threshold=0.5"
        ),
        Ok(Wanted {
            page: Paging { limit: Some(5), offset: Some(7) },
            search: Some("a b&é".to_owned()),
            status: Some(vec!["running", "pending"]),
            created_after: Some(Timestamp::from_millis(1000)),
            include_expired: Some(true),
            threshold: Some(0.5),
        })
    );
    let defaults = parse::<Wanted>("").expect("all is optional").page.window();
    assert_eq!(defaults, Window::default());
}

#[track_caller]
fn assert_refused(query: &str, field: &str, rule: Rule, says: &str) {
    let fault = Fault { field: field.to_owned(), rule, message: format!("{field} {says}") };
    assert_eq!(parse::<Wanted>(query), Err(Error::Invalid(fault)), "{query}");
}

#[test]
fn a_parameter_that_breaks_its_rule_is_refused() {
    let limit = |found: &str| format!("must be a whole number from 1 to 100, not {found:?}");
    assert_refused("limit=0", "limit", Rule::Range, &limit("0"));
    assert_refused("limit=101", "limit", Rule::Range, &limit("101"));
    assert_refused("limit=x", "limit", Rule::Type, &limit("x"));
    assert_refused("limit=", "limit", Rule::Type, &limit(""));
    assert_refused("limit", "limit", Rule::Type, &limit(""));
    assert_refused("limit=9e1", "limit", Rule::Type, &limit("9e1"));

    let offset =
        |found| format!("must be a whole number from 0 to 9007199254740991, not {found:?}");
    assert_refused("offset=-1", "offset", Rule::Range, &offset("-1"));
    assert_refused("offset=1.5", "offset", Rule::Type, &offset("1.5"));

    let empty = "must not be empty";
    assert_refused("search=", "search", Rule::Length, empty);
    let long = "must have at most 10 characters, not 11";
    assert_refused("search=12345678901", "search", Rule::Length, long);

    let status = |found| format!("must be one of pending, running, not {found:?}");
    assert_refused("status=pending,", "status", Rule::Enum, &status(""));
    assert_refused("status=Pending", "status", Rule::Enum, &status("Pending"));
    let four = "status=pending,pending,pending,pending";
    assert_refused(four, "status", Rule::Length, "must have 1 to 3 values, not 4");

    let flag = "must be true or false, not \"1\"";
    assert_refused("includeExpired=1", "includeExpired", Rule::Type, flag);
    let number = |found| format!("must be a number from 0 to 1, not {found:?}");
    assert_refused("threshold=NaN", "threshold", Rule::Type, &number("NaN"));
    assert_refused("threshold=2", "threshold", Rule::Range, &number("2"));

    let instant = "must be an instant of ISO 8601 such as 2026-11-21T04:53:00.000Z, \
                   not \"1970-01-01T02:00:01 02:00\" (a + is written %2B here)";
    let unescaped = "createdAfter=1970-01-01T02:00:01+02:00";
    assert_refused(unescaped, "createdAfter", Rule::Format, instant);
}

#[test]
fn a_parameter_that_is_repeated_or_unknown_is_refused() {
    let twice = "is given twice: give it once";
    assert_refused("limit=1&limit=1", "limit", Rule::Type, twice);
    assert_refused("limit=1&l%69mit=1", "limit", Rule::Type, twice);
    let known = "is an unknown field; allowed: search, status, createdAfter, includeExpired, \
                 threshold, limit, offset";
    assert_refused("Limit=1", "Limit", Rule::Unknown, known);
    assert_refused("limit=1&x", "x", Rule::Unknown, known);
}

#[test]
fn broken_percent_encoding_is_refused() {
    let digits = "holds a % without two hexadecimal digits after it";
    for query in ["search=%zz", "search=%4", "search=%", "search=a%2", "search=%+1"] {
        assert_refused(query, "search", Rule::Format, digits);
    }
    let utf8 = "must be UTF-8 after percent-decoding";
    assert_refused("search=%ff", "search", Rule::Format, utf8);
    assert_refused("%ff=1", "query", Rule::Format, utf8);
}
