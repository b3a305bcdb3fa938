//! The commands of the page "Set up cells", in its order.

use super::program::Home;
use crate::support::{Server, until};

const KEY: &str = "a key that all cells of this company share";

#[tokio::test]
async fn the_commands_of_the_page_set_up_a_cell_and_back_it_up() {
    let page = include_str!("../../../docs/how-to/cells.md");
    let home = Server::with(&[("CLUSTER__KEY", KEY)]);
    let (cell, at_home) = (("CLUSTER__CELL", "berlin"), ("CLUSTER__HOME", home.url.as_str()));
    let berlin = Server::with(&[("CLUSTER__KEY", KEY), cell, at_home]);
    let admin = home.admin().await;
    let program = Home::new(&home.url).signed_in().await;
    let dir = tempfile::tempdir().expect("a directory");
    let (key, backups) = (dir.path().join("backup.key"), dir.path().join("backups"));
    let text = |path: &std::path::Path| path.to_str().expect("a path").to_owned();
    let page = page
        .replace("\\\n          ", "")
        .replace("http://10.0.0.2:8080", &berlin.url)
        .replace("/var/backups/berlin", &text(&backups))
        .replace("--api-key-file backup.key", &format!("--api-key-file {}", text(&key)));
    let commands = page.lines().filter_map(|line| line.trim_start().strip_prefix("callboard "));
    let mut ran = 0;
    for command in commands.filter(|line| !line.starts_with("serve ")) {
        let (command, into_file) = match command.split_once(" > ") {
            Some((command, _)) => (command, true),
            None => (command, false),
        };
        let words = shlex::split(command).expect("a command");
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        if words[..2] == ["backup", "create"] {
            program.run(&["backup", "init", "--in", &text(&backups)]).await.ok();
        }
        let printed = program.run(&words).await.ok();
        ran += 1;
        if into_file {
            std::fs::write(&key, &printed).expect("a file");
        }
        match words[..] {
            ["cells", "add", ..] => {
                until("berlin follows home", async || {
                    admin.get("/api/cells").await.expect_ok()[1]["status"] == "following"
                })
                .await;
            }
            ["cells", "list"] => assert!(printed.contains("following"), "{printed}"),
            ["projects", "move", ..] => {
                until("the project is home", async || {
                    let project = admin.get("/api/projects/Claims").await.expect_ok();
                    project["movingTo"].is_null() && project["cell"].is_null()
                })
                .await;
            }
            ["projects", "create", ..] => assert!(printed.contains("berlin"), "{printed}"),
            _ => {}
        }
    }
    assert_eq!(ran, 7);
    let listed = program.run(&["backup", "list", "--in", &text(&backups)]).await.ok();
    assert!(listed.lines().count() > 1, "{listed}");
    let audit = program.run(&["audit", "list", "--cell", "berlin"]).await.ok();
    assert!(audit.contains("backup.completed"), "{audit}");
}
