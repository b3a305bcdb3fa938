//! Right and wrong passwords, users that do not exist, and a full queue.

use std::sync::mpsc;

use super::*;

/// As cheap as argon2 goes, so that the tests are about the rules.
fn passwords(cores: usize, waiting: usize) -> Passwords {
    let params = Params::new(8, 1, 1, Some(HASH_BYTES)).expect("within the limits");
    Passwords::with(params, cores, waiting)
}

async fn check(
    passwords: &Passwords,
    password: String,
    hash: Option<PasswordHash>,
) -> Result<(), Error> {
    let slot = passwords.slot().await?;
    passwords.verify(slot, password, hash).await
}

fn text(text: &str) -> String {
    text.to_owned()
}

#[tokio::test]
async fn the_password_that_was_hashed_is_right_and_any_other_is_wrong() {
    let passwords = passwords(1, 1);
    let hash = passwords.hash(text("gravel-otter-9")).await.expect("room");
    let right = check(&passwords, text("gravel-otter-9"), Some(hash.clone()));
    assert_eq!(right.await, Ok(()));
    for wrong in ["", "gravel-otter-", "gravel-otter-9 ", "Gravel-otter-9"] {
        let answer = check(&passwords, text(wrong), Some(hash.clone())).await;
        assert_eq!(answer, Err(Error::InvalidCredentials), "{wrong:?}");
    }
}

#[tokio::test]
async fn two_hashes_of_one_password_differ() {
    let passwords = passwords(1, 1);
    let one = passwords.hash(text("gravel-otter-9")).await;
    assert_ne!(one, passwords.hash(text("gravel-otter-9")).await);
}

#[tokio::test]
async fn the_hash_says_owasps_cost() {
    let hash = Passwords::new().hash(text("gravel-otter-9")).await;
    let hash = hash.expect("room");
    let expected = "$argon2id$v=19$m=19456,t=2,p=1$";
    assert!(hash.as_str().starts_with(expected), "{}", hash.as_str());
}

#[tokio::test]
async fn a_user_that_does_not_exist_is_answered_as_a_wrong_password_is() {
    let passwords = passwords(1, 1);
    let answer = check(&passwords, text("gravel-otter-9"), None).await;
    assert_eq!(answer, Err(Error::InvalidCredentials));
}

#[test]
fn a_user_that_does_not_exist_costs_what_a_real_one_does() {
    let cheap = passwords(1, 1);
    let real = cheap.argon2.hash_password_with_salt(b"x", &[7; SALT_BYTES]);
    let real = real.expect("a hash");
    let dummy = Phc::new(&cheap.dummy).expect("a PHC string");
    assert_eq!(
        (dummy.algorithm, dummy.version, &dummy.params),
        (real.algorithm, real.version, &real.params)
    );
    let lengths = |phc: &Phc| (phc.salt.map(|salt| salt.len()), phc.hash.map(|hash| hash.len()));
    assert_eq!(lengths(&dummy), lengths(&real));
    assert!(self::dummy(&COST).starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
}

#[tokio::test]
async fn a_hash_of_another_cost_is_still_checked() {
    let other = Params::new(16, 2, 1, Some(HASH_BYTES)).expect("within the limits");
    let hash = Passwords::with(other, 1, 1).hash(text("gravel-otter-9")).await;
    let hash = hash.expect("room");
    let passwords = passwords(1, 1);
    let answer = check(&passwords, text("gravel-otter-9"), Some(hash)).await;
    assert_eq!(answer, Ok(()));
}

#[tokio::test]
async fn a_stored_hash_that_cannot_be_read_is_our_fault_and_lets_nobody_in() {
    for stored in ["", "gravel-otter-9", "$argon2id$v=19$m=8,t=1,p=1"] {
        let hash = PasswordHash::new(text(stored));
        let answer = check(&passwords(1, 1), text("gravel-otter-9"), Some(hash)).await;
        assert!(answer.is_err(), "{stored:?}");
    }
}

#[tokio::test]
async fn whoever_finds_the_queue_full_is_turned_away_at_once() {
    let passwords = passwords(1, 1);
    let (release, wait) = mpsc::channel::<()>();
    let (running, waiting) = (passwords.clone(), passwords.clone());
    let running = tokio::spawn(async move { running.slot().await?.run(move || wait.recv()).await });
    while passwords.cores.available_permits() > 0 {
        task::yield_now().await;
    }
    let waiting = tokio::spawn(async move { waiting.hash(text("gravel-otter-9")).await });
    while passwords.places.available_permits() > 0 {
        task::yield_now().await;
    }

    let refused = check(&passwords, text("gravel-otter-9"), None).await;
    assert_eq!(refused, Err(Error::Unavailable(BUSY)));

    release.send(()).expect("the work waits for it");
    assert!(running.await.expect("no panic").is_ok());
    assert!(waiting.await.expect("no panic").is_ok());
    let answer = check(&passwords, text("gravel-otter-9"), None).await;
    assert_eq!(answer, Err(Error::InvalidCredentials));
}

#[tokio::test]
async fn work_whose_caller_left_keeps_its_core_until_it_is_done() {
    let passwords = passwords(1, 1);
    let (release, wait) = mpsc::channel::<()>();
    let leaver = passwords.clone();
    let leaver = tokio::spawn(async move { leaver.slot().await?.run(move || wait.recv()).await });
    while passwords.cores.available_permits() > 0 {
        task::yield_now().await;
    }
    leaver.abort();
    assert!(leaver.await.is_err());
    assert_eq!(passwords.cores.available_permits(), 0);

    release.send(()).expect("the work goes on");
    let answer = check(&passwords, text("gravel-otter-9"), None).await;
    assert_eq!(answer, Err(Error::InvalidCredentials));
}

#[test]
fn hashing_leaves_half_the_cores_to_the_rest() {
    let cores = thread::available_parallelism().expect("the system says so").get();
    assert_eq!(Passwords::new().cores.available_permits(), (cores / 2).max(1));
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_too_long_is_turned_away_and_whoever_leaves_holds_nobody_up() {
    let passwords = passwords(1, 2);
    let held = passwords.slot().await.expect("it is free");
    let leaver = passwords.clone();
    let leaver = tokio::spawn(async move { leaver.slot().await });
    task::yield_now().await;
    let began = tokio::time::Instant::now();
    assert_eq!(passwords.slot().await.err(), Some(Error::Unavailable(BUSY)));
    assert_eq!(began.elapsed(), WAITING);
    leaver.abort();
    assert!(leaver.await.is_err() || began.elapsed() >= WAITING);
    drop(held);
    assert!(passwords.slot().await.is_ok());
    assert_eq!(passwords.places.available_permits(), 3);
}
