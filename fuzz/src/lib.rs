//! What the fuzz targets run. The workspace's own tests run the same entries over the corpora, without a fuzzer.

pub mod entries;
