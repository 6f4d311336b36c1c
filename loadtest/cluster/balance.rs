//! Connections, each to the next API in turn.

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

pub async fn serve(listener: TcpListener, apis: Vec<String>) {
    let mut next = 0;
    loop {
        let Ok((mut caller, _)) = listener.accept().await else { continue };
        let api = apis[next % apis.len()].clone();
        next += 1;
        tokio::spawn(async move {
            let Ok(mut api) = TcpStream::connect(&api).await else { return };
            let _ = (caller.set_nodelay(true), api.set_nodelay(true));
            // However it ends: the caller sees it.
            let _ = copy_bidirectional(&mut caller, &mut api).await;
        });
    }
}
