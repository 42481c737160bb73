//! Decides which tokens a process may use. A token that lies on disk is no permission for an agent that finds it.
//!
//! A process inside an attempt's tree may use the token of its own attempt, and at the port also tokens that only read.

use agent_worker_kernel::Principal;
use agent_worker_protocol::{Code, Permission, Problem};

use crate::peer::{Caller, Callers, Peer};

/// Returns the key by which the connections and streams of a token are counted; none for a caller without a token.
pub(crate) fn token_key(who: &Principal) -> Option<String> {
    match who {
        Principal::Client(token) => Some(format!("client {}", token.name)),
        Principal::Agent(agent) => Some(format!("attempt {}", agent.attempt)),
        Principal::User | Principal::Anonymous => None,
    }
}

/// Refuses the token of `who` if the process at the other end may not use it.
pub(super) async fn check_token_use(
    callers: &Callers,
    who: &Principal,
    peer: Option<&Peer>,
) -> Result<(), Problem> {
    let caller = match peer {
        Some(Peer::Socket(caller)) => *caller,
        Some(Peer::Network(_)) if !is_bound_at_port(who) => return Ok(()),
        Some(Peer::Network(peer)) => peer.caller(callers).await,
        None => return Ok(()),
    };
    decide_token_use(who, caller)
}

/// Returns true if the process counts also at the port.
fn is_bound_at_port(who: &Principal) -> bool {
    match who {
        Principal::Agent(_) => true,
        Principal::Client(_) => {
            Permission::ALL.iter().any(|what| *what != Permission::Read && who.may(*what))
        }
        Principal::User | Principal::Anonymous => false,
    }
}

fn decide_token_use(who: &Principal, caller: Caller) -> Result<(), Problem> {
    let is_own = |attempt| matches!(who, Principal::Agent(agent) if agent.attempt == attempt);
    match caller {
        Caller::User | Caller::Nobody => Ok(()),
        Caller::Attempt(attempt) | Caller::Leftover { live: Some(attempt) } if is_own(attempt) => {
            Ok(())
        }
        Caller::Attempt(_) | Caller::Leftover { .. } | Caller::Foreign => Err(Problem::new(
            Code::Forbidden,
            "this process belongs to an agent or a setup command, which may not use this token",
        )),
        // Temporary for a process that starts another program, so a worker tries again.
        Caller::Unidentified => Err(Problem::new(
            Code::Unavailable,
            "the process that uses this token could not be identified; connect again",
        )),
    }
}
