//! The addresses that the server may call for a user (docs/reference/webhooks.md): none inside its own network.
//!
//! ```text
//!   creation:  URL ─▶ check    refuses an address that is evident from the URL
//!   sending:   URL ─▶ connect ─▶ IP literal, or every answer of the resolver ─▶ permitted? ─▶ connect to it
//! ```
//!
//! A connection goes to an address that was checked, never to a name: there is no second look-up that
//! could give another answer. Addresses are tried as RFC 8305 says (happy eyeballs), so that dead ones cost a
//! quarter of a second each. Deliberately absent: HTTP, and proxies of the environment.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::id::{Mode, ProjectId};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use url::{Host, Url};

/// The time to look up a name.
const RESOLVE: Duration = Duration::from_secs(5);
/// The time to connect to any of a name's addresses.
const CONNECT: Duration = Duration::from_secs(8);
/// The most addresses of a name that are tried.
const MAX_ADDRESSES: usize = 16;
/// The time after which the next address is tried beside those before it (RFC 8305, section 5).
const NEXT_TRY: Duration = Duration::from_millis(250);

/// Addresses of IPv4 that lead into the network, or nowhere. docs/reference/webhooks.md lists the addresses at
/// which clouds serve the metadata of a machine; all but one of them are in private or link-local networks.
const FORBIDDEN_V4: [Ipv4Net; 13] = [
    v4([0, 0, 0, 0], 8),
    v4([10, 0, 0, 0], 8),
    v4([100, 64, 0, 0], 10),
    v4([127, 0, 0, 0], 8),
    // Azure's host, which answers its virtual machines alone.
    v4([168, 63, 129, 16], 32),
    v4([169, 254, 0, 0], 16),
    v4([172, 16, 0, 0], 12),
    v4([192, 0, 0, 0], 24),
    v4([192, 168, 0, 0], 16),
    v4([198, 18, 0, 0], 15),
    v4([224, 0, 0, 0], 4),
    v4([240, 0, 0, 0], 4),
    v4([255, 255, 255, 255], 32),
];

/// Addresses of IPv6 that lead into the network or nowhere, or that carry an address of IPv4.
const FORBIDDEN_V6: [Ipv6Net; 11] = [
    // Unspecified, loopback, and compatible with IPv4.
    v6([0; 8], 96),
    // Mapped, and translated.
    v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96),
    v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96),
    // NAT64: well known, and local.
    v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96),
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48),
    // Teredo, 6to4.
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32),
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16),
    // Unique local, link local, site local, multicast.
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
    v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8),
];

const fn v4(octets: [u8; 4], length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::from_octets(octets), length)
}

const fn v6(segments: [u16; 8], length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::from_segments(segments), length)
}

/// The addresses of a name.
pub trait Resolve: Send + Sync + 'static {
    /// All addresses, in the order in which they are to be tried.
    fn resolve(&self, name: String, port: u16) -> Resolving;
}

/// An answer of a resolver, on its way.
pub type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// The system's resolver.
#[derive(Debug, Clone, Copy)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: String, port: u16) -> Resolving {
        Box::pin(async move { Ok(tokio::net::lookup_host((name, port)).await?.collect()) })
    }
}

/// The reason why there is no connection, as users may read it: it names the host of the URL, and no address
/// of it, which would show them the names of the server's network. The log has the addresses.
#[derive(Debug, thiserror::Error)]
pub enum NotConnected {
    /// Every address is forbidden.
    #[error(
        "{0} may not be called: it is not a public address, and webhooks.allow does not list it{1}"
    )]
    Forbidden(String, &'static str),
    /// The name has no address.
    #[error("the name {0} cannot be resolved: {1}")]
    Unknown(String, io::Error),
    /// No program answers at the addresses.
    #[error("{0} cannot be connected to: {1}")]
    Unreachable(String, io::Error),
}

/// The project in whose name an address is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sender {
    /// The project.
    pub project: ProjectId,
    /// Its production or its sandbox.
    pub mode: Mode,
}

/// The one gate through which the server calls addresses that users name.
#[derive(Clone)]
pub struct Guard {
    /// The exceptions of each project that has some.
    allow: BTreeMap<ProjectId, Vec<IpNet>>,
    resolver: Arc<dyn Resolve>,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("allow", &self.allow).finish_non_exhaustive()
    }
}

impl Guard {
    /// A gate with these exceptions for `default` (`[webhooks] allow`).
    #[must_use]
    pub fn new(allow: Vec<IpNet>) -> Self {
        let allow = BTreeMap::from([(ProjectId::DEFAULT, allow)]);
        Self { allow, resolver: Arc::new(SystemResolver) }
    }

    /// This gate with exceptions for another project.
    #[must_use]
    pub fn with(mut self, project: ProjectId, allow: Vec<IpNet>) -> Self {
        self.allow.insert(project, allow);
        self
    }

    /// This gate with another resolver.
    #[must_use]
    pub fn with_resolver(self, resolver: Arc<dyn Resolve>) -> Self {
        Self { resolver, ..self }
    }

    /// True if this address may be connected to: a public one, or an exception. The sandbox calls
    /// only exceptions on this machine.
    #[must_use]
    pub fn permits(&self, address: IpAddr, sender: Sender) -> bool {
        let is_exception = self.exceptions(sender).any(|net| net.contains(&address));
        match sender.mode {
            Mode::Live => is_exception || !is_forbidden(address),
            Mode::Test => is_exception && address.is_loopback(),
        }
    }

    fn exceptions(&self, sender: Sender) -> impl Iterator<Item = &IpNet> {
        self.allow.get(&sender.project).into_iter().flatten()
    }

    /// True unless the URL evidently leads to an address that may not be called: a literal in any
    /// notation, or a name that never leaves the network.
    #[must_use]
    pub fn may_create(&self, url: &Url, sender: Sender) -> bool {
        match url.host() {
            None => false,
            Some(Host::Ipv4(address)) => self.permits(address.into(), sender),
            Some(Host::Ipv6(address)) => self.permits(address.into(), sender),
            Some(Host::Domain(name)) => {
                let name = name.trim_end_matches('.');
                let is_below = |zone: &str| {
                    name.strip_suffix(zone)
                        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
                };
                if is_below("localhost") {
                    let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()];
                    loopback.into_iter().all(|address| self.permits(address, sender))
                } else if is_below("local") || is_below("internal") {
                    sender.mode == Mode::Live
                        && self.exceptions(sender).any(|net| !net.addr().is_loopback())
                } else {
                    true
                }
            }
        }
    }

    /// A connection to the host of `url`, at an address that is permitted.
    ///
    /// # Errors
    /// [`NotConnected`].
    pub async fn connect(&self, url: &Url, sender: Sender) -> Result<TcpStream, NotConnected> {
        let port = url.port_or_known_default().unwrap_or(0);
        let unknown = |name: &str, error| NotConnected::Unknown(name.to_owned(), error);
        let addresses = match url.host() {
            Some(Host::Ipv4(address)) => vec![SocketAddr::new(address.into(), port)],
            Some(Host::Ipv6(address)) => vec![SocketAddr::new(address.into(), port)],
            Some(Host::Domain(name)) => {
                let found = timeout(RESOLVE, self.resolver.resolve(name.to_owned(), port)).await;
                let late = || io::Error::other(format!("no answer within {} s", RESOLVE.as_secs()));
                found.unwrap_or_else(|_| Err(late())).map_err(|error| unknown(name, error))?
            }
            None => Vec::new(),
        };
        let host = url.host_str().unwrap_or_default();
        let (permitted, others): (Vec<_>, Vec<_>) =
            addresses.iter().copied().partition(|it| self.permits(it.ip(), sender));
        for address in &others {
            tracing::info!(host, %address, "a webhook's address may not be called");
        }
        if !permitted.is_empty() {
            let connect = |address: SocketAddr| async move {
                let connected = TcpStream::connect(address).await;
                if let Err(error) = &connected {
                    tracing::info!(host, %address, %error, "a webhook's address does not answer");
                }
                connected
            };
            let mut tried = interleaved(permitted);
            tried.truncate(MAX_ADDRESSES);
            let count = tried.len();
            let connected = timeout(CONNECT, first(tried, connect)).await;
            let late = || {
                let seconds = CONNECT.as_secs();
                let none = if count == 1 { "its address did not" } else { "no address of it did" };
                io::Error::other(format!("{none} answer within {seconds} s ({count} tried)"))
            };
            return connected
                .unwrap_or_else(|_| Err(late()))
                .map_err(|error| NotConnected::Unreachable(format!("{host}:{port}"), error));
        }
        if addresses.is_empty() {
            return Err(unknown(host, io::Error::other("it has no address")));
        }
        let hint = match sender.mode {
            Mode::Live => "",
            Mode::Test => "; the sandbox calls listed addresses of this machine only",
        };
        Err(NotConnected::Forbidden(host.to_owned(), hint))
    }
}

/// The addresses of both families in turns, beginning with the first (RFC 8305, section 4).
fn interleaved(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let begins_with = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, other): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == begins_with);
    let (mut first, mut other) = (first.into_iter(), other.into_iter());
    let mut turns = Vec::with_capacity(first.len() + other.len());
    loop {
        let pair = [first.next(), other.next()];
        if pair == [None, None] {
            return turns;
        }
        turns.extend(pair.into_iter().flatten());
    }
}

/// The first connection that is made. The next address is tried once one has failed, or after
/// [`NEXT_TRY`]; those before it go on meanwhile.
async fn first<T, F>(addresses: Vec<SocketAddr>, connect: impl Fn(SocketAddr) -> F) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    let mut waiting = addresses.into_iter();
    let mut tries = FuturesUnordered::new();
    let mut failed = None;
    loop {
        tries.extend(waiting.next().map(&connect));
        tokio::select! {
            ended = tries.next() => match ended {
                Some(Ok(connection)) => return Ok(connection),
                Some(Err(error)) => failed = Some(error),
                None => return Err(failed.unwrap_or_else(|| io::ErrorKind::NotFound.into())),
            },
            () = sleep(NEXT_TRY), if waiting.len() > 0 => {}
        }
    }
}

/// True unless the address is a public one.
fn is_forbidden(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => FORBIDDEN_V4.iter().any(|net| net.contains(&address)),
        IpAddr::V6(address) => FORBIDDEN_V6.iter().any(|net| net.contains(&address)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::net::TcpListener;

    use super::*;

    const LIVE: Sender = Sender { project: ProjectId::DEFAULT, mode: Mode::Live };
    const TEST: Sender = Sender { mode: Mode::Test, ..LIVE };

    /// One address of each forbidden range, at both of its ends, and notations that hide one.
    const HIDDEN: [&str; 81] = [
        "http://0.0.0.0",
        "http://0.255.255.255",
        "http://10.0.0.0",
        "http://10.255.255.255",
        "http://100.64.0.0",
        "http://100.127.255.255",
        "http://127.0.0.1",
        "http://127.255.255.255",
        "http://169.254.0.0",
        "http://169.254.169.254/latest/meta-data/",
        "http://172.16.0.1",
        "http://172.31.255.255",
        "http://192.0.0.1",
        "http://192.168.0.1",
        "http://192.168.255.255",
        "http://198.18.0.1",
        "http://198.19.255.255",
        "http://224.0.0.1",
        "http://239.255.255.255",
        "http://240.0.0.1",
        "http://255.255.255.255",
        // The metadata of machines, by cloud (docs/reference/webhooks.md).
        "http://168.63.129.16/machine/?comp=goalstate",
        "http://168.63.129.16:32526/vmSettings",
        "http://0xa83f8110",
        "http://2822734096",
        "http://[::ffff:168.63.129.16]",
        "http://[fd00:ec2::254]/latest/meta-data/",
        "http://[fd20:ce::254]/computeMetadata/v1/",
        "http://[fd00:c1::a9fe:a9fe]/opc/v2/",
        "http://100.100.100.200/latest/meta-data/",
        "http://169.254.169.254/metadata/instance",
        "http://169.254.170.2/v2/credentials",
        "http://169.254.0.23/latest/meta-data/",
        "http://169.254.42.42/conf",
        "http://192.0.0.192/latest/",
        // The same in other notations.
        "http://127.1",
        "http://127.0.1",
        "http://0",
        "http://2130706433",
        "http://0x7f000001",
        "http://0x7f.0.0.1",
        "http://0177.0.0.1",
        "http://017700000001",
        "http://127.0.0.1.",
        "http://%31%32%37.0.0.1",
        "http://１２７.0.0.1",
        "http://127。0。0。1",
        "http://0xa9fea9fe",
        "http://2852039166",
        "http://0251.0376.0251.0376",
        "HTTP://127.0.0.1",
        "http:127.0.0.1",
        "http:/127.0.0.1",
        "http://\t127.0.0.1",
        "http:\\\\127.0.0.1",
        // IPv6.
        "http://[::]",
        "http://[::1]",
        "http://[0:0:0:0:0:0:0:1]",
        "http://[::127.0.0.1]",
        "http://[::ffff:127.0.0.1]",
        "http://[::ffff:7f00:1]",
        "http://[::ffff:10.0.0.1]",
        "http://[::ffff:8.8.8.8]",
        "http://[::ffff:0:10.0.0.1]",
        "http://[64:ff9b::10.0.0.1]",
        "http://[64:ff9b::a00:1]",
        "http://[64:ff9b:1::a00:1]",
        "http://[2002:7f00:1::]",
        "http://[2001::1]",
        "http://[2001:0:ffff::1]",
        "http://[fc00::1]",
        "http://[fdff::1]",
        "http://[fe80::1]",
        "http://[febf::1]",
        "http://[fec0::1]",
        "http://[ff02::1]",
        // Names.
        "http://localhost",
        "http://LOCALHOST.",
        "http://a.localhost:8080/x",
        "http://printer.local",
        "http://metadata.google.internal/computeMetadata/v1/",
    ];

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn what_evidently_leads_inside_is_refused_in_any_notation() {
        let guard = Guard::new(Vec::new());
        for hidden in HIDDEN {
            assert!(!guard.may_create(&url(hidden), LIVE), "{hidden}");
            assert!(!guard.may_create(&url(hidden), TEST), "{hidden}");
        }
        for public in [
            "https://example.com/hook",
            "http://8.8.8.8",
            "http://1.1.1.1:8080",
            "http://11.0.0.1",
            "http://100.128.0.1",
            "http://172.32.0.1",
            "http://192.0.1.1",
            "http://198.20.0.1",
            "http://223.255.255.255",
            "http://[2606:4700::1]",
            "http://[2001:4860:4860::8888]",
            "http://local.example.com",
            "http://notlocalhost",
            "http://internal.example",
        ] {
            assert!(guard.may_create(&url(public), LIVE), "{public}");
        }
        assert!(
            !guard.may_create(&url("http://8.8.8.8"), TEST),
            "the sandbox calls no public address"
        );
    }

    #[test]
    fn an_exception_is_a_network_and_nothing_beside_it() {
        let nets = |list: &[&str]| list.iter().map(|net| net.parse().expect("a network")).collect();
        let guard = Guard::new(nets(&["127.0.0.1/32"]));
        let may = |text: &str| guard.may_create(&url(text), LIVE);
        assert!(may("http://127.0.0.1:9/") && may("http://0x7f000001/"));
        for inside in
            ["http://127.0.0.2", "http://[::1]", "http://[::ffff:127.0.0.1]", "http://10.0.0.1"]
        {
            assert!(!may(inside), "{inside}");
        }
        assert!(!may("http://localhost") && !may("http://printer.local"));
        assert!(guard.may_create(&url("http://127.0.0.1:9/"), TEST));
        let other = Sender { project: ProjectId::from_u128(1), ..LIVE };
        let at = url("http://127.0.0.1:9/");
        assert!(!guard.may_create(&at, other), "the exceptions are those of default");
        let of_other = Guard::new(Vec::new()).with(other.project, nets(&["127.0.0.1/32"]));
        assert!(of_other.may_create(&at, other) && !of_other.may_create(&at, LIVE));
        let both = Guard::new(nets(&["127.0.0.0/8", "::1/128", "10.0.0.0/8"]));
        assert!(both.may_create(&url("http://localhost"), LIVE));
        assert!(both.may_create(&url("http://hooks.corp.internal"), LIVE));
        assert!(!both.may_create(&url("http://10.0.0.1"), TEST));
        assert!(!both.may_create(&url("http://hooks.corp.internal"), TEST));
    }

    /// Answers each look-up with the next list, and then with the last one again.
    struct Answers(Vec<Vec<IpAddr>>, AtomicUsize);

    impl Answers {
        fn of(lists: &[&[&str]]) -> Arc<Self> {
            let list = |list: &&[&str]| {
                list.iter().map(|address| address.parse().expect("an address")).collect()
            };
            Arc::new(Self(lists.iter().map(list).collect(), AtomicUsize::new(0)))
        }
    }

    impl Resolve for Answers {
        fn resolve(&self, _: String, port: u16) -> Resolving {
            let at = self.1.fetch_add(1, Ordering::SeqCst).min(self.0.len() - 1);
            let found = self.0[at].iter().map(|address| SocketAddr::new(*address, port)).collect();
            Box::pin(async move { Ok(found) })
        }
    }

    /// A listener that must not be connected to.
    async fn trap() -> (TcpListener, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        (listener, port)
    }

    /// True if somebody connected.
    async fn is_sprung(trap: &TcpListener) -> bool {
        timeout(Duration::from_millis(50), trap.accept()).await.is_ok()
    }

    fn addresses(list: &[&str]) -> Vec<SocketAddr> {
        list.iter().map(|ip| SocketAddr::new(ip.parse().expect("an address"), 1)).collect()
    }

    #[test]
    fn both_families_have_turns() {
        let found = interleaved(addresses(&["::1", "::2", "::3", "1.1.1.1", "2.2.2.2"]));
        assert_eq!(found, addresses(&["::1", "1.1.1.1", "::2", "2.2.2.2", "::3"]));
        let found = interleaved(addresses(&["1.1.1.1", "2.2.2.2", "::1"]));
        assert_eq!(found, addresses(&["1.1.1.1", "::1", "2.2.2.2"]));
        assert_eq!(interleaved(Vec::new()), []);
    }

    #[tokio::test(start_paused = true)]
    async fn dead_addresses_cost_a_quarter_of_a_second_each() {
        let start = tokio::time::Instant::now();
        let connect = |address: SocketAddr| async move {
            match address.ip().to_string().as_str() {
                "4.4.4.4" => Ok(address),
                "9.9.9.9" => Err(io::ErrorKind::ConnectionRefused.into()),
                _ => std::future::pending().await,
            }
        };
        let three_dead = addresses(&["1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"]);
        let alive = three_dead[3];
        assert_eq!(first(three_dead, connect).await.expect("one is alive"), alive);
        assert_eq!(start.elapsed(), NEXT_TRY * 3);
        // A refusal is no reason to wait.
        let start = tokio::time::Instant::now();
        let refused = addresses(&["9.9.9.9", "9.9.9.9", "4.4.4.4"]);
        assert_eq!(first(refused, connect).await.expect("one is alive"), alive);
        assert_eq!(start.elapsed(), Duration::ZERO);
        let refused = first(addresses(&["9.9.9.9"]), connect).await.expect_err("it refuses");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert!(timeout(CONNECT, first(addresses(&["1.1.1.1"]), connect)).await.is_err());
    }

    #[tokio::test]
    async fn every_answer_of_the_resolver_is_checked() {
        let (trap, port) = trap().await;
        let url = url(&format!("http://rebinding.example.com:{port}/"));
        for answers in [
            &["127.0.0.1"][..],
            &["::1", "127.0.0.1"],
            &["::ffff:127.0.0.1"],
            &["10.0.0.1", "127.0.0.1"],
            &["0.0.0.0"],
            &["64:ff9b::7f00:1"],
        ] {
            let guard = Guard::new(Vec::new()).with_resolver(Answers::of(&[answers]));
            let refused = guard.connect(&url, LIVE).await;
            assert!(
                matches!(refused, Err(NotConnected::Forbidden(..))),
                "{answers:?}: {refused:?}"
            );
        }
        let guard = Guard::new(Vec::new()).with_resolver(Answers::of(&[&[]]));
        let refused = guard.connect(&url, LIVE).await;
        assert!(matches!(refused, Err(NotConnected::Unknown(..))), "{refused:?}");
        assert!(!is_sprung(&trap).await);
    }

    /// Before: a refusal named the address, so anybody could ask for the names of the server's network.
    #[tokio::test]
    async fn a_refusal_names_the_host_and_no_address_of_it() {
        let (trap, port) = trap().await;
        drop(trap);
        let url = url(&format!("http://db.corp.example.com:{port}/"));
        let allow = vec!["127.0.0.1/32".parse().expect("a network")];
        for (allow, says) in [(Vec::new(), "may not be called"), (allow, "cannot be connected to")]
        {
            let answers = Answers::of(&[&["127.0.0.1", "10.20.30.40"]]);
            let guard = Guard::new(allow).with_resolver(answers);
            let refused = guard.connect(&url, LIVE).await.expect_err("nobody listens").to_string();
            assert!(refused.contains("db.corp.example.com") && refused.contains(says), "{refused}");
            assert!(!refused.contains("127.0.0.1") && !refused.contains("10.20"), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_name_is_looked_up_once_and_the_answer_that_was_checked_is_connected_to() {
        let (trap, port) = trap().await;
        let allowed = TcpListener::bind(("127.0.0.2", port)).await.expect("the same port");
        // The second answer would lead to the trap.
        let answers = Answers::of(&[&["127.0.0.1", "127.0.0.2"], &["127.0.0.1"]]);
        let guard = Guard::new(vec!["127.0.0.2/32".parse().expect("a network")]);
        let guard = guard.with_resolver(answers.clone());
        let url = url(&format!("http://rebinding.example.com:{port}/"));
        let stream = guard.connect(&url, LIVE).await.expect("one address is an exception");
        assert_eq!(stream.peer_addr().expect("connected"), allowed.local_addr().expect("bound"));
        assert_eq!(answers.1.load(Ordering::SeqCst), 1);
        let refused = guard.connect(&url, LIVE).await;
        assert!(matches!(refused, Err(NotConnected::Forbidden(..))), "{refused:?}");
        assert!(!is_sprung(&trap).await);
    }

    #[tokio::test]
    async fn a_literal_is_checked_too() {
        let (trap, port) = trap().await;
        let guard = Guard::new(Vec::new());
        for host in ["127.0.0.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "0.0.0.0"] {
            let url = url(&format!("http://{host}:{port}/"));
            for sender in [LIVE, TEST] {
                let refused = guard.connect(&url, sender).await;
                assert!(matches!(refused, Err(NotConnected::Forbidden(..))), "{host}: {refused:?}");
            }
        }
        let url = url(&format!("http://localhost:{port}/"));
        assert!(guard.connect(&url, LIVE).await.is_err());
        assert!(!is_sprung(&trap).await);
    }
}
