//! What may befall a machine: disks that fill, bits that flip, files that go, folders that cannot be written, too little
//! memory; and what helps: backups, and formats that are told apart. With the real binary.

mod backup;
mod campaign;
mod damage;
mod disk;
mod formats;
mod hints;
pub(crate) mod home;
mod memory;
mod room;
mod unwritable;
