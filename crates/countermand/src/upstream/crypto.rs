//! The one TLS provider of the process.

/// Makes `aws-lc-rs` the provider of everything in this process that speaks TLS. Call it once, at the
/// start; later calls, and a provider that was there before, change nothing.
pub fn install_crypto() {
    // The error only says that there is a provider already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}
