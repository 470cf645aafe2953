//! What depends on the operating system: seeing that a peer has closed, and bounding how long a silent one is trusted.

use std::io;
use std::time::Duration;
use tokio::net::TcpStream;

/// When a silent peer is given up.
///
/// A peer that vanishes without a word is seen at the latest after the interval of keep-alive comments plus
/// `user_timeout`, and a little more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpOptions {
    /// Idle time before the first probe, and between probes.
    pub keep_alive: Duration,
    /// Unanswered probes after which the connection is broken.
    pub probes: u32,
    /// How long sent data may stay unacknowledged (Linux).
    pub user_timeout: Duration,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self { keep_alive: Duration::from_secs(5), probes: 3, user_timeout: Duration::from_secs(10) }
    }
}

/// Waits until the peer has closed its sending side, or the connection is broken, whatever lies unread in front.
///
/// Linux, through tokio: readiness for priority data comes with "read closed" but not with plain data, so this
/// sleeps while data arrives. Urgent data wakes it; its readiness is then cleared, so that it does not spin.
///
/// # Cancel safety
///
/// Dropping the future loses nothing: a closed connection stays closed.
#[cfg(target_os = "linux")]
pub(crate) async fn read_closed(stream: &TcpStream) {
    use tokio::io::Interest;
    loop {
        match stream.ready(Interest::PRIORITY).await {
            Ok(ready) if !ready.is_read_closed() => {
                let clear = || Err::<(), _>(io::Error::from(io::ErrorKind::WouldBlock));
                let _ = stream.try_io(Interest::PRIORITY, clear);
            }
            Ok(_) | Err(_) => return,
        }
    }
}

/// As on Linux, but by looking every 50 ms: nothing there wakes us for a close alone.
#[cfg(not(target_os = "linux"))]
pub(crate) async fn read_closed(stream: &TcpStream) {
    use tokio::io::Interest;
    loop {
        match stream.ready(Interest::READABLE).await {
            Ok(ready) if !ready.is_read_closed() => {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await
            }
            Ok(_) | Err(_) => return,
        }
    }
}

/// Sets what an accepted connection needs: no delay, keep-alive probes, and a bound on unacknowledged data.
///
/// The bound matters: as long as keep-alive comments wait for an acknowledgement, the probes do not run.
pub(crate) fn tune(stream: &TcpStream, options: &TcpOptions) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    let probes = socket2::TcpKeepalive::new().with_time(options.keep_alive).with_interval(options.keep_alive);
    #[cfg(not(windows))]
    let probes = probes.with_retries(options.probes);
    socket.set_tcp_keepalive(&probes)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(options.user_timeout))?;
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use std::pin::pin;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (peer, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn data_is_no_close_and_a_close_is_seen_behind_it() {
        let (mut peer, stream) = pair().await;
        let mut closed = pin!(read_closed(&stream));
        peer.write_all(b"data").await.unwrap();
        stream.readable().await.unwrap();
        assert!(closed.as_mut().now_or_never().is_none());
        drop(peer);
        closed.await;
    }

    #[tokio::test]
    async fn a_tuned_connection_does_not_trust_a_silent_peer_for_long() {
        let (_peer, stream) = pair().await;
        tune(&stream, &TcpOptions::default()).unwrap();
        let socket = socket2::SockRef::from(&stream);
        assert!(stream.nodelay().unwrap() && socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(5));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(5));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(10)));
    }
}
