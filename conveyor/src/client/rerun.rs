//! `conveyor rerun`: another run of a job, of all its tasks or of some.

use super::args::RerunArgs;
use super::document::Rerun;
use super::failure::Failure;
use super::http::{Answer, Api};
use super::print::{self, Output, clean};
use super::progress::unless_interrupted;
use super::status;
use serde_json::{Value, json};
use std::process::ExitCode;

pub async fn run(api: &Api, args: &RerunArgs, output: Output) -> Result<ExitCode, Failure> {
    let mut url = api.url(&["jobs", &args.job, "rerun"]);
    let filters = [
        ("status", &args.status),
        ("error_class", &args.error_class),
        ("http_status", &args.http_status),
        ("domain", &args.domain),
    ];
    for (name, words) in filters {
        if !words.is_empty() {
            url.query_pairs_mut().append_pair(name, &words.join(","));
        }
    }
    let body = overrides(args)?;
    let answer: Answer<Rerun> =
        unless_interrupted(api.post_once(url, body.as_ref())).await.ok_or_else(|| {
            Failure::stopped("whether the run was begun is not known; `conveyor status` tells")
        })??;
    if args.watch {
        return status::watch(api, &args.job, output).await;
    }
    if output.json {
        print::line(&answer.text)?;
    } else {
        print::line(&clean(&summary(&answer.document)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn summary(rerun: &Rerun) -> String {
    let Rerun { latest_run, retried_tasks, inherited_tasks, total_is_final } = rerun;
    let run = &latest_run.run_id;
    let least = if *total_is_final == Some(false) { "at least " } else { "" };
    let kept = if *inherited_tasks > 0 { format!(", {inherited_tasks} kept") } else { String::new() };
    format!("run {run}: {least}{retried_tasks} tasks to do{kept}")
}

fn overrides(args: &RerunArgs) -> Result<Option<Value>, Failure> {
    if args.param.is_empty() {
        return Ok(None);
    }
    let mut params = serde_json::Map::new();
    for param in &args.param {
        let Some((name, value)) = param.split_once('=') else {
            return Err(Failure::usage(format!("--param {param}: expected NAME=VALUE")));
        };
        params.insert(name.to_owned(), json!(value));
    }
    Ok(Some(json!({ "zenrows_params": params })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_nobody_has_counted_has_at_least_so_many_tasks() {
        for (is_final, inherited, expected) in [
            (true, 0, "run R: 40 tasks to do"),
            (true, 2, "run R: 40 tasks to do, 2 kept"),
            (false, 0, "run R: at least 40 tasks to do"),
        ] {
            let run = json!({"run_id": "R", "run_sequence": 2, "status": "running",
                             "stats": {"total": 0, "completed": 0, "successful": 0, "failed": 0}});
            let answer = json!({"latest_run": run, "retried_tasks": 40, "inherited_tasks": inherited,
                                "total_is_final": is_final});
            assert_eq!(summary(&serde_json::from_value(answer).unwrap()), expected);
        }
    }
}
