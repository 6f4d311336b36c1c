//! `--schedule`: a rule in words, as the API writes it.

use serde_json::{Value, json};

const FORMS: &str = "one of: `every 15 minutes`, `daily at 09:00,18:00`, `weekly on mon,fri at 09:00`, `monthly on 1,15 at 09:00`, `once at 2026-09-01T09:00:00`";

/// Checked only for its form: what times, days and zones there are is the server's to say.
pub fn parse(text: &str) -> Result<Value, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    let calendar =
        |times: &str, cadence: Value| json!({"calendar": {"times_of_day": list(times), "cadence": cadence}});
    match words[..] {
        ["every", unit] => Ok(json!({"rate": {"every": 1, "unit": singular(unit)}})),
        ["every", every, unit] => {
            let every: u32 = every.parse().map_err(|_| format!("`{every}` is not a number; {FORMS}"))?;
            Ok(json!({"rate": {"every": every, "unit": singular(unit)}}))
        }
        ["once", "at", at] => Ok(json!({"at": at})),
        ["daily", "at", times] => Ok(calendar(times, json!({"daily": {}}))),
        ["weekly", "on", days, "at", times] => Ok(calendar(times, json!({"weekly": {"days": list(days)}}))),
        ["monthly", "on", days, "at", times] => {
            let number = |day: &str| day.parse::<u32>().map_err(|_| format!("`{day}` is not a day; {FORMS}"));
            let days = days.split(',').map(number).collect::<Result<Vec<_>, _>>()?;
            Ok(calendar(times, json!({"monthly": {"days": days}})))
        }
        _ => Err(FORMS.to_owned()),
    }
}

fn singular(unit: &str) -> &str {
    unit.strip_suffix('s').unwrap_or(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_what_the_api_reads() {
        for (words, schedule) in [
            ("every 15 minutes", json!({"rate": {"every": 15, "unit": "minute"}})),
            ("every day", json!({"rate": {"every": 1, "unit": "day"}})),
            ("once at 2026-09-01T09:00:00", json!({"at": "2026-09-01T09:00:00"})),
            (
                "daily at 09:00,18:00",
                json!({"calendar": {"times_of_day": ["09:00", "18:00"], "cadence": {"daily": {}}}}),
            ),
            (
                "weekly on mon,fri at 09:00",
                json!({"calendar": {"times_of_day": ["09:00"], "cadence": {"weekly": {"days": ["mon", "fri"]}}}}),
            ),
            (
                "monthly on 1,15 at 00:00",
                json!({"calendar": {"times_of_day": ["00:00"], "cadence": {"monthly": {"days": [1, 15]}}}}),
            ),
        ] {
            assert_eq!(parse(words).unwrap(), schedule, "{words}");
        }
        for bad in ["", "hourly", "every many minutes", "monthly on mon at 09:00", "at 9"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
