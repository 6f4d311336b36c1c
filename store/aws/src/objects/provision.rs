//! The bucket (SPEC 5.6): made, closed to the public, and told what to remove by itself.

use super::answer;
use crate::Settings;
use crate::error::unavailable;
use aws_sdk_s3::Client;
use aws_sdk_s3::error::BuildError;
use aws_sdk_s3::types::{
    AbortIncompleteMultipartUpload, BucketLifecycleConfiguration, BucketLocationConstraint,
    CreateBucketConfiguration, ExpirationStatus, LifecycleExpiration, LifecycleRule, LifecycleRuleFilter,
    NoncurrentVersionExpiration, PublicAccessBlockConfiguration,
};
use conveyor_store::{Error, Result};
use std::ops::RangeInclusive;

/// Exports get a prefix of their own: a rule names the beginning of a key, so none could tell them apart under `jobs/`.
pub const EXPORTS_PREFIX: &str = "exports/";

/// The sweeper removes what is not needed any more; this is for what it never learns of, such as bytes that came in by a
/// URL that outlived its slot. No run that reads a list waits for so long: its message would be gone.
const UPLOADS_DAYS: i32 = 32;
const RESULTS_DAYS: i32 = 45;
/// Longer than a slot lives.
const UNFINISHED_DAYS: i32 = 2;
/// In a bucket that keeps versions, for as long is kept what was deleted.
const DELETED_DAYS: i32 = 1;

const NAME_CHARS: RangeInclusive<usize> = 3..=63;

/// Rules that are ours begin so; others are an operator's, and stay.
const RULE_PREFIX: &str = "conveyor-";

/// Whether the bucket had to be made. Safe to repeat.
pub async fn provision(s3: &Client, settings: &Settings) -> Result<bool> {
    let bucket = &settings.bucket;
    let made = !exists(s3, bucket).await? && create(s3, bucket).await?;
    close(s3, bucket).await?;
    put_rules(s3, bucket).await?;
    Ok(made)
}

/// What S3 takes as a name.
pub fn check_name(bucket: &str) -> Result<()> {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let ends = edge(bucket.chars().next()) && edge(bucket.chars().next_back());
    let address = bucket.parse::<std::net::Ipv4Addr>().is_ok();
    if NAME_CHARS.contains(&bucket.len())
        && ends
        && bucket.chars().all(legal)
        && !bucket.contains("..")
        && !address
    {
        return Ok(());
    }
    let (min, max) = (NAME_CHARS.start(), NAME_CHARS.end());
    Err(Error::Conflict(format!(
        "the bucket name {bucket:?} is not {min} to {max} lowercase letters, digits, hyphens and single dots that begin and end \
         with a letter or digit"
    )))
}

/// Whether a bucket of this name can be created or used.
pub async fn check(s3: &Client, bucket: &str) -> Result<()> {
    exists(s3, bucket).await.map(drop)
}

/// Asked first: some regions answer a second creation like the first.
async fn exists(s3: &Client, bucket: &str) -> Result<bool> {
    match s3.head_bucket().bucket(bucket).send().await {
        Ok(_) => Ok(true),
        Err(error) if answer::is_missing(&error) => Ok(false),
        // Names are taken worldwide, and HEAD has no body that could say more.
        Err(error) if answer::is_forbidden(&error) => Err(Error::Conflict(format!(
            "the bucket {bucket} exists and access to it is denied: it belongs to another account, or s3:ListBucket is \
             not granted"
        ))),
        Err(error) => Err(unavailable("HeadBucket", &error)),
    }
}

/// False if somebody else of ours was first.
async fn create(s3: &Client, bucket: &str) -> Result<bool> {
    // The oldest region is the one that cannot be named.
    let region = s3.config().region().map(|region| region.as_ref().to_owned());
    let elsewhere = region.filter(|region| region != "us-east-1").map(|region| {
        let place = BucketLocationConstraint::from(region.as_str());
        CreateBucketConfiguration::builder().location_constraint(place).build()
    });
    let create = s3.create_bucket().bucket(bucket).set_create_bucket_configuration(elsewhere);
    match create.send().await {
        Ok(_) => Ok(true),
        Err(error) if answer::code(&error) == Some("BucketAlreadyOwnedByYou") => Ok(false),
        Err(error) if answer::code(&error) == Some("BucketAlreadyExists") => {
            Err(Error::Conflict(format!("the bucket {bucket} belongs to somebody else")))
        }
        Err(error) => Err(unavailable("CreateBucket", &error)),
    }
}

async fn close(s3: &Client, bucket: &str) -> Result<()> {
    let closed = PublicAccessBlockConfiguration::builder()
        .block_public_acls(true)
        .ignore_public_acls(true)
        .block_public_policy(true)
        .restrict_public_buckets(true)
        .build();
    let put = s3.put_public_access_block().bucket(bucket).public_access_block_configuration(closed);
    put.send().await.map_err(|e| unavailable("PutPublicAccessBlock", &e))?;
    Ok(())
}

async fn put_rules(s3: &Client, bucket: &str) -> Result<()> {
    let mut rules = foreign_rules(s3, bucket).await?;
    let ours = our_rules().map_err(|e| Error::Corrupt(e.to_string()))?;
    rules.extend(ours);
    let all = BucketLifecycleConfiguration::builder().set_rules(Some(rules)).build();
    let all = all.map_err(|e| Error::Corrupt(e.to_string()))?;
    let put = s3.put_bucket_lifecycle_configuration().bucket(bucket).lifecycle_configuration(all);
    put.send().await.map_err(|e| unavailable("PutBucketLifecycleConfiguration", &e))?;
    Ok(())
}

/// There is one set of rules to a bucket, and putting ours must not remove an operator's.
async fn foreign_rules(s3: &Client, bucket: &str) -> Result<Vec<LifecycleRule>> {
    match s3.get_bucket_lifecycle_configuration().bucket(bucket).send().await {
        Ok(there) => {
            let is_ours = |rule: &LifecycleRule| rule.id().is_some_and(|id| id.starts_with(RULE_PREFIX));
            Ok(there.rules.unwrap_or_default().into_iter().filter(|rule| !is_ours(rule)).collect())
        }
        Err(error) if answer::code(&error) == Some("NoSuchLifecycleConfiguration") => Ok(Vec::new()),
        Err(error) => Err(unavailable("GetBucketLifecycleConfiguration", &error)),
    }
}

fn our_rules() -> std::result::Result<Vec<LifecycleRule>, BuildError> {
    let unfinished = AbortIncompleteMultipartUpload::builder().days_after_initiation(UNFINISHED_DAYS).build();
    let deleted = NoncurrentVersionExpiration::builder().noncurrent_days(DELETED_DAYS).build();
    let everything = rule("unfinished", "")
        .abort_incomplete_multipart_upload(unfinished)
        .noncurrent_version_expiration(deleted)
        .build()?;
    let expire = |name, prefix, days| {
        rule(name, prefix).expiration(LifecycleExpiration::builder().days(days).build()).build()
    };
    Ok(vec![
        everything,
        expire("uploads", "uploads/", UPLOADS_DAYS)?,
        expire("results", "jobs/", RESULTS_DAYS)?,
    ])
}

fn rule(name: &str, prefix: &str) -> aws_sdk_s3::types::builders::LifecycleRuleBuilder {
    LifecycleRule::builder()
        .id(format!("{RULE_PREFIX}{name}"))
        .status(ExpirationStatus::Enabled)
        .filter(LifecycleRuleFilter::builder().prefix(prefix).build())
}

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn a_bucket_name_that_s3_would_refuse_is_refused() {
        for good in ["abc", "conveyor-results.example", "0-9"] {
            check_name(good).unwrap();
        }
        for bad in
            ["", "ab", "Upper", "under_score", "-edge", "edge.", "a..b", "192.168.0.1", &"b".repeat(64)]
        {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
