//! A server on a plain socket that says what the test says.
