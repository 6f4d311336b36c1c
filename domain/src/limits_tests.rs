use super::*;
use std::fmt::Write;
use std::path::Path;

const SPEC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/spec/limits.md");
const BEGIN: &str = "<!-- generated from domain/src/limits.rs: begin -->\n";
const END: &str = "<!-- generated from domain/src/limits.rs: end -->\n";

/// With thousands separators.
fn number(number: f64) -> String {
    let text = number.to_string();
    let (whole, fraction) = text.split_once('.').map_or((&*text, None), |(whole, rest)| (whole, Some(rest)));
    let mut shown = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            shown.push(',');
        }
        shown.push(digit);
    }
    fraction.map_or(shown.clone(), |fraction| format!("{shown}.{fraction}"))
}

/// In the largest unit of which it is a whole number.
fn bytes(bytes: f64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "bytes")];
    let (size, unit) = units
        .map(|(bits, unit)| (bytes / f64::from(1 << bits), unit))
        .into_iter()
        .find(|(n, _)| n.fract() == 0.0)
        .unwrap();
    format!("{} {unit}", number(size))
}

fn time(time: &Duration) -> String {
    let units =
        [(24 * 3_600_000, 2, "days"), (3_600_000, 1, "h"), (60_000, 2, "min"), (1_000, 1, "s"), (1, 0, "ms")];
    let whole = |&(ms, least, _): &(u128, u128, &str)| {
        time.as_millis().is_multiple_of(ms) && time.as_millis() / ms >= least
    };
    let (ms, _, unit) = units.into_iter().find(whole).unwrap();
    format!("{} {unit}", number((time.as_millis() / ms) as f64))
}

fn value(limit: &Limit) -> String {
    match limit.value {
        Value::Number(n) if limit.name.contains("BYTES") => bytes(n),
        Value::Number(n) => number(n),
        Value::Time(times) => times.iter().map(time).collect::<Vec<_>>().join(", "),
    }
}

/// References to constants and sections, as SPEC writes them.
fn meaning(limit: &Limit) -> String {
    let mut meaning = limit.meaning.trim().replace("[`", "`").replace("`]", "`").replace("(SPEC ", "(");
    for other in TABLE.iter().flat_map(|section| section.limits) {
        meaning = meaning.replace(&format!("`{}`", other.name), &format!("`{}`", other.name.to_lowercase()));
    }
    meaning
}

fn tables() -> String {
    let mut text = String::new();
    for section in TABLE {
        write!(
            text,
            "\n### {}\n\n| name | value | what it bounds | set by |\n|---|---|---|---|\n",
            section.title
        )
        .unwrap();
        for limit in section.limits {
            let (name, value, meaning) = (limit.name.to_lowercase(), value(limit), meaning(limit));
            let cells = format!("| `{name}` | {value} | {meaning} | {} |", limit.set_by);
            writeln!(text, "{}", cells.replace("|  |", "| |")).unwrap();
        }
    }
    text + "\n"
}

#[test]
fn spec_has_the_tables_that_the_code_declares() {
    let kept = std::fs::read_to_string(Path::new(SPEC)).unwrap();
    let (before, rest) = kept.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let generated = format!("{before}{BEGIN}{}{END}{after}", tables());
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        return std::fs::write(SPEC, generated).unwrap();
    }
    assert!(
        kept == generated,
        "SPEC 12 is out of date: UPDATE_SCHEMAS=1 cargo test -p conveyor-domain limits"
    );
}

#[test]
fn values_are_printed_for_people() {
    let ms = |ms| time(&Duration::from_millis(ms));
    assert_eq!([ms(250), ms(60_000), ms(90_000)], ["250 ms", "60 s", "90 s"]);
    assert_eq!([ms(120_000), ms(3_600_000), ms(86_400_000)], ["2 min", "1 h", "24 h"]);
    assert_eq!([ms(172_800_000), ms(0)], ["2 days", "0 ms"]);
    assert_eq!([number(0.005), number(999.0), number(1_000_000.0)], ["0.005", "999", "1,000,000"]);
    assert_eq!([bytes(50.0), bytes(4_194_304.0), bytes(1_536.0)], ["50 bytes", "4 MiB", "1,536 bytes"]);
}
