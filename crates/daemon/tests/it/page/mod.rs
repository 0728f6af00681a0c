//! The page as browsers meet it, by requests that are written out.

mod access;
mod rig;
mod servers;
mod talk;
mod views;
