//! Java, which a server that is a jar needs.

use super::system::Need;
use std::process::Command;

const AT_LEAST: u32 = 17;

/// The distribution's default is enough wherever it is not older than the jar.
pub const JAVA: Need = Need {
    what: "Java 17 or later",
    packages: &["default-jre-headless"],
    is_met: || version().is_some_and(|version| version >= AT_LEAST),
};

fn version() -> Option<u32> {
    let output = Command::new("java").arg("-version").output().ok()?;
    parse(&String::from_utf8_lossy(&output.stderr))
}

/// The first number in the first quotes: `openjdk version "17.0.15" 2025-04-15`. Before 9 it was `"1.8.0_402"`.
fn parse(text: &str) -> Option<u32> {
    text.split('"').nth(1)?.split(['.', '-', '+']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_in_what_java_says() {
        assert_eq!(parse("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime"), Some(17));
        assert_eq!(parse("Picked up JAVA_TOOL_OPTIONS\nopenjdk version \"21\" 2023-09-19"), Some(21));
        assert_eq!(parse("openjdk version \"22-ea\" 2024-03-19"), Some(22));
        assert_eq!(parse("java version \"1.8.0_402\""), Some(1));
        assert_eq!(parse("The operation couldn't be completed."), None);
        assert!(JAVA.what.contains(&AT_LEAST.to_string()));
    }
}
