//! README.md and docs/how-to: every command that they show is run here, from an empty directory, or has a reason in
//! [`excused`] why it is not.

mod excused;
mod page;
mod provider;
mod walk;

use std::collections::BTreeMap;
use std::path::Path;

use page::{commands, section};
use walk::Walk;

use excused::{EXCUSED, REFUSED};

/// The pages that are walked beside `callboard dev --simulated`, in this order.
const BESIDE_DEV: [&str; 10] = [
    "docs/how-to/http.md",
    "docs/how-to/map.md",
    "docs/how-to/schedule.md",
    "docs/how-to/review.md",
    "docs/how-to/threshold.md",
    "docs/how-to/mail.md",
    "docs/how-to/monitor.md",
    "docs/how-to/operate.md",
    "docs/how-to/functions.md",
    "docs/how-to/nightly.md",
];

/// The pages that are walked beside `callboard serve` with a worker, in this order: README's section first.
const BESIDE_SERVE: [&str; 2] = ["docs/how-to/workers.md", "docs/how-to/backup.md"];

/// The sections of README that are walked: the first beside `callboard dev`, the second from nothing.
const WALKED_SECTIONS: [&str; 2] = ["## Use it", "## Run it for real"];

/// README and the guides, by path.
fn guides() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeMap::new();
    let mut add = |path: &Path| {
        let name = path.strip_prefix(root).expect("below the root").display().to_string();
        found.insert(name, std::fs::read_to_string(path).expect("a page"));
    };
    add(&root.join("README.md"));
    for entry in std::fs::read_dir(root.join("docs/how-to")).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "md") {
            add(&path);
        }
    }
    found
}

/// The reason why a command is not run; `None` for one that a walk runs.
fn excuse(page: &str, command: &str) -> Option<&'static str> {
    let is_meant = |(of, part, _): &&(&str, &str, &str)| *of == page && command.contains(part);
    EXCUSED.iter().find(is_meant).map(|(_, _, reason)| *reason)
}

#[test]
fn every_command_of_a_guide_is_run_or_has_a_reason() {
    let guides = guides();
    let mut forgotten = Vec::new();
    let mut run = 0;
    for (page, text) in &guides {
        let is_walked = BESIDE_DEV.contains(&&**page) || BESIDE_SERVE.contains(&&**page);
        let sections = if page == "README.md" {
            WALKED_SECTIONS.iter().flat_map(|name| commands(&section(text, name))).collect()
        } else {
            Vec::new()
        };
        for command in commands(text) {
            if excuse(page, &command).is_some() {
                continue;
            }
            if is_walked || sections.contains(&command) {
                run += 1;
            } else {
                forgotten.push(format!("{page}: {command}"));
            }
        }
    }
    assert!(forgotten.is_empty(), "neither run nor excused:\n{}", forgotten.join("\n"));
    assert!(run > 80, "the guides show commands: {run}");
    // An excuse or a refusal of what no page shows any more is taken away.
    let excused = EXCUSED.iter().map(|(page, part, _)| (*page, *part));
    let refused = REFUSED.iter().map(|(page, part, _)| (*page, *part));
    for (page, part) in excused.chain(refused) {
        let text = guides.get(page).unwrap_or_else(|| panic!("there is no page {page}"));
        assert!(
            commands(text).iter().any(|command| command.contains(part)),
            "{page} has no command with {part:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guides_can_be_followed_beside_dev() {
    let guides = guides();
    let mut walk = Walk::beside_dev().await;
    walk.follow("README.md", &section(&guides["README.md"], WALKED_SECTIONS[0])).await;
    for page in BESIDE_DEV {
        walk.follow(page, &guides[page]).await;
    }
    walk.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_readme_leads_from_an_empty_directory_to_an_answer() {
    let guides = guides();
    let mut walk = Walk::alone().await;
    walk.follow("README.md", &section(&guides["README.md"], WALKED_SECTIONS[1])).await;
    assert!(walk.said().contains("an answer of the provider"), "{}", walk.said());
    for page in BESIDE_SERVE {
        walk.follow(page, &guides[page]).await;
    }
    walk.end().await;
}
