//! The questions about an item, and the meaning of the answers.
//!
//! ```text
//! Taken ─ y ─▶ Menu ─ a ──────────────▶ Comment ─▶ Sure ─ y ─▶ Approve
//!    └── n ─▶ Skip │─ e ─▶ (editor) ───────┘
//!                  │─ r ─▶ Reason ─▶ Retry ─────▶ Sure ─ y ─▶ Reject
//!                  └─ m, s, q
//! ```
//!
//! `q` and `.` lead back to the menu from every question, and only a yes sends a decision.
//! Deliberately absent: the terminal, the server.

use crate::output::escaped;

/// A question to the reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Dialogue {
    /// Another user looks at the item.
    Taken {
        /// The user, and the end of the claim; safe to show.
        words: String,
    },
    /// The action.
    Menu,
    /// The comment on an approval.
    Comment {
        /// The text that replaces the output.
        edit: Option<String>,
    },
    /// The reason of a rejection.
    Reason,
    /// The question: does the model try again?
    Retry {
        /// The reason of the rejection.
        reason: String,
    },
    /// The confirmation of the decision.
    Sure(Decision),
}

/// A decision on an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// The output passes.
    Approve {
        comment: Option<String>,
        /// The text that replaces the output.
        edit: Option<String>,
    },
    /// The output does not pass.
    Reject {
        reason: String,
        /// True if the model tries again.
        retry: bool,
    },
}

/// The consequence of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// The next question.
    Ask(Dialogue),
    /// Show the whole item.
    ShowAll,
    /// Edit the output.
    Edit,
    /// Send the decision.
    Decide(Decision),
    /// Go to the next item.
    Skip,
    /// End the review.
    Quit,
}

impl Dialogue {
    pub(super) fn question(&self) -> String {
        match self {
            Self::Taken { words } => format!("{words}. Review it anyway? [y/N]"),
            Self::Menu => {
                "a approve  e edit and approve  r reject  m show all  s skip  q quit".into()
            }
            Self::Comment { edit: None } => "Comment (may be empty; q goes back)".into(),
            Self::Comment { edit: Some(_) } => {
                "Comment on your change (may be empty; q goes back)".into()
            }
            Self::Reason => "Reason (q goes back)".into(),
            Self::Retry { .. } => {
                "Let the model try again with your reason? [y/N] (q goes back)".into()
            }
            Self::Sure(decision) => format!("{}? [y/N]", decision.words()),
        }
    }

    /// The consequence of an answer to the question.
    pub(super) fn answered(self, answer: &str) -> Next {
        let answer = answer.trim();
        let yes = matches!(answer, "y" | "Y" | "yes");
        let back = Next::Ask(Self::Menu);
        match self {
            Self::Taken { .. } if yes => back,
            Self::Taken { .. } => Next::Skip,
            Self::Menu => match answer {
                "a" => Next::Ask(Self::Comment { edit: None }),
                "e" => Next::Edit,
                "r" => Next::Ask(Self::Reason),
                "m" => Next::ShowAll,
                "s" => Next::Skip,
                "q" => Next::Quit,
                _ => back,
            },
            Self::Sure(decision) if yes => Next::Decide(decision),
            Self::Sure(_) => back,
            Self::Comment { .. } | Self::Reason | Self::Retry { .. } if goes_back(answer) => back,
            Self::Comment { edit } => {
                let comment = (!answer.is_empty()).then(|| answer.to_owned());
                Next::Ask(Self::Sure(Decision::Approve { comment, edit }))
            }
            Self::Reason if answer.is_empty() => back,
            Self::Reason => Next::Ask(Self::Retry { reason: answer.to_owned() }),
            Self::Retry { reason } => {
                Next::Ask(Self::Sure(Decision::Reject { reason, retry: yes }))
            }
        }
    }
}

/// True for the answers that undo a choice; users type them from habit, so they are never a comment
/// or a reason.
fn goes_back(answer: &str) -> bool {
    matches!(answer, "q" | "Q" | ".")
}

impl Decision {
    fn words(&self) -> String {
        match self {
            Self::Approve { comment, edit } => {
                let output = if edit.is_some() { "with your text" } else { "the output as it is" };
                match comment {
                    Some(comment) => format!("Approve {output}, comment \"{}\"", escaped(comment)),
                    None => format!("Approve {output}"),
                }
            }
            Self::Reject { reason, retry } => {
                let then = if *retry { "and try again" } else { "for good" };
                format!("Reject {then}, reason \"{}\"", escaped(reason))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The consequence of these answers, one after the other.
    fn talk(start: Dialogue, answers: &[&str]) -> Next {
        answers.iter().fold(Next::Ask(start), |next, answer| match next {
            Next::Ask(dialogue) => dialogue.answered(answer),
            Next::ShowAll | Next::Edit | Next::Decide(_) | Next::Skip | Next::Quit => {
                panic!("{next:?} asks nothing, and {answer} was said")
            }
        })
    }

    fn approve(comment: Option<&str>, edit: Option<&str>) -> Next {
        let (comment, edit) = (comment.map(Into::into), edit.map(Into::into));
        Next::Decide(Decision::Approve { comment, edit })
    }

    #[test]
    fn a_comment_is_optional_and_a_reason_is_not() {
        assert_eq!(talk(Dialogue::Menu, &["a", "", "y"]), approve(None, None));
        assert_eq!(talk(Dialogue::Menu, &["a", " fine ", "y"]), approve(Some("fine"), None));
        assert_eq!(talk(Dialogue::Menu, &["r", ""]), Next::Ask(Dialogue::Menu));
        let reject = |retry| Next::Decide(Decision::Reject { reason: "wrong".into(), retry });
        assert_eq!(talk(Dialogue::Menu, &["r", "wrong", "y", "y"]), reject(true));
        assert_eq!(talk(Dialogue::Menu, &["r", "wrong", "", "yes"]), reject(false));
    }

    #[test]
    fn nothing_is_decided_without_a_yes_to_the_words_of_the_decision() {
        let comment = || Dialogue::Comment { edit: Some("better".into()) };
        assert_eq!(talk(comment(), &["", "y"]), approve(None, Some("better")));
        for answer in ["", "n", "q", ".", "a"] {
            assert_eq!(talk(comment(), &["fine", answer]), Next::Ask(Dialogue::Menu), "{answer}");
        }
        let asked = |answers: &[&str]| {
            let Next::Ask(dialogue) = talk(Dialogue::Menu, answers) else { panic!("{answers:?}") };
            dialogue.question()
        };
        assert_eq!(asked(&["a", "ok"]), "Approve the output as it is, comment \"ok\"? [y/N]");
        assert_eq!(asked(&["r", "bad", "y"]), "Reject and try again, reason \"bad\"? [y/N]");
    }

    #[test]
    fn every_question_can_be_gone_back_from() {
        for back in ["q", "."] {
            for before in
                [&["a"][..], &["a", "fine"], &["r"], &["r", "wrong"], &["r", "wrong", "y"]]
            {
                let answers = [before, &[back]].concat();
                assert_eq!(
                    talk(Dialogue::Menu, &answers),
                    Next::Ask(Dialogue::Menu),
                    "{answers:?}"
                );
            }
        }
        for answer in ["x", "approve", "", "."] {
            assert_eq!(talk(Dialogue::Menu, &[answer]), Next::Ask(Dialogue::Menu), "{answer}");
        }
        assert_eq!(talk(Dialogue::Menu, &["q"]), Next::Quit);
        let taken = Dialogue::Taken { words: "ann has claimed it".into() };
        for answer in ["", "q", "."] {
            assert_eq!(talk(taken.clone(), &[answer]), Next::Skip);
        }
        assert_eq!(talk(taken, &["y"]), Next::Ask(Dialogue::Menu));
    }
}
