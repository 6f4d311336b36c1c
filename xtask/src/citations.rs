//! Every `SPEC x.y` in the repository is a heading of a page in `docs/spec/`, or a numbered item below one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// `6`, `6.3`: what a text begins with, if it is a section number.
fn number(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = text[..end].trim_end_matches('.');
    (!number.is_empty() && number.starts_with(|c: char| c.is_ascii_digit())).then(|| number.to_owned())
}

fn sections() -> BTreeSet<String> {
    let mut sections: BTreeSet<String> = ["5", "6"].map(str::to_owned).into();
    for page in fs::read_dir(root().join("docs/spec")).unwrap() {
        let mut within = None;
        for line in fs::read_to_string(page.unwrap().path()).unwrap().lines() {
            if line.starts_with('#') {
                if let Some(heading) = number(line.trim_start_matches('#').trim_start()) {
                    sections.insert(heading.clone());
                    within = Some(heading);
                }
            } else if let (Some(within), Some(item)) = (&within, number(line)) {
                sections.insert(format!("{within}.{item}"));
            }
        }
    }
    sections
}

/// The numbers of `SPEC 6.3, 6.4 and 8`.
fn cited(line: &str) -> Vec<String> {
    let mut cited = Vec::new();
    for (at, _) in line.match_indices("SPEC ") {
        let mut rest = &line[at + "SPEC ".len()..];
        while let Some(section) = number(rest) {
            rest = &rest[section.len()..];
            cited.push(section);
            let Some(next) = rest.strip_prefix(", ").or_else(|| rest.strip_prefix(" and ")) else { break };
            rest = next;
        }
    }
    cited
}

#[test]
fn every_citation_is_a_section() {
    assert_eq!(cited("(SPEC 6.3, 6.4 and 8) and SPEC 12."), ["6.3", "6.4", "8", "12"]);
    let files = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().unwrap().stdout;
    let (sections, mut looked) = (sections(), 0);
    let mut wrong = Vec::new();
    for name in String::from_utf8(files).unwrap().split_terminator('\0') {
        let Ok(text) = fs::read_to_string(root().join(name)) else { continue };
        for (line, text) in (1..).zip(text.lines()) {
            for section in cited(text) {
                looked += 1;
                if !sections.contains(&section) {
                    wrong.push(format!("{name}:{line}: SPEC {section}"));
                }
            }
        }
    }
    assert!(looked > 300, "only {looked} citations were found");
    assert!(wrong.is_empty(), "no such section:\n{}", wrong.join("\n"));
}
