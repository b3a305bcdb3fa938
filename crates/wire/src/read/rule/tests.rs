use callboard_domain::Timestamp;
use serde_json::json;

use super::*;
use crate::read::fields::{Faults, Mode};

#[expect(clippy::needless_pass_by_value, reason = "a rule is written where it is used")]
fn read<T>(value: Value, rule: impl Parse<T>) -> Result<T, (Rule, String)> {
    let faults = Faults::default();
    let mode = Mode { from_query: false, faults: &faults };
    let read = rule.parse(Field::new(Path::Root("it"), value, mode));
    match faults.into_inner().0.pop() {
        Some(fault) => Err((fault.rule, fault.message)),
        None => Ok(read.expect("no fault is recorded")),
    }
}

fn refused<T>(rule: Rule, says: &str) -> Result<T, (Rule, String)> {
    Err((rule, format!("it must {says}")))
}

#[test]
fn a_whole_number_stays_whole_and_in_its_range() {
    let says = |found: &str| format!("be a whole number from 1 to 10, not {found}");
    for (value, expected) in [
        (json!(1), Ok(1)),
        (json!(10), Ok(10)),
        (json!(5.0), Ok(5)),
        (json!(1e1), Ok(10)),
        (json!(0), refused(Rule::Range, &says("0"))),
        (json!(-0.0), refused(Rule::Range, &says("-0.0"))),
        (json!(11), refused(Rule::Range, &says("11"))),
        (json!(-3), refused(Rule::Range, &says("-3"))),
        (json!(1e300), refused(Rule::Range, &says("1e+300"))),
        (json!(u64::MAX), refused(Rule::Range, &says("18446744073709551615"))),
        (json!(5.5), refused(Rule::Type, &says("5.5"))),
        (json!("5"), refused(Rule::Type, &says("a string"))),
        (json!(true), refused(Rule::Type, &says("true or false"))),
    ] {
        assert_eq!(read(value.clone(), whole(1_u8..=10)), expected, "{value}");
    }
    let says = "be a whole number of 1 or more, not 0";
    assert_eq!(read(json!(0), whole(1..=u64::MAX)), refused(Rule::Range, says));
    assert_eq!(read(json!(u64::MAX), whole(0..=u64::MAX)), Ok(u64::MAX));
    assert_eq!(read(json!(i64::MIN), whole(i64::MIN..=0)), Ok(i64::MIN));
}

#[test]
fn a_number_is_compared_with_its_range() {
    for (value, expected) in [
        (json!(0), Ok(0.0)),
        (json!(0.7), Ok(0.7)),
        (json!(1.0), Ok(1.0)),
        (json!(1.01), refused(Rule::Range, "be a number from 0 to 1, not 1.01")),
        (json!("1"), refused(Rule::Type, "be a number from 0 to 1, not a string")),
    ] {
        assert_eq!(read(value.clone(), number(0.0..=1.0)), expected, "{value}");
    }
}

#[test]
fn a_text_is_measured_in_its_unit() {
    for (value, size, expected) in [
        (json!("äöü"), characters(1..=3), Ok("äöü".to_owned())),
        (json!("äöü"), bytes(1..=6), Ok("äöü".to_owned())),
        (json!(""), characters(0..=3), Ok(String::new())),
        (json!("äöü"), bytes(1..=5), refused(Rule::Length, "have at most 5 bytes, not 6")),
        (
            json!("äöüß"),
            characters(1..=3),
            refused(Rule::Length, "have at most 3 characters, not 4"),
        ),
        (
            json!("äö"),
            characters(3..=9),
            refused(Rule::Length, "have at least 3 characters, not 2"),
        ),
        (json!(""), bytes(1..=5), refused(Rule::Length, "not be empty")),
        (
            json!(7),
            bytes(1..=5),
            refused(Rule::Type, "be a string, not a number; put it in quotes"),
        ),
        (json!(["a"]), bytes(1..=5), refused(Rule::Type, "be a string, not an array")),
    ] {
        assert_eq!(read(value.clone(), text(size)), expected, "{value}");
    }
}

#[test]
fn a_text_of_a_form_is_refused_by_pattern() {
    let lower = || matching(characters(1..=5), "^lower$", |text| text == "lower", "must be lower");
    assert_eq!(read(json!("lower"), lower()), Ok("lower".to_owned()));
    assert_eq!(read(json!("Lower"), lower()), refused(Rule::Pattern, "be lower"));
    assert_eq!(read(json!(""), lower()), refused(Rule::Length, "not be empty"));
}

#[test]
fn a_word_is_one_of_those_listed() {
    let channel = || one_of(&["email", "dashboard"], |word| word);
    assert_eq!(read(json!("email"), channel()), Ok("email"));
    let says = "be one of email, dashboard, not \"Email\\n\"";
    assert_eq!(read(json!("Email\n"), channel()), refused(Rule::Enum, says));
    assert_eq!(
        read(json!(0), channel()),
        refused(Rule::Type, "be a string, not a number; put it in quotes")
    );
}

#[test]
fn an_instant_is_iso_8601() {
    let epoch = Timestamp::from_millis(0);
    assert_eq!(read(json!("1970-01-01T00:00:00Z"), instant()), Ok(epoch));
    let says = "be an instant of ISO 8601 such as 2026-11-21T04:53:00.000Z, not \"a b\"";
    assert_eq!(read(json!("a b"), instant()), refused(Rule::Format, says));
    assert_eq!(
        read(json!(0), instant()),
        refused(Rule::Type, "be a string, not a number; put it in quotes")
    );
}

#[test]
fn an_e_mail_address_has_a_name_and_a_host() {
    for right in ["a@b", "ada.l+x@example.co.uk", "ü@exämple.de", "o'neil@x-y.org"] {
        assert_eq!(read(json!(right), email()), Ok(right.to_owned()));
    }
    for wrong in [
        "a",
        "@b",
        "a@",
        "a@b@c",
        "a b@c",
        "a@b c",
        "a@b..c",
        "a@-b",
        ".a@b",
        "a.@b",
        "a..b@c",
        "a@b\r\nBcc: x@y",
        "<a@b>",
        "a@[127.0.0.1]",
        "a@b.",
    ] {
        let says = "be an e-mail address such as ada@example.com";
        assert_eq!(read(json!(wrong), email()), refused(Rule::Format, says), "{wrong}");
    }
    let long = format!("a@{}", "b".repeat(253));
    let says = "have at most 254 characters, not 255";
    assert_eq!(read(json!(long), email()), refused(Rule::Length, says));
}

#[test]
fn an_address_is_http_with_a_host_and_without_a_user() {
    for right in ["https://example.com/hook?x=1", "http://[::1]:8080/", "HTTP://EXAMPLE.com"] {
        assert_eq!(read(json!(right), url()), Ok(right.to_owned()), "as it is given");
    }
    let address = "be a URL such as https://example.com/hook";
    for (wrong, says) in [
        ("ftp://example.com", "begin with http or https"),
        ("javascript:alert(1)", "begin with http or https"),
        ("https://u:p@example.com", "not contain a user or a password"),
        ("https://u@example.com", "not contain a user or a password"),
        ("https://", address),
        ("/hook", address),
    ] {
        assert_eq!(read(json!(wrong), url()), refused(Rule::Format, says), "{wrong}");
    }
    let long = format!("https://example.com/{}", "x".repeat(2048));
    let says = "have at most 2048 characters, not 2068";
    assert_eq!(read(json!(long), url()), refused(Rule::Length, says));
}

#[test]
fn a_free_object_is_measured_as_compact_json() {
    let object = json!({"b": [1, 2.5], "a": null});
    assert_eq!(object.to_string().len(), 22);
    assert_eq!(read(object.clone(), free(22)).map(Value::Object), Ok(object.clone()));
    let says = "have at most 21 bytes as compact JSON, not 22";
    assert_eq!(read(object, free(21)), refused(Rule::Length, says));
    assert_eq!(read(json!([]), free(9)), refused(Rule::Type, "be an object, not an array"));
}

#[test]
fn a_list_is_counted_before_its_items_are_read() {
    let tags = || list(0..=2, text(characters(1..=3)));
    assert_eq!(read(json!(["a", "b"]), tags()), Ok(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(read(json!([1, 2, 3]), tags()), refused(Rule::Length, "have 0 to 2 items, not 3"));
    let item = read(json!(["a", ""]), tags());
    assert_eq!(item, Err((Rule::Length, "it[1] must not be empty".to_owned())));
    let null = read(json!([null]), tags());
    assert_eq!(null, Err((Rule::Type, "it[0] must be a string, not null".to_owned())));
    assert_eq!(read(json!("a"), tags()), refused(Rule::Type, "be an array, not a string"));
}

/// In YAML, `version: 1.0` is a number.
#[test]
fn a_number_for_a_string_is_told_to_have_quotes() {
    let any = || text(characters(0..=usize::MAX));
    for (value, says) in [
        (json!(1.0), "be a string, not a number; put it in quotes"),
        (json!(true), "be a string, not true or false; put it in quotes"),
        (json!(null), "be a string, not null"),
        (json!([]), "be a string, not an array"),
    ] {
        assert_eq!(read(value.clone(), any()), refused(Rule::Type, says), "{value}");
    }
}

#[test]
fn an_end_that_is_no_rule_is_not_told() {
    let none = || list(1..=usize::MAX, text(characters(0..=9)));
    let says = "have at least 1 items, not 0";
    assert_eq!(read(json!([]), none()), refused(Rule::Length, says));
}
