//! The changes of a text, line by line.
//!
//! Deliberately absent: equal lines, and changes within a line.

use std::fmt::Write as _;

use crate::output::escaped;

/// The product of both texts' lines above which moved lines are shown as removed and added.
const MOST_CELLS: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change<'t> {
    Removed(&'t str),
    Added(&'t str),
}

/// The changes from one text to another under the number of the line where they begin, at most
/// `most` lines of them.
pub(super) fn of(before: &str, after: &str, most: usize) -> String {
    let before: Vec<&str> = before.split('\n').collect();
    let after: Vec<&str> = after.split('\n').collect();
    let changes = changes(&before, &after);
    let mut shown = String::new();
    let mut expected = None;
    for (line, change) in changes.iter().take(most) {
        if expected != Some(*line) {
            let _ = writeln!(shown, "line {}:", line + 1);
        }
        let (sign, text) = match change {
            Change::Removed(text) => ('-', text),
            Change::Added(text) => ('+', text),
        };
        // At one place, removed lines come before added ones.
        expected = Some(line + usize::from(matches!(change, Change::Removed(_))));
        let _ = writeln!(shown, "{sign} {}", escaped(text));
    }
    if changes.len() > most {
        let _ = writeln!(shown, "… and {} more lines", changes.len() - most);
    }
    shown
}

/// The changes, each with the line of the old text where it stands.
fn changes<'t>(before: &[&'t str], after: &[&'t str]) -> Vec<(usize, Change<'t>)> {
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let start = before.iter().zip(after).take_while(same).count();
    let (old, new) = (&before[start..], &after[start..]);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
    let (old, new) = (&old[..old.len() - end], &new[..new.len() - end]);

    let mut changes = Vec::new();
    let (mut i, mut j) = (0, 0);
    if old.len().saturating_mul(new.len()) <= MOST_CELLS {
        let kept = kept(old, new);
        while i < old.len() && j < new.len() {
            if old[i] == new[j] {
                (i, j) = (i + 1, j + 1);
            } else if kept[i + 1][j] >= kept[i][j + 1] {
                changes.push((start + i, Change::Removed(old[i])));
                i += 1;
            } else {
                changes.push((start + i, Change::Added(new[j])));
                j += 1;
            }
        }
    }
    changes.extend((i..old.len()).map(|i| (start + i, Change::Removed(old[i]))));
    changes.extend(new[j..].iter().map(|line| (start + old.len(), Change::Added(line))));
    changes
}

/// The number of lines that the rests of two texts have in common, from every pair of lines on.
fn kept(old: &[&str], new: &[&str]) -> Vec<Vec<u32>> {
    let mut kept = vec![vec![0; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            kept[i][j] = if old[i] == new[j] {
                kept[i + 1][j + 1] + 1
            } else {
                kept[i + 1][j].max(kept[i][j + 1])
            };
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_changed_are_shown_and_where_they_stand() {
        let before = "one\ntwo\nthree\nfour\nfive";
        assert_eq!(of(before, before, 9), "");
        let after = "one\n2\nthree\nfour\nfive\nsix";
        assert_eq!(of(before, after, 9), "line 2:\n- two\n+ 2\nline 6:\n+ six\n");
        assert_eq!(of(before, "one\nfive", 9), "line 2:\n- two\n- three\n- four\n");
        assert_eq!(of("a\nb\nc", "x\na\nb\nc", 9), "line 1:\n+ x\n");
        assert_eq!(of("a", "a\n", 9), "line 2:\n+ \n");
    }

    #[test]
    fn a_long_change_is_cut_and_commands_no_terminal() {
        let after = "\u{1b}0\n".repeat(50);
        let shown = of("", &after, 3);
        assert_eq!(shown.lines().count(), 5, "{shown}");
        assert!(shown.ends_with("… and 47 more lines\n"), "{shown}");
        assert!(shown.contains("+ \\u{1b}0\n"), "{shown}");
        let long = |n: usize| vec!["x"; n].join("\n");
        assert!(
            of(&format!("a\n{}", long(3000)), &format!("{}\nb", long(3000)), 9).contains("- a")
        );
    }
}
