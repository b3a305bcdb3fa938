//! What the reader of an item is asked, and what an answer means.
//!
//! ```text
//! Taken ─ y ─▶ Menu ─ a ─────────────────────▶ Comment ─▶ Approve
//!    └── n ─▶ Skip │─ e ─▶ (editor) ─▶ Confirm ─ y ─┘
//!                  │─ r ─▶ Reason ─▶ Retry ─▶ Reject
//!                  └─ m, s, q
//! ```
//!
//! Every question leads back to the menu. Deliberately absent: the terminal, the server.

/// What the reader is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Dialogue {
    /// Somebody else looks at it.
    Taken {
        /// Who, and until when; safe to show.
        words: String,
    },
    /// What is to be done.
    Menu,
    /// What they have to say.
    Comment {
        /// The text that replaces the output.
        edit: Option<String>,
    },
    /// Whether the change is meant.
    Confirm {
        /// The text that replaces the output.
        edit: String,
    },
    /// Why it does not pass.
    Reason,
    /// Whether it is tried again.
    Retry {
        /// Why it does not pass.
        reason: String,
    },
}

/// What follows from an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// The next question.
    Ask(Dialogue),
    /// All of it is to be seen.
    ShowAll,
    /// The output is to be edited.
    Edit,
    /// It passes.
    Approve {
        /// What they have to say.
        comment: Option<String>,
        /// The text that replaces the output.
        edit: Option<String>,
    },
    /// It does not pass.
    Reject {
        /// Why.
        reason: String,
        /// Whether it is tried again.
        retry: bool,
    },
    /// The next item.
    Skip,
    /// The end.
    Quit,
}

impl Dialogue {
    /// The question.
    pub(super) fn question(&self) -> String {
        match self {
            Self::Taken { words } => format!("{words}. Review it anyway? [y/N]"),
            Self::Menu => {
                "a approve  e edit and approve  r reject  m show all  s skip  q quit".into()
            }
            Self::Comment { edit: None } => "Comment (may be empty; . goes back)".into(),
            Self::Comment { edit: Some(_) } => {
                "Comment on your change (may be empty; . goes back)".into()
            }
            Self::Confirm { .. } => "Approve with this text? [y/N]".into(),
            Self::Reason => "Reason (empty goes back)".into(),
            Self::Retry { .. } => {
                "Let the model try again with your reason? [y/N] (. goes back)".into()
            }
        }
    }

    /// What follows from an answer to it.
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
            Self::Confirm { edit } if yes => Next::Ask(Self::Comment { edit: Some(edit) }),
            Self::Confirm { .. } => back,
            Self::Comment { .. } | Self::Retry { .. } if answer == "." => back,
            Self::Comment { edit } => {
                let comment = (!answer.is_empty()).then(|| answer.to_owned());
                Next::Approve { comment, edit }
            }
            Self::Reason if answer.is_empty() => back,
            Self::Reason => Next::Ask(Self::Retry { reason: answer.to_owned() }),
            Self::Retry { reason } => Next::Reject { reason, retry: yes },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a reader gets who gives these answers one after the other.
    fn talk(start: Dialogue, answers: &[&str]) -> Next {
        answers.iter().fold(Next::Ask(start), |next, answer| match next {
            Next::Ask(dialogue) => dialogue.answered(answer),
            Next::ShowAll
            | Next::Edit
            | Next::Approve { .. }
            | Next::Reject { .. }
            | Next::Skip
            | Next::Quit => panic!("{next:?} asks nothing, and {answer} was said"),
        })
    }

    fn approve(comment: Option<&str>, edit: Option<&str>) -> Next {
        Next::Approve { comment: comment.map(Into::into), edit: edit.map(Into::into) }
    }

    #[test]
    fn a_comment_is_optional_and_a_reason_is_not() {
        assert_eq!(talk(Dialogue::Menu, &["a", ""]), approve(None, None));
        assert_eq!(talk(Dialogue::Menu, &["a", " fine "]), approve(Some("fine"), None));
        assert_eq!(talk(Dialogue::Menu, &["r", ""]), Next::Ask(Dialogue::Menu));
        let reject = |retry| Next::Reject { reason: "wrong".into(), retry };
        assert_eq!(talk(Dialogue::Menu, &["r", "wrong", "y"]), reject(true));
        assert_eq!(talk(Dialogue::Menu, &["r", "wrong", ""]), reject(false));
    }

    #[test]
    fn an_edit_is_sent_only_after_a_yes() {
        let confirm = || Dialogue::Confirm { edit: "better".into() };
        assert_eq!(talk(confirm(), &["y", ""]), approve(None, Some("better")));
        assert_eq!(talk(confirm(), &[""]), Next::Ask(Dialogue::Menu));
        assert_eq!(talk(confirm(), &["a"]), Next::Ask(Dialogue::Menu));
    }

    #[test]
    fn whoever_goes_back_or_mistypes_has_decided_nothing() {
        for answers in [&["a", "."][..], &["r", "wrong", "."], &["x"], &["approve"], &[""]] {
            assert_eq!(talk(Dialogue::Menu, answers), Next::Ask(Dialogue::Menu), "{answers:?}");
        }
        let taken = Dialogue::Taken { words: "ann looks at it".into() };
        assert_eq!(talk(taken.clone(), &[""]), Next::Skip);
        assert_eq!(talk(taken, &["y"]), Next::Ask(Dialogue::Menu));
    }
}
