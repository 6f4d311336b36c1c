//! What the other end of a connection has read.

use super::until;
use std::net::TcpStream;

/// Waits until the other end, on this machine, has read all that was written. Its process may not have looked at it yet.
pub async fn until_read(stream: &TcpStream) {
    let (ours, theirs) = (stream.local_addr().unwrap().port(), stream.peer_addr().unwrap().port());
    until("the server reads what was sent", async || {
        // First that it arrived: until then there is nothing to be read, either.
        queues(ours, theirs).is_some_and(|(unacknowledged, _)| unacknowledged == 0)
            && queues(theirs, ours).is_some_and(|(_, unread)| unread == 0)
    })
    .await;
}

/// Bytes that the other end has not acknowledged, and bytes that wait to be read, at the IPv4 socket with these ports.
fn queues(local: u16, remote: u16) -> Option<(u64, u64)> {
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    sockets.lines().skip(1).find_map(|line| {
        // `sl local_address rem_address st tx_queue:rx_queue ...`, in hexadecimal.
        let fields: Vec<&str> = line.split_whitespace().collect();
        let port = |field: &str| u16::from_str_radix(field.rsplit(':').next().unwrap(), 16).unwrap();
        let bytes = |field: &str| u64::from_str_radix(field, 16).unwrap();
        let (sent, received) = fields[4].split_once(':').unwrap();
        (port(fields[1]) == local && port(fields[2]) == remote).then(|| (bytes(sent), bytes(received)))
    })
}
