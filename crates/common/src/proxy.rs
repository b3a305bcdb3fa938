//! The way to a server: directly, or through the proxy that the environment names.
//!
//! The rules are those of the HTTP client that the rest of the program uses: `HTTPS_PROXY`, `HTTP_PROXY`,
//! `ALL_PROXY` and `NO_PROXY`, in upper or lower case. A server on this machine is reached directly.
//! Deliberately absent: connections.

use std::fmt;
use std::net::IpAddr;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

/// The way to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// To the server itself.
    Direct,
    /// Through a proxy.
    Through(Proxy),
}

/// A proxy. Its text has no password.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// The scheme of its address; only `http` is a proxy for sockets.
    pub scheme: String,
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The value of `Proxy-Authorization`, if the address has a user.
    pub authorization: Option<Vec<u8>>,
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.scheme, self.host, self.port)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

/// The way to the server of an `http` or `https` address, by the environment of this process.
#[must_use]
pub fn route(server: &str) -> Route {
    route_by(&Matcher::from_env(), server)
}

fn route_by(matcher: &Matcher, server: &str) -> Route {
    let Ok(uri) = server.parse::<Uri>() else { return Route::Direct };
    if uri.host().is_none_or(is_local) {
        return Route::Direct;
    }
    let Some(intercept) = matcher.intercept(&uri) else { return Route::Direct };
    let address = intercept.uri();
    let scheme = address.scheme_str().unwrap_or("http").to_owned();
    let usual = if scheme == "https" { 443 } else { 80 };
    Route::Through(Proxy {
        host: address.host().unwrap_or_default().to_owned(),
        port: address.port_u16().unwrap_or(usual),
        authorization: intercept.basic_auth().map(|value| value.as_bytes().to_owned()),
        scheme,
    })
}

/// True for a host of this machine: a loopback address, with or without brackets, or `localhost`.
#[must_use]
pub fn is_local(host: &str) -> bool {
    let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    let is_named = host == "localhost" || host.ends_with(".localhost");
    address.map_or(is_named, |address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(route: Route) -> String {
        match route {
            Route::Direct => "direct".to_owned(),
            Route::Through(proxy) => proxy.to_string(),
        }
    }

    #[test]
    fn a_server_is_reached_through_the_proxy_of_its_scheme_unless_it_is_excepted() {
        let matcher = Matcher::builder()
            .http("plain.example:3128")
            .https("http://ada:hunter2@secure.example:8080")
            .no("intern.example,10.0.0.0/8")
            .build();
        for (server, expected) in [
            ("http://board.example/", "http://plain.example:3128"),
            ("https://board.example/base", "http://secure.example:8080"),
            ("https://sub.intern.example/", "direct"),
            ("https://10.1.2.3:8080/", "direct"),
            ("http://localhost:8080", "direct"),
            ("http://a.localhost:8080", "direct"),
            ("https://127.0.0.1:8080", "direct"),
            ("https://[::1]:8080", "direct"),
            ("https://[2001:db8::1]:8080", "http://secure.example:8080"),
            ("no address", "direct"),
        ] {
            assert_eq!(shown(route_by(&matcher, server)), expected, "{server}");
        }
        let Route::Through(proxy) = route_by(&matcher, "https://board.example/") else {
            panic!("there is a proxy")
        };
        // ada:hunter2, in the form of RFC 7617.
        assert_eq!(proxy.authorization.as_deref(), Some(&b"Basic YWRhOmh1bnRlcjI="[..]));
        assert!(!format!("{proxy} {proxy:?}").contains("hunter2"));
    }
}
