use callboard_domain::access::Role;
use callboard_domain::event::EventName;
use callboard_domain::rate::Quota;

use super::*;

fn load(file: Option<&str>, variables: &[(&str, &str)]) -> Result<Config, String> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("c.toml");
    let config = file.map(|text| {
        std::fs::write(&path, text).expect("it can be written");
        path.clone()
    });
    let flags = Flags { config, ..Flags::default() };
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let loaded = Config::load(flags, variables);
    loaded.map_err(|error| error.to_string().replace(&path.display().to_string(), "c.toml"))
}

#[track_caller]
fn assert_refused(file: &str, says: &str) {
    assert_eq!(load(Some(file), &[]), Err(says.to_owned()), "{file}");
}

#[track_caller]
fn assert_variable_refused(name: &str, value: &str, says: &str) {
    assert_eq!(load(None, &[(name, value)]), Err(format!("{name}: {says}")));
}

#[test]
fn the_shipped_file_holds_the_documented_defaults() {
    let config = load(None, &[]).expect("the shipped file is right");
    let seconds = Duration::from_secs;
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.server.data_dir, PathBuf::from("./callboard-data"));
    assert_eq!(config.server.header_timeout, seconds(10));
    assert_eq!(config.runtime.active, 50_000);
    assert_eq!(config.queue.aging, seconds(60));
    let worker = (config.worker.lease, config.worker.heartbeat, config.worker.silent_after);
    assert_eq!(worker, (seconds(30), seconds(10), seconds(15)));
    assert_eq!(config.tasks.outage_patience, seconds(3600));
    assert_eq!(config.models.default, "smollm2-135m");
    assert_eq!(config.limits.plans, Quotas::default());
    assert_eq!(config.auth.access_token_ttl, seconds(24 * 3600));
    assert_eq!(config.auth.refresh_token_ttl, seconds(30 * 24 * 3600));
    assert_eq!(config.auth.password_min_length, 8);
    assert_eq!((config.events.keep, config.events.keep_max), (seconds(24 * 3600), 100_000));
    let days = |days: u64| Some(seconds(days * 24 * 3600));
    assert_eq!((config.retention.ended, config.retention.history), (days(30), None));
    assert_eq!(config.search.days, 30);
    assert_eq!(config.hitl.missing_confidence, MissingConfidence::Hold);
    let hitl = (config.hitl.escalate_after, config.hitl.on_timeout);
    assert_eq!(hitl, (0.5, OnTimeout::Wait));
    assert_eq!((config.smtp, config.admin), (None, None));
}

#[test]
fn a_written_settings_file_says_what_the_defaults_and_the_flags_say() {
    let plain = Config::template(Flags::default());
    assert_eq!(load(Some(&plain), &[]), load(None, &[]));
    let is_setting = |line: &&str| !line.is_empty() && !line.starts_with(['#', '[']);
    assert_eq!(plain.lines().find(is_setting), None, "each default is a comment");

    let given = Config::template(Flags {
        listen: Some("127.0.0.1:1".into()),
        data_dir: Some("/var/lib/a \"b\" \\c".into()),
        store: Some("postgres://u@127.0.0.1/d".into()),
        ..Flags::default()
    });
    let config = load(Some(&given), &[]).expect("it is right");
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:1");
    assert_eq!(config.server.data_dir, PathBuf::from("/var/lib/a \"b\" \\c"));
    assert!(config.store.shared.is_some());
    // Each setting is still named, above its comment.
    assert_eq!(
        given.lines().filter(|line| line.contains(" = ")).count(),
        plain.lines().filter(|line| line.contains(" = ")).count()
    );
}

#[test]
fn the_edge_and_the_shipped_file_agree() {
    let server = load(None, &[]).expect("the shipped file is right").server;
    let limits = crate::http::serve::Limits::default();
    assert_eq!(server.header_timeout, limits.header_timeout);
    assert_eq!(server.max_connections, limits.max_connections);
    assert_eq!(server.connections_per_address(), limits.per_address);
    let edge = crate::http::Edge::default();
    assert_eq!(server.body_timeout, edge.body_timeout);
    assert_eq!(server.bodies_max_bytes, edge.bodies_max_bytes);
}

#[test]
fn the_shipped_file_names_every_setting_with_a_comment_above_it() {
    let mut source = Source::new().expect("the shipped file is TOML");
    Config::read(&mut source).expect("the shipped file is right");
    let mut section = "";
    let mut before = "";
    let mut named = Vec::new();
    for line in include_str!("../../config/callboard.toml").lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if line.starts_with("# [") {
            // A section whose name the user chooses.
            section = "example";
        } else if section == "example" {
        } else if let Some((name, _)) = line.trim_start_matches("# ").split_once(" = ") {
            assert!(before.starts_with("# "), "{line} has no comment above it");
            named.push((section, name));
        }
        before = line;
    }
    let secrets = [
        ("auth", "signing_key"),
        ("auth", "previous_signing_key"),
        ("cluster", "key"),
        ("oidc", "client_secret"),
        ("otel", "headers"),
        ("smtp", "password"),
        ("store", "password"),
    ];
    let mut asked: Vec<_> = source.asked().filter(|setting| !secrets.contains(setting)).collect();
    asked.sort_unstable();
    named.sort_unstable();
    assert_eq!(named, asked);
}

#[test]
fn a_flag_goes_over_a_variable_over_the_file_over_the_default() {
    let file = "[server]\nlisten = \"127.0.0.1:1\"\n[limits.free]\nconcurrent_tasks = 6\n";
    let listen = |config: Config| config.server.listen.port();
    assert_eq!(load(Some(file), &[]).map(listen), Ok(1));
    let variable = ("CALLBOARD_SERVER__LISTEN", "127.0.0.1:2");
    assert_eq!(load(Some(file), &[variable]).map(listen), Ok(2));
    let flags = Flags { listen: Some("127.0.0.1:3".to_owned()), ..Flags::default() };
    let environment = [(variable.0.to_owned(), variable.1.to_owned())];
    assert_eq!(Config::load(flags, environment).map(listen), Ok(3));
    let free = load(Some(file), &[("CALLBOARD_LIMITS_FREE__REQUESTS_PER_MINUTE", "9")]);
    let free = free.map(|config| config.limits.plans.free);
    let expected = Quota { requests: 9, concurrent_tasks: Some(6) };
    assert_eq!(free, Ok(expected));
}

#[test]
fn an_unknown_setting_is_named_with_its_place_and_those_that_exist() {
    assert_refused(
        "# x\n[queue]\nageing = \"60s\"\n",
        "c.toml line 3: unknown setting queue.ageing; allowed in [queue]: aging",
    );
    let sections = "audit, auth, cluster, events, hitl, limits, limits.enterprise, limits.free, limits.pro, \
                    metrics, models, oidc, otel, queue, retention, runtime, search, server, smtp, store, tasks, templates, tls, \
                    webhooks, worker";
    let unknown = format!("c.toml line 1: unknown setting mail.host; sections: {sections}");
    assert_refused("mail.host = \"x\"\n", &unknown);
    assert_variable_refused(
        "CALLBOARD_QUEUE__AGEING",
        "60s",
        "unknown setting queue.ageing; allowed in [queue]: aging",
    );
    assert!(load(None, &[("CALLBOARD_PORT", "tcp://10.0.0.1:80"), ("OTHER__X", "1")]).is_ok());
}

#[test]
fn a_variable_that_is_named_like_a_setting_and_is_none_is_warned_about() {
    let ignored = |name: &str| load(None, &[(name, "secret")]).expect("right settings").ignored;
    let meant = |name: &str, setting: &str| {
        let warning = format!("{name} is not a setting and is ignored; {setting} is one");
        assert_eq!(ignored(name), [warning]);
    };
    meant("CALLBOARD_RETENTION_ENDED", "CALLBOARD_RETENTION__ENDED");
    meant("CALLBOARD_SMTP_PORT", "CALLBOARD_SMTP__PORT");
    meant("CALLBOARD_SERVER_PUBLIC_URL", "CALLBOARD_SERVER__PUBLIC_URL");
    meant(
        "CALLBOARD_LIMITS_FREE_REQUESTS_PER_MINUTE",
        "CALLBOARD_LIMITS_FREE__REQUESTS_PER_MINUTE",
    );
    let [warning] = &*ignored("CALLBOARD_RETENTION") else { panic!("one warning") };
    assert!(warning.contains("CALLBOARD_<SECTION>__<NAME>") && !warning.contains("secret"));
    // Those of the program, of its commands, and of a cluster with a service of this name.
    for known in [
        "CALLBOARD_LOG",
        "CALLBOARD_API_KEY_FILE",
        "CALLBOARD_PORT",
        "CALLBOARD_SERVICE_HOST",
        "CALLBOARD_SERVICE_PORT_HTTP",
        "CALLBOARD_PORT_8080_TCP_ADDR",
        "CALLBOARD_WEB_PORT_8080_TCP",
    ] {
        assert_eq!(ignored(known), [""; 0], "{known}");
    }
}

#[test]
fn a_bad_value_is_named_with_its_place_and_what_would_be_right() {
    assert_refused("[server\n", "c.toml line 1: not TOML: unclosed table, expected `]`");
    assert_refused(
        "[queue]\naging = 60\n",
        "c.toml line 2: queue.aging must be a duration from 1s to 1d, such as 500ms, 60s, 5m, 24h or 90d, not 60",
    );
    assert_refused(
        "[server]\nlisten = \"localhost\"\n",
        "c.toml line 2: server.listen must be an IP address and a port such as 127.0.0.1:8080, not \"localhost\"",
    );
    assert_refused(
        "[server]\ntrusted_proxies = [\"10.0.0.0/8\", \"x\"]\n",
        "c.toml line 2: server.trusted_proxies must be a list, each item a network such as 10.0.0.0/8, not [\"10.0.0.0/8\", \"x\"]",
    );
    assert_refused(
        "[limits]\nplan = \"gold\"\n",
        "c.toml line 2: limits.plan must be one of free, pro, enterprise, not \"gold\"",
    );
    assert_refused(
        "[worker]\nheartbeat = \"20s\"\n",
        "c.toml line 2: worker.silent_after must be longer than worker.heartbeat",
    );
    assert_variable_refused(
        "CALLBOARD_AUTH__ACCESS_TOKEN_TTL",
        "8d",
        "auth.access_token_ttl must be a duration from 1m to 7d, such as 500ms, 60s, 5m, 24h or 90d, not \"8d\"",
    );
}

#[test]
fn a_value_that_loses_is_checked_too() {
    let variable = ("CALLBOARD_QUEUE__AGING", "5s");
    assert!(load(Some("[queue]\naging = \"soon\"\n"), &[variable]).is_err());
}

#[test]
fn a_secret_is_taken_from_a_variable_or_a_file_and_never_shown() {
    const KEY: &str = "0123456789abcdef0123456789abcdef";
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("key");
    std::fs::write(&path, format!("{KEY}\n")).expect("it can be written");
    let path = path.to_str().expect("UTF-8");
    let by_text = ("CALLBOARD_AUTH__SIGNING_KEY", KEY);
    let by_file = ("CALLBOARD_AUTH__SIGNING_KEY_FILE", path);
    for variable in [by_text, by_file] {
        let config = load(None, &[variable]).expect("a key");
        let key = config.auth.signing_key.as_ref().map(Secret::expose);
        assert_eq!(key, Some(KEY));
        assert!(!format!("{config:?}").contains(KEY));
    }
    assert!(load(None, &[by_text, by_file]).is_err());
    assert_variable_refused(
        "CALLBOARD_AUTH__SIGNING_KEY",
        "short",
        "the signing key must have at least 32 bytes, not 5",
    );
    assert_refused(
        &format!("[auth]\nsigning_key = \"{KEY}\"\n"),
        "c.toml line 2: auth.signing_key is a secret: set CALLBOARD_AUTH__SIGNING_KEY, or signing_key_file to a path",
    );
}

#[test]
fn webhooks_are_signed_with_one_secret_that_is_never_shown() {
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const VARIABLE: &str = "CALLBOARD_WEBHOOK_SECRET";
    let config = load(None, &[]).expect("the shipped file is right");
    let seconds: Vec<_> = config.webhooks.waits.iter().map(Duration::as_secs).collect();
    assert_eq!(seconds, [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400]);
    assert_eq!(config.webhooks.events, [EventName::TaskCompleted]);
    assert_eq!((config.webhooks.secret, config.webhooks.allow), (None, vec![]));
    let file = format!("[webhooks]\nsecret = \"{SECRET}\"");
    let secret_of = |loaded: Result<Config, String>| {
        let secret = loaded.map(|config| config.webhooks.secret);
        secret.map(|secret| secret.map(|secret| secret.expose().to_owned()))
    };
    let given = Ok(Some(SECRET.to_owned()));
    assert_eq!(secret_of(load(Some(&file), &[])), given);
    assert_eq!(secret_of(load(None, &[(VARIABLE, SECRET)])), given);
    assert_eq!(secret_of(load(None, &[("CALLBOARD_WEBHOOKS__SECRET", SECRET)])), given);
    let twice = "the secret is given here and by c.toml line 2: give it once";
    assert_eq!(
        load(Some(&file), &[(VARIABLE, SECRET)]).expect_err("twice"),
        format!("{VARIABLE}: {twice}")
    );
    let short = load(None, &[(VARIABLE, "whsec_c2hvcnQ=")]).expect_err("too short");
    assert!(short.contains("24 to 64 bytes") && !short.contains("c2hvcnQ"), "{short}");
    let says = "webhooks.events must be a list, each item one of task.completed, task.failed, \
                task.cancelled, task.rejected, not [\"task.done\"]";
    assert_refused("[webhooks]\nevents = [\"task.done\"]", &format!("c.toml line 2: {says}"));
    let negative = load(Some("[webhooks]\nretry_seconds = [-1]"), &[]).expect_err("no time");
    assert!(negative.contains("a whole number from 0 to 604800"), "{negative}");
}

#[test]
fn mail_has_a_server_only_with_a_host() {
    let from = ("CALLBOARD_SMTP__FROM", "Callboard <callboard@example.com>");
    let host = ("CALLBOARD_SMTP__HOST", "smtp.example.com");
    for nobody in [&[from][..], &[from, ("CALLBOARD_SMTP__HOST", "")]] {
        assert_eq!(load(None, nobody).map(|config| config.smtp), Ok(None));
    }
    let smtp = load(None, &[host, from]).expect("it is right").smtp.expect("a server");
    assert_eq!((&*smtp.host, smtp.port, smtp.tls), ("smtp.example.com", 587, Tls::Starttls));
    assert_eq!((smtp.from.email.as_ref(), smtp.login), ("callboard@example.com", None));
    let says = "CALLBOARD_SMTP__HOST: smtp.from must be set too, the sender of mails";
    assert_eq!(load(None, &[host]), Err(says.to_owned()));
}

#[test]
fn a_user_of_the_mail_server_has_a_password_which_is_never_shown() {
    let from = ("CALLBOARD_SMTP__FROM", "callboard@example.com");
    let host = ("CALLBOARD_SMTP__HOST", "smtp.example.com");
    let user = ("CALLBOARD_SMTP__USERNAME", "callboard");
    let password = ("CALLBOARD_SMTP__PASSWORD", "hunter22");
    let config = load(None, &[from, host, user, password]).expect("both are there");
    assert!(!format!("{config:?}").contains("hunter22"));
    let smtp = config.smtp.expect("a server");
    let login = smtp.login.as_ref().expect("a user");
    assert_eq!((&*login.username, login.password.expose()), ("callboard", "hunter22"));
    assert!(!smtp.shows_its_password());
    let plain = Smtp { tls: Tls::None, ..smtp };
    assert!(plain.shows_its_password());
    for host in ["127.0.0.1", "::1", "LocalHost"] {
        assert!(!Smtp { host: host.to_owned(), ..plain.clone() }.shows_its_password(), "{host}");
    }
    for one in [user, password] {
        let refused = load(None, &[from, host, one]).expect_err("the other is missing");
        assert!(refused.starts_with(one.0), "{refused}");
    }
}

#[test]
fn a_bad_setting_of_the_mail_server_is_named() {
    assert_variable_refused(
        "CALLBOARD_SMTP__HOST",
        "smtp.example.com:25",
        "smtp.host must be a host such as smtp.example.com, without a port, not \"smtp.example.com:25\"",
    );
    let right = "an address such as callboard@example.com or Callboard <callboard@example.com>";
    for wrong in ["callboard", "a@example.com\r\nBcc: b@example.com", "ü@example.com"] {
        let says = format!("smtp.from must be {right}, not {wrong:?}");
        assert_variable_refused("CALLBOARD_SMTP__FROM", wrong, &says);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("ca.pem");
    std::fs::write(&path, "no certificate").expect("it can be written");
    let path = path.to_str().expect("UTF-8");
    let given = [
        ("CALLBOARD_SMTP__HOST", "smtp.example.com"),
        ("CALLBOARD_SMTP__FROM", "callboard@example.com"),
        ("CALLBOARD_SMTP__CA", path),
    ];
    let says = format!("CALLBOARD_SMTP__CA: {path} contains no certificates in PEM form");
    assert_eq!(load(None, &given), Err(says));
}

#[test]
fn the_first_administrator_has_both_an_e_mail_and_a_password() {
    let email = ("CALLBOARD_ADMIN_EMAIL", "a@b");
    let password = ("CALLBOARD_ADMIN_PASSWORD", "hunter22");
    let admin = load(None, &[email, password]).expect("both are there").admin;
    let admin = admin.map(|admin| (admin.email, admin.password.expose().to_owned()));
    assert_eq!(admin, Some(("a@b".to_owned(), "hunter22".to_owned())));
    assert!(load(None, &[email]).is_err());
    assert!(load(None, &[password]).is_err());
}

#[test]
fn single_sign_on_has_an_issuer_a_client_and_a_way_to_a_role() {
    const OIDC: &str = "[oidc]\nissuer = \"https://id.example.com\"\nclient_id = \"c\"\n";
    let file = format!(
        "{OIDC}role_claim = \"groups\"\nrole_map = [\"a=b=admin\", \"staff = viewer\"]\n\
         allowed_domains = [\"Example.COM\"]\n"
    );
    let oidc = load(Some(&file), &[("CALLBOARD_OIDC__CLIENT_SECRET", "s")]).expect("it is right");
    let oidc = oidc.oidc.expect("a provider");
    assert_eq!(oidc.issuer, "https://id.example.com", "as it is written");
    let map = [("a=b".to_owned(), Role::Admin), ("staff".to_owned(), Role::Viewer)];
    assert_eq!(oidc.policy.role_map, map);
    assert_eq!(
        (oidc.policy.default_role, &*oidc.policy.allowed_domains),
        (None, &["example.com".to_owned()][..])
    );
    assert!(!format!("{oidc:?}").contains("\"s\""), "the secret is not shown");
    assert_eq!(load(None, &[]).expect("the shipped file is right").oidc, None);
    let role = "default_role = \"viewer\"\n";
    assert!(load(Some(&format!("{OIDC}{role}")), &[]).is_ok());
    assert_refused(
        OIDC,
        "c.toml line 2: nobody could sign in: oidc.role_map or oidc.default_role must be set too",
    );
    for (file, says) in [
        (
            "[oidc]\nclient_id = \"c\"\n",
            "line 2: oidc.client_id must not be set without oidc.issuer",
        ),
        ("[oidc]\nissuer = \"https://id.example.com\"\n", "line 2: oidc.client_id must be set too"),
        (
            "[oidc]\nissuer = \"http://id.example.com\"\n",
            "line 2: oidc.issuer must be an address such as https://id.example.com; plain http only on this machine, not \"http://id.example.com\"",
        ),
        (
            "[oidc]\nrole_map = [\"staff=worker\"]\n",
            "line 2: oidc.role_map must be a list, each item a value and a role, \"value=admin\", \"value=operator\", \"value=reviewer\" or \"value=viewer\", not [\"staff=worker\"]",
        ),
        (
            "[oidc]\nclient_secret = \"s\"\n",
            "line 2: oidc.client_secret is a secret: set CALLBOARD_OIDC__CLIENT_SECRET, or client_secret_file to a path",
        ),
    ] {
        assert_refused(file, &format!("c.toml {says}"));
    }
    let no_claim = format!("{OIDC}role_map = [\"staff=admin\"]\n");
    assert_refused(&no_claim, "c.toml line 4: oidc.role_claim must be set too");
    let scopes = format!("{OIDC}{role}scopes = [\"email\"]\n");
    assert_refused(&scopes, "c.toml line 5: oidc.scopes must contain openid");
    assert!(load(Some("[oidc]\nissuer = \"http://127.0.0.1:9400\"\nclient_id = \"c\"\ndefault_role = \"viewer\"\n"), &[]).is_ok());
}

#[test]
fn a_previous_signing_key_stands_beside_a_configured_one() {
    let key = "0123456789abcdef0123456789abcdef";
    let name = "CALLBOARD_AUTH__PREVIOUS_SIGNING_KEY";
    let auth = load(None, &[("CALLBOARD_AUTH__SIGNING_KEY", key), (name, key)]).expect("two keys");
    assert_eq!(auth.auth.previous_signing_key.map(|key| key.expose().len()), Some(32));
    assert_variable_refused(
        name,
        key,
        "auth.signing_key_file must be set too: a key that the server made is rotated with callboard auth rotate-signing-key",
    );
    assert_variable_refused(name, "short", "the signing key must have at least 32 bytes, not 5");
}

#[test]
fn trust_in_confidences_is_all_none_or_a_list_of_keys() {
    let trust = |file: &str| load(Some(file), &[]).map(|config| config.worker.trust_confidence);
    let only =
        |keys: &[&str]| Ok(ConfidenceTrust::Only(keys.iter().map(|&key| key.to_owned()).collect()));
    assert_eq!(trust(""), Ok(ConfidenceTrust::All));
    assert_eq!(trust("worker.trust_confidence = \"none\""), Ok(ConfidenceTrust::None));
    assert_eq!(trust("worker.trust_confidence = [\"gpu\", \"all\"]"), only(&["gpu", "all"]));
    assert_eq!(trust("worker.trust_confidence = []"), only(&[]));
    let name = "CALLBOARD_WORKER__TRUST_CONFIDENCE";
    let given = load(None, &[(name, "gpu, key_1")]).map(|config| config.worker.trust_confidence);
    assert_eq!(given, only(&["gpu", "key_1"]));
    let wrong = trust("worker.trust_confidence = \"some\"").expect_err("it is no list");
    let right = "all, none, or a list of the names or ids of worker keys";
    assert!(wrong.contains(right), "{wrong}");
    let pass = ("CALLBOARD_HITL__MISSING_CONFIDENCE", "pass");
    let both = load(None, &[pass, (name, "gpu")]).expect_err("what is missing would pass");
    assert!(both.starts_with(name) && both.contains("hitl.missing_confidence"), "{both}");
    assert!(load(None, &[pass, (name, "all")]).is_ok());
}

#[test]
fn metrics_are_private_and_traces_are_off_unless_it_is_said() {
    let config = load(None, &[]).expect("the shipped file is right");
    assert!(!config.metrics.public);
    assert_eq!(config.otel, Otel { endpoint: None, headers: None, sample_ratio: 1.0 });
    assert_refused(
        "[otel]\nendpoint = \"127.0.0.1:4318\"\n",
        "c.toml line 2: otel.endpoint must be an address such as https://callboard.example.com, not \"127.0.0.1:4318\"",
    );
    assert_refused(
        "[otel]\nsample_ratio = 2\n",
        "c.toml line 2: otel.sample_ratio must be a number from 0 to 1, not 2",
    );
    assert_refused(
        "[otel]\nheaders = \"a=b\"\n",
        "c.toml line 2: otel.headers is a secret: set CALLBOARD_OTEL__HEADERS, or headers_file to a path",
    );
}

#[test]
fn a_model_has_limits_in_a_section_of_its_name() {
    let file = "[models.limits.\"openai/gpt-4.1\"]\nrequests_per_minute = 500\nconcurrent = 4\n";
    let config = load(Some(file), &[]).expect("it is right");
    let limits = config.models.limits["openai/gpt-4.1"];
    assert_eq!((limits.requests_per_minute, limits.concurrent), (Some(500), Some(4)));
    assert_eq!(limits.tokens_per_minute, None);
    let wrong = load(Some("[models.limits.m]\nper_minute = 5\n"), &[]).expect_err("no setting");
    assert!(wrong.contains("unknown setting models.limits.m.per_minute"), "{wrong}");
}

#[test]
fn a_project_is_given_networks_and_variables_by_its_identifier() {
    let id = "prj_00000000000000000000000001";
    let file = format!(
        "[projects.{id}]\nwebhooks_allow = [\"10.0.0.0/8\"]\nenv_allow = [\"TEAM\"]\nweight = 200\n"
    );
    let config = load(Some(&file), &[]).expect("it is right");
    let (found, given) = config.projects.first_key_value().expect("one");
    assert_eq!((found.to_string().as_str(), given.env_allow.len()), (id, 1));
    assert_eq!(given.webhooks_allow[0].to_string(), "10.0.0.0/8");
    let shown = config.shown();
    let shown = shown.iter().find(|(name, _)| *name == "projects").expect("it is shown");
    assert_eq!(shown.1, format!("{id}: webhooks_allow 10.0.0.0/8; env_allow TEAM; weight 200"));
    for name in ["search", "default", "prj_00000000000000000000000000"] {
        assert_refused(
            &format!("[projects.{name}]\nenv_allow = []\n"),
            &format!(
                "c.toml line 2: [projects.{name}] must name a project by its identifier, prj_…; webhooks.allow and \
                 templates.env_allow are those of default"
            ),
        );
    }
    let wrong = load(Some(&format!("[projects.{id}]\nallow = []\n")), &[]).expect_err("none");
    assert!(wrong.contains(&format!("unknown setting projects.{id}.allow")), "{wrong}");
}

#[test]
fn settings_are_shown_as_the_file_writes_them_and_without_secrets() {
    let secret = "a-signing-key-of-at-least-32-bytes-in-all";
    let smtp = [
        ("CALLBOARD_AUTH__SIGNING_KEY", secret),
        ("CALLBOARD_SMTP__HOST", "mail.example.com"),
        ("CALLBOARD_SMTP__FROM", "callboard@example.com"),
        ("CALLBOARD_SMTP__USERNAME", "callboard"),
        ("CALLBOARD_SMTP__PASSWORD", "hunter2hunter2"),
    ];
    let shown = load(None, &smtp).expect("the settings are right").shown();
    let value =
        |name: &str| shown.iter().find(|(it, _)| *it == name).map(|(_, value)| value.as_str());
    for (name, expected) in [
        ("auth.access_token_ttl", "1d"),
        ("retention.ended", "30d"),
        ("retention.history", "forever"),
        ("search.days", "30"),
        ("limits.schedules", "1000"),
        ("limits.stored_bytes", "unlimited"),
        ("hitl.on_timeout", "wait"),
        ("worker.trust_confidence", "all"),
        ("webhooks.events", "task.completed"),
        ("smtp.host", "mail.example.com:587"),
        ("oidc.issuer", "off"),
    ] {
        assert_eq!(value(name), Some(expected), "{name}");
    }
    let all = format!("{shown:?}");
    assert!(!all.contains(secret) && !all.contains("hunter2"), "{all}");
}
