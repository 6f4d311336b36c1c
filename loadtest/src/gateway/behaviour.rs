//! What a target URL asks the gateway to do. Pure: the same URL always means the same.

use std::time::Duration;
use url::Url;

/// The largest page that can be asked for.
pub const SIZE_MAX: usize = 64 * 1024 * 1024;
const SLOW_MAX_MS: u64 = 3_600_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    Page,
    Status {
        code: u16,
        retry_after: Option<u64>,
    },
    /// Fails this many times, then answers with a page.
    Flaky {
        failures: u32,
    },
    Slow(Duration),
    Size(usize),
    Account(Fault),
    Hang,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Credits,
    Cap,
    Subscription,
}

/// `None` if the text is not a URL. A path that looks like a script but is not one is an ordinary page.
pub fn behaviour_of(target: &str) -> Option<Behaviour> {
    let url = Url::parse(target).ok()?;
    let mut segments = url.path_segments()?;
    let (verb, word) = (segments.next().unwrap_or_default(), segments.next().unwrap_or_default());
    Some(script(&url, verb, word).unwrap_or(Behaviour::Page))
}

fn script(url: &Url, verb: &str, word: &str) -> Option<Behaviour> {
    match verb {
        "status" => {
            let code = word.parse().ok().filter(|code| (200..=599).contains(code))?;
            let after = url.query_pairs().find(|(name, _)| name == "retry_after");
            Some(Behaviour::Status { code, retry_after: after.and_then(|(_, value)| value.parse().ok()) })
        }
        "flaky" => Some(Behaviour::Flaky { failures: word.parse().ok()? }),
        "slow" => Some(Behaviour::Slow(Duration::from_millis(word.parse::<u64>().ok()?.min(SLOW_MAX_MS)))),
        "size" => Some(Behaviour::Size(word.parse().ok().filter(|size| *size <= SIZE_MAX)?)),
        "account" => match word {
            "credits" => Some(Behaviour::Account(Fault::Credits)),
            "cap" => Some(Behaviour::Account(Fault::Cap)),
            "subscription" => Some(Behaviour::Account(Fault::Subscription)),
            _ => None,
        },
        "hang" => Some(Behaviour::Hang),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Behaviour::*;

    fn of(path: &str) -> Behaviour {
        behaviour_of(&format!("http://t.example{path}")).unwrap()
    }

    #[test]
    fn paths_are_scripts() {
        assert_eq!(of("/status/404"), Status { code: 404, retry_after: None });
        assert_eq!(of("/status/429?x=1&retry_after=2"), Status { code: 429, retry_after: Some(2) });
        assert_eq!(of("/flaky/2?id=7"), Flaky { failures: 2 });
        assert_eq!(of("/slow/500/any/thing"), Slow(Duration::from_millis(500)));
        assert_eq!(of("/size/0"), Size(0));
        assert_eq!(of("/account/credits"), Account(Fault::Credits));
        assert_eq!(of("/account/cap"), Account(Fault::Cap));
        assert_eq!(of("/account/subscription"), Account(Fault::Subscription));
        assert_eq!(of("/hang"), Hang);
    }

    #[test]
    fn anything_else_is_a_page() {
        for path in [
            "",
            "/",
            "/item/1",
            "/status",
            "/status/999",
            "/status/x",
            "/size/99999999999",
            "/account/other",
            "/slow/",
        ] {
            assert_eq!(of(path), Page, "{path}");
        }
        assert_eq!(behaviour_of("not a url"), None);
        assert_eq!(behaviour_of(""), None);
    }
}
