//! The limits that providers report in the headers of their answers.
//!
//! | provider | headers |
//! |---|---|
//! | `OpenAI`, Azure, Groq, Mistral's kin | `x-ratelimit-limit-requests`, `-remaining-`, `-reset-` (`6m0s`), and the same with `-tokens` |
//! | Anthropic | `anthropic-ratelimit-requests-limit`, `-remaining`, `-reset` (RFC 3339), and the same with `input-tokens`, `output-tokens` |
//!
//! Gemini's compatible address, vLLM and Ollama send none. Deliberately absent: limits of a day, which no
//! minute can be planned by.

use callboard_domain::model_limits::{Allowance, Reported};
use jiff::Timestamp;

/// Reads the headers through `header`; a date counts from `now`.
pub(super) fn read<'h>(header: &impl Fn(&str) -> Option<&'h str>, now: Timestamp) -> Reported {
    let openai = |of: &str| {
        allowance(
            header(&format!("x-ratelimit-limit-{of}")),
            header(&format!("x-ratelimit-remaining-{of}")),
            header(&format!("x-ratelimit-reset-{of}")).and_then(span),
        )
    };
    let anthropic = |of: &str| {
        allowance(
            header(&format!("anthropic-ratelimit-{of}-limit")),
            header(&format!("anthropic-ratelimit-{of}-remaining")),
            header(&format!("anthropic-ratelimit-{of}-reset")).and_then(|text| until(text, now)),
        )
    };
    Reported {
        requests: openai("requests").or_else(|| anthropic("requests")),
        tokens: openai("tokens"),
        input_tokens: anthropic("input-tokens"),
        output_tokens: anthropic("output-tokens"),
    }
}

fn allowance(
    limit: Option<&str>,
    remaining: Option<&str>,
    reset_ms: Option<u64>,
) -> Option<Allowance> {
    let limit = limit?.trim().parse().ok()?;
    // A server that is beyond its limit may report -1.
    let remaining = remaining?.trim().parse::<i64>().ok()?;
    Some(Allowance { limit, remaining: u64::try_from(remaining).unwrap_or(0), reset_ms })
}

/// A span such as `1s`, `6m0s`, `17ms`, `1h2m3.5s`, or a number of seconds, in milliseconds.
fn span(text: &str) -> Option<u64> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return millis(seconds * 1000.0);
    }
    let (mut rest, mut total) = (text, 0.0);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let number: f64 = rest[..end].parse().ok()?;
        let unit_end =
            rest[end..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| end + at);
        let unit = match &rest[end..unit_end] {
            "ms" => 1.0,
            "s" => 1_000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            "d" => 86_400_000.0,
            _ => return None,
        };
        total += number * unit;
        rest = &rest[unit_end..];
    }
    (!text.is_empty()).then_some(total).and_then(millis)
}

/// The time until an RFC 3339 date, in milliseconds.
fn until(text: &str, now: Timestamp) -> Option<u64> {
    let at: Timestamp = text.trim().parse().ok()?;
    Some(u64::try_from(at.as_millisecond() - now.as_millisecond()).unwrap_or(0))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, as intended"
)]
fn millis(millis: f64) -> Option<u64> {
    (millis.is_finite() && millis >= 0.0).then(|| millis.ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(headers: &[(&str, &'static str)]) -> Reported {
        let header =
            |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        read(&header, "2026-01-01T00:00:00Z".parse().unwrap())
    }

    #[test]
    fn the_headers_of_openai() {
        // As in the published guide to rate limits.
        let limits = reported(&[
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-remaining-tokens", "149984"),
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ]);
        let requests = Allowance { limit: 60, remaining: 59, reset_ms: Some(1_000) };
        let tokens = Allowance { limit: 150_000, remaining: 149_984, reset_ms: Some(360_000) };
        assert_eq!(limits.requests, Some(requests));
        assert_eq!(limits.tokens, Some(tokens));
        assert_eq!((limits.input_tokens, limits.output_tokens), (None, None));
    }

    #[test]
    fn the_headers_of_anthropic() {
        let limits = reported(&[
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "0"),
            ("anthropic-ratelimit-requests-reset", "2026-01-01T00:00:20Z"),
            ("anthropic-ratelimit-tokens-limit", "40000"),
            ("anthropic-ratelimit-tokens-remaining", "39000"),
            ("anthropic-ratelimit-tokens-reset", "2026-01-01T00:00:01Z"),
            ("anthropic-ratelimit-input-tokens-limit", "30000"),
            ("anthropic-ratelimit-input-tokens-remaining", "29000"),
            ("anthropic-ratelimit-input-tokens-reset", "2025-12-31T23:59:59Z"),
            ("anthropic-ratelimit-output-tokens-limit", "8000"),
            ("anthropic-ratelimit-output-tokens-remaining", "8000"),
        ]);
        let requests = Allowance { limit: 50, remaining: 0, reset_ms: Some(20_000) };
        let input = Allowance { limit: 30_000, remaining: 29_000, reset_ms: Some(0) };
        let output = Allowance { limit: 8_000, remaining: 8_000, reset_ms: None };
        assert_eq!(limits.requests, Some(requests));
        assert_eq!((limits.input_tokens, limits.output_tokens), (Some(input), Some(output)));
        assert_eq!(limits.tokens, None, "that header repeats whichever limit is the tightest");
    }

    #[test]
    fn spans_are_read_in_all_their_notations() {
        let read = ["1s", "17ms", "6m0s", "1h2m3.5s", "7.66s", "2", "0"].map(span);
        assert_eq!(read, [1_000, 17, 360_000, 3_723_500, 7_660, 2_000, 0].map(Some));
        for wrong in ["", "s", "1", "x", "1y", "-1s", "1s2"].into_iter().filter(|text| *text != "1")
        {
            assert_eq!(span(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn without_headers_nothing_is_told_and_nonsense_is_nothing() {
        assert!(reported(&[]).is_none());
        assert!(reported(&[("x-ratelimit-limit-requests", "60")]).is_none());
        let negative = reported(&[
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-remaining-requests", "-1"),
        ]);
        assert_eq!(negative.requests.map(|requests| requests.remaining), Some(0));
    }
}
