//! `loadtest hostile`: whether a caller is served while others hold connections to keep it out.

mod attack;
mod victim;

use crate::client::Conveyor;
use crate::deployment::total;
use crate::latency::{Summary, in_ms};
use crate::process::unless_stopped;
use crate::round;
use anyhow::{Context, ensure};
use attack::{Attack, Kind};
use clap::{Args, ValueEnum};
use reqwest::Url;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use victim::{Health, Served, Victim};

/// What the p99 under attack may be, in times of the p99 alone.
const TIMES_ALONE_MAX: f64 = 3.0;
/// How long the connections of an attack may take to open, and to be gone when it is over.
const OPEN_WITHIN: Duration = Duration::from_secs(10);
const GONE_WITHIN: Duration = Duration::from_secs(30);
/// An attack is what it will be once no more of its connections are established for so long.
const STEADY_AFTER: Duration = Duration::from_millis(250);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Connections of a server that nobody attacks.
const QUIET_CONNECTIONS: u64 = 50;

/// Hold hostile connections of every kind, and print how another caller is served meanwhile
///
/// Kinds, one after another or, with --together, all of them at once, each with --connections: silent, half_head and
/// half_preface (of HTTP/2) never complete a request; slow_body, slow_reader and sse are requests with --hostile-key that
/// never end. A connection that is closed is opened again after --reconnect-ms. Each attack comes first from 127.0.0.2 to
/// 127.0.0.6, then from 127.0.0.1, which is also the caller's address. The caller submits jobs of one task and polls them,
/// one call after another, most on a connection that it keeps and some on a new one; /healthz and /metrics are asked on
/// new connections all the time.
///
/// The last line on stdout is one JSON object: p50 and p99 of the caller's calls alone and under each attack,
/// (from when all hostile connections are established; `opening_max_ms` is the slowest call before that),
/// `refusals` (any answer but a success, and any call that fails), and how often health was asked and answered. The
/// exit status is 1 if there was a refusal or health was not answered; with --check also if a p99 is more than 3 times
/// that of all calls without an attack in the same run.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// The Conveyor to attack; on 127.0.0.1
    #[arg(long, value_name = "URL", env = "CONVEYOR_SERVER", default_value = "http://127.0.0.1:8080")]
    server: Url,
    /// The key of the caller that is timed
    #[arg(long, value_name = "KEY", env = "CONVEYOR_API_KEY", hide_env_values = true)]
    api_key: String,
    /// The key of another caller, which attacks
    #[arg(long, value_name = "KEY", hide_env_values = true)]
    hostile_key: String,
    /// Hostile connections of a kind at once
    #[arg(long, value_name = "NUMBER", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=20_000))]
    connections: u64,
    /// Calls of the caller under each attack, and as many before it
    #[arg(long, value_name = "NUMBER", default_value_t = 500, value_parser = clap::value_parser!(u64).range(10..))]
    calls: u64,
    /// Results that a slow reader asks for, of about two kilobytes each
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    rows: u64,
    /// How soon a connection that was closed is opened again
    #[arg(long, value_name = "MS", default_value_t = 1_000)]
    reconnect_ms: u64,
    /// Only these kinds; by default all
    #[arg(long, value_name = "KIND", value_enum)]
    kind: Vec<Kind>,
    /// Attack with all kinds at once
    #[arg(long)]
    together: bool,
    /// Exit with 1 if a p99 is more than 3 times that without an attack
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Debug, Serialize)]
struct Report {
    bench: &'static str,
    connections: u64,
    calls: u64,
    alone_p50_ms: f64,
    alone_p99_ms: f64,
    attacks: Vec<Attacked>,
    refusals: usize,
    health_unanswered: usize,
    unmet: Vec<String>,
}

/// How the caller fared under one attack.
#[derive(Clone, Debug, Serialize)]
struct Attacked {
    kinds: Vec<Kind>,
    addresses: &'static str,
    /// Connections that were opened, those opened again included; and those that the server had at the end.
    opened: usize,
    server_connections: u64,
    /// Requests, streams and bodies that had a place then.
    server_places: u64,
    p50_ms: f64,
    p99_ms: f64,
    p99_times_alone: f64,
    /// The slowest call before all hostile connections were established.
    opening_max_ms: f64,
    refusals: Vec<String>,
    health_asked: usize,
    health_unanswered: usize,
    health_max_ms: f64,
}

pub async fn run(settings: Settings) -> anyhow::Result<()> {
    raise_descriptors()?;
    let report = unless_stopped(take(&settings)).await?;
    println!("{}", serde_json::to_string(&report)?);
    let Report { refusals, health_unanswered, unmet, .. } = &report;
    ensure!(*refusals == 0, "{refusals} calls were refused");
    ensure!(*health_unanswered == 0, "health was not answered {health_unanswered} times");
    ensure!(!settings.check || unmet.is_empty(), "not met: {}", unmet.join("; "));
    Ok(())
}

/// One descriptor for each connection, and a few for ourselves.
fn raise_descriptors() -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).context("cannot raise ulimit -n")
}

async fn take(settings: &Settings) -> anyhow::Result<Report> {
    let port = settings.server.port_or_known_default().context("--server has no port")?;
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let hostile = Conveyor::new(&settings.server, &settings.hostile_key)?;
    let job = hostile.submit(&attack::long_urls(settings.rows), 1).await?.job_id.to_string();
    let victim = Victim::new(&settings.server, &settings.api_key)?;
    victim.serve(20).await;
    let (mut alone, mut attacked) = (Vec::new(), Vec::new());
    let kinds = if settings.kind.is_empty() { Kind::value_variants() } else { &settings.kind };
    let attacks = kinds.chunks(if settings.together { kinds.len() } else { 1 });
    let mut refused_alone = Vec::new();
    for addresses in ["others", "own"] {
        for kinds in attacks.clone() {
            until_quiet(&victim).await?;
            let served = victim.serve(settings.calls).await;
            alone.extend(served.latencies);
            refused_alone.extend(served.refusals);
            let attack = Attack {
                target,
                kinds: kinds.to_vec(),
                addresses: match addresses {
                    "others" => (2..=6).map(|last| IpAddr::from([127, 0, 0, last])).collect(),
                    _ => vec![IpAddr::from([127, 0, 0, 1])],
                },
                connections: settings.connections as usize,
                reconnect: Duration::from_millis(settings.reconnect_ms),
                key: settings.hostile_key.clone(),
                job: job.clone(),
            };
            attacked.push(under(&attack, addresses, &victim, settings.calls).await?);
        }
    }
    let alone = Summary::of(&alone);
    let mut unmet = Vec::new();
    for one in &mut attacked {
        one.p99_times_alone = round::ratio(one.p99_ms / alone.p99_ms);
        if one.p99_times_alone > TIMES_ALONE_MAX {
            unmet.push(format!("{:?} from {}: {} times", one.kinds, one.addresses, one.p99_times_alone));
        }
    }
    Ok(Report {
        bench: "hostile",
        connections: settings.connections,
        calls: settings.calls,
        alone_p50_ms: alone.p50_ms,
        alone_p99_ms: alone.p99_ms,
        refusals: refused_alone.len() + attacked.iter().map(|one| one.refusals.len()).sum::<usize>(),
        health_unanswered: attacked.iter().map(|one| one.health_unanswered).sum(),
        attacks: attacked,
        unmet,
    })
}

async fn under(
    attack: &Attack,
    addresses: &'static str,
    victim: &Victim,
    calls: u64,
) -> anyhow::Result<Attacked> {
    let begun = Instant::now();
    let running = attack.start();
    let health = Health::start(victim.clone());
    let deadline = Instant::now() + OPEN_WITHIN;
    let (mut opening, mut established, mut since) = (Served::default(), 0, begun);
    while established < attack.connections_in_all()
        && since.elapsed() < STEADY_AFTER
        && Instant::now() < deadline
    {
        opening.add(victim.serve(2).await);
        if running.established() != established {
            (established, since) = (running.established(), Instant::now());
        }
    }
    let established_ms = in_ms(begun.elapsed());
    let Served { latencies, mut refusals } = victim.serve(calls).await;
    refusals.extend(opening.refusals);
    let page = victim.metrics().await.unwrap_or_default();
    let server = |name| total(&page, name).round() as u64;
    let (server_connections, server_places) = (server("conveyor_connections"), server("conveyor_places"));
    let health = health.end().await?;
    let opened = running.opened();
    running.end().await;
    let (summary, kinds) = (Summary::of(&latencies), attack.kinds.clone());
    let (p99, refused) = (summary.p99_ms, refusals.len());
    eprintln!(
        "{kinds:?} from {addresses}: established in {established_ms} ms, p99 {p99} ms, {refused} refusals"
    );
    Ok(Attacked {
        kinds,
        addresses,
        opened,
        server_connections,
        server_places,
        p50_ms: summary.p50_ms,
        p99_ms: summary.p99_ms,
        p99_times_alone: 0.0,
        opening_max_ms: in_ms(opening.latencies.into_iter().max().unwrap_or_default()),
        refusals,
        health_asked: health.asked,
        health_unanswered: health.unanswered,
        health_max_ms: in_ms(health.longest),
    })
}

/// What an attack leaves behind is no part of the next measurement.
async fn until_quiet(victim: &Victim) -> anyhow::Result<()> {
    let deadline = Instant::now() + GONE_WITHIN;
    while connections_of(victim).await.is_none_or(|count| count > QUIET_CONNECTIONS) {
        ensure!(Instant::now() < deadline, "connections are still open, or /metrics does not answer");
        sleep(LOOK_EVERY).await;
    }
    Ok(())
}

async fn connections_of(victim: &Victim) -> Option<u64> {
    Some(total(&victim.metrics().await?, "conveyor_connections").round() as u64)
}
