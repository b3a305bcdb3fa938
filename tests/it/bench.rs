//! The benchmark, as a script would use it: short, and with figures that nobody judges.

use std::path::Path;
use std::process::{Command, Output};

use callboard_postgres::Server as Postgres;
use serde_json::Value;

use crate::support::Server;

fn bench(directory: &tempfile::TempDir, arguments: &[&str]) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_callboard"));
    let mut command = Command::new(program.with_file_name("callboard-bench"));
    command.arg("--program").arg(program).args([
        "--seconds",
        "0.2",
        "--rounds",
        "1",
        "--directory",
    ]);
    command.arg(directory.path()).args(arguments);
    command
}

#[track_caller]
fn report(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[test]
fn a_target_is_measured_beside_its_baseline() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = bench(&directory, &["--only", "t1", "--json"]).output().expect("it runs");
    let report = report(&output);
    for name in ["cores", "processor", "kernel", "file_system"] {
        assert!(!report["machine"][name].is_null(), "{name}: {report}");
    }
    assert!(report["date"].as_str().is_some_and(|date| date.len() == 10));
    assert!(report["commit"].is_string());
    let [row] = report["rows"].as_array().expect("rows").as_slice() else {
        panic!("one row: {report}");
    };
    assert_eq!((row["target"].as_str(), row["unit"].as_str()), (Some("T1"), Some("requests/s")));
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("a number: {report}"));
    let (figure, baseline) = (number(&row["figure"]), number(&row["baseline"]));
    assert!(figure > 0.0 && baseline > 0.0, "{report}");
    assert!((number(&row["ratio"]) - figure / baseline).abs() < 1e-9, "{report}");
    assert_eq!(row["ratios"].as_array().map(Vec::len), Some(1));
    assert_eq!(row["bound"]["atLeast"], 0.6);
    assert_eq!(row["met"], number(&row["ratio"]) >= 0.6);
    for latencies in [&row["ours"], &row["least"]] {
        let at = ["p50", "p90", "p99", "p999"].map(|name| number(&latencies[name]));
        assert!(at.is_sorted() && at[0] > 0.0, "{latencies}");
    }
    let left = std::fs::read_dir(directory.path()).expect("a directory").count();
    assert_eq!(left, 0, "nothing is left behind");
}

#[test]
fn executions_a_recovery_and_a_start_are_measured() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for (only, rows) in [("T3", 2), ("T6", 2), ("T8", 5), ("T9", 2)] {
        let output = bench(&directory, &["--only", only, "--items", "2000", "--json"]).output();
        let report = report(&output.expect("it runs"));
        let measured = report["rows"].as_array().expect("rows");
        assert_eq!(measured.len(), rows, "{report}");
        for row in measured {
            // The rate of events is only reported.
            let is_judged = row["met"].is_boolean() || row["unit"] == "events/s";
            assert!(row["figure"].as_f64() > Some(0.0) && is_judged, "{report}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_runs_already_is_measured_and_left_without_waiting_tasks() {
    let server = Server::with(&[("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "50")]);
    let key = server.key("admin").await;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = |only: &str| {
        let arguments = ["--server", &server.url, "--only", only, "--json"];
        bench(&directory, &arguments).env("CALLBOARD_API_KEY", &key).output().expect("it runs")
    };
    // Its limit of requests is a low one, which load meets.
    let output = run("T1");
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stderr).contains("requests per minute"));
    assert_eq!(run("T9").status.code(), Some(1), "a start is not seen from outside");

    let server = Server::with(&[("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000")]);
    let key = server.key("admin").await;
    let client = server.client("viewer").await;
    for (only, rows) in [("T1", 1), ("T2", 2)] {
        let arguments = ["--server", &server.url, "--only", only, "--json"];
        let output = bench(&directory, &arguments).env("CALLBOARD_API_KEY", &key).output();
        let report = report(&output.expect("it runs"));
        let measured = report["rows"].as_array().expect("rows");
        assert_eq!(measured.len(), rows, "{report}");
        assert!(measured.iter().all(|row| row["ratio"].is_number()), "it is local: {report}");
        let total = async |filter: &str| {
            let list = client.get(&format!("/api/tasks?{filter}")).await;
            list.body["pagination"]["total"].as_u64()
        };
        assert!(total("status=completed").await > Some(0));
        assert_eq!(total("status=pending,running").await, Some(0));
    }
}

#[test]
fn figures_go_into_a_page_that_has_a_place_for_them() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let page = tempfile::NamedTempFile::new().expect("a temporary file");
    let path = page.path().to_str().expect("a path in UTF-8");
    let run = || bench(&directory, &["--only", "T1", "--write", path]).output().expect("it runs");
    assert_eq!(run().status.code(), Some(1), "it has no place for figures");

    let text = "Before.\n<!-- bench: begin -->\n<!-- bench: end -->\nAfter.\n";
    std::fs::write(page.path(), text).expect("it is written");
    assert!(run().status.success());
    let text = std::fs::read_to_string(page.path()).expect("it is there");
    assert!(text.starts_with("Before.\n") && text.ends_with("\nAfter.\n"), "{text}");
    assert!(text.contains("| T1 | POST /api/tasks, durable, 64 connections |"), "{text}");
}

#[test]
fn targets_are_measured_on_postgresql_beside_the_embedded_store() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let postgres = Postgres::start();
    let database = postgres.database();
    let url = postgres.url(&database);
    let store = ["--store", url.as_str(), "--only", "T3,T6", "--items", "2000", "--json"];
    let report = report(&bench(&directory, &store).output().expect("it runs"));
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2 * (1 + 2 + 2), "{report}");
    for row in rows {
        assert!(row["figure"].as_f64().is_some_and(|figure| figure > 0.0), "{row}");
        if row["work"].as_str().expect("a text").ends_with(", on PostgreSQL") {
            assert!(row["bound"].is_null() && row["met"].is_null(), "{row}");
        }
    }
    // Nothing is left behind, and a database in use is none to measure on.
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'callboard'";
    assert_eq!(postgres.psql(&database, schemas).as_deref(), Some("0"));
    postgres.psql(&database, "CREATE SCHEMA callboard").expect("it can be made");
    let refused = bench(&directory, &store).output().expect("it runs");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("name an empty one"), "{said}");
    let other = ["--store", url.as_str(), "--only", "T9"];
    let refused = bench(&directory, &other).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(1));
}
