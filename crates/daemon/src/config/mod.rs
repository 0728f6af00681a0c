//! The daemon's configuration: found, read, checked and resolved before anything starts.
