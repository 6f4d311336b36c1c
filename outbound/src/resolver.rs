//! Names are checked where they become addresses, in the resolver that the connection uses: a check in front of it could be
//! told one address and the connection another. A client does not resolve literal addresses, so those are checked on the URL.

use crate::address::Rule;
use conveyor_domain::{CallerId, limits};
use conveyor_turns::{Gate, Turn};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use tokio::sync::Semaphore;
use url::{Host, Url};

/// Why a name leads nowhere. It comes back to whoever asked inside an error of the HTTP client.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    #[error("the name leads to an address that may not be fetched")]
    NotAllowed,
    #[error("the name has no address")]
    NoAddress,
    #[error("the name does not resolve")]
    Lookup(#[source] io::Error),
}

/// Resolves names, and refuses those of which any address is refused: of a mixed answer the client could pick the
/// wrong one.
#[derive(Clone)]
pub struct CheckedResolver {
    rule: Rule,
    /// A lookup that nobody waits for any more still has its thread, for as long as the system's resolver takes. Those
    /// threads are shared with every read of the store, so lookups may have only some of them.
    turns: Arc<Semaphore>,
    /// Half of them for one caller: names whose servers are slow must not keep others from theirs.
    shares: Gate,
}

tokio::task_local! {
    static CALLER: CallerId;
}

/// Lookups that `work` makes take turns with those of other callers.
pub async fn on_behalf_of<T>(caller: CallerId, work: impl Future<Output = T>) -> T {
    CALLER.scope(caller, work).await
}

impl fmt::Debug for CheckedResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CheckedResolver")
    }
}

impl CheckedResolver {
    pub fn new(rule: Rule) -> CheckedResolver {
        let (turns, shares) = (
            Arc::new(Semaphore::new(limits::LOOKUPS_MAX)),
            Gate::new(limits::LOOKUPS_MAX, limits::LOOKUPS_MAX),
        );
        CheckedResolver { rule, turns, shares }
    }

    /// All addresses of a name, if every one of them may be connected to.
    pub async fn lookup(&self, name: String) -> Result<Vec<SocketAddr>, ResolveError> {
        self.lookup_for(CALLER.try_with(|caller| *caller).ok(), name).await
    }

    /// Until it is dropped, one lookup of this caller.
    pub async fn turn(&self, caller: CallerId) -> Turn {
        self.shares.turn(caller).await
    }

    async fn lookup_for(
        &self,
        caller: Option<CallerId>,
        name: String,
    ) -> Result<Vec<SocketAddr>, ResolveError> {
        let share = match caller {
            Some(caller) => Some(self.turn(caller).await),
            None => None,
        };
        let turn = self
            .turns
            .clone()
            .acquire_owned()
            .await
            .map_err(|e| ResolveError::Lookup(io::Error::other(e)))?;
        let lookup = move || {
            // Port 0: the client puts in the URL's own.
            let found = (name.as_str(), 0).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
            drop((turn, share));
            found
        };
        let found = tokio::task::spawn_blocking(lookup).await.map_err(|e| ResolveError::Lookup(e.into()))?;
        check_all(found.map_err(ResolveError::Lookup)?, self.rule)
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (resolver, caller) = (self.clone(), CALLER.try_with(|caller| *caller).ok());
        Box::pin(async move {
            let addresses = resolver.lookup_for(caller, name.as_str().to_owned()).await?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// A host that is an address must be an allowed one; a name is for the resolver. `None` if the URL has no host at all.
pub fn check_literal(url: &Url, rule: Rule) -> Option<Result<(), ResolveError>> {
    let address = match url.host()? {
        Host::Ipv4(v4) => IpAddr::V4(v4),
        Host::Ipv6(v6) => IpAddr::V6(v6),
        Host::Domain(_) => return Some(Ok(())),
    };
    Some(if rule(address) { Ok(()) } else { Err(ResolveError::NotAllowed) })
}

/// Whether the host of a URL leads somewhere that may be connected to, as of now.
pub async fn check_host(url: &Url, resolver: &CheckedResolver) -> Result<(), ResolveError> {
    check_literal(url, resolver.rule).unwrap_or(Err(ResolveError::NoAddress))?;
    match url.host() {
        Some(Host::Domain(name)) => resolver.lookup(name.to_owned()).await.map(|_| ()),
        Some(Host::Ipv4(_) | Host::Ipv6(_)) | None => Ok(()),
    }
}

fn check_all(addresses: Vec<SocketAddr>, rule: Rule) -> Result<Vec<SocketAddr>, ResolveError> {
    if addresses.is_empty() {
        Err(ResolveError::NoAddress)
    } else if addresses.iter().all(|address| rule(address.ip())) {
        Ok(addresses)
    } else {
        Err(ResolveError::NotAllowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::is_public;
    use futures::FutureExt;

    #[tokio::test]
    async fn lookups_of_one_caller_leave_some_to_others() {
        let (resolver, [one, other]) =
            (CheckedResolver::new(|_| true), [1, 2].map(|n| CallerId::from_bytes([n; 16])));
        let lookup = |caller| on_behalf_of(caller, resolver.lookup("localhost".to_owned()));
        // As many as a caller gets, none of which ends.
        let mut asked: Vec<_> = (0..limits::LOOKUPS_MAX).map(|_| Box::pin(resolver.turn(one))).collect();
        let hanging: Vec<_> = asked.iter_mut().filter_map(|turn| turn.as_mut().now_or_never()).collect();
        assert_eq!(hanging.len(), limits::LOOKUPS_MAX / 2);
        assert!(lookup(other).await.is_ok());
        drop((hanging, asked));
        assert!(lookup(one).await.is_ok());
    }

    #[test]
    fn one_refused_address_refuses_the_name() {
        let check = |hosts: &[&str]| {
            let addresses = hosts.iter().map(|host| SocketAddr::new(host.parse().unwrap(), 0)).collect();
            check_all(addresses, is_public)
        };
        assert_eq!(check(&["1.1.1.1", "2606:4700::1111"]).unwrap().len(), 2);
        assert!(matches!(check(&["1.1.1.1", "10.0.0.1"]), Err(ResolveError::NotAllowed)));
        assert!(matches!(check(&["::1", "1.1.1.1"]), Err(ResolveError::NotAllowed)));
        assert!(matches!(check(&[]), Err(ResolveError::NoAddress)));
    }

    #[test]
    fn a_literal_address_is_judged_at_once() {
        let check = |url: &str| check_literal(&Url::parse(url).unwrap(), is_public);
        assert!(matches!(check("https://1.1.1.1/"), Some(Ok(()))));
        assert!(matches!(check("https://[::1]/"), Some(Err(ResolveError::NotAllowed))));
        assert!(matches!(check("https://0x7f.1/"), Some(Err(ResolveError::NotAllowed))), "another spelling");
        assert!(matches!(check("https://any.example/"), Some(Ok(()))));
        assert!(check("data:text/plain,x").is_none());
    }
}
