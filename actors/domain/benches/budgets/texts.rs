//! Texts that a caller sends and a library parses.

use callboard_domain::Timestamp;
use callboard_domain::account::Email;
use callboard_domain::condition::{self, Condition};
use callboard_domain::credential;
use callboard_domain::id::ExecutionId;
use callboard_domain::pattern::{self, Patterns};
use callboard_domain::schedule::{Timetable, Timing};
use callboard_domain::template::Version;
use callboard_domain::trace::TraceContext;
use callboard_protocol::document::{self, Format};

use super::{ALL, NOW, brief, case};

/// Short texts, each in the form that takes its reader the longest.
pub(crate) fn texts() {
    let crons = [
        ", * * * *",
        "* * * , *",
        ",,,, ,,,, ,,,, ,,,, ,,,,",
        "1,,2 * * * *",
        "0 0 30 2 *",
        "0 0 8 * +MON#1",
        "0 0 31 2 +MON",
        "0 0 29 2 +MON",
        "0 0 * 2 MON#5",
        "59 23 29 2 *",
        "0 0 31W 2 *",
        "* * 29 2 +MON",
        "*/15 2 * 3 SUN#L",
    ];
    let long = vec!["0-59/1"; 36].join(",");
    let long = format!("{long} * * * *");
    for cron in crons.into_iter().chain([long.as_str()]) {
        for zone in ["UTC", "Europe/Berlin", "Australia/Lord_Howe"] {
            let timing = Timing::Cron { cron: cron.into(), zone: zone.into() };
            let shown = &cron[..cron.len().min(24)];
            let table = brief(&format!("cron: {shown} in {zone}"), || Timetable::compile(&timing));
            if let Ok(table) = table {
                let _ = brief("    the next instant", || table.next_after(NOW));
                let past = || table.backwards(Timestamp::from_millis(0), NOW).take(100).count();
                let _ = brief("    the last hundred instants", past);
            }
        }
    }
    let zones =
        ["../".repeat(21), "a".repeat(64), "Etc/GMT+99".into(), "EST5EDT,M3.2.0,M11.1.0".into()];
    for zone in zones {
        let timing = Timing::Cron { cron: "0 0 * * *".into(), zone };
        let _ = brief("zone: one that does not exist", || Timetable::compile(&timing));
    }
    let conditions = [
        ("brackets", "(".repeat(1_024)),
        ("an unfinished text", format!("'{}", "\\'".repeat(500))),
        ("operators", "!".repeat(1_024)),
        ("a chain", format!("a{}", ".a".repeat(511))),
        ("lists", "[".repeat(1_024)),
        ("placeholders", "{{a.output}}".repeat(85)),
        ("choices", "a?".repeat(512)),
        ("numbers", "9".repeat(1_024)),
    ];
    for (name, text) in conditions {
        let _ = brief(&format!("condition: a kibibyte of {name}"), || {
            Condition::compile(text, &mut Patterns::with_budget(condition::MAX_PLAN_PATTERNS))
                .map(drop)
        });
    }
    let patterns = [
        ("brackets", "(".repeat(16_384)),
        ("classes within classes", "[".repeat(16_384)),
        ("repetitions", format!("a{}", "{1000}".repeat(2_000))),
        ("all characters without case", format!("(?i){}", ALL.repeat(20))),
        ("alternatives", "a|".repeat(8_192)),
        ("members of a class", format!("[{}]", ('\u{4e00}'..='\u{5c00}').collect::<String>())),
    ];
    for (name, text) in patterns {
        let _ = brief(&format!("pattern: the cost of 16 KiB of {name}"), || pattern::cost(&text));
        let compile = || Patterns::with_budget(1 << 20).compile(&text, 1 << 18).map(drop);
        let _ = case(&format!("pattern: 16 KiB of {name}"), compile);
    }
    let digits = "9".repeat(8_192);
    let _ = brief("instant: 8 KiB of digits", || digits.parse::<Timestamp>());
    let _ = brief("trace context: 8 KiB", || "00-".repeat(2_730).parse::<TraceContext>());
    let _ = brief("e-mail: 8 KiB", || Email::parse(&"a@".repeat(4_096)));
    let _ = brief("credential: 8 KiB", || credential::parse(&"svc_live_".repeat(910)).is_ok());
    let _ = brief("version: 8 KiB", || digits.parse::<Version>());
    let _ = brief("identifier: 8 KiB", || digits.parse::<ExecutionId>());
}

fn joined(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<_>>().concat()
}

/// Documents of 2 MiB, each in the form that takes its parser the longest.
pub(crate) fn documents() {
    const SIZE: usize = 2 << 20;
    let repeated = |text: &str| text.repeat(SIZE / text.len());
    let names = joined(150_000, |n| format!("\"{n}\":0,"));
    let json = [
        ("numbers", format!("[{}0]", "0,".repeat(SIZE / 2 - 2))),
        ("lists", format!("[{}0]", "[],".repeat(SIZE / 3 - 2))),
        ("names", format!("{{{names}\"x\":0}}")),
        ("escapes", format!("\"{}\"", repeated("\\u0041"))),
        ("brackets", "[".repeat(SIZE)),
        ("digits", repeated("9")),
    ];
    for (name, text) in json {
        let _ = case(&format!("JSON: 2 MiB of {name}"), || {
            document::parse(text.as_bytes(), Format::Json).map(drop)
        });
    }
    let anchors = joined(40_000, |n| format!("- &a{n} x\n- *a{n}\n"));
    let bombs = joined(29, |n| {
        format!("a{}: &a{} [{}]\n", n + 1, n + 1, vec![format!("*a{n}"); 9].join(", "))
    });
    let yaml = [
        ("numbers", repeated("- 0\n")),
        ("lists", format!("[{}]", repeated("0,"))),
        ("indents", joined(1_000, |n| format!("{}a:\n", " ".repeat(n)))),
        ("brackets", "[".repeat(SIZE)),
        ("braces", "{".repeat(SIZE)),
        ("quotes", format!("\"{}\"", repeated("\\\""))),
        ("folded lines", format!(">\n{}", repeated(" x\n\n"))),
        ("keys", repeated("? ")),
        ("dashes", repeated("- ")),
        ("comments", repeated("#\n")),
        ("anchors", anchors),
        ("aliases of aliases", format!("a0: &a0 [x]\n{bombs}")),
        ("directives", repeated("%YAML 1.2\n")),
        ("tags", repeated("!!str ")),
        ("blanks", repeated(" ")),
        ("tabs", repeated("\t")),
        ("documents", repeated("---\n")),
        ("colons", repeated(":")),
    ];
    for (name, text) in yaml {
        let _ = case(&format!("YAML: 2 MiB of {name}"), || {
            document::parse(text.as_bytes(), Format::Yaml).map(drop)
        });
    }
    for (name, text) in [("numbers", "- 0\n"), ("quotes", "- \"x\"\n"), ("keys", "? a\n: b\n")] {
        let text = text.repeat((4 << 10) / text.len());
        let _ = brief(&format!("YAML: 4 KiB of {name}"), || {
            document::parse(text.as_bytes(), Format::Yaml).map(drop)
        });
    }
    let numbers = format!("[{}0]", "0,".repeat((64 << 10) / 2 - 2));
    let _ = brief("JSON: 64 KiB of numbers", || {
        document::parse(numbers.as_bytes(), Format::Json).map(drop)
    });
}
