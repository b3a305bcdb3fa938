use super::*;

fn shown(excerpts: &Excerpts<usize>, count: usize) -> Vec<(usize, bool)> {
    (0..count).map(|key| (excerpts[&key].len(), excerpts.is_cut(&key))).collect()
}

fn of(budget: usize, lengths: &[usize]) -> Excerpts<usize> {
    let mut excerpts = Excerpts::within(budget);
    for (key, length) in lengths.iter().enumerate() {
        excerpts.insert(key, "x".repeat(*length));
        assert!(excerpts.bytes <= budget);
    }
    excerpts
}

#[test]
fn texts_that_fit_are_whole() {
    assert_eq!(shown(&of(10, &[3, 7]), 2), [(3, false), (7, false)]);
    assert_eq!(shown(&of(0, &[0]), 1), [(0, false)]);
}

#[test]
fn the_longest_texts_are_cut_at_one_level_in_any_order() {
    let whole = |length| (length, false);
    assert_eq!(shown(&of(14, &[3, 9, 1, 7]), 4), [whole(3), (5, true), whole(1), (5, true)]);
    assert_eq!(shown(&of(14, &[9, 7, 3, 1]), 4), [(5, true), (5, true), whole(3), whole(1)]);
    assert_eq!(shown(&of(14, &[1, 3, 7, 9]), 4), [whole(1), whole(3), (5, true), (5, true)]);
}

#[test]
fn a_text_is_cut_between_characters() {
    let mut excerpts = Excerpts::within(5);
    excerpts.insert(0, "äöü".to_owned());
    assert_eq!((excerpts.get(&0), excerpts.is_cut(&0)), (Some("äö"), true));
}

#[test]
fn a_text_takes_the_place_of_the_one_before() {
    let mut excerpts = of(10, &[4, 6]);
    excerpts.insert(0, "y".repeat(3));
    assert_eq!(shown(&excerpts, 2), [(3, false), (6, false)]);
    assert_eq!(excerpts.bytes, 9);
    excerpts.insert(0, "y".repeat(30));
    assert_eq!(shown(&excerpts, 2), [(5, true), (5, true)]);
    excerpts.insert(0, "y".repeat(2));
    assert_eq!(shown(&excerpts, 2), [(2, false), (5, true)]);
}
