//! Mails, by SMTP: [`Mailer`] for the runtime, and mails with a secret link.
//!
//! A connection for each mail, a few at once: mails are rare, and a server has limits. A mail that is sent again after
//! a crash has the same `Message-ID`, made of its delivery's identifier.

mod text;

use std::pin::Pin;
use std::time::{Duration, SystemTime};

use callboard_domain::Timestamp;
use callboard_domain::access::Role;
use callboard_domain::account::Email as Recipient;
use callboard_domain::digest::Digest;
use callboard_domain::id::ProjectId;
use callboard_runtime::ports::{KeyEndMail, Mailer, NotSent, ReviewerMail};
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, SinglePart};
use lettre::transport::smtp;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{self as secured, Certificate, CertificateStore};
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::config::{Smtp, Tls};

/// The time to connect to the server.
const CONNECT: Duration = Duration::from_secs(15);
/// The time to send a mail on an open connection.
const SEND: Duration = Duration::from_secs(15);
/// The most mails that go out at once.
const AT_ONCE: usize = 4;

/// The server's answers that refuse a login or demand one (RFC 4954). The operator can mend them,
/// and the mail is not to blame.
const LOGIN_REFUSED: [u16; 4] = [530, 534, 535, 538];

/// The pauses after tries of a mail that is not stored.
const PAUSES: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(30)];

/// A mail with a secret link.
#[derive(Debug)]
pub struct LinkMail {
    /// The recipient.
    pub to: Recipient,
    /// The recipient's name, if it is known.
    pub name: Option<String>,
    /// The secret address.
    pub link: String,
    /// The time of the request.
    pub at: Timestamp,
    /// The purpose of the link.
    pub what: Link,
}

/// The use of a secret link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// A user who has forgotten the password sets another one.
    Password,
    /// An invited person makes an account in this role, until this time.
    Invitation(Role, Timestamp),
}

/// The client of the configured server.
#[derive(Debug)]
pub struct Email {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    base: String,
    turns: Semaphore,
}

/// The reason why mail cannot be set up as configured.
#[derive(Debug, thiserror::Error)]
#[error("smtp: the certificates to trust cannot be used: {0}")]
pub struct NotUsable(#[from] smtp::Error);

impl Email {
    /// A client whose mails link to pages below `base`. No connection is opened yet.
    ///
    /// # Errors
    /// The certificates of `ca`, or those of the system, cannot be used.
    pub fn new(smtp: &Smtp, base: &str) -> Result<Self, NotUsable> {
        callboard_common::tls::install_provider();
        let tls = match smtp.tls {
            Tls::None => secured::Tls::None,
            Tls::Starttls => secured::Tls::Required(trusted(smtp)?),
            Tls::Tls => secured::Tls::Wrapper(trusted(smtp)?),
        };
        let builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&smtp.host)
            .port(smtp.port)
            .tls(tls)
            .timeout(Some(CONNECT));
        let builder = match &smtp.login {
            Some(login) => {
                let password = login.password.expose().to_owned();
                builder.credentials(Credentials::new(login.username.clone(), password))
            }
            None => builder,
        };
        Ok(Self {
            transport: builder.build(),
            from: smtp.from.clone(),
            base: base.trim_end_matches('/').to_owned(),
            turns: Semaphore::new(AT_ONCE),
        })
    }

    /// Sends a secret link. A server that does not take it is tried three times; nothing is stored, because the link
    /// may not be.
    ///
    /// # Errors
    /// The reason of the last try.
    pub async fn send_link(&self, letter: &LinkMail) -> Result<(), NotSent> {
        for pause in PAUSES {
            match self.deliver(self.link_message(letter)).await {
                Err(NotSent { permanent: false, .. }) => tokio::time::sleep(pause).await,
                sent => return sent,
            }
        }
        self.deliver(self.link_message(letter)).await
    }

    /// Connects and signs in, and sends nothing.
    ///
    /// # Errors
    /// The server's refusal, or the obstacle on the way to it.
    pub async fn check(&self) -> Result<(), String> {
        match timeout(CONNECT + SEND, self.transport.test_connection()).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err("the server ends the connection after the login".into()),
            Ok(Err(error)) => Err(not_sent(&error).message),
            Err(_) => Err(format!("no answer within {} s", (CONNECT + SEND).as_secs())),
        }
    }

    async fn deliver(
        &self,
        written: Result<Message, Box<dyn std::error::Error + Send + Sync>>,
    ) -> Result<(), NotSent> {
        let message = written.map_err(|why| NotSent {
            permanent: true,
            message: format!("the mail cannot be written: {why}"),
        });
        let message = message?;
        let _turn = self.turns.acquire().await.expect("it is never closed");
        match timeout(CONNECT + SEND, self.transport.send(message)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(not_sent(&error)),
            Err(_) => {
                let seconds = (CONNECT + SEND).as_secs();
                let message = format!("the server took longer than {seconds} s");
                Err(NotSent { permanent: false, message })
            }
        }
    }

    fn message(
        &self,
        letter: &ReviewerMail,
    ) -> Result<Message, Box<dyn std::error::Error + Send + Sync>> {
        let mut link = format!("{}/review/{}", self.base, letter.task);
        if letter.project != ProjectId::DEFAULT {
            link = format!("{link}?project={}", letter.project);
        }
        let (delivery, text) = (letter.delivery, text::body(letter, &link));
        let (to, at) = ((&letter.to, &*letter.name), delivery.created_at());
        self.written(to, at, &delivery.to_string(), text::subject(letter), text)
    }

    fn key_end_message(
        &self,
        letter: &KeyEndMail,
    ) -> Result<Message, Box<dyn std::error::Error + Send + Sync>> {
        let delivery = letter.delivery;
        let text = text::key_end(letter, &format!("{}/admin/keys", self.base));
        let to = (&letter.to, &*letter.name);
        let subject = text::key_end_subject(letter);
        self.written(to, delivery.created_at(), &delivery.to_string(), subject, text)
    }

    fn link_message(
        &self,
        letter: &LinkMail,
    ) -> Result<Message, Box<dyn std::error::Error + Send + Sync>> {
        // The name of the mail is derived from its secret, so that the tries for one are one mail.
        let (kind, subject) = match letter.what {
            Link::Password => ("pwd", "Set another password".to_owned()),
            Link::Invitation(..) => {
                ("inv", format!("You are invited to {}", text::host(&letter.link)))
            }
        };
        let id = format!("{kind}_{}", Digest::of(&letter.link));
        let name = letter.name.as_deref().unwrap_or_default();
        let text = match letter.what {
            Link::Password => text::password(name, &letter.link),
            Link::Invitation(role, until) => text::invitation(letter, role, until),
        };
        self.written((&letter.to, name), letter.at, &id, subject, text)
    }

    fn written(
        &self,
        (to, name): (&Recipient, &str),
        at: Timestamp,
        id: &str,
        subject: String,
        body: String,
    ) -> Result<Message, Box<dyn std::error::Error + Send + Sync>> {
        let address: Address = to.as_str().parse()?;
        let automatic = HeaderName::new_from_ascii_str("Auto-Submitted");
        let message = Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new((!name.is_empty()).then(|| text::one_line(name)), address))
            .subject(subject)
            .date(SystemTime::UNIX_EPOCH + Duration::from_millis(at.as_millis()))
            .message_id(Some(format!("<{id}@{}>", self.from.email.domain())))
            // The header keeps out-of-office replies from coming back (RFC 3834).
            .raw_header(HeaderValue::new(automatic, "auto-generated".to_owned()))
            .singlepart(SinglePart::plain(body))?;
        Ok(message)
    }
}

impl Mailer for Email {
    fn send(
        &self,
        letter: ReviewerMail,
    ) -> Pin<Box<dyn Future<Output = Result<(), NotSent>> + Send + '_>> {
        Box::pin(async move { self.deliver(self.message(&letter)).await })
    }

    fn send_key_end(
        &self,
        letter: KeyEndMail,
    ) -> Pin<Box<dyn Future<Output = Result<(), NotSent>> + Send + '_>> {
        Box::pin(async move { self.deliver(self.key_end_message(&letter)).await })
    }
}

/// The trusted certificates: those of the configured CA alone, else the system's.
fn trusted(smtp: &Smtp) -> Result<secured::TlsParameters, smtp::Error> {
    let mut builder = secured::TlsParameters::builder(smtp.host.clone());
    if !smtp.ca.is_empty() {
        builder = builder.certificate_store(CertificateStore::None);
    }
    for certificate in &smtp.ca {
        builder = builder.add_root_certificate(Certificate::from_der(certificate.to_vec())?);
    }
    builder.build()
}

fn not_sent(error: &smtp::Error) -> NotSent {
    let is_login = error.status().is_some_and(|code| LOGIN_REFUSED.contains(&code.into()));
    NotSent {
        permanent: error.is_permanent() && !is_login,
        message: text::one_line(&error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use callboard_domain::approval::MailCause;
    use callboard_domain::id::{DeliveryId, ExecutionId, TaskId};
    use callboard_domain::task::HoldReason;

    use super::*;

    const SINCE: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    pub(super) fn letter() -> ReviewerMail {
        ReviewerMail {
            delivery: DeliveryId::from_u128(u128::from(SINCE.as_millis()) << 80),
            to: Recipient::parse("ann@example.com").expect("an e-mail"),
            name: "Ann".into(),
            project: ProjectId::DEFAULT,
            task: TaskId::from_u128(1 << 10),
            title: None,
            step: Some((ExecutionId::from_u128(2 << 10), "summarize".into())),
            template: Some("doc-review-v1".into()),
            why: HoldReason::BelowThreshold,
            confidence: Some(0.71),
            threshold: Some(0.85),
            since: SINCE,
            expires_at: SINCE.after(Duration::from_hours(1)),
            cause: MailCause::Assigned,
        }
    }

    /// The lines of the header and the body, as they go to the server.
    fn written(letter: &ReviewerMail) -> (Vec<String>, String) {
        let smtp = Smtp {
            host: "localhost".into(),
            port: 25,
            tls: Tls::None,
            ca: Vec::new(),
            from: "Callboard <callboard@example.com>".parse().expect("a sender"),
            login: None,
        };
        let base = "https://example.com/callboard/";
        let message = Email::new(&smtp, base).expect("a client").message(letter);
        let text = String::from_utf8(message.expect("a mail").formatted()).expect("ASCII");
        let (head, body) = text.split_once("\r\n\r\n").expect("a header and a body");
        (head.lines().map(str::to_owned).collect(), body.to_owned())
    }

    #[test]
    fn the_header_says_who_to_whom_when_and_what() {
        let (head, body) = written(&letter());
        let expected = [
            "From: Callboard <callboard@example.com>",
            "To: Ann <ann@example.com>",
            "Subject: Review: step summarize of doc-review-v1",
            "Date: Tue, 14 Nov 2023 22:13:20 +0000",
            "Message-ID: <dlv_01hf7yat000000000000000000@example.com>",
            "Auto-Submitted: auto-generated",
            "MIME-Version: 1.0",
            "Content-Type: text/plain; charset=utf-8",
            "Content-Transfer-Encoding: 7bit",
        ];
        assert_eq!(head, expected);
        let link = "https://example.com/callboard/review/dt_task_00000000000000000000000100\r\n";
        assert!(body.contains(link), "{body}");
        let (_, body) =
            written(&ReviewerMail { project: ProjectId::from_u128(1 << 10), ..letter() });
        let link =
            "review/dt_task_00000000000000000000000100?project=prj_00000000000000000000000100";
        assert!(body.replace("=\r\n", "").replace("=3D", "=").contains(link), "{body}");
    }

    #[test]
    fn no_name_no_title_and_no_step_makes_a_header_or_a_line_of_its_own() {
        let evil = "x\r\nBcc: eve@example.com\r\n\r\nhttps://evil.example/\n.\r\nDATA";
        let (head, body) = written(&ReviewerMail {
            name: evil.into(),
            title: Some(evil.into()),
            step: Some((ExecutionId::from_u128(2 << 10), evil.into())),
            template: Some(evil.into()),
            ..letter()
        });
        let names: Vec<_> = head
            .iter()
            .filter(|line| !line.starts_with(' '))
            .map(|line| line.split(':').next().unwrap_or_default())
            .collect();
        let expected = [
            "From",
            "To",
            "Subject",
            "Date",
            "Message-ID",
            "Auto-Submitted",
            "MIME-Version",
            "Content-Type",
            "Content-Transfer-Encoding",
        ];
        assert_eq!(names, expected, "{head:?}");
        for line in body.lines() {
            let starts = |start| line.starts_with(start);
            assert!(!starts("Bcc") && !starts("https://evil") && !starts("."), "{line}");
        }
    }

    #[test]
    fn any_e_mail_of_a_user_can_be_written_to() {
        for to in ["ada@localhost", "a!#$%&'*+-/=?^_`{|}~b@xn--bcher-kva.example", "a.b@10"] {
            let to = Recipient::parse(to).expect("an e-mail");
            written(&ReviewerMail { to, name: "Jürgen, \"J\" <x@y>".into(), ..letter() });
        }
    }
}
