//! All connections: how many there are, and which are closed when there are too many (max-min fairness by address and
//! caller, SPEC 6.27).

use super::connection::{Connection, Deadlines, Rank, Reason};
use conveyor_api::Peer;
use conveyor_domain::limits;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

#[derive(Debug)]
pub struct Connections {
    max: usize,
    deadlines: Deadlines,
    open: Mutex<Open>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    all: HashMap<u64, Arc<Connection>>,
    /// By how much the listener was last woken too late: so late may heads be read that were sent in time.
    lag: Duration,
}

impl Connections {
    pub fn new(max: usize, deadlines: Deadlines) -> Connections {
        Connections { max, deadlines, open: Mutex::default(), ended: Notify::new() }
    }

    pub fn open(self: &Arc<Self>, peer: Peer) -> Opened {
        let mut open = self.lock();
        let connection = Arc::new(Connection::new(open.next, peer, Instant::now()));
        open.next += 1;
        open.all.insert(connection.number, connection.clone());
        metrics::gauge!("conveyor_connections").set(open.all.len() as f64);
        Opened { connection, of: self.clone() }
    }

    fn remove(&self, connection: &Connection) {
        let mut open = self.lock();
        open.all.remove(&connection.number);
        metrics::gauge!("conveyor_connections").set(open.all.len() as f64);
        drop(open);
        self.ended.notify_one();
    }

    /// Waits until there is room for one more: no longer than it takes to close some.
    pub async fn make_room(&self) {
        while self.lock().all.len() >= self.max {
            let again = self.close_some();
            let ended = self.ended.notified();
            // Out of time is as good as an end: look again.
            if tokio::time::timeout_at(again, ended).await.is_err() {
                self.woken_late_by(Instant::now() - again);
            }
        }
    }

    fn woken_late_by(&self, lag: Duration) {
        let mut open = self.lock();
        open.lag = lag.max(open.lag / 2).min(limits::FIRST_BYTE_TIMEOUT);
    }

    /// Closes the least deserving, unless enough are being closed already. Returns when to look again at the latest.
    pub fn close_some(&self) -> Instant {
        let (all, lag) = {
            let open = self.lock();
            (open.all.values().cloned().collect::<Vec<_>>(), open.lag)
        };
        let now = Instant::now();
        if all.iter().any(|connection| connection.is_closing()) {
            return now + limits::HEAD_TIME_MIN;
        }
        let some = (self.max / limits::CONNECTIONS_CLOSED_PART).max(1);
        for (rank, since, connection) in least_deserving(&all).take(some) {
            let not_before = since + limits::HEAD_TIME_MIN + lag;
            if rank == Rank::Fresh && now < not_before {
                return not_before;
            }
            connection.close(Reason::Crowded);
        }
        now + limits::HEAD_TIME_MIN
    }

    /// Closes what is past its deadline, for ever.
    pub async fn keep_deadlines(&self) {
        let mut look = tokio::time::interval(limits::CONNECTIONS_LOOK_EVERY);
        loop {
            let now = look.tick().await;
            let all: Vec<_> = self.lock().all.values().cloned().collect();
            for connection in all {
                if let Some(reason) = connection.overdue(now, &self.deadlines) {
                    connection.close(reason);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection, which is one of those that are open until this is dropped.
#[derive(Debug)]
pub struct Opened {
    pub connection: Arc<Connection>,
    of: Arc<Connections>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.of.remove(&self.connection);
    }
}

/// Who has a connection, as far as that is known: an address, and a caller.
type Group = (IpAddr, u64);
type Candidate<'a> = (Rank, Instant, &'a Arc<Connection>);

/// Each is the worst one of the group that is the largest without those before it.
fn least_deserving(all: &[Arc<Connection>]) -> impl Iterator<Item = Candidate<'_>> {
    let mut groups: HashMap<Group, Vec<Candidate<'_>>> = HashMap::new();
    for connection in all {
        if let Some((rank, since)) = connection.rank() {
            let group = (connection.peer.network(), connection.peer.caller());
            groups.entry(group).or_default().push((rank, since, connection));
        }
    }
    // The worst last. Of groups that are as large, the one whose worst is worse comes first.
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.iter_mut().for_each(|group| {
        group.sort_by_key(|(rank, since, one)| std::cmp::Reverse((*rank, *since, one.number)))
    });
    let size = |group: &[Candidate<'_>], n: usize| {
        let worst = group.last().map(|(rank, since, _)| std::cmp::Reverse((*rank, *since)));
        (group.len(), worst, n)
    };
    let mut by_size: BTreeSet<_> = groups.iter().enumerate().map(|(n, group)| size(group, n)).collect();
    std::iter::from_fn(move || {
        let (_, _, n) = by_size.pop_last()?;
        let worst = groups[n].pop()?;
        if !groups[n].is_empty() {
            by_size.insert(size(&groups[n], n));
        }
        Some(worst)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(max: usize) -> Arc<Connections> {
        Arc::new(Connections::new(max, Deadlines::default()))
    }

    fn opened(connections: &Arc<Connections>, address: [u8; 4], count: usize) -> Vec<Opened> {
        (0..count).map(|_| connections.open(Peer::new(address.into()))).collect()
    }

    fn closed(connections: &[Opened]) -> usize {
        connections.iter().filter(|opened| opened.connection.is_closing()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_is_late_itself_gives_heads_more_time() {
        let connections = connections(10);
        let many = opened(&connections, [127, 0, 0, 2], 10);
        connections.woken_late_by(Duration::from_secs(3));
        tokio::time::sleep(limits::HEAD_TIME_MIN).await;
        let again = connections.close_some();
        assert_eq!((closed(&many), again - Instant::now()), (0, Duration::from_secs(3)));
        tokio::time::sleep_until(again).await;
        connections.close_some();
        assert_eq!(closed(&many), 1);
        (0..10).for_each(|_| connections.woken_late_by(Duration::ZERO));
        assert!(connections.lock().lag < Duration::from_millis(10), "that passes");
    }

    #[tokio::test(start_paused = true)]
    async fn the_largest_groups_lose_their_oldest_fresh_connections_first() {
        let connections = connections(limits::CONNECTIONS_CLOSED_PART * 12);
        let [few, many] =
            [([127, 0, 0, 2], 20), ([127, 0, 0, 3], 30)].map(|(a, n)| opened(&connections, a, n));
        let one = opened(&connections, [127, 0, 0, 4], 1);
        let idle = &many.first().unwrap().connection;
        idle.end(idle.begin(false), Instant::now());
        let again = connections.close_some();
        assert_eq!(closed(&many), 0, "all are too young");
        tokio::time::sleep_until(again).await;
        connections.close_some();
        assert_eq!([closed(&few), closed(&many), closed(&one)], [1, 11, 0]);
        assert!(!idle.is_closing() && closed(&many[1..12]) == 11, "the oldest of those that are fresh");
        connections.close_some();
        assert_eq!(closed(&many), 11, "not before those have ended");
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_room_as_soon_as_somebody_ended() {
        let connections = connections(2);
        let all = opened(&connections, [127, 0, 0, 2], 2);
        let first = all[0].connection.clone();
        for opened in all {
            tokio::spawn(async move { opened.connection.closed().await });
        }
        connections.make_room().await;
        assert_eq!((first.is_closing(), connections.lock().all.len()), (true, 1));
    }

    #[tokio::test]
    async fn a_connection_whose_task_panics_is_not_open_any_more() {
        let connections = connections(2);
        let opened = connections.open(Peer::new([127, 0, 0, 2].into()));
        let task = tokio::spawn(async move {
            let _opened = opened;
            panic!("as a defect of a body would");
        });
        assert!(task.await.unwrap_err().is_panic());
        assert!(connections.lock().all.is_empty());
    }
}
