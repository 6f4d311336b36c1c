//! A bar on standard error, for a person who waits.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use std::io::{self, IsTerminal};

const TEMPLATE: &str = "{msg:18} {bar:24} {human_pos}/{human_len}, eta {eta}";
/// For what has no known end.
const ENDLESS: &str = "{msg:18} {human_pos}, for {elapsed}";

#[derive(Debug)]
pub struct Progress {
    seen: bool,
}

impl Progress {
    /// Nobody would see one on a pipe.
    pub fn new(wanted: bool) -> Progress {
        Progress { seen: wanted && io::stderr().is_terminal() }
    }

    /// The bar of one step, gone when it is dropped. A length of 0 is one that is not known.
    pub fn bar(&self, name: &'static str, length: u64) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::hidden());
        let bar = bar.with_finish(ProgressFinish::AndClear);
        let template = if length == 0 { ENDLESS } else { TEMPLATE };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("#>."));
        bar.set_message(name);
        if self.seen {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_one() {
        for template in [TEMPLATE, ENDLESS] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
