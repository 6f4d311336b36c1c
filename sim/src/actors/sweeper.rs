//! The real sweeper, with the simulation's clock. What disturbs one of its operations cuts that repair short.

use crate::audit::{completion, deletion, ingest, uploads};
use crate::violation::Check;
use crate::world::World;
use conveyor_sweeper::{Sweep, sweep};
use tokio_util::sync::CancellationToken;

pub async fn step(world: &mut World) -> Check {
    let (faults, expired) = (world.weather.faults_seen(), uploads::expired(world).await?);
    let stop = CancellationToken::new();
    sweep(&Sweep::new(&world.backend, world.clock.as_ref(), &stop)).await;
    let disturbed = world.weather.faults_seen() != faults;
    world.note(if disturbed { "sweeper: cut short" } else { "sweeper: swept" });
    if disturbed {
        return Ok(());
    }
    completion::after_sweep(world).await?;
    ingest::after_sweep(world).await?;
    uploads::after_sweep(world, &expired).await?;
    deletion::after_sweep(world).await
}
