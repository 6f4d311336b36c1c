//! What the roles have used so far, as their `/metrics` count it (SPEC 15).

use crate::deployment::Sample;
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// Counters only: they grow, and two of them subtract to what happened between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Every try of every call, by service and operation.
    pub calls: BTreeMap<String, BTreeMap<String, u64>>,
    pub write_tenths: u64,
    pub read_tenths: u64,
    /// Rows that queries looked at.
    pub rows_read: u64,
    /// Rows that they were asked for.
    pub rows_returned: u64,
    pub queues_deleted: u64,
}

pub const DYNAMODB: &str = "dynamodb";
pub const SQS: &str = "sqs";
pub const S3: &str = "s3";

impl Usage {
    /// Reads a page of metrics; what is of no interest, or no metric at all, is passed over.
    pub fn parse(page: &str) -> Usage {
        let mut usage = Usage::default();
        for sample in page.lines().filter_map(Sample::parse) {
            usage.take(&sample);
        }
        usage
    }

    fn take(&mut self, sample: &Sample<'_>) {
        let count = sample.value.round() as u64;
        let label = |name: &str| sample.labels.get(name).map_or("", String::as_str);
        match sample.name {
            "conveyor_aws_calls_total" => {
                let (service, operation) = (service_of(label("service")), label("operation"));
                self.add_calls(&service, operation, count);
                if (service.as_str(), operation, label("outcome")) == (SQS, "DeleteQueue", "ok") {
                    self.queues_deleted += count;
                }
            }
            "conveyor_aws_capacity_tenths_total" => match label("kind") {
                "write" => self.write_tenths += count,
                _ => self.read_tenths += count,
            },
            "conveyor_aws_rows_read_total" => self.rows_read += count,
            "conveyor_aws_rows_returned_total" => self.rows_returned += count,
            _ => {}
        }
    }

    pub fn add_calls(&mut self, service: &str, operation: &str, count: u64) {
        let operations = self.calls.entry(service.to_owned()).or_default();
        *operations.entry(operation.to_owned()).or_default() += count;
    }

    /// What was used between an earlier look and this one. Calls of which there were none are left out.
    pub fn since(&self, before: &Usage) -> Usage {
        let mut calls = self.calls.clone();
        for (service, operations) in &mut calls {
            for (operation, count) in operations.iter_mut() {
                let earlier = before.calls.get(service).and_then(|operations| operations.get(operation));
                *count = count.saturating_sub(earlier.copied().unwrap_or(0));
            }
            operations.retain(|_, count| *count > 0);
        }
        calls.retain(|_, operations| !operations.is_empty());
        Usage {
            calls,
            write_tenths: self.write_tenths.saturating_sub(before.write_tenths),
            read_tenths: self.read_tenths.saturating_sub(before.read_tenths),
            rows_read: self.rows_read.saturating_sub(before.rows_read),
            rows_returned: self.rows_returned.saturating_sub(before.rows_returned),
            queues_deleted: self.queues_deleted.saturating_sub(before.queues_deleted),
        }
    }
}

impl AddAssign<&Usage> for Usage {
    fn add_assign(&mut self, other: &Usage) {
        for (service, operations) in &other.calls {
            operations.iter().for_each(|(operation, count)| self.add_calls(service, operation, *count));
        }
        self.write_tenths += other.write_tenths;
        self.read_tenths += other.read_tenths;
        self.rows_read += other.rows_read;
        self.rows_returned += other.rows_returned;
        self.queues_deleted += other.queues_deleted;
    }
}

/// However the SDK writes it: `DynamoDB`, `Dynamo DB`, `AmazonSQS`.
fn service_of(label: &str) -> String {
    let letters: String = label.chars().filter(char::is_ascii_alphanumeric).collect();
    let letters = letters.to_ascii_lowercase();
    let known = [DYNAMODB, SQS, S3].into_iter().find(|service| letters.ends_with(service));
    known.map_or(letters.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# TYPE conveyor_aws_calls_total counter
conveyor_aws_calls_total{service=\"DynamoDB\",operation=\"BatchExecuteStatement\",outcome=\"ok\"} 400
conveyor_aws_calls_total{service=\"DynamoDB\",operation=\"BatchExecuteStatement\",outcome=\"refused\"} 3
conveyor_aws_calls_total{service=\"SQS\",operation=\"DeleteQueue\",outcome=\"ok\"} 1
conveyor_aws_calls_total{service=\"SQS\",operation=\"DeleteQueue\",outcome=\"no_answer\"} 2
conveyor_aws_calls_total{service=\"s3\",operation=\"PutObject\",outcome=\"ok\"} 5

conveyor_aws_capacity_tenths_total{operation=\"Query\",kind=\"read\"} 15
conveyor_aws_capacity_tenths_total{operation=\"UpdateItem\",kind=\"write\"} 20
conveyor_aws_capacity_tenths_total{operation=\"PutItem\",kind=\"write\"} 10.0
conveyor_aws_rows_read_total 120
conveyor_aws_rows_returned_total 100 1700000000
conveyor_http_request_seconds_bucket{route=\"/v1/jobs\",le=\"+Inf\"} 9
";

    #[test]
    fn counters_are_read_and_added_up() {
        let usage = Usage::parse(PAGE);
        assert_eq!(usage.calls[DYNAMODB]["BatchExecuteStatement"], 403);
        assert_eq!((usage.calls[SQS]["DeleteQueue"], usage.queues_deleted), (3, 1));
        assert_eq!(usage.calls[S3]["PutObject"], 5);
        assert_eq!((usage.read_tenths, usage.write_tenths), (15, 30));
        assert_eq!((usage.rows_read, usage.rows_returned), (120, 100));
        assert_eq!(Usage::parse("nonsense\nx{y=\"\n{} 1\n"), Usage::default());
        let mut twice = usage.clone();
        twice += &usage;
        assert_eq!((twice.calls[S3]["PutObject"], twice.write_tenths), (10, 60));
        assert_eq!(twice.since(&usage), usage);
    }

    #[test]
    fn what_did_not_happen_between_is_left_out() {
        let before = Usage::parse(PAGE);
        let mut after = before.clone();
        after.add_calls(SQS, "SendMessageBatch", 7);
        after.rows_read += 2;
        let between = after.since(&before);
        let expected = BTreeMap::from([("SendMessageBatch".to_owned(), 7)]);
        assert_eq!(between.calls, BTreeMap::from([(SQS.to_owned(), expected)]));
        assert_eq!((between.rows_read, between.rows_returned, between.write_tenths), (2, 0, 0));
    }

    #[test]
    fn services_are_told_however_they_are_written() {
        for (label, service) in
            [("DynamoDB", DYNAMODB), ("Dynamo DB", DYNAMODB), ("SQS", SQS), ("AmazonSQS", SQS), ("S3", S3)]
        {
            assert_eq!(service_of(label), service);
        }
        assert_eq!(service_of("Step Functions"), "stepfunctions");
    }
}
