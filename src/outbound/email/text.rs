//! The texts of mails.
//!
//! Deliberately absent: the output and the prompt, which may be confidential and are shown only to
//! a signed-in user, and links with an effect, because mail scanners open every link.

use callboard_domain::Timestamp;
use callboard_domain::access::Role;
use callboard_domain::approval::MailCause;
use callboard_domain::task::HoldReason;
use callboard_runtime::ports::{KeyEndMail, ReviewerMail};

use super::LinkMail;

/// The subject, which names the waiting item.
pub(super) fn subject(letter: &ReviewerMail) -> String {
    match &letter.title {
        Some(title) => format!("Review: {} ({})", one_line(title), waiting(letter)),
        None => format!("Review: {}", waiting(letter)),
    }
}

/// The text, with the address of the page that shows the item.
pub(super) fn body(letter: &ReviewerMail, link: &str) -> String {
    let ReviewerMail { task, since, expires_at, .. } = letter;
    let mut text = format!(
        "Hello {},\n\n\
         the output of {} waits for a decision.\n{}\n\n\
         Why it is held: {}\n\
         Waiting since:  {}\n\
         Decide by:      {}\n\n\
         {link}\n\n\
         The link only shows the item and decides nothing.\n\n\
         Task:      {task}\n",
        one_line(&letter.name),
        waiting(letter),
        cause(letter.cause),
        held(letter),
        shown(*since),
        shown(*expires_at),
    );
    if let Some(title) = &letter.title {
        text = format!("{text}Title:     {}\n", one_line(title));
    }
    if let Some((execution, _)) = &letter.step {
        text = format!("{text}Execution: {execution}\n");
    }
    text
}

/// The subject of a mail about a key that ends soon.
pub(super) fn key_end_subject(letter: &KeyEndMail) -> String {
    format!("API key {} ends in {}", one_line(&letter.key_name), left(letter))
}

/// The text of a mail about a key that ends soon, with the address of the page of all keys.
pub(super) fn key_end(letter: &KeyEndMail, link: &str) -> String {
    let KeyEndMail { key, role, ends_at, last_used_at, .. } = letter;
    format!(
        "Hello {},\n\n\
         the API key {} ends in {}. From then on the server refuses it, and each program that uses it \
         stops.\n\n\
         Make its successor, and give it to these programs. The old key stays valid for another day:\n\n    \
         callboard keys rotate {key} --overlap 1d\n\n\
         Or open the page of all keys:\n\n\
         {link}\n\n\
         If nothing uses the key any more, you need not do anything.\n\n\
         Key:       {key}\n\
         Role:      {}\n\
         Ends:      {}\n\
         Last used: {}\n",
        one_line(&letter.name),
        one_line(&letter.key_name),
        left(letter),
        role.as_str(),
        shown(*ends_at),
        last_used_at.map_or_else(|| "never".to_owned(), shown),
    )
}

/// The time until the end of the key, in whole days, or in hours on the last two.
fn left(letter: &KeyEndMail) -> String {
    let hours = letter.ends_at.since(letter.now).as_secs().div_ceil(3_600);
    match hours {
        0 | 1 => "an hour".to_owned(),
        2..48 => format!("{hours} hours"),
        _ => format!("{} days", hours.div_ceil(24)),
    }
}

/// The text of a mail about a forgotten password.
pub(super) fn password(name: &str, link: &str) -> String {
    format!(
        "Hello {},\n\n\
         somebody, probably you, asked for a new password for your account. Set it here within an hour:\n\n\
         {link}\n\n\
         The link works once. A new password ends all your sessions. If you did not ask for it, do nothing: your \
         password stays as it is.\n",
        one_line(name),
    )
}

/// The text of an invitation.
pub(super) fn invitation(letter: &LinkMail, role: Role, until: Timestamp) -> String {
    let name = letter.name.as_deref().map(|name| format!(" {}", one_line(name)));
    format!(
        "Hello{},\n\n\
         you are invited to {} as {}. Choose a password there:\n\n\
         {}\n\n\
         The link creates one account, and is valid until {until}. If you did not expect this mail, do nothing: no \
         account is created.\n",
        name.unwrap_or_default(),
        host(&letter.link),
        role.as_str(),
        letter.link,
    )
}

/// The host of a link.
pub(super) fn host(link: &str) -> &str {
    let rest = link.split_once("://").map_or(link, |(_, rest)| rest);
    rest.split(['/', '#', '?']).next().unwrap_or(rest)
}

/// The text without the characters that would break out of its line or header.
pub(super) fn one_line(text: &str) -> String {
    let visible = |c: char| if c.is_control() || "\u{2028}\u{2029}".contains(c) { ' ' } else { c };
    text.chars().map(visible).collect()
}

fn waiting(letter: &ReviewerMail) -> String {
    match (&letter.step, &letter.template) {
        (Some((_, step)), Some(template)) => {
            format!("step {} of {}", one_line(step), one_line(template))
        }
        (Some((_, step)), None) => format!("step {}", one_line(step)),
        (None, _) => format!("task {}", letter.task),
    }
}

const fn cause(cause: MailCause) -> &'static str {
    match cause {
        MailCause::Assigned => "It is assigned to you.",
        MailCause::Escalated => "Nobody has decided yet, so it was escalated to you.",
        MailCause::Expired => {
            "Nobody decided in time, so it was escalated to you. You can still decide it."
        }
    }
}

fn held(letter: &ReviewerMail) -> String {
    let below = below(letter.confidence, letter.threshold);
    match letter.why {
        HoldReason::Required => match below {
            Some(below) => format!("a review is required, and {below}"),
            None => "a review is required".into(),
        },
        HoldReason::BelowThreshold => below.unwrap_or_else(|| "its confidence is too low".into()),
        HoldReason::NoConfidence => "it came without a confidence".into(),
        HoldReason::Sampled => "it would have passed, and was picked as a sample".into(),
        HoldReason::Requested => "it has passed, and somebody asked for a review of it".into(),
    }
}

/// `confidence 0.71 is below 0.85`, if the confidence is below the threshold.
fn below(confidence: Option<f64>, threshold: Option<f64>) -> Option<String> {
    let (confidence, threshold) = confidence.zip(threshold)?;
    let (short, least) = (rounded(confidence), rounded(threshold));
    // Two figures that are equal once rounded are shown in full.
    let text = if short == least {
        format!("confidence {confidence} is below {threshold}")
    } else {
        format!("confidence {short} is below {least}")
    };
    (confidence < threshold).then_some(text)
}

fn rounded(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn shown(instant: Timestamp) -> String {
    let text = instant.to_string();
    format!("{} {} UTC", &text[..10], &text[11..16])
}

#[cfg(test)]
mod tests {
    use super::super::tests::letter;
    use super::*;

    #[test]
    fn a_mail_names_the_item_and_why_it_is_held_and_links_to_its_page() {
        let expected = "\
Hello Ann,

the output of step summarize of doc-review-v1 waits for a decision.
It is assigned to you.

Why it is held: confidence 0.71 is below 0.85
Waiting since:  2023-11-14 22:13 UTC
Decide by:      2023-11-14 23:13 UTC

https://callboard.example.com/review/X

The link only shows the item and decides nothing.

Task:      dt_task_00000000000000000000000100
Execution: dt_exec_00000000000000000000000200
";
        assert_eq!(body(&letter(), "https://callboard.example.com/review/X"), expected);
        assert_eq!(subject(&letter()), "Review: step summarize of doc-review-v1");
        let alone = ReviewerMail { step: None, template: None, ..letter() };
        assert_eq!(subject(&alone), "Review: task dt_task_00000000000000000000000100");
        assert!(!body(&alone, "X").contains("Execution"));
        let titled = ReviewerMail { title: Some("Ada: Late parcel".into()), ..letter() };
        assert_eq!(subject(&titled), "Review: Ada: Late parcel (step summarize of doc-review-v1)");
        assert!(body(&titled, "X").contains("\nTitle:     Ada: Late parcel\n"));
    }

    #[test]
    fn a_mail_about_a_key_names_it_and_the_command_that_replaces_it() {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let day = std::time::Duration::from_hours(24);
        let letter = KeyEndMail {
            delivery: letter().delivery,
            to: letter().to,
            name: "Ann".into(),
            key: callboard_domain::id::KeyId::from_u128(3 << 10),
            key_name: "backup\ncron".into(),
            role: Role::Viewer,
            ends_at: now.after(14 * day),
            last_used_at: None,
            now,
        };
        assert_eq!(key_end_subject(&letter), "API key backup cron ends in 14 days");
        let text = key_end(&letter, "https://callboard.example.com/admin/keys");
        assert!(
            text.contains("callboard keys rotate key_00000000000000000000000300 --overlap 1d"),
            "{text}"
        );
        assert!(text.contains("\nEnds:      2023-11-28 22:13 UTC\nLast used: never\n"), "{text}");
        let later = |left| KeyEndMail { now: letter.ends_at.after(left), ..letter.clone() };
        assert_eq!(left(&later(std::time::Duration::ZERO)), "an hour");
        let soon = KeyEndMail { ends_at: now.after(day), ..letter.clone() };
        assert_eq!(left(&soon), "24 hours");
    }

    #[test]
    fn every_cause_and_every_reason_has_its_words() {
        let with = |letter: ReviewerMail| body(&letter, "X");
        let escalated = with(ReviewerMail { cause: MailCause::Escalated, ..letter() });
        assert!(escalated.contains("Nobody has decided yet, so it was escalated to you."));
        let expired = with(ReviewerMail { cause: MailCause::Expired, ..letter() });
        assert!(expired.contains("Nobody decided in time"));
        let why = |why, confidence| {
            let text = with(ReviewerMail { why, confidence, ..letter() });
            text.lines().nth(5).expect("a sixth line").replace("Why it is held: ", "")
        };
        assert_eq!(
            why(HoldReason::Required, Some(0.71)),
            "a review is required, and confidence 0.71 is below 0.85"
        );
        assert_eq!(why(HoldReason::Required, Some(0.9)), "a review is required");
        assert_eq!(why(HoldReason::NoConfidence, None), "it came without a confidence");
        assert_eq!(
            why(HoldReason::Sampled, Some(0.9)),
            "it would have passed, and was picked as a sample"
        );
        assert_eq!(
            why(HoldReason::BelowThreshold, Some(0.849_96)),
            "confidence 0.84996 is below 0.85",
            "never 0.85 is below 0.85"
        );
        assert_eq!(why(HoldReason::BelowThreshold, Some(0.0)), "confidence 0 is below 0.85");
    }
}
