//! The same raw requests to us and to a server of `rmcp`: every difference has an explanation.

mod compare;
mod http;
mod sessions;
mod lines;
mod servers;
