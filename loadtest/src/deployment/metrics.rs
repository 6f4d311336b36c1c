//! A page of metrics, in Prometheus' text format.

use std::collections::BTreeMap;

/// What a page says under a name, all labels together. What it does not say is nothing: a counter that was never
/// counted up is not on the page.
pub fn total(page: &str, name: &str) -> f64 {
    let samples = page.lines().filter_map(Sample::parse).filter(|sample| sample.name == name);
    samples.map(|sample| sample.value).sum()
}

/// One line.
#[derive(Debug, PartialEq)]
pub struct Sample<'a> {
    pub name: &'a str,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

impl Sample<'_> {
    pub fn parse(line: &str) -> Option<Sample<'_>> {
        let end = line.find(['{', ' '])?;
        let (name, rest) = line.split_at(end);
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => parse_labels(rest)?,
            None => (BTreeMap::new(), rest),
        };
        // A timestamp may follow.
        let value = rest.split_whitespace().next()?.parse().ok()?;
        (!name.starts_with('#')).then_some(Sample { name, labels, value })
    }
}

/// Labels up to the closing brace, and what comes after it.
fn parse_labels(mut rest: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let (value, after) = parse_value(quoted)?;
        labels.insert(name.to_owned(), value);
        rest = after;
    }
}

/// A value up to its closing quote.
fn parse_value(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_is_over_all_labels_of_the_very_name() {
        let page = "a{x=\"1\"} 2\na{x=\"2\"} 3\na_total 100\n# a 7\n";
        assert_eq!(total(page, "a"), 5.0);
        assert_eq!(total(page, "b"), 0.0);
    }

    #[test]
    fn labels_may_hold_anything() {
        let sample = Sample::parse(r#"a{b="x, \"y\"} \\ z",c="1"} 2.5"#).unwrap();
        assert_eq!((sample.name, sample.value), ("a", 2.5));
        assert_eq!((sample.labels["b"].as_str(), sample.labels["c"].as_str()), (r#"x, "y"} \ z"#, "1"));
        assert_eq!(Sample::parse("# HELP a b"), None);
    }
}
