//! The time for which a certificate is valid, read from its DER (RFC 5280, section 4.1).
//!
//! Deliberately absent: everything else in a certificate, which rustls reads.

use jiff::civil::Date;

/// The first and the last second of a certificate's validity, in Unix time; `None` if it cannot be read.
pub(super) fn of(certificate: &[u8]) -> Option<(i64, i64)> {
    const SEQUENCE: u8 = 0x30;
    const VERSION: u8 = 0xa0;
    let (outer, _) = element(certificate, Some(SEQUENCE))?;
    let (mut rest, _) = element(outer, Some(SEQUENCE))?;
    if rest.first() == Some(&VERSION) {
        rest = element(rest, None)?.1;
    }
    // The serial number, the algorithm, the issuer.
    for _ in 0..3 {
        rest = element(rest, None)?.1;
    }
    let (validity, _) = element(rest, Some(SEQUENCE))?;
    let (first, rest) = time(validity)?;
    let (last, _) = time(rest)?;
    Some((first, last))
}

/// The content of the next element, which has this tag, and the bytes after it.
fn element(bytes: &[u8], tag: Option<u8>) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = bytes.split_first()?;
    let (&length, rest) = rest.split_first()?;
    if tag.is_some_and(|tag| tag != found) {
        return None;
    }
    let (length, rest) = if length < 0x80 {
        (usize::from(length), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
        let length = digits.iter().try_fold(0_usize, |sum, digit| {
            sum.checked_mul(256)?.checked_add(usize::from(*digit))
        })?;
        (length, rest)
    };
    rest.split_at_checked(length)
}

/// The next time, in Unix seconds, and the bytes after it.
fn time(bytes: &[u8]) -> Option<(i64, &[u8])> {
    const UTC_TIME: u8 = 0x17;
    let tag = *bytes.first()?;
    let (text, rest) = element(bytes, None)?;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    // The first 50 years of a two-digit year are of this century.
    let century = text.get(..2)?.parse::<u32>().ok().filter(|_| tag == UTC_TIME);
    let text = match century {
        Some(year) => format!("{}{text}", if year < 50 { "20" } else { "19" }),
        None => text.to_owned(),
    };
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i16>().ok();
    let small = |from: usize| i8::try_from(number(from, from + 2)?).ok();
    let date = Date::new(number(0, 4)?, small(4)?, small(6)?).ok()?;
    let at = date.at(small(8)?, small(10)?, small(12)?, 0);
    let zoned = at.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some((zoned.timestamp().as_second(), rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn certificate(first: (i32, u8, u8), last: (i32, u8, u8)) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
        params.not_before = date_time_ymd(first.0, first.1, first.2);
        params.not_after = date_time_ymd(last.0, last.1, last.2);
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().to_vec()
    }

    #[test]
    fn the_validity_stands_in_the_certificate_in_both_forms_of_a_time() {
        let day = |date: (i16, i8, i8)| {
            let date = Date::new(date.0, date.1, date.2).expect("a day");
            date.to_zoned(jiff::tz::TimeZone::UTC).expect("a day").timestamp().as_second()
        };
        let found = of(&certificate((1975, 1, 1), (2049, 12, 31)));
        assert_eq!(found, Some((day((1975, 1, 1)), day((2049, 12, 31)))));
        let found = of(&certificate((2026, 11, 28), (4096, 1, 1)));
        assert_eq!(found, Some((day((2026, 11, 28)), day((4096, 1, 1)))));
    }

    #[test]
    fn no_bytes_make_it_fail_in_another_way() {
        let whole = certificate((2026, 1, 1), (2027, 1, 1));
        for length in 0..whole.len() {
            let _ = of(&whole[..length]);
            let mut broken = whole.clone();
            broken[length] ^= 0xff;
            let _ = of(&broken);
        }
        assert_eq!(of(&[0x30, 0x89, 1, 1, 1, 1, 1, 1, 1, 1, 1]), None);
    }
}
