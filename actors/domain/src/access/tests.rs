//! The table of permissions (docs/reference/accounts.md), spelled out again, and what follows for a caller.

use super::*;

/// The table, line by line; then the permissions beyond it.
const SPECIFIED: &str = "
    | tasks: create | yes | yes | no | no | no | no |
    | tasks: read | yes | yes | no | yes | yes | no |
    | tasks: cancel | yes | yes | no | no | no | no |
    | tasks: execute | yes | no | no | no | yes | no |
    | plans: create | yes | yes | no | no | no | no |
    | plans: execute | yes | yes | no | no | no | no |
    | plans: read | yes | yes | no | yes | no | no |
    | templates: create | yes | yes | no | no | no | no |
    | templates: read | yes | yes | no | yes | no | no |
    | templates: deploy | yes | yes | no | no | no | no |
    | hitl: approve/reject | yes | yes | yes | no | no | no |
    | hitl: read | yes | yes | yes | yes | no | no |
    | workers: manage | yes | no | no | no | no | no |
    | projects: read | yes | yes | yes | yes | no | no |
    | projects: manage | yes | no | no | no | no | no |
    | projects: manage members | yes | no | no | no | no | no |
    | auth: manage keys | yes | no | no | no | no | no |
    | auth: manage users | yes | no | no | no | no | no |

    | executions: cancel | yes | yes | no | no | no | no |
    | executions: retry | yes | yes | no | no | no | no |
    | executions: signal | yes | yes | no | no | no | no |
    | schedules: manage | yes | yes | no | no | no | no |
    | hitl: read statistics | yes | yes | no | yes | no | no |
    | hitl: extend | yes | yes | no | no | no | no |
    | hitl: claim | yes | yes | yes | no | no | no |
    | templates: delete | yes | yes | no | no | no | no |
    | deliveries: redeliver | yes | yes | no | no | no | no |
    | budgets: read | yes | yes | no | yes | no | no |
    | budgets: manage | yes | no | no | no | no | no |
    | bulk: run | yes | yes | no | no | no | no |
    | bulk: read | yes | yes | no | yes | no | no |
    | batches: run | yes | yes | no | no | no | no |
    | batches: read | yes | yes | no | yes | no | no |
    | batches: delete | yes | no | no | no | no | no |
    | files: read | yes | yes | yes | yes | yes | no |
    | files: manage | yes | yes | no | no | no | no |
    | queues: manage | yes | yes | no | no | no | no |
    | queues: read | yes | yes | no | yes | no | no |
    | executions: read | yes | yes | no | yes | no | no |
    | schedules: read | yes | yes | no | yes | no | no |
    | deliveries: read | yes | yes | no | yes | no | no |
    | workers: read | yes | yes | no | yes | no | no |
    | metrics: read | yes | yes | no | yes | no | no |
    | events: read | yes | yes | yes | yes | no | no |
    | webhooks: read secret | yes | no | no | no | no | no |
    | audit: read | yes | no | no | no | no | no |
    | backups: create | yes | no | no | no | no | yes |
    | backups: read | yes | yes | no | yes | no | yes |
    | tasks: erase texts | yes | no | no | no | no | no |
    | models: read | yes | yes | no | yes | no | no |
    | models: manage | yes | no | no | no | no | no |
    | cluster: manage | yes | no | no | no | no | no |
    | views: manage own | yes | yes | yes | yes | no | no |
    | views: share | yes | yes | no | no | no | no |
";

fn caller(account: Account, role: Role, environment: Environment) -> Caller {
    let name = "ada@example.com".to_owned();
    let (tier, session, expires_at) = (None, None, None);
    let must_change_password = false;
    let queues = Vec::new();
    Caller {
        account,
        name,
        role,
        environment,
        tier,
        queues,
        session,
        must_change_password,
        expires_at,
    }
}

fn user(role: Role) -> Caller {
    let account = Account::User(UserId::from_u128(1 << 10));
    caller(account, role, Environment::LIVE)
}

fn key(role: Role, environment: Environment) -> Caller {
    caller(Account::Key(KeyId::from_u128(1 << 10)), role, environment)
}

#[test]
fn the_table_is_the_one_of_the_specification() {
    let rows: Vec<Vec<&str>> = SPECIFIED
        .lines()
        .map(|line| line.trim().trim_matches('|'))
        .filter(|line| !line.is_empty())
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), Action::ALL.len(), "every action has its line");
    for row in rows {
        let action = Action::ALL
            .iter()
            .find(|action| action.as_str() == row[0])
            .unwrap_or_else(|| panic!("no action {}", row[0]));
        for (role, cell) in Role::ALL.into_iter().zip(&row[1..]) {
            assert_eq!(allows(role, *action), *cell == "yes", "{role}: {action}");
        }
    }
}

#[test]
fn an_admin_may_do_everything() {
    for action in Action::ALL {
        assert!(allows(Role::Admin, action), "{action}");
    }
}

#[test]
fn a_reviewer_reads_decides_and_claims_approvals_reads_files_keeps_views_and_does_nothing_else() {
    let may = |action: &Action| user(Role::Reviewer).may(*action).is_ok();
    let expected = [
        Action::HitlDecide,
        Action::HitlRead,
        Action::ProjectsRead,
        Action::HitlClaim,
        Action::EventsRead,
        Action::FilesRead,
        Action::ViewsManage,
    ];
    assert_eq!(Action::ALL.into_iter().filter(may).collect::<Vec<_>>(), expected);
}

#[test]
fn a_refusal_names_the_role_and_the_action() {
    assert_eq!(user(Role::Viewer).may(Action::TasksRead), Ok(()));
    let refused = user(Role::Viewer).may(Action::TasksCancel);
    let message =
        "the role viewer does not permit tasks: cancel; ask an admin for a role that does";
    assert_eq!(refused, Err(Error::Forbidden(message.to_owned())));
}

#[test]
fn the_sandbox_has_no_accounts_no_metrics_and_no_workers_to_run_whatever_the_role() {
    let closed: Vec<Action> = Action::ALL
        .into_iter()
        .filter(|action| key(Role::Admin, Environment::TEST).may(*action).is_err())
        .collect();
    let expected = [
        Action::TasksExecute,
        Action::WorkersManage,
        Action::ProjectsManage,
        Action::MembersManage,
        Action::KeysManage,
        Action::UsersManage,
        Action::WebhookSecretRead,
        Action::BackupsCreate,
        Action::BackupsRead,
        Action::ClusterManage,
        Action::MetricsRead,
        Action::AuditRead,
        Action::ModelsRead,
        Action::ModelsManage,
        Action::QueuesRead,
        Action::QueuesManage,
        Action::BudgetsRead,
        Action::BudgetsManage,
    ];
    assert_eq!(closed, expected);
}

#[test]
fn a_caller_is_shown_by_its_identifier_and_signs_by_its_name() {
    let user = user(Role::Operator);
    assert_eq!(user.to_string(), user.account.to_string());
    assert_eq!(user.author(), "ada@example.com");
    let mut key = key(Role::Operator, Environment::LIVE);
    key.name = "deploy".to_owned();
    assert_eq!(key.author(), "key:deploy");
}

#[test]
fn a_user_gives_only_what_the_user_may_do() {
    let covered = |giver| Role::ALL.map(|role| covers(giver, role));
    assert_eq!(covered(Role::Admin), [true, true, true, true, true, true]);
    assert_eq!(covered(Role::Operator), [false, true, true, true, false, false]);
    assert_eq!(covered(Role::Reviewer), [false, false, true, false, false, false]);
    assert_eq!(covered(Role::Viewer), [false, false, false, true, false, false]);
    assert_eq!(covered(Role::Worker), [false, false, false, false, true, false]);
    assert_eq!(covered(Role::Backup), [false, false, false, false, false, true]);
}

#[test]
fn a_password_that_must_be_changed_comes_before_every_action() {
    let caller = Caller { must_change_password: true, ..user(Role::Admin) };
    for action in Action::ALL {
        assert_eq!(caller.may(action), Err(Error::PasswordChangeRequired), "{action}");
    }
}

#[test]
fn a_bound_worker_serves_its_own_queues() {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let free = key(Role::Worker, Environment::LIVE);
    assert_eq!((free.is_bound(), free.may_serve(&names(&["a", "b"]))), (false, Ok(())));
    let bound = Caller { queues: names(&["a", "b"]), ..free };
    assert_eq!((bound.is_bound(), bound.may_serve(&names(&["b"]))), (true, Ok(())));
    let message = "queue c is not one of this key's, which are a, b".to_owned();
    assert_eq!(bound.may_serve(&names(&["a", "c", "d"])), Err(Error::Forbidden(message)));
    assert!(bound.may_serve(&names(&["*"])).is_err());
}
