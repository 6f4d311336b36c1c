//! Keys that operators make, and what callers may have (SPEC 6.24).

use super::{read, read_some};
use crate::problem::{ApiError, Result};
use crate::warnings::Warnings;
use conveyor_wire::{ChangeQuotas, CreateKey, QuotasBody};

pub(crate) fn parse_key(body: &[u8], warnings: &Warnings) -> Result<CreateKey> {
    let key: CreateKey = read(body, warnings)?;
    if key.operator == Some(true) && (key.caller.is_some() || key.quotas.is_some()) {
        return Err(ApiError::invalid("An operator key is no caller's: it has no `caller` and no `quotas`."));
    }
    Ok(key)
}

pub(crate) fn parse_quotas(body: &[u8], warnings: &Warnings) -> Result<QuotasBody> {
    read_some(body, warnings).map(|ChangeQuotas(quotas)| quotas)
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::Quotas;

    #[test]
    fn an_operator_key_has_neither_caller_nor_quotas() {
        assert!(
            parse_key(br#"{"name":"a","operator":true}"#, &Warnings::strict()).unwrap().operator
                == Some(true)
        );
        for rest in [r#""caller":"01ARZ3NDEKTSV4RRFFQ69G5FAV""#, r#""quotas":{}"#] {
            let body = format!(r#"{{"name":"a","operator":true,{rest}}}"#);
            assert!(parse_key(body.as_bytes(), &Warnings::strict()).is_err(), "{rest}");
        }
        for bad in [r#"{}"#, r#"{"name":""}"#, r#"{"name":"a","caller":"x"}"#, r#"{"name":"a","quota":{}}"#] {
            assert!(parse_key(bad.as_bytes(), &Warnings::strict()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_change_leaves_what_it_does_not_name_and_null_takes_away() {
        let quotas = Quotas { active_jobs: Some(3), scheduled_jobs: Some(4), queued_tasks: None };
        let change = parse_quotas(br#"{"active_jobs":null,"queued_tasks":0}"#, &Warnings::strict()).unwrap();
        let expected = Quotas { active_jobs: None, scheduled_jobs: Some(4), queued_tasks: Some(0) };
        assert_eq!(change.over(quotas), expected);
        for bad in ["{}", r#"{"active_jobs":-1}"#, r#"{"active_jobs":10001}"#, r#"{"jobs":1}"#] {
            assert!(parse_quotas(bad.as_bytes(), &Warnings::strict()).is_err(), "{bad}");
        }
    }
}
