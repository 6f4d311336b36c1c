//! What `deploy/` says about the program, held against the program: permissions against the calls of the AWS backend, the
//! policies of the template against those in files, variables, roles and metrics against those that exist.

use crate::support::{conveyor, run};
use conveyor_domain::{KeyHash, RecordKind, api_key, limits};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Commands that run on AWS, each with a policy of its own. `dev` is for one machine.
const ROLES: [&str; 5] = ["api", "ingest", "provision", "sweeper", "worker"];

/// Statements whose resource AWS requires to be `*`, as "role.Sid".
const EVERY_RESOURCE: [&str; 1] = ["sweeper.StateMachines"];

/// What may be called on a client that is no call of AWS.
const NOT_OPERATIONS: [&str; 2] = ["clone", "config"];

/// Every operation that the backend may call: its client, its name in the SDK and on the wire, and the actions that IAM
/// wants for it.
const OPERATIONS: &[(&str, &str, &str, &[&str])] = &[
    ("dynamodb", "batch_execute_statement", "BatchExecuteStatement", &["PartiQLInsert"]),
    ("dynamodb", "batch_write_item", "BatchWriteItem", &["BatchWriteItem"]),
    ("dynamodb", "create_table", "CreateTable", &["CreateTable"]),
    ("dynamodb", "describe_table", "DescribeTable", &["DescribeTable"]),
    ("dynamodb", "describe_time_to_live", "DescribeTimeToLive", &["DescribeTimeToLive"]),
    ("dynamodb", "get_item", "GetItem", &["GetItem"]),
    ("dynamodb", "put_item", "PutItem", &["PutItem"]),
    ("dynamodb", "query", "Query", &["Query"]),
    ("dynamodb", "transact_get_items", "TransactGetItems", &["GetItem"]),
    (
        "dynamodb",
        "transact_write_items",
        "TransactWriteItems",
        &["ConditionCheckItem", "DeleteItem", "PutItem", "UpdateItem"],
    ),
    ("dynamodb", "update_item", "UpdateItem", &["UpdateItem"]),
    ("dynamodb", "update_time_to_live", "UpdateTimeToLive", &["UpdateTimeToLive"]),
    ("sqs", "change_message_visibility_batch", "ChangeMessageVisibilityBatch", &["ChangeMessageVisibility"]),
    // Queues of runs are made with tags.
    ("sqs", "create_queue", "CreateQueue", &["CreateQueue", "TagQueue"]),
    ("sqs", "delete_message_batch", "DeleteMessageBatch", &["DeleteMessage"]),
    ("sqs", "delete_queue", "DeleteQueue", &["DeleteQueue"]),
    ("sqs", "get_queue_attributes", "GetQueueAttributes", &["GetQueueAttributes"]),
    ("sqs", "get_queue_url", "GetQueueUrl", &["GetQueueUrl"]),
    ("sqs", "receive_message", "ReceiveMessage", &["ReceiveMessage"]),
    ("sqs", "send_message_batch", "SendMessageBatch", &["SendMessage"]),
    ("sqs", "set_queue_attributes", "SetQueueAttributes", &["SetQueueAttributes"]),
    ("states", "send_task_failure", "SendTaskFailure", &["SendTaskFailure"]),
    ("states", "send_task_success", "SendTaskSuccess", &["SendTaskSuccess"]),
    ("s3", "abort_multipart_upload", "AbortMultipartUpload", &["AbortMultipartUpload"]),
    ("s3", "complete_multipart_upload", "CompleteMultipartUpload", &["PutObject"]),
    ("s3", "copy_object", "CopyObject", &["GetObject", "PutObject"]),
    ("s3", "create_bucket", "CreateBucket", &["CreateBucket"]),
    ("s3", "create_multipart_upload", "CreateMultipartUpload", &["PutObject"]),
    ("s3", "delete_object", "DeleteObject", &["DeleteObject"]),
    ("s3", "delete_objects", "DeleteObjects", &["DeleteObject"]),
    (
        "s3",
        "get_bucket_lifecycle_configuration",
        "GetBucketLifecycleConfiguration",
        &["GetLifecycleConfiguration"],
    ),
    // Without the second a missing object is forbidden, not missing.
    ("s3", "get_object", "GetObject", &["GetObject", "ListBucket"]),
    ("s3", "head_bucket", "HeadBucket", &["ListBucket"]),
    ("s3", "head_object", "HeadObject", &["GetObject", "ListBucket"]),
    ("s3", "list_multipart_uploads", "ListMultipartUploads", &["ListBucketMultipartUploads"]),
    ("s3", "list_objects_v2", "ListObjectsV2", &["ListBucket"]),
    ("s3", "list_parts", "ListParts", &["ListMultipartUploadParts"]),
    (
        "s3",
        "put_bucket_lifecycle_configuration",
        "PutBucketLifecycleConfiguration",
        &["PutLifecycleConfiguration"],
    ),
    ("s3", "put_object", "PutObject", &["PutObject"]),
    ("s3", "put_public_access_block", "PutPublicAccessBlock", &["PutBucketPublicAccessBlock"]),
    ("s3", "upload_part", "UploadPart", &["PutObject"]),
    ("s3", "upload_part_copy", "UploadPartCopy", &["GetObject", "PutObject"]),
];

/// Where a policy has the names of a deployment, and where the template has them.
const PLACEHOLDERS: [(&str, &str); 6] = [
    ("${PARTITION}", "${AWS::Partition}"),
    ("${REGION}", "${AWS::Region}"),
    ("${ACCOUNT}", "${AWS::AccountId}"),
    ("${TABLE}", "${TableName}"),
    ("${QUEUE_PREFIX}", "${QueuePrefix}"),
    ("${BUCKET}", "${BucketName}"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Every file below a folder whose name ends so.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn help(arguments: &[&str]) -> String {
    let mut command = conveyor();
    command.args(arguments).arg("--help");
    String::from_utf8(run(command).stdout).expect("text")
}

struct Statement {
    sid: String,
    effect: String,
    actions: Vec<String>,
    resources: Vec<String>,
    condition: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

fn policy(role: &str) -> Vec<Statement> {
    let document: Value = serde_json::from_str(&read(format!("deploy/iam/{role}.json"))).expect(role);
    assert_eq!(document["Version"], "2012-10-17", "{role}");
    let statements = document["Statement"].as_array().expect(role);
    statements.iter().map(|statement| parse(role, statement)).collect()
}

fn parse(role: &str, statement: &Value) -> Statement {
    let fields: Vec<&str> = statement.as_object().expect(role).keys().map(String::as_str).collect();
    let known = ["Sid", "Effect", "Action", "Resource", "Condition"];
    assert!(fields.iter().all(|field| known.contains(field)), "{role}: {fields:?}");
    let text = |name: &str| statement[name].as_str().unwrap_or_else(|| panic!("{role}: {name}")).to_owned();
    let list = |name: &str| -> Vec<String> {
        serde_json::from_value(statement[name].clone()).unwrap_or_else(|e| panic!("{role}: {name}: {e}"))
    };
    let condition = statement.get("Condition").cloned().unwrap_or_else(|| Value::Object(Default::default()));
    Statement {
        sid: text("Sid"),
        effect: text("Effect"),
        actions: list("Action"),
        resources: list("Resource"),
        condition: serde_json::from_value(condition).unwrap_or_else(|e| panic!("{role}: {e}")),
    }
}

/// Everything that any role is allowed to do.
fn allowed() -> BTreeSet<String> {
    let statements = ROLES.into_iter().flat_map(policy).filter(|statement| statement.effect == "Allow");
    statements.flat_map(|statement| statement.actions).collect()
}

/// Text of the program without comments and line breaks, so that a call is in one piece however it is laid out.
fn squeezed(source: &str) -> String {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let words: Vec<&str> = code.flat_map(str::split_whitespace).collect();
    words.join(" ").replace(" .", ".")
}

/// What follows each occurrence of `start` and is made of such characters.
fn after<'a>(text: &'a str, start: &str, of: impl Fn(char) -> bool + Copy) -> Vec<&'a str> {
    let rests = text.match_indices(start).map(|(at, _)| &text[at + start.len()..]);
    rests.map(|rest| &rest[..rest.find(|c| !of(c)).unwrap_or(rest.len())]).collect()
}

/// The methods without arguments that are called on a client of this name: that is how the SDK's operations begin.
fn calls(source: &str, client: &str) -> Vec<String> {
    let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let start = format!("{client}.");
    let mut found = Vec::new();
    for (at, _) in source.match_indices(&start) {
        let (before, rest) = (&source[..at], &source[at + start.len()..]);
        let end = rest.find(|c| !name(c)).unwrap_or(rest.len());
        if !before.ends_with(name) && rest[end..].starts_with("()") {
            found.push(rest[..end].to_owned());
        }
    }
    found
}

#[test]
fn every_role_has_a_policy_and_every_policy_a_role() {
    let named: Vec<String> = files(&root().join("deploy/iam"), ".json")
        .iter()
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    assert_eq!(named, ROLES);
    let help = help(&[]);
    for role in ROLES {
        let command = |line: &str| line.split_whitespace().next() == Some(role);
        assert!(help.lines().any(command), "`conveyor --help` does not know {role}");
    }
}

#[test]
fn policies_name_every_action_and_whose_resource_it_is() {
    let ours = ["table/${TABLE}", ":${QUEUE_PREFIX}-", ":::${BUCKET}"];
    for role in ROLES {
        for Statement { sid, actions, resources, .. } in policy(role) {
            assert!(!actions.is_empty() && !resources.is_empty(), "{role}.{sid}");
            assert!(actions.iter().all(|action| !action.contains('*')), "{role}.{sid}: {actions:?}");
            if EVERY_RESOURCE.contains(&format!("{role}.{sid}").as_str()) {
                continue;
            }
            for resource in resources {
                // A wildcard may stand for what is ours, not for whose it is.
                let name = ours.iter().find_map(|name| resource.find(name).map(|at| at + name.len()));
                let place = resource.find('*').unwrap_or(resource.len());
                assert!(name.is_some_and(|name| name <= place), "{role}.{sid}: {resource}");
                let service = actions[0].split(':').next().unwrap_or_default();
                assert!(
                    resource.starts_with(&format!("arn:${{PARTITION}}:{service}:")),
                    "{role}.{sid}: {resource}"
                );
            }
        }
    }
}

#[test]
fn every_call_of_the_backend_is_permitted_and_every_permission_is_for_a_call() {
    let mut needed = BTreeSet::new();
    for path in files(&root().join("store/aws/src"), ".rs") {
        let source = squeezed(&fs::read_to_string(&path).expect("a source file"));
        for (name, client) in
            [("dynamodb", "dynamodb"), ("sqs", "sqs"), ("s3", "s3"), ("quick", "s3"), ("states", "states")]
        {
            for call in calls(&source, name) {
                if NOT_OPERATIONS.contains(&call.as_str()) {
                    continue;
                }
                let known = OPERATIONS.iter().find(|(of, method, ..)| *of == client && *method == call);
                let Some((.., actions)) = known else {
                    panic!(
                        "{}: {client}.{call}() is in no list: add it to OPERATIONS and to deploy/iam",
                        path.display()
                    );
                };
                needed.extend(actions.iter().map(|action| format!("{client}:{action}")));
            }
        }
        // A second net, for a client that goes by another name: every call names itself where it fails.
        for named in after(&source, "unavailable(\"", |c| c.is_ascii_alphanumeric()) {
            let known = OPERATIONS.iter().any(|(_, _, operation, _)| *operation == named);
            assert!(known, "{}: {named} is not in OPERATIONS", path.display());
        }
    }
    assert!(needed.len() > 20, "the scan has gone blind: {needed:?}");
    assert_eq!(allowed(), needed);
}

#[test]
fn every_object_that_is_written_may_be_written() {
    let source = read("store/src/port/blobs.rs");
    let of_key = |c: char| c != '"';
    // A prefix is a place, and nothing is written there by that name.
    let named = |function: &&str| function.split('(').next().is_some_and(|name| !name.ends_with("_prefix"));
    let functions = source.split("pub fn ").filter(named);
    let keys = functions.flat_map(|function| after(function, "format!(\"", of_key));
    let keys = keys.filter(|key| key.matches('/').count() > 1);
    let keys: Vec<String> = keys.map(|key| filled(key, "x")).collect();
    assert!(keys.len() > 3, "the scan has gone blind: {keys:?}");
    let statements: Vec<Statement> = ROLES.into_iter().flat_map(policy).collect();
    for action in ["s3:PutObject", "s3:DeleteObject"] {
        for key in &keys {
            let permits = |statement: &Statement| {
                let patterns = statement.resources.iter().filter_map(|r| r.split_once(":::${BUCKET}/"));
                statement.actions.iter().any(|a| a == action)
                    && patterns.into_iter().any(|(_, pattern)| matches(pattern, key))
            };
            assert!(statements.iter().any(permits), "no role has {action} for {key}");
        }
    }
}

/// A format string with its arguments.
fn filled(format: &str, argument: &str) -> String {
    let pieces = format.split('{').enumerate();
    let text = pieces.map(|(number, piece)| match (number, piece.split_once('}')) {
        (0, _) | (_, None) => piece.to_owned(),
        (_, Some((_, rest))) => format!("{argument}{rest}"),
    });
    text.collect()
}

/// As IAM does: `*` is any text.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            text.char_indices().map(|(at, _)| at).chain([text.len()]).any(|at| matches(rest, &text[at..]))
        }),
    }
}

#[test]
fn only_the_api_gets_at_api_keys() {
    let keys = read("store/aws/src/table/keys.rs");
    for partition in [r##"KEYS_PARTITIONS: &str = "Keys#";"##, r##"OLD_KEYS_PARTITION: &str = "Keys";"##] {
        assert!(keys.contains(partition), "deploy/iam names other partitions");
    }
    assert!(keys.contains(r##"format!("Rec#{}#{owner}", kind.as_str())"##), "deploy/iam names other records");
    let made = [api_key::owner().to_owned(), api_key::operator_key(KeyHash([0; 32])).owner]
        .map(|owner| format!("Rec#{}#{owner}", RecordKind::ApiKey.as_str()));
    let partitions: Vec<&str> =
        ["Keys", "Keys#*"].into_iter().chain(made.iter().map(String::as_str)).collect();
    for role in ["ingest", "worker", "sweeper"] {
        let (denied, others): (Vec<_>, Vec<_>) =
            policy(role).into_iter().partition(|statement| statement.effect == "Deny");
        let [deny] = &denied[..] else { panic!("{role} has {} denials", denied.len()) };
        assert_eq!(deny.condition["ForAnyValue:StringLike"]["dynamodb:LeadingKeys"], partitions, "{role}");
        let rows = others.iter().find(|statement| statement.resources == deny.resources);
        assert_eq!(rows.map(|rows| &rows.actions), Some(&deny.actions), "{role}");
    }
}

/// The statements of a policy as the template has them.
fn as_yaml(statements: &[Statement]) -> String {
    let mut lines = Vec::new();
    for Statement { sid, effect, actions, resources, condition } in statements {
        lines.push(format!("- Sid: {sid}"));
        lines.push(format!("  Effect: {effect}"));
        lines.push("  Action:".to_owned());
        lines.extend(actions.iter().map(|action| format!("    - {action}")));
        lines.push("  Resource:".to_owned());
        for resource in resources {
            let named = PLACEHOLDERS.iter().fold(resource.clone(), |text, (from, to)| text.replace(from, to));
            lines.push(format!("    - !Sub \"{named}\""));
        }
        if !condition.is_empty() {
            lines.push("  Condition:".to_owned());
        }
        for (operator, tests) in condition {
            lines.push(format!("    {operator}:"));
            for (key, values) in tests {
                lines.push(format!("      {key}:"));
                lines.extend(values.iter().map(|value| format!("        - {value}")));
            }
        }
    }
    lines.iter().map(|line| format!("{:14}{line}\n", "")).collect()
}

/// A resource of the template, from its name to the next one or the comment above that.
fn resource<'a>(template: &'a str, name: &str) -> &'a str {
    let start = template.find(&format!("\n  {name}:\n")).unwrap_or_else(|| panic!("no {name}")) + 1;
    let next = template[start + 3..].match_indices("\n  ").find(|(at, _)| {
        let rest = &template[start + 3 + at + 3..];
        rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '#')
    });
    &template[start..next.map_or(template.len(), |(at, _)| start + 3 + at)]
}

#[test]
fn the_template_gives_each_task_the_policy_of_its_role() {
    let template = read("deploy/ecs/conveyor.yaml");
    for role in ROLES {
        let name = format!("{}{}", role[..1].to_uppercase(), &role[1..]);
        let (_, embedded) =
            resource(&template, &format!("{name}TaskRole")).split_once("Policies:").expect("policies");
        let (_, statements) = embedded.split_once("Statement:\n").expect("statements");
        let expected = as_yaml(&policy(role));
        assert_eq!(
            statements.trim_end(),
            expected.trim_end(),
            "{name}TaskRole differs from deploy/iam/{role}.json"
        );
        let task = resource(&template, &format!("{name}Task"));
        assert!(task.contains(&format!("TaskRoleArn: !GetAtt {name}TaskRole.Arn\n")), "{name}Task");
        let runs = if role == "provision" {
            "Command: [provision, --json]".to_owned()
        } else {
            format!("{{ Name: CONVEYOR_ROLE, Value: {role} }}")
        };
        assert!(task.contains(&runs), "{name}Task does not run {role}");
    }
}

#[test]
fn nobody_is_killed_within_the_grace() {
    let template = read("deploy/ecs/conveyor.yaml");
    let compose = read("deploy/compose.yaml");
    let digits = |c: char| c.is_ascii_digit();
    let mut waits = after(&template, "StopTimeout: ", digits);
    assert_eq!(waits.len(), 4, "every service says how long it may take to end");
    waits.extend(after(&compose, "stop_grace_period: ", digits));
    assert_eq!(waits.len(), 5);
    for wait in waits {
        let wait = Duration::from_secs(wait.parse().expect("seconds"));
        assert!(wait > limits::SHUTDOWN_GRACE, "{wait:?} is not longer than the grace");
    }
}

#[test]
fn every_variable_exists() {
    let mut known: BTreeSet<String> = ["CONVEYOR_ROLE", "CONVEYOR_LOG"].map(str::to_owned).into();
    let of_variable = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let commands = ROLES.into_iter().chain(["dev", "submit"]);
    for command in commands {
        let text = help(&[command]);
        let found = after(&text, "[env: CONVEYOR_", of_variable);
        assert!(!found.is_empty(), "{command}");
        known.extend(found.into_iter().map(|name| format!("CONVEYOR_{name}")));
    }
    for ending in ["Containerfile", "README.md", ".yaml"] {
        for path in files(&root().join("deploy"), ending) {
            let text = fs::read_to_string(&path).expect("text");
            for name in after(&text, "CONVEYOR_", of_variable) {
                let name = format!("CONVEYOR_{name}");
                assert!(known.contains(&name), "{}: there is no {name}", path.display());
            }
        }
    }
}

#[test]
fn every_metric_exists() {
    let readme = read("deploy/README.md");
    let of_metric = |c: char| c.is_ascii_lowercase() || c == '_';
    let named = after(&readme, "`conveyor_", of_metric);
    assert!(named.len() > 5, "the scan has gone blind: {named:?}");
    let folders = ["api", "conveyor", "exports", "ingest", "notify", "store", "sweeper", "worker"];
    let sources: Vec<String> = folders
        .iter()
        .flat_map(|folder| files(&root().join(folder), ".rs"))
        .filter(|path| path.components().any(|part| part.as_os_str() == "src"))
        .map(|path| fs::read_to_string(path).expect("a source file"))
        .collect();
    for metric in named {
        let literal = format!("\"conveyor_{metric}\"");
        assert!(sources.iter().any(|source| source.contains(&literal)), "there is no metric {literal}");
    }
}

#[test]
fn the_image_is_built_with_the_toolchain_and_all_of_the_workspace() {
    let (manifest, image) = (read("Cargo.toml"), read("deploy/Containerfile"));
    let version = after(&manifest, "rust-version = \"", |c| c != '"');
    assert!(image.contains(&format!("FROM rust:{}-", version[0])), "{version:?}");
    assert!(image.contains("cargo build --profile dist --locked --package conveyor"));
    assert!(image.contains("install -D target/dist/conveyor "));
    let context = read("deploy/Containerfile.dockerignore");
    let members = after(&manifest, "members = [", |c| c != ']');
    for member in members[0].split(',').map(|member| member.trim().trim_matches('"')) {
        let folder = member.split('/').next().unwrap_or(member);
        let line = format!("!{folder}");
        assert!(
            context.lines().any(|l| l == line),
            "the build cannot read {folder}: it needs every manifest"
        );
    }
}
