//! `conveyor rerun`: another run of a job, of all its tasks or of some.

use super::args::RerunArgs;
use super::failure::Failure;
use super::print::{self, Output, clean};
use super::progress::unless_interrupted;
use super::status;
use conveyor_client::Client;
use conveyor_client::wire::{Rerun, RerunJob, ZenRowsParams};
use std::process::ExitCode;

pub async fn run(api: &Client, args: &RerunArgs, output: Output) -> Result<ExitCode, Failure> {
    let mut call = api.rerun(&args.job, overrides(args)?.as_ref());
    let filters = [
        ("status", &args.status),
        ("error_class", &args.error_class),
        ("http_status", &args.http_status),
        ("domain", &args.domain),
    ];
    for (name, words) in filters {
        if !words.is_empty() {
            call = call.query(name, words.join(","));
        }
    }
    let answer = unless_interrupted(call.into_future()).await.ok_or_else(|| {
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
    let Rerun { latest_run, retried_tasks, inherited_tasks, total_is_final, .. } = rerun;
    let run = latest_run.run_id;
    let least = if *total_is_final { "" } else { "at least " };
    let kept = if *inherited_tasks > 0 { format!(", {inherited_tasks} kept") } else { String::new() };
    format!("run {run}: {least}{retried_tasks} tasks to do{kept}")
}

fn overrides(args: &RerunArgs) -> Result<Option<RerunJob>, Failure> {
    if args.param.is_empty() {
        return Ok(None);
    }
    let mut params = ZenRowsParams::default();
    for param in &args.param {
        let Some((name, value)) = param.split_once('=') else {
            return Err(Failure::usage(format!("--param {param}: expected NAME=VALUE")));
        };
        params.0.insert(name.to_owned(), value.into());
    }
    Ok(Some(RerunJob { zenrows_params: Some(params) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::tests::{RUN, run_of};
    use serde_json::json;

    #[test]
    fn a_list_that_nobody_has_counted_has_at_least_so_many_tasks() {
        for (is_final, inherited, expected) in [
            (true, 0, "40 tasks to do"),
            (true, 2, "40 tasks to do, 2 kept"),
            (false, 0, "at least 40 tasks to do"),
        ] {
            let run = run_of("running");
            let answer = json!({"job_id": run["job_id"], "status": "closed", "latest_run": run, "retried_tasks": 40,
                                "inherited_tasks": inherited, "total_is_final": is_final});
            let expected = format!("run {RUN}: {expected}");
            assert_eq!(summary(&serde_json::from_value(answer).unwrap()), expected);
        }
    }
}
