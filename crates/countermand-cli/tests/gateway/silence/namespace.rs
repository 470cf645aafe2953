//! A network of a client's own, behind a link that can go down without a word.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::{
    fs::File,
    net::{Ipv4Addr, SocketAddr},
    os::fd::AsFd as _,
    process::Command,
};
use tokio::net::TcpStream;

/// A network namespace with one link to ours. Dropping it removes both.
pub struct Namespace {
    name: String,
    outside: Ipv4Addr,
}

impl Namespace {
    /// Makes one, or says why it cannot be had.
    pub fn new() -> Result<Self, String> {
        let id = std::process::id();
        // Of the addresses for benchmarks (RFC 2544), which nobody else routes.
        let bits = u32::from(Ipv4Addr::new(198, 18, 0, 0)) + id % (1 << 15) * 4;
        let (outside, inside) = (Ipv4Addr::from_bits(bits + 1), Ipv4Addr::from_bits(bits + 2));
        let name = format!("cm{id}");
        ip(&format!("netns add {name}"))?;
        let made = Self { name, outside };
        let name = &made.name;
        for step in [
            format!("link add {name} type veth peer name inside netns {name}"),
            format!("addr add {outside}/30 dev {name}"),
            format!("link set {name} up"),
            format!("-n {name} addr add {inside}/30 dev inside"),
            format!("-n {name} link set inside up"),
        ] {
            ip(&step)?;
        }
        Ok(made)
    }

    /// Our end of the link.
    pub fn outside(&self) -> Ipv4Addr {
        self.outside
    }

    /// A connection from within. A socket belongs to the namespace of the thread that makes it.
    pub fn connect(&self, to: SocketAddr) -> TcpStream {
        let path = format!("/run/netns/{}", self.name);
        let connected = std::thread::spawn(move || {
            let namespace = File::open(path)?;
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            let stream = std::net::TcpStream::connect(to)?;
            stream.set_nonblocking(true)?;
            std::io::Result::Ok(stream)
        });
        TcpStream::from_std(connected.join().unwrap().unwrap()).unwrap()
    }

    /// Its end goes down: nothing comes out any more, no FIN and no RST.
    pub fn take_down(&self) {
        ip(&format!("-n {} link set inside down", self.name)).unwrap();
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Sockets keep a namespace alive beyond its name, but not the link.
        for step in [format!("link del {}", self.name), format!("netns del {}", self.name)] {
            if let Err(why) = ip(&step) {
                println!("failed to clean up: ip {step}: {why}");
            }
        }
    }
}

fn ip(args: &str) -> Result<(), String> {
    let output = Command::new("ip")
        .args(args.split(' '))
        .output()
        .map_err(|error| format!("ip cannot be run ({error}): install iproute2"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {args}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
