//! `conveyor reconcile`: everything that is wrong, named and put right.

mod table;
mod whole;

use super::args::ReconcileArgs;
use super::failure::Failure;
use super::print::{self, Output};
use super::progress::unless_interrupted;
use crate::direct::Direct;
use conveyor_api::{Operations, Reconcile, reconciled_document};
use conveyor_client::Client;
use conveyor_client::wire::{ReconcileRequest, Reconciled};
use conveyor_store::Error;
use std::process::ExitCode;
use std::time::Duration;
use whole::{Verdict, Whole, is_mended};

/// How often it is looked again for what could not be told.
const LOOKS_MAX: u32 = 5;
/// Answers that one look may take: each has done something, but a server that never ends must not keep us.
const PARTS_MAX: u32 = 100_000;
const WAIT_MAX: Duration = Duration::from_secs(300);
/// Something was wrong, and all of it is mended.
const MENDED: u8 = 3;

/// Who looks.
enum Looker {
    Server(Client),
    Direct(Box<Direct>),
}

pub async fn over_http(api: Client, args: &ReconcileArgs, output: Output) -> Result<ExitCode, Failure> {
    run(&Looker::Server(api), args, output).await
}

pub async fn direct(args: &ReconcileArgs, output: Output) -> Result<ExitCode, Failure> {
    let opened = unless_interrupted(Direct::open(&args.backend)).await;
    let opened = opened.ok_or_else(|| Failure::stopped("the backend was not looked at yet"))?;
    let opened = opened.map_err(|error| Failure::backend(&error))?;
    run(&Looker::Direct(Box::new(opened)), args, output).await
}

async fn run(looker: &Looker, args: &ReconcileArgs, output: Output) -> Result<ExitCode, Failure> {
    let mut whole = Whole::default();
    match unless_interrupted(look_at_all(looker, args, output, &mut whole)).await {
        Some(done) => done?,
        None => return Err(interrupted(&whole)),
    }
    print::line(&if output.json { whole.document(args.dry_run).to_string() } else { table::text(&whole) })?;
    Ok(match whole.verdict() {
        Verdict::NothingWrong => ExitCode::SUCCESS,
        Verdict::StillWrong => ExitCode::FAILURE,
        Verdict::AllMended => ExitCode::from(MENDED),
    })
}

fn interrupted(whole: &Whole) -> Failure {
    let mended = whole.findings.iter().filter(|treated| is_mended(treated)).count();
    Failure::stopped(format!(
        "not everything was looked at; {mended} mended so far, and perhaps what was being looked at"
    ))
}

async fn look_at_all(
    looker: &Looker,
    args: &ReconcileArgs,
    output: Output,
    whole: &mut Whole,
) -> Result<(), Failure> {
    for look in 1..=LOOKS_MAX {
        looker.look(args, whole).await?;
        let Some(wait) = whole.wait().filter(|_| !args.no_wait && look < LOOKS_MAX) else { break };
        let wait = wait.min(WAIT_MAX);
        let unsure = whole.unsure.len();
        output.remark(&format!(
            "{unsure} cannot be told yet; looking again in {:.0} s (--no-wait to not)",
            wait.as_secs_f64()
        ));
        tokio::time::sleep(wait).await;
        whole.look_again();
    }
    Ok(())
}

impl Looker {
    /// One look at everything, in as many parts as it takes.
    async fn look(&self, args: &ReconcileArgs, whole: &mut Whole) -> Result<(), Failure> {
        let mut from: Option<String> = None;
        for _ in 0..PARTS_MAX {
            let mut part = self.part(args, from.as_deref()).await?;
            from = part.next.take();
            whole.add(part);
            if from.is_none() {
                return Ok(());
            }
        }
        Err(Failure::not_understood("the reconciliation does not end"))
    }

    async fn part(&self, args: &ReconcileArgs, from: Option<&str>) -> Result<Reconciled, Failure> {
        let from = from.map(str::to_owned);
        match self {
            Looker::Server(api) => {
                let what = ReconcileRequest { job_id: args.job, dry_run: Some(args.dry_run), from };
                Ok(api.reconcile(&what).await?.document)
            }
            Looker::Direct(direct) => {
                let asked = Reconcile { job: args.job, dry_run: args.dry_run, from };
                let reconciled = direct.operations.reconcile(asked).await;
                let reconciled = reconciled.map_err(|error| match error {
                    Error::NotFound => Failure::no_such_job(),
                    other => Failure::backend(&other.into()),
                })?;
                Ok(reconciled_document(&reconciled))
            }
        }
    }
}
