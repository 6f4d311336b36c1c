//! What a task may cost. `--check` fails where it costs more.

use super::price::Amounts;

/// Of submit, ingest, drain and completion together.
const WRITE_UNITS_MAX: f64 = 4.2;
const READ_UNITS_MAX: f64 = 0.6;
const SQS_REQUESTS_MAX: f64 = 0.35;
/// Of the enumeration.
const ROWS_READ_PER_ROW_MAX: f64 = 1.25;

/// What is over its budget, in words.
pub fn overruns(per_task: &Amounts, rows_read_per_row: Option<f64>) -> Vec<String> {
    let budgets = [
        ("write units a task", Some(per_task.write_units), WRITE_UNITS_MAX),
        ("read units a task", Some(per_task.read_units), READ_UNITS_MAX),
        ("SQS requests a task", Some(per_task.sqs_requests), SQS_REQUESTS_MAX),
        ("rows read per row returned", rows_read_per_row, ROWS_READ_PER_ROW_MAX),
    ];
    let over = budgets.into_iter().filter_map(|(what, amount, max)| match amount {
        Some(amount) if amount <= max => None,
        Some(amount) => Some(format!("{amount} {what}, and {max} is the most")),
        // Nothing counted is no proof.
        None => Some(format!("{what}: unknown")),
    });
    over.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_budget_is_kept_or_named() {
        let within = Amounts { write_units: 4.2, read_units: 0.6, sqs_requests: 0.35, ..Amounts::default() };
        assert!(overruns(&within, Some(1.25)).is_empty());
        let over = Amounts { write_units: 4.21, sqs_requests: 0.4, ..within };
        let said = overruns(&over, Some(2.0));
        assert_eq!(said.len(), 3);
        assert_eq!(said[0], "4.21 write units a task, and 4.2 is the most");
        assert!(said[1].contains("SQS") && said[2].contains("rows read"));
        assert_eq!(overruns(&within, None), ["rows read per row returned: unknown"]);
    }
}
