//! Examples at the end of each command's help. A test reads every one with the program's own parser.

use clap::Command;

/// The command line with examples in the help of each command.
pub(super) fn added(command: Command) -> Command {
    command.mut_subcommands(|group| {
        let name = group.get_name().to_owned();
        let group = with(group, &name);
        group.mut_subcommands(|command| {
            let path = format!("{name} {}", command.get_name());
            with(command, &path)
        })
    })
}

fn with(command: Command, path: &str) -> Command {
    match of(path) {
        [] => command,
        examples => {
            let lines: Vec<_> =
                examples.iter().map(|example| format!("  callboard {example}")).collect();
            command.after_help(format!("Examples:\n{}", lines.join("\n")))
        }
    }
}

/// The examples of a command by its path; none for a group of commands.
#[expect(clippy::too_many_lines, reason = "a table")]
fn of(path: &str) -> &'static [&'static str] {
    match path {
        "dev" => &["dev --simulated", "dev --base-url http://127.0.0.1:11434/v1 --model llama3.2"],
        "serve" => &[
            "serve --data-dir /var/lib/callboard",
            "serve --listen 127.0.0.1:8080 --config config/callboard.toml",
            "serve --init --config callboard.toml --data-dir /var/lib/callboard",
            "serve --data-dir ./restored --listen 127.0.0.1:9090 --paused",
        ],
        "pause" => &[
            "pause --all --reason 'costs run away'",
            "pause --all --reason 'upgrade' --submissions refuse",
        ],
        "resume" => &["resume --all"],
        "admin reset" => &[
            "admin reset --data-dir /var/lib/callboard",
            "admin reset --email ada@example.com \\\n      \
             --store postgres://callboard@db.example.com/callboard",
        ],
        "worker" => &[
            "worker --server http://127.0.0.1:8080 --key-file worker.key \\\n      \
             --base-url http://127.0.0.1:11434/v1",
            "worker --key-file worker.key --provider anthropic --queues default,nightly \\\n      \
             --concurrency 8",
        ],
        "tasks submit" => &[
            "tasks submit 'Say hello.' --wait",
            "tasks submit --file invoice.txt --output-schema invoice.json \\\n      \
             --max-tokens 300 --wait --output-only",
            "tasks submit 'Is 91 prime?' --confidence samples --samples 5",
            "tasks submit --function lookup_customer --args '{\"id\": \"c_1\"}' --wait",
        ],
        "tasks list" => &[
            "tasks list --status failed,rejected --limit 50",
            "tasks list --tag import --created-after 2026-11-21T00:00:00Z",
            "tasks list --queue nightly -q",
        ],
        "tasks show" => &[
            "tasks show dt_task_01m7ydfg8h1fvf4c29awjks549",
            "tasks show dt_task_01m7ydfg8h1fvf4c29awjks549 --output-only > answer.txt",
        ],
        "tasks cancel" => &[
            "tasks cancel dt_task_01m7ydfg8h1fvf4c29awjks549",
            "tasks cancel dt_task_01m7ydfg8h1fvf4c29awjks549 -o json",
        ],
        "tasks erase" => &["tasks erase dt_task_01m7ydfg8h1fvf4c29awjks549 \\\n      \
             --reason 'request 4711 of the customer'"],
        "tasks retry" => &[
            "tasks retry dt_task_01m7ydfg8h1fvf4c29awjks549",
            "tasks retry dt_task_01m7ydfg8h1fvf4c29awjks549 --wait",
        ],
        "tasks import" => &[
            "tasks import tasks.jsonl",
            "tasks import questions.csv --state questions.state",
            "tasks import - --as jsonl -o jsonl < batch.jsonl > answers.jsonl",
        ],
        "tasks export" => &[
            "tasks export done.jsonl --status completed --tag nightly",
            "tasks export batch_output.jsonl --as openai --queue batch",
            "tasks export - --as csv > tasks.csv",
        ],
        "tasks batch" => &["tasks batch dt_batch_01m7ydfg8h1fvf4c29awjks549"],
        "tasks wait" => &[
            "tasks wait dt_task_01m7ydfg8h1fvf4c29awjks549 --timeout 5m",
            "tasks wait dt_task_01m7ydfg8h1fvf4c29awjks549 --output-only",
        ],
        "plans create" => &["plans create plan.json", "plans create - < plan.json"],
        "plans list" => &["plans list --tag import", "plans list --search invoice --limit 50"],
        "plans show" => &[
            "plans show dt_plan_01m7ydhr2c7n0k4q8w3e5rtv6p",
            "plans show dt_plan_01m7ydhr2c7n0k4q8w3e5rtv6p -o json",
        ],
        "plans execute" => &[
            "plans execute dt_plan_01m7ydhr2c7n0k4q8w3e5rtv6p --set topic=queues --wait",
            "plans execute dt_plan_01m7ydhr2c7n0k4q8w3e5rtv6p --input input.yaml --dry-run",
        ],
        "executions list" => &[
            "executions list --status running",
            "executions list --template contract-review-v1 --limit 50",
        ],
        "executions show" => &[
            "executions show dt_exec_01m7ydk3p9x6v2m4s8b0c1f77j",
            "executions show dt_exec_01m7ydk3p9x6v2m4s8b0c1f77j -o json",
        ],
        "executions items" => &[
            "executions items dt_exec_01m7ydk3p9x6v2m4s8b0c1f77j extract --status failed",
            "executions items dt_exec_01m7ydk3p9x6v2m4s8b0c1f77j extract \\\n      \
             --limit 100 --offset 100",
        ],
        "executions watch" => &[
            "executions watch dt_exec_01m7ydk3p9x6v2m4s8b0c1f77j",
            "executions watch dt_exec_01m7ydk3p9x6v2m4s8b0c1f77j --timeout 10m -o jsonl",
        ],
        "executions cancel" => &["executions cancel dt_exec_01m7ydk3p9x6v2m4s8b0c1f77j"],
        "executions erase" => &["executions erase dt_exec_01m7ydk3p9x6v2m4s8b0c1f77j \\\n      \
             --reason 'request 4711 of the customer'"],
        "executions signal" => &[
            "executions signal dt_exec_01m7ydk3p9x6v2m4s8b0c1f77j payment --payload paid",
            "executions signal dt_exec_01m7ydk3p9x6v2m4s8b0c1f77j payment \\\n      \
             --json '{\"amount\": 12}'",
        ],
        "executions fork" => &[
            "executions fork dt_exec_01m7ydk3p9x6v2m4s8b0c1f77j --dry-run",
            "executions fork dt_exec_01m7ydk3p9x6v2m4s8b0c1f77j --from-step summary --wait",
        ],
        "executions retry" => &[
            "executions retry dt_exec_01m7ydk3p9x6v2m4s8b0c1f77j",
            "executions retry dt_exec_01m7ydk3p9x6v2m4s8b0c1f77j --wait",
        ],
        "schedules create" => &[
            "schedules create nightly --cron '0 3 * * *' --timezone Europe/Berlin \\\n      \
             --template contract-review-v1 --set contract=@contract.txt",
            "schedules create once --at 2026-12-24T18:00:00Z --prompt 'Write a greeting.'",
        ],
        "schedules list" => &["schedules list", "schedules list --enabled false"],
        "schedules show" => &["schedules show dt_sched_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "schedules runs" => &[
            "schedules runs dt_sched_01m7ydhr2c7n0k4q8w3e5rtv6p",
            "schedules runs dt_sched_01m7ydhr2c7n0k4q8w3e5rtv6p --limit 100 -o jsonl",
        ],
        "schedules pause" => &["schedules pause dt_sched_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "schedules resume" => &["schedules resume dt_sched_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "schedules trigger" => &["schedules trigger dt_sched_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "schedules delete" => &["schedules delete dt_sched_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "templates list" => {
            &["templates list --industry legal", "templates list --search review -o json"]
        }
        "templates show" => &[
            "templates show contract-review-v1",
            "templates show contract-review-v1 --version 1.1.0 -o json",
        ],
        "templates versions" => &["templates versions contract-review-v1"],
        "templates validate" => &[
            "templates validate announcement.yaml",
            "templates validate announcement.yaml --env-allow REGION,STAGE",
        ],
        "templates publish" => {
            &["templates publish announcement.yaml", "templates publish - < announcement.json"]
        }
        "templates latest" => {
            &["templates latest contract-review-v1 1.2.0", "templates latest contract-review-v1"]
        }
        "templates retire" => &["templates retire contract-review-v1 1.3.0"],
        "templates restore" => &["templates restore contract-review-v1 1.3.0"],
        "templates delete" => &[
            "templates delete product-announcement-v1 --version 1.0.0",
            "templates delete product-announcement-v1",
        ],
        "templates deploy" => &[
            "templates deploy contract-review-v1 --sample --dry-run",
            "templates deploy contract-review-v1 --set contract=@contract.txt --wait",
            "templates deploy contract-review-v1 --input input.yaml --max-cost 0.50",
        ],
        "events follow" => &[
            "events follow --events task.completed,task.failed",
            "events follow --execution dt_exec_01m7ydk3p9x6v2m4s8b0c1f77j -o jsonl",
        ],
        "hitl list" => {
            &["hitl list", "hitl list --queue nightly --tag import", "hitl list --decided"]
        }
        "hitl show" => &["hitl show dt_task_01m7ydfg8h1fvf4c29awjks549"],
        "hitl claim" => &["hitl claim dt_task_01m7ydfg8h1fvf4c29awjks549"],
        "hitl release" => &["hitl release dt_task_01m7ydfg8h1fvf4c29awjks549"],
        "hitl assign" => {
            &["hitl assign dt_task_01m7ydfg8h1fvf4c29awjks549 --to usr_01m7ydfg8h1fvf4c29awjks549"]
        }
        "hitl extend" => &[
            "hitl extend dt_task_01m7ydfg8h1fvf4c29awjks549 --for 36h --reason 'Zoe is away until Monday.'",
        ],
        "hitl approve" => &[
            "hitl approve dt_task_01m7ydfg8h1fvf4c29awjks549 --comment 'Checked.'",
            "hitl approve dt_task_01m7ydfg8h1fvf4c29awjks549 --edit",
            "hitl approve dt_task_01m7ydfg8h1fvf4c29awjks549 --output-file final.txt",
        ],
        "hitl reject" => &[
            "hitl reject dt_task_01m7ydfg8h1fvf4c29awjks549 --reason 'Too long.'",
            "hitl reject dt_task_01m7ydfg8h1fvf4c29awjks549 --reason 'Too long.' --retry",
        ],
        "hitl reopen" => &[
            "hitl reopen dt_task_01m7ydfg8h1fvf4c29awjks549",
            "hitl reopen dt_task_01m7ydfg8h1fvf4c29awjks549 --as-correction",
        ],
        "hitl history" => &["hitl history dt_task_01m7ydfg8h1fvf4c29awjks549"],
        "hitl stats" => &["hitl stats", "hitl stats -o json"],
        "hitl verify" => &["hitl verify dt_task_01m7ydfg8h1fvf4c29awjks549", "hitl verify"],
        "hitl backtest" => &[
            "hitl backtest --threshold 0.9",
            "hitl backtest --threshold 0.9 --template contract-review-v1 \\\n      \
             --step analyze-risk",
        ],
        "hitl review" => &["hitl review", "hitl review --mine", "hitl review --queue nightly"],
        "auth login" => &[
            "auth login --server https://callboard.example --email you@example.com",
            "auth login --server https://callboard.example --oidc",
        ],
        "auth setup" => &["auth setup --email you@example.com"],
        "auth logout" => &["auth logout", "auth logout --all"],
        "auth password" => &["auth password"],
        "auth rotate-signing-key" => {
            &["auth rotate-signing-key", "auth rotate-signing-key --overlap 1h"]
        }
        "auth link" => &["auth link"],
        "auth status" => &["auth status", "auth status -o json"],
        "keys create" => &[
            "keys create --name worker --role worker > worker.key",
            "keys create --name ci --role operator --expires-in 30d > ci.key",
        ],
        "keys list" => &["keys list", "keys list --limit 100 -o json"],
        "keys revoke" => &[
            "keys revoke key_01m7ydhr2c7n0k4q8w3e5rtv6p",
            "keys revoke --made-by key_01m7ydhr2c7n0k4q8w3e5rtv6p --dry-run",
            "keys revoke --before 2026-11-21T10:00:00Z --reason 'leaked in a build log' --expect 12",
        ],
        "keys rotate" => &[
            "keys rotate key_01m7ydhr2c7n0k4q8w3e5rtv6p > worker.key",
            "keys rotate key_01m7ydhr2c7n0k4q8w3e5rtv6p --overlap 1h > worker.key",
        ],
        "users list" => &["users list", "users list --limit 100 -o json"],
        "users create" => &["users create ann@example.com --role operator --name Ann"],
        "users invite" => &[
            "users invite ann@example.com --role reviewer",
            "users invite --role viewer --expires-in 1d -o json",
        ],
        "users invitations" => &["users invitations"],
        "users uninvite" => &["users uninvite inv_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "users must-change" => &["users must-change ann@example.com"],
        "users role" => &["users role ann@example.com viewer"],
        "users plan" => &["users plan ann@example.com pro"],
        "users password" => &["users password ann@example.com"],
        "users delete" => &[
            "users delete ann@example.com",
            "users delete ann@example.com --hand-over-to bob@example.com",
        ],
        "sessions list" => &["sessions list", "sessions list --user ann@example.com"],
        "sessions end" => &["sessions end ses_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "audit list" => &[
            "audit list --since 2026-11-21T00:00:00Z",
            "audit list --action key.created,key.revoked --limit 100",
        ],
        "audit verify" => &["audit verify", "audit verify -o json"],
        "backup init" => &[
            "backup init --in /var/backups/callboard",
            "backup init --archive /mnt/other-disk/callboard-journal",
        ],
        "backup status" => &["backup status", "backup status -o json"],
        "backup create" => &[
            "backup create --in /var/backups/callboard",
            "backup create --in /var/backups/callboard --data-dir ./callboard-data",
        ],
        "backup list" => &[
            "backup list --in /var/backups/callboard",
            "backup list --in /var/backups/callboard -o json",
        ],
        "backup verify" => &[
            "backup verify --in /var/backups/callboard",
            "backup verify 20260131T120000.000Z --in /var/backups/callboard --quick",
        ],
        "storage" => &["storage", "storage -o json"],
        "backup restore" => &[
            "backup restore --in /var/backups/callboard --data-dir ./restored",
            "backup restore --in /var/backups/callboard --data-dir ./restored \\\n      \
             --archive /var/backups/callboard-journal --until 2026-01-31T12:00:00Z",
        ],
        "backup prune" => &[
            "backup prune --in /var/backups/callboard --keep 30",
            "backup prune --in /var/backups/callboard --keep-daily 7 --keep-weekly 4 --keep-monthly 12",
            "backup prune --in /var/backups/callboard --keep 30 \\\n      \
             --archive /var/backups/callboard-journal",
        ],
        "cells list" => &["cells list"],
        "cells add" => {
            &["cells add berlin --node https://b1.example.com --node https://b2.example.com"]
        }
        "cells remove" => &["cells remove berlin"],
        "cluster status" => &["cluster status", "cluster status -o json"],
        "cluster drain" => &[
            "cluster drain 5b0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e",
            "cluster drain 5b0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e --undo",
        ],
        "webhooks list" => &[
            "webhooks list --status dead",
            "webhooks list --task dt_task_01m7ydfg8h1fvf4c29awjks549",
        ],
        "webhooks redeliver" => &["webhooks redeliver dlv_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "webhooks rotate-secret" => &["webhooks rotate-secret --overlap 7d"],
        "webhooks secret" => &["webhooks secret > webhook.secret"],
        "projects list" => &["projects list"],
        "projects figures" => &["projects figures"],
        "projects create" => &["projects create search --description 'The search team'"],
        "projects show" => &["projects show search"],
        "projects set" => &["projects set search --name retrieval"],
        "projects archive" => &["projects archive search"],
        "projects unarchive" => &["projects unarchive search"],
        "projects delete" => &["projects delete search --confirm search"],
        "projects move" => &["projects move search --to berlin"],
        "projects stay" => &["projects stay search"],
        "projects members" => &["projects members search"],
        "projects join" => &["projects join search ada@example.com --role operator"],
        "projects leave" => &["projects leave search ada@example.com"],
        "budgets create" => &[
            "budgets create 50 --period month --tag team:search --on-exceed reject",
            "budgets create 5 --period day --model gpt-4.1 --alert-at 0.5,0.9",
        ],
        "budgets list" => &["budgets list"],
        "budgets show" => &["budgets show bdg_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "budgets set" => &["budgets set bdg_01m7ydhr2c7n0k4q8w3e5rtv6p --limit 80"],
        "budgets delete" => &["budgets delete bdg_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "usage" => &["usage --group-by tag", "usage --group-by day --from 2026-11-01T00:00:00Z"],
        "files upload" => {
            &["files upload scan.pdf", "files upload photo.jpg --name front.jpg -o json"]
        }
        "files list" => &["files list", "files list --limit 100 -o jsonl"],
        "files show" => &["files show file_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "files download" => &[
            "files download file_01m7ydhr2c7n0k4q8w3e5rtv6p --to scan.pdf",
            "files download file_01m7ydhr2c7n0k4q8w3e5rtv6p > scan.pdf",
        ],
        "files delete" => &["files delete file_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "batches create" => &[
            "batches create mails.csv --template classify --key id --watch",
            "batches create rows.jsonl --template classify@1.2.0 --concurrency 20 --max-cost 5",
        ],
        "batches list" => &["batches list", "batches list --status running -o json"],
        "batches show" => &["batches show bat_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "batches watch" => &["batches watch bat_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "batches rows" => &[
            "batches rows bat_01m7ydhr2c7n0k4q8w3e5rtv6p --status failed",
            "batches rows bat_01m7ydhr2c7n0k4q8w3e5rtv6p --limit 100 -o jsonl",
        ],
        "batches export" => &[
            "batches export bat_01m7ydhr2c7n0k4q8w3e5rtv6p -o csv > result.csv",
            "batches export bat_01m7ydhr2c7n0k4q8w3e5rtv6p -o jsonl --columns key,output",
        ],
        "batches pause" => &["batches pause bat_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "batches resume" => &["batches resume bat_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "batches cancel" => &["batches cancel bat_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "batches compare" => &[
            "batches compare bat_01m7ydhr2c7n0k4q8w3e5rtv6p bat_01m7ydk3v9f2s6d1x0a8g7h5jm",
            "batches compare bat_01m7ydhr2c7n0k4q8w3e5rtv6p bat_01m7ydk3v9f2s6d1x0a8g7h5jm --fields category",
        ],
        "batches estimate" => &["batches estimate bat_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "batches review" => {
            &["batches review bat_01m7ydhr2c7n0k4q8w3e5rtv6p --step classify --top 40"]
        }
        "batches retry" => &[
            "batches retry bat_01m7ydhr2c7n0k4q8w3e5rtv6p --watch",
            "batches retry bat_01m7ydhr2c7n0k4q8w3e5rtv6p --code PROVIDER_ERROR,WORKER_LOST",
        ],
        "batches delete" => &["batches delete bat_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "bulk cancel" => &[
            "bulk cancel --queue nightly --status pending --dry-run",
            "bulk cancel --queue nightly --status pending --expect 120 --wait",
            "bulk cancel --of executions --template contract-review-v1 --version 2.1.0 --dry-run",
        ],
        "bulk retry" => &[
            "bulk retry --status failed --tag import --dry-run",
            "bulk retry --status failed --tag import --expect 12 --wait",
        ],
        "bulk reject" => {
            &["bulk reject --reason \"Superseded by the new prompt\" --tag import --dry-run"]
        }
        "bulk erase" => &[
            "bulk erase --tag customer-7 --reason 'request 4711' --dry-run",
            "bulk erase --tag customer-7 --reason 'request 4711' --expect 12 --wait",
        ],
        "bulk reprioritize" => &["bulk reprioritize 9 --tag urgent --status pending"],
        "bulk show" => &["bulk show blk_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "bulk stop" => &["bulk stop blk_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "bulk list" => &["bulk list", "bulk list --limit 100 -o json"],
        "search" => &["search müller 10241", "search refund --kind step --days 7 -o json"],
        "queues list" => &["queues list", "queues list -o json"],
        "queues pause" => &["queues pause nightly"],
        "queues resume" => &["queues resume nightly"],
        "queues limit" => &[
            "queues limit nightly --concurrent 4 --requests-per-minute 60",
            "queues limit nightly --concurrent 0",
        ],
        "queues purge" => &["queues purge nightly --dry-run", "queues purge nightly --expect 120"],
        "workers list" => &["workers list", "workers list -o json"],
        "workers drain" => &["workers drain wrk_01m7ydhr2c7n0k4q8w3e5rtv6p"],
        "functions list" => &["functions list", "functions list -o json"],
        "models list" => &["models list", "models list -o json"],
        "models limit" => &[
            "models limit gpt-4.1 --requests 500 --tokens 30000",
            "models limit llama3.2 --concurrent 4",
        ],
        "models resume" => &["models resume gpt-4.1"],
        "mcp" => &["mcp", "mcp --expose contract-review-v1 --api-key-file assistant.key"],
        "health" => &["health", "health --server https://callboard.example -o json"],
        "doctor" => &[
            "doctor",
            "doctor --base-url http://127.0.0.1:11434/v1 --models llama3.2",
            "doctor --server https://callboard.example -o json",
            "doctor --config /etc/callboard/callboard.toml",
        ],
        "support-bundle" => &[
            "support-bundle --config /etc/callboard/callboard.toml",
            "support-bundle --data-dir ./callboard-data --log callboard.log --to bundle.json",
        ],
        "upgrade" => &[
            "upgrade --check --data-dir /var/lib/callboard",
            "upgrade --check --config /etc/callboard/callboard.toml",
        ],
        "compact" => &["compact --data-dir ./callboard-data"],
        "completions" => &[
            "completions bash > ~/.local/share/bash-completion/completions/callboard",
            "completions zsh > ~/.zfunc/_callboard",
            "completions fish > ~/.config/fish/completions/callboard.fish",
        ],
        _ => &[],
    }
}
