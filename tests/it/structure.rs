//! What the tree promises: the arrows between the packages, and that every route is described.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use callboard::http::document;

/// The dependencies of a package that tests and builds do not add.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(manifest.trim_start_matches('/'));
    let text = std::fs::read_to_string(path).expect("a manifest");
    let manifest: toml::Table = text.parse().expect("TOML");
    manifest["dependencies"].as_table().expect("a table").keys().cloned().collect()
}

/// Each package, and the packages of the workspace that it depends on.
const PACKAGES: [(&str, &str, &[&str]); 13] = [
    (
        "callboard",
        "",
        &[
            "backup", "cli", "common", "domain", "otlp", "protocol", "runtime", "store", "wire",
            "worker",
        ],
    ),
    ("cli", "crates/cli", &["backup", "client", "common", "domain", "otlp", "protocol", "worker"]),
    ("backup", "crates/backup", &["store"]),
    ("bench", "benches/load", &["client", "store"]),
    ("wire", "crates/wire", &["domain", "protocol", "runtime", "store"]),
    ("worker", "crates/worker", &["common", "domain", "otlp", "protocol"]),
    ("client", "sdk/rust", &["common"]),
    ("otlp", "crates/otlp", &["common", "domain"]),
    ("protocol", "crates/protocol", &["domain"]),
    ("runtime", "actors/runtime", &["domain", "store"]),
    ("domain", "actors/domain", &[]),
    ("store", "actors/store", &["common"]),
    ("common", "crates/common", &[]),
];

/// Libraries, and the packages that may depend on them.
const LIBRARIES: [(&str, &[&str]); 10] = [
    ("axum", &["callboard", "bench"]),
    ("hyper", &["callboard"]),
    ("utoipa", &["callboard", "protocol", "wire"]),
    ("lettre", &["callboard"]),
    ("prometheus-client", &["wire"]),
    ("clap", &["callboard", "cli", "bench"]),
    ("reqwest", &["callboard", "worker", "client", "otlp"]),
    ("opentelemetry-otlp", &["otlp"]),
    ("ractor", &["runtime", "bench"]),
    ("sled", &["store", "bench"]),
];

#[test]
fn the_arrows_go_one_way() {
    for (name, directory, expected) in PACKAGES {
        let all = dependencies(&format!("{directory}/Cargo.toml"));
        let ours: Vec<_> = all.iter().filter_map(|name| name.strip_prefix("callboard-")).collect();
        assert_eq!(ours, expected, "the packages that {name} depends on");
        for (library, owners) in LIBRARIES {
            assert_eq!(all.contains(library), owners.contains(&name), "{library} in {name}");
        }
    }
    let domain = dependencies("actors/domain/Cargo.toml");
    for forbidden in ["tokio", "rand", "reqwest", "tracing"] {
        assert!(!domain.contains(forbidden), "the rules are pure: no {forbidden}");
    }
}

/// The texts of the sources of these directories, with their paths.
fn sources(directories: &[&str], kinds: &[&str]) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut directories: Vec<_> = directories.iter().map(|it| root.join(it)).collect();
    let mut found = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
            if path.is_dir() && !path.ends_with("node_modules") {
                directories.push(path);
            } else if kinds.contains(&kind) {
                let text = std::fs::read_to_string(&path).expect("UTF-8");
                found.push((path, text));
            }
        }
    }
    found
}

#[test]
fn sources_refer_to_what_is_in_the_repository() {
    let directories = ["actors", "benches", "crates", "sdk", "src", "tests", "web/src"];
    let sources = sources(&directories, &["rs", "ts", "tsx", "py", "toml"]);
    assert!(sources.len() > 500, "{} files were read", sources.len());
    for (path, text) in sources {
        for absent in [concat!("SPEC", ".md"), concat!("PROTO", "COL.md")] {
            assert!(!text.contains(absent), "{} cites {absent}", path.display());
        }
    }
}

/// The document keeps only one of two shapes of a name.
#[test]
fn each_shape_of_the_document_has_a_name_of_its_own() {
    let mut names = BTreeSet::new();
    for (path, text) in sources(&["crates/wire/src", "src"], &["rs"]) {
        if path.ends_with("tests.rs") {
            continue;
        }
        let (mut is_shape, mut other_name) = (false, None);
        for line in text.lines() {
            is_shape |= line.starts_with("#[derive(") && line.contains("ToSchema");
            if let Some((_, name)) = line.split_once("#[schema(as = ") {
                other_name = name.split([',', ')']).next();
            }
            // A request that the `request!` macro reads.
            if let Some((_, name)) =
                line.split_once("struct ").and_then(|(_, it)| it.split_once(" as \""))
            {
                let name = name.split('"').next().expect("a name").to_owned();
                assert!(names.insert(name.clone()), "{name}, again in {}", path.display());
            }
            let words: Vec<_> = line.split([' ', '<', '(', ';']).collect();
            let declared = words.iter().position(|word| matches!(*word, "struct" | "enum"));
            let Some(at) = declared.filter(|at| *at < 2 && !line.starts_with([' ', '/'])) else {
                continue;
            };
            let name = other_name.take().unwrap_or(words[at + 1]);
            if std::mem::take(&mut is_shape) {
                assert!(names.insert(name.to_owned()), "{name}, again in {}", path.display());
            }
        }
    }
    assert!(names.len() > 50, "{names:?}");
}

#[test]
fn every_package_of_the_workspace_is_among_them() {
    let text = include_str!("../../Cargo.toml");
    let manifest: toml::Table = text.parse().expect("TOML");
    let members = manifest["workspace"]["members"].as_array().expect("a list");
    let members: BTreeSet<_> = members.iter().filter_map(toml::Value::as_str).collect();
    let known = PACKAGES.iter().map(|(_, directory, _)| *directory);
    // The root package is no member by name; the simulated disk and the test database are parts of tests.
    let known: BTreeSet<_> =
        known.filter(|name| !name.is_empty()).chain(["tests/disk", "tests/postgres"]).collect();
    assert_eq!(members, known);
}

#[test]
fn every_route_is_described_and_everything_described_is_a_route() {
    let source = include_str!("../../src/http.rs");
    let mut routes = BTreeSet::new();
    for line in source.lines().filter_map(|line| line.trim().strip_prefix('.')) {
        let Some((method, rest)) = line.split_once('(') else { continue };
        let Some((path, _)) = rest.strip_prefix('"').and_then(|rest| rest.split_once('"')) else {
            continue;
        };
        if ["/api", "/v1", "/ws"].iter().any(|root| path.starts_with(root)) {
            // The document knows no wildcards.
            routes.insert((path.replace("{*", "{"), method.trim().to_owned()));
        }
    }
    assert!(routes.len() >= 15, "they are read from the source: {routes:?}");

    let document = serde_json::to_value(document()).expect("JSON");
    assert_eq!(document["openapi"], "3.1.0");
    let described: BTreeSet<_> = document["paths"]
        .as_object()
        .expect("paths")
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().expect("methods").keys();
            methods.map(move |method| (path.clone(), method.clone()))
        })
        .collect();
    assert_eq!(routes, described);
}
