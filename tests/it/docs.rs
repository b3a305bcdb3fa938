//! The pages of the documentation: their links, and what they must not refer to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use callboard_domain::audit::Action;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every page, by its path from the root.
fn pages() -> BTreeMap<PathBuf, String> {
    const SKIPPED: [&str; 5] = ["target", "node_modules", ".venv", ".git", "dist"];
    let mut found = BTreeMap::new();
    let mut directories = vec![root()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && !SKIPPED.contains(&name) && !path.is_symlink() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let text = std::fs::read_to_string(&path).expect("a page");
                found.insert(path.strip_prefix(root()).expect("below the root").to_owned(), text);
            }
        }
    }
    assert!(found.len() > 40, "{found:?}");
    found
}

/// The text without its blocks of code, whose brackets are no links.
fn prose(text: &str) -> String {
    let mut in_block = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        !in_block && !is_fence && !line.starts_with("    ")
    });
    let mut prose = String::new();
    // Code within a line goes too.
    for line in lines {
        let parts = line.split('`').enumerate().filter(|(at, _)| at % 2 == 0);
        prose.extend(parts.map(|(_, part)| part));
        prose.push('\n');
    }
    prose
}

/// The targets of all links of a page.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let after = prose.split("](").skip(1);
    after.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned()).collect()
}

/// The anchors that a page's headings make.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut in_block = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        in_block ^= line.trim_start().starts_with("```");
        if let (false, Some(heading)) = (in_block, line.strip_prefix('#')) {
            let heading = heading.trim_start_matches('#').trim();
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            let anchor: String = kept.collect();
            found.insert(anchor.to_lowercase().replace(' ', "-"));
        }
    }
    found
}

#[test]
fn every_link_leads_to_a_page_and_a_heading_that_exist() {
    let pages = pages();
    let mut broken = Vec::new();
    for (page, text) in &pages {
        for link in links(text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let directory = page.parent().expect("a directory");
            let target = if path.is_empty() { page.clone() } else { normal(&directory.join(path)) };
            if !root().join(&target).exists() {
                broken.push(format!("{}: {link}", page.display()));
            } else if !anchor.is_empty() {
                let known = pages.get(&target).is_some_and(|text| anchors(text).contains(anchor));
                if !known {
                    broken.push(format!("{}: {link}: no such heading", page.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// A path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        if part == std::path::Component::ParentDir {
            normal.pop();
        } else {
            normal.push(part);
        }
    }
    normal
}

#[test]
fn the_index_lists_every_page() {
    let pages = pages();
    let index = &pages[Path::new("docs/README.md")];
    let listed: BTreeSet<PathBuf> =
        links(index).iter().map(|link| normal(&Path::new("docs").join(link))).collect();
    let missing: Vec<_> = pages
        .keys()
        .filter(|page| page.starts_with("docs") && *page != Path::new("docs/README.md"))
        .filter(|page| !listed.contains(*page))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Every text that users read: the pages, the settings, the description of the API, the help.
fn texts() -> BTreeMap<String, String> {
    let mut texts: BTreeMap<String, String> =
        pages().into_iter().map(|(path, text)| (path.display().to_string(), text)).collect();
    for file in ["config/callboard.toml", "tests/it/snapshots/it__openapi__document.snap"] {
        let text = std::fs::read_to_string(root().join(file)).expect("a file");
        texts.insert(file.to_owned(), text);
    }
    for (path, help) in super::help::texts() {
        texts.insert(format!("callboard {path} --help"), help);
    }
    texts
}

#[test]
fn no_text_for_users_refers_to_a_specification_that_they_do_not_have() {
    for (name, text) in texts() {
        for citation in [concat!("SPEC", ".md"), "SPEC,", "PROTOCOL", "(+)"] {
            assert!(!text.contains(citation), "{name} refers to {citation}");
        }
    }
}

/// The commands that pages show: lines of code that begin with the program, without the shell's own words.
fn shown_commands(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", " ");
    let mut in_block = false;
    let mut found = Vec::new();
    for line in text.lines() {
        in_block ^= line.trim_start().starts_with("```");
        let is_code = in_block || line.starts_with("    ");
        // A placeholder for more options ends what can be read.
        let line = line.trim_end_matches(" …");
        if let (true, Some(rest)) = (is_code, line.trim_start().strip_prefix("callboard ")) {
            let words = shlex::split(&format!("callboard {rest}")).unwrap_or_default();
            let is_shell =
                |word: &String| [">", ">>", "<", "|", "&&", "&"].contains(&word.as_str());
            let words = words.split(is_shell).next().unwrap_or_default();
            found.push(words.to_vec());
        }
    }
    found
}

#[test]
fn every_command_on_a_page_is_one_that_the_program_accepts() {
    let mut refused = Vec::new();
    let mut count = 0;
    for (page, text) in pages() {
        for words in shown_commands(&text) {
            count += 1;
            if let Err(error) = callboard::cli::command().try_get_matches_from(&words) {
                let why = error.to_string();
                let why = why.lines().next().unwrap_or_default();
                refused.push(format!("{}: {}: {why}", page.display(), words.join(" ")));
            }
        }
    }
    assert!(count > 60, "the pages show commands: {count}");
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// Words that a native writer of technical English would not use, in texts that users read.
const AVOIDED: [&str; 19] = [
    "somebody must see",
    "all the same?",
    "In whose name",
    "shown this once",
    "shown once",
    "What you have to say",
    "gives no boolean",
    "which it stands behind",
    "under way",
    "to pass over",
    "The least confidence",
    "is no address of",
    "must be a text",
    "is not known here",
    "the API key is taken",
    "submit it anew",
    "no telling",
    "none the worse",
    "equals nothing",
];

#[test]
fn texts_for_users_are_written_in_plain_words() {
    for (name, text) in texts() {
        // Notes quote what was.
        if name.starts_with("docs/notes") {
            continue;
        }
        for words in AVOIDED {
            assert!(!text.contains(words), "{name} says {words:?}");
        }
    }
}

#[test]
fn the_reference_has_every_field_of_a_template_a_plan_and_a_step() {
    let snapshot = include_str!("snapshots/it__openapi__document.snap");
    let (_, document) = snapshot.split_once("\n---\n").expect("a header and a document");
    let document: serde_json::Value = serde_json::from_str(document).expect("JSON");
    let page = include_str!("../../docs/reference/templates.md");
    for schema in ["TemplateRequest", "PlanRequest", "StepRequest", "DefaultsRequest"] {
        let fields = &document["components"]["schemas"][schema]["properties"];
        let fields = fields.as_object().expect("fields");
        assert!(!fields.is_empty());
        for field in fields.keys() {
            assert!(page.contains(&format!("`{field}`")), "{schema}.{field} is missing");
        }
    }
}

/// Words that stand for a noun instead of naming one.
const NO_NOUNS: [&str; 9] =
    ["What", "Who", "Whom", "Whose", "Whether", "Which", "Whoever", "Whatever", "How"];

#[test]
fn descriptions_and_help_begin_with_a_noun_or_a_verb() {
    let starts = |text: &str| NO_NOUNS.contains(&text.split([' ', '.', ',']).next().unwrap_or(""));
    let snapshot = include_str!("snapshots/it__openapi__document.snap");
    for line in snapshot.lines() {
        for member in ["\"description\": \"", "\"summary\": \""] {
            if let Some(text) = line.trim_start().strip_prefix(member) {
                assert!(!starts(text), "{text}");
            }
        }
    }
    for (path, command) in super::help::commands() {
        let about = command.get_about().map(ToString::to_string);
        let arguments = command.get_arguments().filter_map(|argument| argument.get_help());
        for text in about.into_iter().chain(arguments.map(ToString::to_string)) {
            assert!(!starts(&text), "{path}: {text}");
        }
    }
}

#[test]
fn the_table_of_the_audit_log_has_every_action() {
    let page = std::fs::read_to_string(root().join("docs/reference/accounts.md")).expect("a page");
    let (_, section) = page.split_once("\n## Audit log\n").expect("a section");
    let section = section.split("\n## ").next().expect("its text");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let listed: BTreeSet<_> = rows
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .filter(|name| name.contains('.'))
        .collect();
    let actions: BTreeSet<_> = Action::ALL.iter().map(|action| action.as_str()).collect();
    assert_eq!(listed, actions);
}
