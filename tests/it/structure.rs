//! What the tree promises: the arrows between the packages, and that every route is described.

use std::collections::{BTreeMap, BTreeSet};
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
            "backup", "cli", "client", "common", "domain", "otlp", "protocol", "runtime", "store",
            "wire", "worker",
        ],
    ),
    ("cli", "crates/cli", &["backup", "client", "common", "domain", "otlp", "protocol", "worker"]),
    ("backup", "crates/backup", &["store"]),
    ("bench", "benches/load", &["client", "store"]),
    ("wire", "crates/wire", &["domain", "protocol", "runtime", "store"]),
    ("worker", "crates/worker", &["client", "common", "domain", "otlp", "protocol"]),
    ("client", "sdk/rust", &["common"]),
    ("otlp", "crates/otlp", &["common", "domain"]),
    ("protocol", "crates/protocol", &["domain"]),
    ("runtime", "actors/runtime", &["domain", "store"]),
    ("domain", "actors/domain", &[]),
    ("store", "actors/store", &["common"]),
    ("common", "crates/common", &[]),
];

/// Libraries, and the packages that may depend on them.
const LIBRARIES: [(&str, &[&str]); 11] = [
    ("axum", &["callboard", "bench"]),
    ("hyper", &["callboard"]),
    ("utoipa", &["callboard", "protocol", "wire"]),
    ("lettre", &["callboard"]),
    ("prometheus-client", &["wire"]),
    ("clap", &["callboard", "cli", "bench"]),
    ("reqwest", &["callboard", "worker", "client", "otlp"]),
    ("opentelemetry-otlp", &["otlp"]),
    ("ractor", &["runtime", "bench"]),
    ("rmcp", &["callboard", "cli"]),
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

/// The layers of the runtime, from the lowest: a module names those below it alone.
const LAYERS: [&[&str]; 11] = [
    &["kernel"],
    &["tables"],
    &["limits", "observers"],
    &["messages"],
    &["node"],
    &["read"],
    &["commit"],
    &["items"],
    &["handle", "upkeep"],
    &["jobs"],
    &["system", "membership"],
];

/// The sources of a folder, without their comments and tests: each with the names of its modules from that folder on.
fn modules(folder: &str) -> Vec<(Vec<String>, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let code = |text: &str| {
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
        lines.collect::<Vec<_>>().join("\n")
    };
    let modules = sources(&[folder], &["rs"]).into_iter().filter_map(|(path, text)| {
        let path = path.strip_prefix(&root).expect("a path in the folder").with_extension("");
        let names = path.iter().map(|name| name.to_string_lossy().into_owned());
        let names: Vec<_> = names.collect();
        let is_test = names.iter().any(|name| name == "tests" || name == "golden");
        (!is_test).then(|| (names, code(&text)))
    });
    modules.collect()
}

/// The names after `prefix` in a source: of a path, or of each in braces.
fn named<'t>(text: &'t str, prefix: &str) -> Vec<&'t str> {
    let word = |text: &'t str| {
        let end = text.find(|it: char| !it.is_alphanumeric() && it != '_').unwrap_or(text.len());
        &text[..end]
    };
    let mut names = Vec::new();
    for (at, _) in text.match_indices(prefix) {
        let rest = &text[at + prefix.len()..];
        if let Some(list) = rest.strip_prefix('{') {
            let list = list.split(';').next().unwrap_or_default();
            names.extend(list.split([',', '{', '\n']).map(|name| word(name.trim())));
        } else {
            names.push(word(rest));
        }
    }
    names
}

#[test]
fn the_layers_of_the_runtime_know_those_below_them_alone() {
    let rank = |name: &str| LAYERS.iter().position(|layer| layer.contains(&name));
    let modules = modules("actors/runtime/src");
    assert!(modules.len() > 150, "{} modules were read", modules.len());
    for (names, text) in &modules {
        let Some(own) = rank(&names[0]) else {
            assert_eq!(names[0], "lib", "a module without a layer");
            continue;
        };
        for other in named(text, "crate::") {
            let is_own = other == names[0];
            let other_rank = rank(other);
            assert!(
                is_own || other_rank.is_some_and(|other| other < own),
                "{} names crate::{other}, which is not below it",
                names.join("::")
            );
        }
    }
}

#[test]
fn the_lowest_layers_of_the_runtime_have_no_cycles() {
    for layer in ["kernel", "tables", "limits", "observers"] {
        let modules = modules(&format!("actors/runtime/src/{layer}"));
        let known: BTreeSet<_> = modules.iter().map(|(names, _)| names[0].clone()).collect();
        let mut left: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (names, text) in &modules {
            let mut others = named(text, &format!("crate::{layer}::"));
            if names.len() == 1 {
                others.extend(named(text, "super::"));
            }
            let others = others.into_iter().filter(|it| known.contains(*it) && *it != names[0]);
            left.entry(names[0].clone()).or_default().extend(others.map(str::to_owned));
        }
        while !left.is_empty() {
            let free: Vec<_> = left
                .iter()
                .filter(|(_, others)| others.iter().all(|other| !left.contains_key(other)))
                .map(|(name, _)| name.clone())
                .collect();
            assert!(!free.is_empty(), "modules of {layer} name each other in a circle: {left:?}");
            for name in free {
                left.remove(&name);
            }
        }
    }
}
