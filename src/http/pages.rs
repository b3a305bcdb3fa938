//! The dashboard's pages, built by web/ and embedded in the program.
//!
//! The program contains each file once, compressed with gzip, and sends it so: every browser reads gzip, over
//! plain HTTP too. A client that does not is sent the plain bytes.
//!
//! A path of the dashboard that is no file is answered with the one page, which reads the path
//! itself. Only paths in [`PAGES`] are, so the interfaces of programs keep their 404. Deliberately
//! absent: routes and credentials; a page without a session says so.

use std::io::Read;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY, VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use callboard_domain::Error;
use flate2::read::GzDecoder;
use rust_embed::{Embed, EmbeddedFile};

use super::Failure;

/// The build of web/ (`npm run build`); nothing after a plain `cargo build`.
#[derive(Embed)]
#[folder = "web/dist"]
#[allow_missing = true]
struct Built;

const INDEX: &str = "index.html";
const ASSETS: &str = "assets/";
/// The first segments of the paths that the dashboard shows.
const PAGES: [&str; 19] = [
    "",
    "account",
    "admin",
    "batches",
    "budgets",
    "docs",
    "executions",
    "insights",
    "models",
    "plans",
    "queues",
    "review",
    "schedules",
    "setup",
    "sign-in",
    "tasks",
    "templates",
    "welcome",
    "workers",
];

/// Scripts and styles come from this server alone, and none stands in a page; nothing is framed but the bytes of a PDF,
/// which a page has read.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
     connect-src 'self'; manifest-src 'self'; worker-src 'self'; frame-src blob:; base-uri 'none'; form-action 'self'; \
     frame-ancestors 'none'",
);
const UNBUILT: &str = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Callboard</title>\n\
     <h1>The dashboard is not in this build</h1>\n\
     <p>The server runs; its API is complete. To build the pages, install Node.js 20 or later and run:</p>\n\
     <pre>cd web\nnpm ci\nnpm run build\ncd ..\ncargo build --bin callboard</pre>\n\
     <p><code>./run</code> does this by itself.</p>\n</html>\n";
const HTML: &str = "text/html; charset=utf-8";
const IMMUTABLE: &str = "public, max-age=31536000, immutable";
const REVALIDATE: &str = "no-cache";
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// The first segments of the interfaces of programs, whose refusals are JSON for a browser too.
const INTERFACES: [&str; 7] = ["api", "assets", "health", "mcp", "metrics", "v1", "ws"];

/// True if the dashboard answers this request, should no route do so.
pub(super) fn serves(request: &Request) -> bool {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let path = request.uri().path();
    is_read && (is_file(path) || is_page(path) || is_visit(path, request.headers()))
}

/// True for a path that a person has typed in a browser, and that no interface has: the dashboard says that there is
/// no such page.
fn is_visit(path: &str, headers: &HeaderMap) -> bool {
    let mut segments = path.trim_start_matches('/').split('/');
    let is_interface = segments.next().is_some_and(|first| INTERFACES.contains(&first));
    let has_extension = path.rsplit('/').next().is_some_and(|last| last.contains('.'));
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_plain = path.starts_with('/') && !path.starts_with("//");
    is_plain && !is_interface && !has_extension && accepted.contains("text/html")
}

fn is_page(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    path.starts_with('/') && !path.starts_with("//") && PAGES.contains(&first)
}

fn is_file(path: &str) -> bool {
    let path = path.trim_start_matches('/');
    path != INDEX && built(path).is_some()
}

/// A file of the build, compressed.
fn built(path: &str) -> Option<EmbeddedFile> {
    Built::get(&format!("{path}.gz"))
}

/// Answers where no route does: a page, one of its files, or a refusal.
pub(super) async fn fallback(request: Request) -> Response {
    if !serves(&request) {
        return Failure(Error::NoRoute).into_response();
    }
    let is_known = is_file(request.uri().path()) || is_page(request.uri().path());
    let path = request.uri().path().trim_start_matches('/');
    let path = if is_file(request.uri().path()) { path } else { INDEX };
    let mut response = match built(path) {
        Some(file) => sent(path, file, request.headers()),
        None => ([(CONTENT_TYPE, HTML), (CACHE_CONTROL, "no-store")], UNBUILT).into_response(),
    };
    if !is_known {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    if request.method() == Method::HEAD {
        *response.body_mut() = Body::empty();
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

/// True if the client reads gzip (RFC 9110, 12.5.3); a weight of zero refuses it.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let given = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    given.flat_map(|value| value.split(',')).any(|item| {
        let (name, weight) = item.split_once(';').unwrap_or((item, ""));
        let weight = weight.trim().strip_prefix("q=").and_then(|it| it.trim().parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_none_or(|weight| weight > 0.0)
    })
}

fn sent(path: &str, file: EmbeddedFile, asked: &HeaderMap) -> Response {
    let is_compressed = accepts_gzip(asked);
    let hash = file.metadata.sha256_hash();
    let start: [u8; 16] = std::array::from_fn(|index| hash[index]);
    let suffix = if is_compressed { "-gzip" } else { "" };
    let tag = format!("\"{:032x}{suffix}\"", u128::from_be_bytes(start));
    let tag = HeaderValue::try_from(tag).expect("hexadecimal digits in quotes");
    let is_known = asked.get_all(IF_NONE_MATCH).iter().any(|known| known == tag);
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else if is_compressed {
        Body::from(file.data.into_owned()).into_response()
    } else {
        let mut plain = Vec::new();
        let read = GzDecoder::new(&*file.data).read_to_end(&mut plain);
        read.expect("the build compressed it");
        Body::from(plain).into_response()
    };
    let headers = response.headers_mut();
    // The name of a file in assets holds the hash of its content.
    let caching = if path.starts_with(ASSETS) { IMMUTABLE } else { REVALIDATE };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type(path)));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    headers.insert(ETAG, tag);
    if is_compressed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "html" => HTML,
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        "webmanifest" => "application/manifest+json",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_shadow_no_interface_of_programs() {
        for page in
            ["/", "/review", "/review/dt_task_1", "/executions/x/y", "/docs/api", "/sign-in"]
        {
            assert!(is_page(page), "{page}");
        }
        for other in [
            "/api",
            "/api/tasks",
            "/health",
            "/metrics",
            "/v1/models",
            "/ws",
            "//review",
            "review",
            "/other",
            "/assets/x.js",
            "/.env",
            "/index.html",
            "/reviews",
        ] {
            assert!(!is_page(other), "{other}");
        }
    }

    #[test]
    fn a_browser_is_told_of_an_unknown_page_by_the_dashboard() {
        let browser = HeaderMap::from_iter([(
            ACCEPT,
            HeaderValue::from_static("text/html,application/xhtml+xml,*/*;q=0.8"),
        )]);
        assert!(is_visit("/shifts", &browser) && is_visit("/shifts/1", &browser));
        for path in ["/api", "/api/tasks", "/v1/models", "/ws", "/.env", "/x.js", "//shifts"] {
            assert!(!is_visit(path, &browser), "{path}");
        }
        assert!(!is_visit("/shifts", &HeaderMap::new()));
    }

    #[test]
    fn gzip_is_sent_to_a_client_that_names_it_unless_its_weight_is_zero() {
        let of = |value: &'static str| {
            HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(value))])
        };
        assert!(accepts_gzip(&of("br, deflate, GZIP")));
        assert!(accepts_gzip(&of("gzip;q=0.5")));
        assert!(!accepts_gzip(&of("br, gzip;q=0")));
        assert!(!accepts_gzip(&of("*")));
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
