//! Rows of a list that are no tasks, as CSV. A report has them as JSON, one a line.

use conveyor_domain::RejectedRow;
use conveyor_domain::export::spreadsheet::cell;
use std::fmt::Write;

pub(crate) const CSV_HEADER: &str = "index,line,offset,reason,value\r\n";

pub(crate) fn write_csv(row: &RejectedRow, out: &mut String) {
    let RejectedRow { index, line, offset, reason, value } = row;
    // Writing to a string does not fail.
    let _ = write!(out, "{index},{line},{offset},{},{}\r\n", reason.as_str(), cell(value));
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::job::task_input::{Invalid, Reason};

    #[test]
    fn a_report_has_a_row_a_line() {
        let row = |index| RejectedRow::new(index, 3, 40, Invalid::new(Reason::MalformedUrl, "a\nb"));
        let text = String::from_utf8(RejectedRow::report(&[row(1), row(2)])).unwrap();
        let read: Vec<RejectedRow> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, [row(1), row(2)]);
        let mut csv = CSV_HEADER.to_owned();
        write_csv(&row(1), &mut csv);
        assert_eq!(csv, "index,line,offset,reason,value\r\n1,3,40,malformed_url,\"a\nb\"\r\n");
    }
}
