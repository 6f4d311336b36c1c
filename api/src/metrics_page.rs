//! The text of `/metrics` (SPEC 15). It needs no key, so it is rendered at a bounded rate whoever asks for it, and those who
//! wait share one text. No answer is older than its request.

use axum::body::Bytes;
use conveyor_domain::limits;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// The latest text, with when it was begun.
#[derive(Debug, Default)]
pub(crate) struct MetricsPage(Mutex<Option<(Instant, Bytes)>>);

impl MetricsPage {
    pub async fn text(&self, render: impl FnOnce() -> String) -> Bytes {
        let asked = Instant::now();
        let mut latest = self.0.lock().await;
        if let Some((begun, text)) = &*latest {
            if *begun > asked {
                return text.clone();
            }
            sleep_until(*begun + limits::METRICS_EVERY).await;
        }
        let begun = Instant::now();
        let text = Bytes::from(render());
        *latest = Some((begun, text.clone()));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::join_all;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test(start_paused = true)]
    async fn requests_at_the_same_time_share_a_text_that_is_no_older_than_they_are() {
        let (page, rendered) = (MetricsPage::default(), AtomicUsize::new(0));
        let render = || rendered.fetch_add(1, Ordering::Relaxed).to_string();
        assert_eq!(page.text(render).await, "0");
        let texts = join_all((0..100).map(|_| page.text(render))).await;
        assert!(texts.iter().all(|text| text == "1"), "{texts:?}");
        let before = Instant::now();
        assert_eq!(page.text(render).await, "2");
        assert_eq!(before.elapsed(), limits::METRICS_EVERY);
    }
}
