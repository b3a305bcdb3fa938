use super::*;

fn matches(pattern: &str, text: &str) -> Option<bool> {
    matches_as(Syntax::Re2, pattern, text)
}

fn matches_as(syntax: Syntax, pattern: &str, text: &str) -> Option<bool> {
    let pattern = Pattern::compile(syntax, pattern, 1 << 20, |_| true).unwrap();
    let mut fuel = Fuel::new(1_000_000);
    let mut scratch = pattern.scratch(&mut fuel).unwrap();
    pattern.is_match(text, &mut scratch, &mut fuel).ok()
}

#[test]
fn a_pattern_matches_anywhere_in_the_text() {
    for (pattern, text, expected) in [
        ("b+", "abba", true),
        ("^b", "abba", false),
        ("a$", "abba", true),
        ("", "", true),
        ("^$", "", true),
        ("x", "", false),
        (r"^\d{4}-\d{2}$", "2024-05", true),
        (r"\bword\b", "a word here", true),
        (r"\bword\b", "ä word hëre", true),
        (r"\bword\b", "ä sword hëre", false),
        ("(?i)ÄPFEL", "drei äpfel", true),
    ] {
        assert_eq!(matches(pattern, text), Some(expected), "{pattern} in {text}");
    }
    let long = format!("{}b", "a".repeat(100_000));
    assert_eq!(matches("^(a+)+$", &long), Some(false));
}

#[test]
fn a_pattern_that_builds_state_after_state_runs_out_of_fuel() {
    let mut chance = 1_u32;
    let mut letter = || {
        chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if chance >> 31 == 0 { 'a' } else { 'b' }
    };
    let text: String = (0..1 << 20).map(|_| letter()).collect();
    assert_eq!(matches("[ab]*a[ab]{60}c", &text), None);
    assert_eq!(matches(r"\b[ab]*a[ab]{60}c\b", &format!("{text}ä")), None);
}

#[test]
fn equal_patterns_are_compiled_once_and_all_share_a_budget() {
    let mut patterns = Patterns::with_budget(100_000);
    let first = patterns.compile(r"\w{2}", 100_000).unwrap();
    let again = patterns.compile(r"\w{2}", 100_000).unwrap();
    assert!(Arc::ptr_eq(&first, &again));
    assert_eq!(patterns.compile("(a{1000}){1000}", 10_000).err(), Some(Invalid::TooLarge));
    assert_eq!(patterns.compile("(", 100_000).err(), Some(Invalid::Syntax));
    let distinct = (0..1_000).map(|n| patterns.compile(&format!(r"\w{{2}}{n}"), 100_000));
    assert!(distinct.filter_map(Result::ok).count() < 20);
}

/// Each takes milliseconds for eight bytes.
const ALL_FOLDED: &str = "(?i)[!-\u{10ffff}]";

#[test]
fn the_translation_of_patterns_has_a_budget() {
    for pattern in [
        ALL_FOLDED.repeat(1_000),
        format!("(?i){}", r"\p{any}".repeat(2_000)),
        format!("(?i){}", r"\w".repeat(8_000)),
        r"\p{any}".repeat(2_000),
        format!("[{}]", ('\u{4e00}'..='\u{6000}').rev().collect::<String>()),
        "a".repeat(MAX_LENGTH + 1),
    ] {
        let work = Parser::new().parse(&pattern).expect("it is a pattern");
        let work = Work::of(&work).characters;
        let compiled = Patterns::with_budget(1 << 20).compile(&pattern, 1 << 18);
        let start: String = pattern.chars().take(20).collect();
        assert_eq!(compiled.err(), Some(Invalid::TooLarge), "{start}");
        assert!(work > TRANSLATION || pattern.len() > MAX_LENGTH, "{start} counts {work}");
    }
    let mut patterns = Patterns::with_budget(1 << 20);
    let all = (0..200).map(|n| patterns.compile(&format!("{ALL_FOLDED}{n}"), 1 << 18));
    assert_eq!(all.flatten().count(), 21, "all together");
}

#[test]
fn what_people_write_is_within_the_budget() {
    for pattern in [
        r"(?i)^[\p{L}\p{N}_ .'-]+$",
        r"(?i)^\w+@\w+\.\w{2,}$",
        r"^[A-Za-zÀ-ÖØ-öø-ÿ' -]+$",
        r"^\+?[0-9 ()-]{7,20}$",
    ] {
        let mut patterns = Patterns::with_budget(1 << 20);
        assert!(patterns.compile(pattern, 1 << 18).is_ok(), "{pattern}");
    }
}

#[test]
fn a_pattern_of_a_schema_is_one_of_ecma_262() {
    for (pattern, text, expected) in [
        (r"^\d+$", "12", true),
        (r"^\d+$", "৪২", false),
        (r"^\D$", "৪", true),
        (r"^\w+$", "é", false),
        (r"^\W$", "é", true),
        (r"^\s\S$", "\u{feff}é", true),
        (r"^\s$", "\u{200b}", false),
        (r"^\cC\ca$", "\u{3}\u{1}", true),
        (r"^[\cC\b]$", "\u{8}", true),
        (r"^\x41\u0042\u{1F600}\ud83d\ude00\0$", "AB😀😀\0", true),
        (r"^\p{Letter}\p{Lu}\P{L}\p{Script=Greek}\p{Nd}$", "éÉ1α৪", true),
        (r"^\p{Emoji_Presentation}+$", "😀🎉", true),
        ("^.$", "😀", true),
        ("^.$", "\u{2028}", false),
        ("^[^]$", "\n", true),
        ("[]", "a", false),
        ("^[a-\\d]+$", "-7a", true),
        ("^[\\w.-]+$", "a-b.c", true),
        ("^[[:alpha:]]$", ":]", true),
        ("^a{,2}]}$", "a{,2}]}", true),
        ("^a{2}b{1,}?c{0,1}$", "aabb", true),
        (r"^\/\-\@\é$", "/-@é", true),
        (r"^(?<year>\d{4})(?:-)\d$", "2024-1", true),
        (r"\bé", "aé", true),
        ("a$", "a\n", false),
        ("a|b|", "x", true),
        // Those of RE2 that ECMA 262 has not.
        ("(?i)ÄPFEL", "drei äpfel", true),
        (r"\A(?P<n>a+)\z", "aa", true),
    ] {
        assert_eq!(matches_as(Syntax::Ecma, pattern, text), Some(expected), "{pattern} in {text}");
    }
}

#[test]
fn a_pattern_looks_ahead_and_behind() {
    let decimal = r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$";
    let mail = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$";
    let duration = r"^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)$";
    for (pattern, text, expected) in [
        (decimal, "-12.50", true),
        (decimal, "+.", false),
        (decimal, "", false),
        (decimal, "1.2.3", false),
        (mail, "a.b+c@example.org", true),
        (mail, "a..b@example.org", false),
        (mail, ".a@example.org", false),
        (mail, "a@example", false),
        (duration, "P1Y2M3DT4H", true),
        (duration, "P3W", true),
        (duration, "P1Y3W", false),
        (duration, "PT", false),
        ("^(?=.*\\d)(?=.*[a-z])(?=.*[A-Z]).{8,}$", "aB345678", true),
        ("^(?=.*\\d)(?=.*[a-z])(?=.*[A-Z]).{8,}$", "aBcdefgh", false),
        ("q(?!u)", "Iraq", true),
        ("q(?!u)", "quit", false),
        ("(?<=\\$)\\d+", "cost $42", true),
        ("(?<=\\$)\\d+", "cost €42", false),
        ("(?<!a)b", "ab", false),
        ("(?<!a)b", "abb", true),
        ("^(?=(?!a).)(?:(?!ab).)*$", "bba", true),
        ("^(?=(?!a).)(?:(?!ab).)*$", "bab", false),
        ("(?=x(?<=ax))x", "ax", true),
        ("(?=x(?<=ax))x", "bx", false),
        ("^(?:(?=a|é)[aé])+$", "aéé", true),
        ("(?!é)$", "é", true),
        ("^(?!é)", "é", false),
        ("(?=$)(?<=^)", "", true),
        ("(?:(?=a))*b", "b", true),
    ] {
        assert_eq!(matches_as(Syntax::Ecma, pattern, text), Some(expected), "{pattern} in {text}");
    }
}

#[test]
fn a_pattern_that_no_automaton_runs_is_refused_by_its_construct() {
    let fault = |pattern: &str| Pattern::compile(Syntax::Ecma, pattern, 1 << 20, |_| true).err();
    for (pattern, construct) in [
        (r"(a)\1", "back-references"),
        (r"(?<n>a)\k<n>", "back-references"),
        ("(?>a)", "atomic groups"),
        ("a++", "possessive quantifiers"),
        (r"a\Z", r"\Z"),
        ("(a)?(?(1)b|c)", "conditions"),
    ] {
        let Some(Invalid::Unsupported(says)) = fault(pattern) else { panic!("{pattern}") };
        assert!(says.starts_with(construct) && says.contains(": write"), "{pattern}: {says}");
    }
    for pattern in
        ["(", ")", "a)", "[a", "[b-a]", "*a", "a{2,1}", r"\", r"\u{110000}", "(?<1>", r"\a(", "(?="]
    {
        assert_eq!(fault(pattern), Some(Invalid::Syntax), "{pattern}");
    }
    for pattern in
        ["(?=a)".repeat(33), "(?=a)".repeat(15), "(".repeat(101), "a{99999999999}".to_owned()]
    {
        assert_eq!(fault(&pattern), Some(Invalid::TooLarge), "{pattern}");
    }
}

/// A backtracking engine would take longer than the age of the universe.
#[test]
fn look_around_over_a_long_text_takes_time_in_proportion_to_it() {
    let pattern = "^(?!(a+)+$)(?=(a|aa)+b)(?:a|a(?=a))*b$";
    let compiled = Pattern::compile(Syntax::Ecma, pattern, 1 << 20, |_| true).expect("it is one");
    let burnt = |length: usize| {
        let mut fuel = Fuel::new(100_000_000);
        let mut scratch = compiled.scratch(&mut fuel).expect("enough");
        let text = format!("{}b", "a".repeat(length));
        assert_eq!(compiled.is_match(&text, &mut scratch, &mut fuel), Ok(true));
        100_000_000 - fuel.left()
    };
    let (short, long) = (burnt(1_000), burnt(10_000));
    assert!(long < 11 * short && long > 9 * short, "{short} {long}");
    let mut little = Fuel::new(10_000);
    let mut scratch = compiled.scratch(&mut little).expect("enough");
    assert_eq!(compiled.is_match(&"a".repeat(10_000), &mut scratch, &mut little), Err(OutOfFuel));
}

proptest::proptest! {
    /// Where both syntaxes mean the same, the simulation and the lazy automaton agree.
    #[test]
    fn a_look_around_that_says_nothing_changes_nothing(
        pattern in r"(a|b|é|\.|\(a\|b\)|\[ab\]|a\*|b\+|é\?|\(ab\)\{1,2\}|\^|\$|\\b){0,6}",
        text in "[abé ]{0,8}",
    ) {
        let plain = matches_as(Syntax::Ecma, &pattern, &text);
        let looking = matches_as(Syntax::Ecma, &format!("(?=){pattern}(?<=)"), &text);
        let behind = matches_as(Syntax::Ecma, &format!("(?={pattern})|(?!)"), &text);
        proptest::prop_assert_eq!(plain, looking, "{} in {}", pattern, text);
        proptest::prop_assert_eq!(plain, behind, "{} in {}", pattern, text);
    }

    #[test]
    fn arbitrary_patterns_never_panic(pattern in r"([\[\](){}|?*+^$.\\<=!:,a-cé0-9-]|\\u|\\p\{L\}|\(\?=|\(\?<!){0,30}", text in "[ab]{0,5}") {
        if let Ok(pattern) = Pattern::compile(Syntax::Ecma, &pattern, 1 << 18, |_| true) {
            let mut fuel = Fuel::new(1_000_000);
            if let Ok(mut scratch) = pattern.scratch(&mut fuel) {
                let _ = pattern.is_match(&text, &mut scratch, &mut fuel);
            }
        }
    }
}

#[test]
fn the_cost_of_a_pattern_is_told_from_its_text() {
    assert!(cost("^[a-z]{1,9}$") < 2_000);
    assert!(cost(ALL_FOLDED) > 1_100_000);
    assert!(cost(r"\w{100}") > 4 * cost(r"\w"));
    let nested = cost("((a{100}){100}){100}");
    assert!(nested > cost("a{100}") + 50_000 && nested < 200_000, "{nested}");
    let refused = cost(&ALL_FOLDED.repeat(1_000));
    assert!(refused < 2 * TRANSLATION, "what is refused unread costs no more: {refused}");
    assert!(cost("(") < 1_000);
    assert!(cost("(?!x)y") > 50_000, "a look-around is not read here");
    assert_eq!(cost(&"a".repeat(MAX_LENGTH + 1)), MAX_LENGTH as u64 + 1);
}
