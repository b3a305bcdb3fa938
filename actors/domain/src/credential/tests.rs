//! Keys of every kind, and every way in which a text fails to be one.

use proptest::prelude::*;

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const USER: UserId = UserId::from_u128(7 << 10);

/// A fixed stream of pseudo-random bytes (xorshift64*), so that a failure repeats.
pub(super) fn entropy(seed: u64) -> [u8; ENTROPY_BYTES] {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::array::from_fn(|_| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_be_bytes()[0]
    })
}

fn minted(kind: Kind, seed: u64) -> Secret {
    let seeds = (0..).map(|more| seed.wrapping_add(more));
    let mut minted = seeds.filter_map(|seed| mint(kind, 0, &entropy(seed)));
    minted.next().expect("nearly all of them can be used")
}

fn record() -> ApiKey {
    let secret = minted(Kind::Live, 1);
    ApiKey {
        id: KeyId::from_u128(1 << 10),
        name: "deploy".to_owned(),
        role: Role::Operator,
        environment: Environment::LIVE,
        tier: None,
        queues: Vec::new(),
        digest: secret.digest(),
        prefix: Kind::Live.prefix().to_owned(),
        last4: secret.last4().to_owned(),
        created_at: NOW,
        expires_at: NOW.after(DEFAULT_LIFETIME),
        revoked_at: None,
        created_by: Some(Account::User(USER)),
        user: Some(USER),
    }
}

#[test]
fn a_key_of_known_bytes_has_a_known_text() {
    let bytes = std::array::from_fn(|place| u8::try_from(place).expect("below 64"));
    let secret = mint(Kind::Live, 0, &bytes).expect("enough");
    let expected = "svc_live_0123456789ABCDEFGHIJKLMNOPQRSTUV1ggZdL";
    assert_eq!(secret.expose(), expected);
    assert_eq!(secret.last4(), "gZdL");
}

#[test]
fn a_key_names_its_project_and_a_key_of_default_names_none() {
    for seed in 0..2_000 {
        let bytes = entropy(seed);
        if let Some(own) = mint(Kind::Live, 0, &bytes) {
            assert_eq!(project_named(own.expose()), None);
        }
        let number = u32::try_from(seed).unwrap() * 119 + 1;
        let secret = mint(Kind::Worker, number, &bytes).expect("enough");
        assert_eq!(project_named(secret.expose()), Some(number), "{seed}");
        assert!(parse(secret.expose()).is_ok(), "{seed}");
        assert_eq!(secret.expose().len(), "svc_worker_".len() + SECRET_LEN + CHECKSUM_LEN);
    }
    let last = mint(Kind::Test, MAX_PROJECT, &entropy(1)).expect("enough");
    assert_eq!(project_named(last.expose()), Some(MAX_PROJECT));
    assert_eq!(project_named("svc_live_0123456789ABCDEFGHIJKLMNOPQRSTUV1ggZdL"), None);
    assert_eq!(project_named("no key"), None);
}

#[test]
fn a_checksum_is_padded_with_zeros() {
    // The empty text has the CRC-32 0, the digits one to nine 0xcbf43926, its check value. Both
    // texts were worked out apart from this code.
    assert_eq!(checksum(""), "000000");
    assert_eq!(checksum("123456789"), "3jZRME");
}

#[test]
fn bytes_that_stand_for_no_character_are_skipped_and_too_few_make_no_key() {
    assert_eq!(mint(Kind::Live, 0, &[0xff; ENTROPY_BYTES]), None);
    let mut bytes = [62; ENTROPY_BYTES];
    bytes[32..].fill(61);
    let secret = mint(Kind::Test, 0, &bytes).expect("32 are left");
    assert_eq!(&secret.expose()[9..41], "z".repeat(32));
    bytes[63] = 63;
    assert_eq!(mint(Kind::Test, 0, &bytes), None);
}

#[test]
fn no_character_is_likelier_than_another() {
    let mut counts = [0_u32; 62];
    for seed in 0..4_000 {
        for byte in minted(Kind::Live, seed).expose()[9..41].bytes() {
            let place = ALPHABET.iter().position(|one| *one == byte);
            counts[place.expect("base62")] += 1;
        }
    }
    let expected = 4_000.0 * 32.0 / 62.0;
    let chi_square: f64 =
        counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
    // 61 degrees of freedom: above 110 has a chance of 1 in 10,000. Taking a byte modulo 62
    // would give about 4,000.
    assert!(chi_square < 110.0, "{chi_square}");
}

#[test]
fn another_prefix_length_alphabet_or_checksum_is_malformed() {
    let live = minted(Kind::Live, 7).expose().to_owned();
    let body = &live[9..];
    let swapped = format!("svc_live_{}{}", &body[1..], &body[..1]);
    for text in [
        String::new(),
        "svc_live_".to_owned(),
        body.to_owned(),
        format!("svc_refresh_{body}"),
        format!("SVC_LIVE_{body}"),
        format!("svc_live_svc_live_{body}"),
        format!(" {live}"),
        format!("{live} "),
        format!("{live}0"),
        live[..live.len() - 1].to_owned(),
        swapped,
        format!("svc_live_{}é{}", &body[..10], &body[12..]),
        format!("svc_live_{}-{}", &body[..10], &body[11..]),
    ] {
        assert!(matches!(parse(&text), Err(Error::InvalidToken(_))), "{text}");
    }
}

#[test]
fn the_kind_follows_from_role_and_environment() {
    use Mode::{Live, Test};
    for (role, mode, kind) in [
        (Role::Admin, Live, Some(Kind::Live)),
        (Role::Operator, Live, Some(Kind::Live)),
        (Role::Reviewer, Live, Some(Kind::Live)),
        (Role::Viewer, Live, Some(Kind::Live)),
        (Role::Worker, Live, Some(Kind::Worker)),
        (Role::Admin, Test, None),
        (Role::Operator, Test, Some(Kind::Test)),
        (Role::Reviewer, Test, Some(Kind::Test)),
        (Role::Viewer, Test, Some(Kind::Test)),
        (Role::Worker, Test, None),
    ] {
        assert_eq!(Kind::of(role, mode).ok(), kind, "{role} {mode:?}");
    }
}

#[test]
fn a_key_is_valid_until_it_expires_or_is_revoked() {
    let key = record();
    assert_eq!(key.check(NOW), Ok(()));
    let last = Timestamp::from_millis(key.expires_at.as_millis() - 1);
    assert_eq!(key.check(last), Ok(()));
    assert_eq!(key.check(key.expires_at), Err(Error::TokenExpired("API key")));

    let later = NOW.after(Duration::from_hours(1));
    let rotated = key.revoked(later);
    assert_eq!(rotated.check(NOW), Ok(()));
    assert!(matches!(rotated.check(later), Err(Error::InvalidToken(_))));
    let revoked = rotated.revoked(NOW);
    assert!(matches!(revoked.check(NOW), Err(Error::InvalidToken(_))));
    assert_eq!(revoked.clone().revoked(later), revoked, "the earlier one stands");
}

#[test]
fn a_key_is_rotated_once_and_only_while_it_is_active() {
    let (key, later) = (record(), NOW.after(Duration::from_hours(1)));
    assert_eq!(key.check_rotation(NOW), Ok(()));
    assert_eq!(key.lifetime(), DEFAULT_LIFETIME);
    assert_eq!(key.ends_at(), key.expires_at);
    let overlapping = key.clone().revoked(later);
    assert_eq!((overlapping.status(NOW), overlapping.ends_at()), (KeyStatus::Active, later));
    for (key, at, state) in [
        (&overlapping, NOW, "already rotated"),
        (&overlapping, later, "revoked"),
        (&key, key.expires_at, "expired"),
    ] {
        let message = format!("key {} is {state} and cannot be rotated: create a new key", key.id);
        assert_eq!(key.check_rotation(at), Err(Error::InvalidState(message)));
    }
}

#[test]
fn a_key_ends_with_the_right_of_its_user_to_give_its_role() {
    let key = |role| ApiKey { role, ..record() };
    let ends = |role| Role::ALL.map(|of| key(of).ends_with(USER, role));
    assert_eq!(ends(Some(Role::Admin)), [false; 6]);
    assert_eq!(ends(Some(Role::Operator)), [true, false, false, false, true, true]);
    assert_eq!(ends(Some(Role::Viewer)), [true, true, true, false, true, true]);
    assert_eq!(ends(None), [true; 6]);
    assert!(!key(Role::Admin).ends_with(UserId::from_u128(8 << 10), None), "another user's");
    assert!(!ApiKey { user: None, ..record() }.ends_with(USER, None), "nobody's");
}

#[test]
fn a_key_of_a_row_without_a_maker_is_nobodys() {
    let mut row = serde_json::to_value(record()).expect("JSON");
    let members = row.as_object_mut().expect("an object");
    members.remove("created_by").expect("it was there");
    members.remove("user").expect("it was there");
    let key: ApiKey = serde_json::from_value(row).expect("an old row");
    assert_eq!(key, ApiKey { created_by: None, user: None, ..record() });
}

#[test]
fn a_lifetime_is_a_whole_number_of_days() {
    assert_eq!(lifetime("1d"), Ok(Duration::from_hours(24)));
    assert_eq!(lifetime("90d"), Ok(DEFAULT_LIFETIME));
    assert_eq!(lifetime("36500d"), Ok(Duration::from_hours(36_500 * 24)));
    for (text, rule) in [
        ("0d", Rule::Range),
        ("36501d", Rule::Range),
        ("99999999999999999999999d", Rule::Range),
        ("", Rule::Format),
        ("d", Rule::Format),
        ("90", Rule::Format),
        ("-1d", Rule::Format),
        ("+1d", Rule::Format),
        ("1.5d", Rule::Format),
        ("01d", Rule::Format),
        (" 1d", Rule::Format),
        ("1D", Rule::Format),
        ("1h", Rule::Format),
        ("\u{661}d", Rule::Format),
    ] {
        let refused = lifetime(text);
        assert!(matches!(refused, Err(Error::Invalid(fault)) if fault.rule == rule), "{text}");
    }
}

#[test]
fn an_overlap_is_a_duration_with_a_unit() {
    assert_eq!(overlap("0s"), Ok(Duration::ZERO));
    assert_eq!(overlap("90s"), Ok(Duration::from_secs(90)));
    assert_eq!(overlap("15m"), Ok(Duration::from_mins(15)));
    assert_eq!(overlap("1h"), Ok(Duration::from_hours(1)));
    assert_eq!(overlap("7d"), Ok(Duration::from_hours(168)));
    for text in ["", "1", "h", "1w", "-1h", "1 h", "1ё", "36501d", "99999999999999999999h"] {
        assert!(matches!(overlap(text), Err(Error::Invalid(_))), "{text}");
    }
}

#[test]
fn a_stored_key_reads_back_and_holds_no_secret() {
    let key = record().revoked(NOW);
    let text = serde_json::to_string(&key).expect("a record is JSON");
    assert_eq!(serde_json::from_str::<ApiKey>(&text).expect("its own text"), key);
    let secret = minted(Kind::Live, 1);
    assert!(!text.contains(&secret.expose()[9..41]));
    assert_eq!(format!("{secret:?}"), "Secret(…)");
    assert!(serde_json::from_str::<Digest>("\"abc\"").is_err());
}

proptest! {
    #[test]
    fn a_minted_key_is_parsed_back(seed in any::<u64>(), kind in 0..3_usize) {
        let kind = Kind::ALL[kind];
        let secret = minted(kind, seed);
        prop_assert_eq!(parse(secret.expose()), Ok((kind, secret.digest())));
        prop_assert!(secret.expose().ends_with(secret.last4()));
        prop_assert!(has_service_prefix(secret.expose()));
    }

    #[test]
    fn every_change_of_a_single_character_is_noticed(
        seed in any::<u64>(), place in 0..38_usize, other in 0..62_usize,
    ) {
        let text = minted(Kind::Live, seed).expose().to_owned();
        let mut changed = text.clone().into_bytes();
        changed[9 + place] = ALPHABET[other];
        let changed = String::from_utf8(changed).expect("ASCII");
        prop_assert_eq!(parse(&changed).is_ok(), changed == text);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,60}", tail in "[0-9A-Za-z_é]{0,50}") {
        let _ = parse(&text);
        let _ = parse(&format!("svc_live_{tail}"));
        let _ = lifetime(&text);
        let _ = overlap(&text);
    }
}

#[test]
fn a_key_that_ends_has_a_notice_two_weeks_and_three_days_before() {
    let day = Duration::from_hours(24);
    let key = ApiKey { expires_at: NOW.after(90 * day), ..record() };
    let at = |days: u32| key.notice(NOW.after(days * day));
    assert_eq!((at(0), at(75)), (None, None));
    let first = Some(NOW.after(76 * day));
    assert_eq!([at(76), at(77), at(86)], [first; 3]);
    let second = Some(NOW.after(87 * day));
    assert_eq!([at(87), at(89)], [second; 2]);
    assert_eq!([at(90), at(91)], [None; 2], "it has ended");
}

#[test]
fn a_key_has_no_notice_that_is_older_than_the_key_nor_one_after_its_revocation() {
    let day = Duration::from_hours(24);
    let week = ApiKey { expires_at: NOW.after(7 * day), ..record() };
    assert_eq!(week.notice(NOW), None);
    assert_eq!(week.notice(NOW.after(5 * day)), Some(NOW.after(4 * day)));
    let brief = ApiKey { expires_at: NOW.after(3 * day), ..record() };
    assert_eq!(brief.notice(NOW.after(day)), None);
    let rotated = ApiKey { expires_at: NOW.after(7 * day), ..record() }.revoked(NOW.after(6 * day));
    assert_eq!(rotated.notice(NOW.after(5 * day)), None);
}
