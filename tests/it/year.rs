//! A year of operating one server, by the commands of the docs, on a machine whose clock is set from date to date.
//!
//! The data directory begins with the rows of an older program (`year/older.py`) and lives through all of it: an
//! upgrade, keys that end, a user who leaves, a leak, rotations, a full disk and a slow one, a lost password, an
//! erasure, a gap of the archive, a restore to the second. After each state `/metrics` is read, and at the end
//! promtool evaluates the alert rules over these figures: each alert fires once, where it should, and ends.
//!
//! From date to date the server is stopped in order and started again, since nothing is removed by age while its time
//! and the machine's disagree; the last chapters set the clock under a running server.

mod alerts;
mod first;
mod fourth;
mod life;
mod second;
mod third;

use life::Year;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_year_of_operating_a_server_loses_nothing_and_each_alert_fires_once() {
    first::start().await;
    let mut year = Year::begin("2026-01-05T17:00:00Z").await;
    first::upgrade(&mut year).await;
    first::old_backup_and_no_worker(&mut year).await;

    second::keys_end(&mut year).await;
    second::failing_model_and_lost_workers(&mut year).await;
    second::rotated_secret_and_dead_webhook(&mut year).await;
    second::many_approvals(&mut year).await;
    second::budget_and_paused_queue(&mut year).await;

    third::user_leaves(&mut year).await;
    third::leak(&mut year).await;
    third::full_disk(&mut year).await;
    third::slow_disk(&mut year).await;
    third::certificate(&mut year).await;

    fourth::lost_password(&mut year).await;
    fourth::erasure(&mut year).await;
    fourth::archive_gap(&mut year).await;
    fourth::restore_to_the_second(&mut year).await;
    fourth::clock_jumps_ahead(&mut year).await;
    fourth::clock_is_set_under_way(&mut year).await;
    year.alerts.each_fired_once_and_ended(year.server.dir.path());
}

#[test]
fn the_guide_says_what_to_do_about_each_alert() {
    let guide = include_str!("../../docs/how-to/monitor.md");
    for alert in alerts::names() {
        assert!(guide.contains(&format!("| `{alert}` |")), "{alert}");
    }
}
