//! `fetch`: reading a text from the web, within bounds and never from private addresses.
