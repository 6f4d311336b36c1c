//! What usage is charged for, and the list prices (us-east-1, on demand).

use super::usage::{S3, SQS, Usage};
use crate::round;
use serde::Serialize;

/// Dollars a million.
const WRITE_UNITS: f64 = 0.625;
const READ_UNITS: f64 = 0.125;
const SQS_REQUESTS: f64 = 0.40;
const S3_PUT_CLASS: f64 = 5.00;
const S3_GET_CLASS: f64 = 0.40;

/// In numbers of what is charged for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Amounts {
    pub write_units: f64,
    pub read_units: f64,
    pub sqs_requests: f64,
    /// PUT, COPY, POST and LIST.
    pub s3_put_class: f64,
    /// GET and all others, but DELETE, which is free.
    pub s3_get_class: f64,
}

/// For a million tasks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Dollars {
    pub dynamodb_writes: f64,
    pub dynamodb_reads: f64,
    pub sqs: f64,
    pub s3_put_class: f64,
    pub s3_get_class: f64,
    pub total: f64,
}

impl Amounts {
    pub fn of(usage: &Usage) -> Amounts {
        let operations = |service: &str| usage.calls.get(service).into_iter().flatten();
        let of_class = |class: Class| -> u64 {
            operations(S3).filter(|(name, _)| class_of(name) == class).map(|(_, count)| count).sum()
        };
        Amounts {
            write_units: usage.write_tenths as f64 / 10.0,
            read_units: usage.read_tenths as f64 / 10.0,
            sqs_requests: operations(SQS).map(|(_, count)| count).sum::<u64>() as f64,
            s3_put_class: of_class(Class::Put) as f64,
            s3_get_class: of_class(Class::Get) as f64,
        }
    }

    pub fn per_task(&self, tasks: u64) -> Amounts {
        self.map(|amount| round::part(amount / tasks as f64))
    }

    pub fn dollars_per_million(&self, tasks: u64) -> Dollars {
        // Prices are a million units, and the answer is for a million tasks.
        let each = self.map(|amount| amount / tasks as f64);
        let [writes, reads, sqs, put, get] = [
            each.write_units * WRITE_UNITS,
            each.read_units * READ_UNITS,
            each.sqs_requests * SQS_REQUESTS,
            each.s3_put_class * S3_PUT_CLASS,
            each.s3_get_class * S3_GET_CLASS,
        ];
        Dollars {
            dynamodb_writes: round::ratio(writes),
            dynamodb_reads: round::ratio(reads),
            sqs: round::ratio(sqs),
            s3_put_class: round::ratio(put),
            s3_get_class: round::ratio(get),
            total: round::ratio(writes + reads + sqs + put + get),
        }
    }

    fn map(&self, change: impl Fn(f64) -> f64) -> Amounts {
        Amounts {
            write_units: change(self.write_units),
            read_units: change(self.read_units),
            sqs_requests: change(self.sqs_requests),
            s3_put_class: change(self.s3_put_class),
            s3_get_class: change(self.s3_get_class),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Put,
    Get,
    Free,
}

fn class_of(operation: &str) -> Class {
    let begins = |words: &[&str]| words.iter().any(|word| operation.starts_with(word));
    if begins(&["Delete", "Abort"]) {
        Class::Free
    } else if begins(&["Put", "Copy", "Post", "List", "Create", "Complete", "Upload"]) {
        Class::Put
    } else {
        Class::Get
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage() -> Usage {
        let mut usage = Usage { write_tenths: 41_005, read_tenths: 5_000, ..Usage::default() };
        usage.add_calls(SQS, "SendMessageBatch", 100);
        usage.add_calls(SQS, "ReceiveMessage", 230);
        for (operation, count) in
            [("PutObject", 10), ("ListObjectsV2", 2), ("GetObject", 5), ("DeleteObject", 9)]
        {
            usage.add_calls(S3, operation, count);
        }
        usage.add_calls("dynamodb", "UpdateItem", 1000);
        usage
    }

    #[test]
    fn calls_are_charged_by_their_kind() {
        let expected = Amounts {
            write_units: 4100.5,
            read_units: 500.0,
            sqs_requests: 330.0,
            s3_put_class: 12.0,
            s3_get_class: 5.0,
        };
        assert_eq!(Amounts::of(&usage()), expected);
        let each = expected.per_task(1000);
        assert_eq!((each.write_units, each.sqs_requests, each.s3_get_class), (4.1005, 0.33, 0.005));
    }

    #[test]
    fn a_million_tasks_at_list_price() {
        let dollars = Amounts::of(&usage()).dollars_per_million(1000);
        let expected = Dollars {
            dynamodb_writes: 2.563,
            dynamodb_reads: 0.063,
            sqs: 0.132,
            s3_put_class: 0.06,
            s3_get_class: 0.002,
            total: 2.819,
        };
        assert_eq!(dollars, expected);
    }

    #[test]
    fn deleting_is_free() {
        use Class::*;
        let classes = [
            ("PutObject", Put),
            ("CopyObject", Put),
            ("CreateMultipartUpload", Put),
            ("UploadPart", Put),
            ("UploadPartCopy", Put),
            ("CompleteMultipartUpload", Put),
            ("ListParts", Put),
            ("GetObject", Get),
            ("HeadObject", Get),
            ("HeadBucket", Get),
            ("DeleteObjects", Free),
            ("AbortMultipartUpload", Free),
        ];
        for (operation, class) in classes {
            assert_eq!(class_of(operation), class, "{operation}");
        }
    }
}
