//! The store of a journal in a database: what several nodes do with one, and what goes wrong. What it does as every store, the
//! other tests show of it with `CAIRN_TEST_STORE=database`.

mod common;
mod copies;
mod erasure;
mod faults;
mod nodes;
