//! Tests of the configuration.

mod lookup;
