//! TLS on the way to the database.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use callboard_postgres::Server as Postgres;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::support::{PROGRAM, Server};

/// The name in the certificate of the database.
const NAME: &str = "db.internal";
/// The secrets that nodes share.
const SECRETS: [(&str, &str); 3] = [
    ("AUTH__SIGNING_KEY", "the signing key of every node of this cluster"),
    ("WEBHOOKS__SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
    ("CLUSTER__KEY", "the key with which nodes sign what they forward"),
];

/// A node that is to end by itself.
fn serve(url: &str) -> Output {
    let directory = tempfile::tempdir().expect("a directory can be had");
    let mut serve = Command::new(PROGRAM);
    serve.args(["serve", "--listen", "127.0.0.1:0", "--store", url, "--data-dir"]);
    serve.arg(directory.path().join("data")).env("CALLBOARD_LOG", "error").stdin(Stdio::null());
    serve.envs(SECRETS.map(|(name, value)| (format!("CALLBOARD_{name}"), value)));
    serve.output().expect("it runs")
}

#[test]
fn a_database_of_another_name_is_refused_at_once_and_the_right_one_is_served_from() {
    let mut authority = CertificateParams::new(Vec::new()).expect("no names");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().expect("a key"));
    let authority = authority.expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let certified = CertificateParams::new(vec![NAME.to_owned()]).expect("a name");
    let certificate = certified.signed_by(&key, &authority).expect("a certificate");
    let postgres = Postgres::with_tls(&certificate.pem(), &key.serialize_pem());
    let directory = tempfile::tempdir().expect("a directory can be had");
    let root = directory.path().join("ca.pem");
    std::fs::write(&root, authority.pem()).expect("a file can be made");
    let (port, database) = (postgres.port(), postgres.database());
    let url = |host: &str, root: &str| {
        let host = format!("{host}:{port}/{database}?hostaddr=127.0.0.1");
        format!("postgres://callboard@{host}&sslmode=verify-full{root}")
    };
    let trusted = format!("&sslrootcert={}", root.display());

    for (host, root, says) in [
        // The certificate is of another host.
        ("wronghost", trusted.as_str(), "not valid for name \"wronghost\""),
        // Nobody whom the node trusts has signed it.
        (NAME, "", "UnknownIssuer"),
    ] {
        let begun = Instant::now();
        let ended = serve(&url(host, root));
        assert!(begun.elapsed() < Duration::from_secs(10), "{host}: {:?}", begun.elapsed());
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains("store.url") && said.contains(says), "{host}: {said}");
    }

    let right = url(NAME, &trusted);
    let [signing, webhooks, cluster] = SECRETS;
    let node = Server::with(&[("STORE__URL", right.as_str()), signing, webhooks, cluster]);
    let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE application_name = 'callboard'";
    assert_eq!(postgres.psql("postgres", encrypted).as_deref(), Some("t"));
    drop(node);
}
