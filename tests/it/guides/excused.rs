//! The commands of the guides that no walk runs, each with the reason, and those whose refusal is expected.
//!
//! A command is meant by its page and by a part of its text. An empty part means each command of the page.

/// The page, a part of the command, and the reason.
pub(super) const EXCUSED: &[(&str, &str, &str)] = &[
    ("README.md", "./run", "it builds the program; tests/it/cli/dev.rs runs what it starts"),
    ("README.md", "web/install", "it builds the dashboard, as ./test does before the tests"),
    ("README.md", "cargo build --release", "it builds a release, which takes many minutes"),
    ("README.md", "callboard hitl review", "it needs a terminal: tests/it/cli/reviews.rs"),
    (
        "docs/how-to/review.md",
        "callboard hitl review",
        "it needs a terminal: tests/it/cli/reviews.rs",
    ),
    (
        "docs/how-to/backup.md",
        "--data-dir ./callboard-data",
        "it needs a server that is stopped: tests/it/backup.rs",
    ),
    (
        "docs/how-to/backup.md",
        "--archive /mnt/other-disk",
        "it needs a server with an archive: tests/it/backup.rs",
    ),
    ("docs/how-to/batch.md", "", "tests/it/batches.rs follows the page"),
    ("docs/how-to/compare-prompts.md", "", "tests/it/batches.rs follows the page"),
    ("docs/how-to/cells.md", "", "tests/it/cli/cells.rs runs the commands of the page"),
    ("docs/how-to/cluster.md", "", "it needs PostgreSQL, or Kubernetes: tests/it/cluster"),
    ("docs/how-to/dashboard.md", "", "it builds the dashboard and a release"),
    (
        "docs/how-to/functions.md",
        "python worker.py",
        "it needs the Python library: sdk/python/tests/test_worker.py; the walk has a worker with the function",
    ),
    (
        "docs/how-to/files.md",
        "",
        "it needs files of yours and a model that reads them: tests/it/files.rs does the same by HTTP",
    ),
    ("docs/how-to/leaked-credentials.md", "", "tests/it/cli/leaked.rs runs every command"),
    ("docs/how-to/mcp.md", "", "it needs an assistant: tests/it/cli/mcp.rs"),
    (
        "docs/how-to/measure.md",
        "",
        "benchmarks of a release, which take minutes each: tests/it/bench.rs",
    ),
    (
        "docs/how-to/monitor.md",
        "callboard worker --otel-endpoint",
        "tests/it/traces.rs starts such a worker",
    ),
    (
        "docs/how-to/nightly.md",
        "python3 examples/support-night",
        "it needs the Python library: sdk/python/tests/test_night.py runs both programs over three nights",
    ),
    ("docs/how-to/openai.md", "", "tests/it/openai.rs runs the script with the published library"),
    ("docs/how-to/python.md", "", "sdk/python/tests/test_package.py installs the library"),
    ("docs/how-to/install.md", "", "packaging/test installs the package and follows the page"),
    (
        "docs/how-to/schedule.md",
        "callboard schedules create nightly-report",
        "the plan is the reader's own: tests/it/schedules.rs",
    ),
    ("docs/how-to/schedule.md", "dt_sched_…", "the schedule of that plan: tests/it/schedules.rs"),
    (
        "docs/how-to/schedule.md",
        "callboard executions signal",
        "the execution is of the reader's own plan: tests/it/waits.rs",
    ),
    (
        "docs/how-to/single-sign-on.md",
        "",
        "it needs a browser and a provider: tests/it/accounts/oidc.rs",
    ),
    ("docs/how-to/tls.md", "", "it needs a server with TLS: tests/it/tls.rs"),
    ("docs/how-to/typescript.md", "", "sdk/typescript/tests/package.test.ts installs the library"),
    ("docs/how-to/rust.md", "", "sdk/rust/tests/readme follows the README, which begins so"),
    ("docs/how-to/workers.md", "HTTPS_PROXY=", "it needs a proxy: tests/it/proxies.rs"),
];

/// The page, a part of the command, and the code of the refusal: the item has ended meanwhile, or the page shows a
/// secret as `…`. A command of the program has the exit code.
pub(super) const REFUSED: &[(&str, &str, &str)] = &[
    ("docs/how-to/http.md", "-X DELETE $API/tasks/$TASK", "INVALID_STATE"),
    ("docs/how-to/http.md", "-X DELETE $API/plans/executions/$EXECUTION", "INVALID_STATE"),
    ("docs/how-to/http.md", "$API/plans/executions/$EXECUTION/retry", "INVALID_STATE"),
    ("docs/how-to/http.md", "$API/hitl/$TASK/reject", "ALREADY_DECIDED"),
    ("docs/how-to/http.md", "$API/webhooks/deliveries/$DELIVERY/redeliver", "NOT_FOUND"),
    ("docs/how-to/http.md", "$API/auth/login", "INVALID_CREDENTIALS"),
    ("docs/how-to/http.md", "$API/auth/refresh", "INVALID_TOKEN"),
    ("docs/how-to/http.md", "$API/auth/users", "WEAK_PASSWORD"),
    ("docs/how-to/map.md", "callboard executions retry", "exit 6"),
    // The walk has no file of settings, no such directory, no such customer and no such template.
    ("docs/how-to/operate.md", "doctor --config /etc/callboard", "exit 1"),
    ("docs/how-to/operate.md", "compact --data-dir /var/lib/callboard", "exit 1"),
    ("docs/how-to/operate.md", "--expect 12", "exit 6"),
    ("docs/how-to/operate.md", "templates retire claims-v1", "exit 3"),
    ("docs/how-to/operate.md", "templates latest claims-v1", "exit 3"),
    ("docs/how-to/operate.md", "templates versions claims-v1", "exit 3"),
    ("docs/how-to/operate.md", "executions list --template claims-v1", "exit 3"),
    ("docs/how-to/nightly.md", "$CALLBOARD_SERVER/api/schedules", "NOT_FOUND"),
    // Nothing was reviewed yet.
    ("docs/how-to/threshold.md", "callboard hitl backtest", "exit 1"),
];
