//! The services that a server needs: mail, the identity provider, the database, and the end of its certificate.

use std::time::Duration;

use callboard_cli::doctor::Finding;
use callboard_store::postgres;
use jiff::Timestamp;
use jiff::fmt::rfc2822;

use crate::config::{Config, Oidc, Smtp};
use crate::outbound::email::Email;
use crate::outbound::oidc::Provider;
use crate::tls::Tls;

/// The difference of the clocks below which they count as equal.
const SAME_CLOCK: Duration = Duration::from_secs(5);
/// The seconds before the end of a certificate from which it is a finding: two weeks.
const SOON: i64 = 14 * 24 * 3_600;

/// Asks every service that the settings name.
pub(super) async fn check(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(files) = config.tls.clone() {
        findings.push(match Tls::load(files) {
            Ok(tls) => certificate(&tls.left()),
            Err(error) => {
                let advice =
                    "correct [tls] cert and key: PEM files that the server's user may read";
                Finding::broken("certificate", error, advice)
            }
        });
    }
    if let Some(smtp) = &config.smtp {
        findings.push(mail(smtp).await);
    }
    if let Some(oidc) = config.oidc.clone() {
        findings.extend(identity_provider(oidc).await);
    }
    if let Some(address) = config.store.shared.clone() {
        findings.push(match postgres::check(address).await {
            Ok(()) => Finding::ok("database", "PostgreSQL answers and takes writes"),
            Err(error) => {
                let advice = "correct [store] url and its password; see docs/how-to/cluster.md";
                Finding::broken("database", error.to_string(), advice)
            }
        });
    }
    findings
}

/// The certificate that ends first, by its name and the seconds left.
fn certificate(left: &[(&str, i64)]) -> Finding {
    const CHECK: &str = "certificate";
    let advice = "renew it; a running server reads the new files within 10 s";
    match left.iter().min_by_key(|(_, left)| *left) {
        Some((name, left)) if *left < 0 => {
            Finding::broken(CHECK, format!("{name} has ended: clients refuse it"), advice)
        }
        Some((name, left)) if *left < SOON => {
            Finding::warn(CHECK, format!("{name} ends in {} hours", left / 3_600), advice)
        }
        Some(_) | None => Finding::ok(CHECK, "valid, and not about to end"),
    }
}

async fn mail(smtp: &Smtp) -> Finding {
    const CHECK: &str = "mail";
    let place = format!("{}:{}", smtp.host, smtp.port);
    let email = match Email::new(smtp, "http://127.0.0.1") {
        Ok(email) => email,
        Err(error) => return Finding::broken(CHECK, error.to_string(), "correct [smtp] ca"),
    };
    match email.check().await {
        Ok(()) => Finding::ok(CHECK, format!("{place} takes the connection and the login")),
        Err(why) => Finding::broken(
            CHECK,
            format!("{place}: {why}"),
            "correct [smtp] host, port, tls and login; a firewall may block the port",
        ),
    }
}

async fn identity_provider(oidc: Oidc) -> Vec<Finding> {
    const CHECK: &str = "sign-on";
    let issuer = oidc.issuer.clone();
    let advice = "correct [oidc] issuer, exactly as the provider writes it; a proxy or firewall may be between";
    let provider = match Provider::new(oidc) {
        Ok(provider) => provider,
        Err(error) => return vec![Finding::broken(CHECK, error.to_string(), advice)],
    };
    match provider.check().await {
        Ok(date) => {
            let found = Finding::ok(CHECK, format!("{issuer} answers as it should"));
            let date = date.and_then(|date| rfc2822::parse(&date).ok());
            let clock = date.map(|date| clock(date.timestamp(), Timestamp::now(), &issuer));
            [Some(found), clock].into_iter().flatten().collect()
        }
        Err(why) => vec![Finding::broken(CHECK, format!("{issuer}: {why}"), advice)],
    }
}

/// Compares this machine's clock with the provider's.
fn clock(theirs: Timestamp, ours: Timestamp, issuer: &str) -> Finding {
    let apart = theirs.duration_since(ours);
    if apart.unsigned_abs() <= SAME_CLOCK {
        return Finding::ok("clock", "the same as the identity provider's");
    }
    let which = if apart.is_positive() { "behind" } else { "ahead of" };
    Finding::warn(
        "clock",
        format!(
            "this machine's clock is {} s {which} that of {issuer}",
            apart.unsigned_abs().as_secs()
        ),
        "synchronise the clock with NTP (timedatectl set-ntp true): sign-ins and schedules depend on it",
    )
}
