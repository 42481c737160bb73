//! The programs of agents on this machine: their presence, their logins, and the problems that keep an agent from its first
//! turn. Reads files and the environment; runs no program and asks no server.

pub(crate) mod check;
pub(crate) mod login;
