#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| countermand_fuzz::entries::template(data));
