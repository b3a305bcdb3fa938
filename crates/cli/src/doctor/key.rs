//! The check of the key that a command uses: its kind, and its end.

use callboard_client::HeaderMap;
use jiff::Timestamp;

use super::Finding;

/// The beginnings of other secrets of a server, and their use.
const OTHERS: [(&str, &str); 3] = [
    ("svc_setup_", "the token of a setup link; use it once: callboard auth setup --email YOU"),
    ("svc_invite_", "the token of an invitation; open its link in a browser"),
    ("whsec_", "the secret that signs webhooks, which receivers of webhooks need"),
];
const MAKE_ONE: &str = "make a key for commands: callboard keys create --name NAME --role operator";

/// A finding about a key that is not one for commands on real work.
pub(super) fn kind(key: &str) -> Option<Finding> {
    if let Some((_, what)) = OTHERS.iter().find(|(beginning, _)| key.starts_with(beginning)) {
        let (detail, advice) = what.split_once("; ").unwrap_or((what, MAKE_ONE));
        return Some(Finding::broken(
            "key",
            format!("this is not an API key but {detail}"),
            advice,
        ));
    }
    if key.starts_with("svc_worker_") {
        let detail = "this key is a worker's: it leases tasks, and may use few commands";
        let advice = format!("give it to callboard worker --key-file FILE, and {MAKE_ONE}");
        return Some(Finding::broken("key", detail, advice));
    }
    if key.starts_with("svc_test_") {
        let detail = "this key is one of the sandbox: its tasks run on the simulated model";
        return Some(Finding::warn("key", detail, format!("for real work, {MAKE_ONE}")));
    }
    (!key.starts_with("svc_")).then(|| {
        let detail =
            "an API key begins with svc_live_, svc_test_ or svc_worker_, and this one does not";
        Finding::broken("key", detail, MAKE_ONE)
    })
}

/// A warning if the key that is used ends within two weeks, which the server says.
pub(super) fn end(headers: &HeaderMap, now: Timestamp) -> Option<Finding> {
    let ends_at: Timestamp =
        headers.get("callboard-key-expires-at")?.to_str().ok()?.parse().ok()?;
    let hours = (ends_at.as_second() - now.as_second()) / 3_600;
    let left = if hours < 48 { format!("{hours} hours") } else { format!("{} days", hours / 24) };
    let detail = format!("the API key ends in {left}, at {ends_at}");
    let advice = "make its successor: callboard keys rotate ID --overlap 1d";
    Some(Finding::warn("key", detail, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_ends_soon_is_a_warning() {
        let now: Timestamp = "2026-11-21T10:00:00Z".parse().unwrap();
        let end = |at: &'static str| {
            let name = "callboard-key-expires-at".parse().unwrap();
            end(&HeaderMap::from_iter([(name, at.parse().unwrap())]), now)
        };
        let warned = end("2026-11-21T11:40:00.000Z").expect("a warning");
        assert_eq!((warned.check, warned.state), ("key", "warn"));
        assert!(warned.detail.starts_with("the API key ends in 1 hours"), "{}", warned.detail);
        let warned = end("2026-12-01T10:00:00.000Z").expect("a warning");
        assert!(warned.detail.starts_with("the API key ends in 10 days"), "{}", warned.detail);
        assert!(super::end(&HeaderMap::new(), now).is_none());
    }

    #[test]
    fn each_kind_of_secret_but_a_live_key_is_named() {
        for (key, state, names) in [
            ("svc_worker_8Vw0", "fail", "a worker's"),
            ("svc_test_8Vw0", "warn", "the sandbox"),
            ("svc_setup_8Vw0", "fail", "a setup link"),
            ("svc_invite_8Vw0", "fail", "an invitation"),
            ("whsec_8Vw0", "fail", "signs webhooks"),
            ("eyJhbGciOi", "fail", "svc_live_"),
        ] {
            let found = kind(key).expect("a finding");
            assert_eq!(found.state, state, "{key}");
            assert!(found.detail.contains(names) && found.advice.is_some(), "{}", found.detail);
            assert!(!found.detail.contains("8Vw0"));
        }
        assert!(kind("svc_live_8Vw0").is_none());
    }
}
