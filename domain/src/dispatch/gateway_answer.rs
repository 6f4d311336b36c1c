//! What an answer of the gateway means for the task and for the run (SPEC 9).

use crate::{AccountFault, FailureClass};

/// Who sent the answer: a gateway speaks about the account, a target only about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Gateway,
    Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Success,
    /// The account is at fault: the run fails, the task burns no attempt.
    Account(AccountFault),
    Failure {
        class: FailureClass,
        retry: bool,
    },
}

/// Judges an HTTP status and the `code` of a problem body, if there was one.
pub fn judge(source: Source, status: u16, code: Option<&str>) -> Verdict {
    use FailureClass::*;
    let fail = |class| Verdict::Failure { class, retry: false };
    let retry = |class| Verdict::Failure { class, retry: true };
    match (status, source) {
        (200..=299, _) => Verdict::Success,
        (401, Source::Gateway) if code == Some("subscription_inactive") => {
            Verdict::Account(AccountFault::SubscriptionInactive)
        }
        (401, Source::Gateway) => fail(AuthFailed),
        (402, Source::Gateway) if code == Some("api_key_cap_reached") => {
            Verdict::Account(AccountFault::ApiKeyCapReached)
        }
        (402, Source::Gateway) if code == Some("subscription_inactive") => {
            Verdict::Account(AccountFault::SubscriptionInactive)
        }
        // The ZenRows codes for "Extract does not cover this page" and "found nothing on it": final, and the page's fault.
        (402 | 403 | 422, Source::Gateway)
            if matches!(code, Some("AUTH010" | "REQS007" | "no_data_extracted")) =>
        {
            fail(BadTarget)
        }
        (402, Source::Gateway) => Verdict::Account(AccountFault::InsufficientCredits),
        (401 | 402 | 403 | 422, _) => retry(Blocked),
        (400 | 404 | 410 | 413 | 414 | 451, _) => fail(BadTarget),
        (408 | 504, _) => retry(Timeout),
        (429, _) => retry(RateLimited),
        (500..=599, _) => retry(GatewayError),
        (_, _) => fail(Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_faults_come_only_from_a_gateway() {
        let judged = |source| judge(source, 402, None);
        assert_eq!(judged(Source::Gateway), Verdict::Account(AccountFault::InsufficientCredits));
        assert_eq!(judged(Source::Target), Verdict::Failure { class: FailureClass::Blocked, retry: true });
        let cap = judge(Source::Gateway, 402, Some("api_key_cap_reached"));
        assert_eq!(cap, Verdict::Account(AccountFault::ApiKeyCapReached));
    }

    #[test]
    fn a_page_that_cannot_be_extracted_is_final_and_not_the_accounts_fault() {
        for (status, code) in [(402, "AUTH010"), (403, "REQS007"), (422, "no_data_extracted")] {
            let verdict = judge(Source::Gateway, status, Some(code));
            assert_eq!(verdict, Verdict::Failure { class: FailureClass::BadTarget, retry: false }, "{code}");
        }
    }

    #[test]
    fn the_table_of_the_specification() {
        use FailureClass::*;
        let table = [
            (400, BadTarget, false),
            (401, AuthFailed, false),
            (403, Blocked, true),
            (404, BadTarget, false),
            (410, BadTarget, false),
            (413, BadTarget, false),
            (422, Blocked, true),
            (408, Timeout, true),
            (504, Timeout, true),
            (429, RateLimited, true),
            (500, GatewayError, true),
            (503, GatewayError, true),
            (418, Other, false),
            (302, Other, false),
        ];
        for (status, class, retry) in table {
            assert_eq!(judge(Source::Gateway, status, None), Verdict::Failure { class, retry }, "{status}");
        }
    }
}
