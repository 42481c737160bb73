//! The terms of a proposal: checked and completed before its creation. Pure.

use std::time::Duration;

use agent_worker_protocol::{
    APPROVE, AgentName, Proposal, ProposalKind, ProposalOption, REJECT, Role, Rule, Span, Terms,
    api::ProposalRequest,
};
use agent_worker_workflow::nearest;

use crate::voting::electorate::{ProposalTeam, VotingTerms, voting_terms};

/// Maximum size of a title or a reason.
const MAX_LINE_BYTES: usize = 1_000;
/// Maximum size of a description.
const MAX_DESCRIPTION_BYTES: usize = 16 * 1024;
const MAX_OPTIONS: usize = 50;
const MAX_OPTION_BYTES: usize = 100;
/// Default duration of a vote.
const DEFAULT_VOTING_DURATION: Duration = Duration::from_mins(10);
const MAX_VOTING_DURATION: Duration = Duration::from_hours(24 * 30);

/// Returns the terms of a proposal in this team, or a text about the invalid part.
pub(crate) fn terms(request: ProposalRequest, context: ProposalTeam<'_>) -> Result<Terms, String> {
    let kind = proposal_kind(&request)?;
    let gate =
        request.gate.as_deref().map(|gate| single_line(gate, "a gate's name")).transpose()?;
    if let (Some(Role::Finisher), Some(finisher)) = (request.role, context.finisher) {
        return Err(format!(
            "the workflow file names {finisher} as the finisher, so no vote assigns this role"
        ));
    }
    let VotingTerms { electorate, rule } = voting_terms(&request, kind, gate.as_deref(), context)?;
    check_quorum(&request, rule, electorate.len())?;
    let title = single_line(&request.title, "a title")?;
    if title.is_empty() {
        return Err("a proposal needs a title".into());
    }
    let description = request.description.filter(|text| !text.trim().is_empty());
    if description.as_ref().is_some_and(|text| text.len() > MAX_DESCRIPTION_BYTES) {
        return Err(format!("a description has at most {MAX_DESCRIPTION_BYTES} bytes"));
    }
    let wanted = match (request.role, request.work) {
        (None, None) => ProposalOptionKind::Anything,
        (Some(_), _) | (_, Some(_)) => ProposalOptionKind::Agent,
    };
    let options = options(request.options, kind, wanted, context.team)?;
    let is_missing = |id: &&str| !options.iter().any(|option| option.id == **id);
    if let (Some(_), Some(missing)) = (&gate, [APPROVE, REJECT].iter().find(|id| is_missing(id))) {
        return Err(format!("a gate needs the option `{missing}`, which is missing"));
    }
    let fallback = request.fallback.map(|fallback| find_option(&options, &fallback)).transpose()?;
    Ok(Terms {
        kind,
        title,
        description,
        options,
        rule,
        quorum: request.quorum,
        close_at_quorum: request.close_at_quorum,
        tie_breaker: request.tie_breaker.unwrap_or_default(),
        binding: request.binding,
        role: request.role,
        work: request.work,
        gate,
        electorate,
        fallback,
    })
}

/// Refuses a quorum that the vote cannot reach, or at which it cannot close.
fn check_quorum(request: &ProposalRequest, rule: Rule, voters: usize) -> Result<(), String> {
    let closes = request.close_at_quorum;
    let Some(quorum) = request.quorum else {
        return if closes { Err("`close_at_quorum` needs a `quorum`".into()) } else { Ok(()) };
    };
    let needed = usize::try_from(quorum).unwrap_or(usize::MAX);
    if needed == 0 || needed > voters {
        return Err(format!("the quorum must be between 1 and {voters}, the number of voters"));
    }
    if closes && rule == Rule::Unanimous && needed < voters {
        return Err(format!(
            "`unanimous` needs the ballots of all {voters} voters, so the vote cannot close at a quorum of {quorum}; \
             omit the quorum or choose `majority`"
        ));
    }
    Ok(())
}

/// Returns the duration of a vote.
pub(crate) fn voting_duration(asked: Option<Span>) -> Result<Duration, String> {
    match asked.map(Span::duration) {
        None => Ok(DEFAULT_VOTING_DURATION),
        Some(span) if span.is_zero() || span > MAX_VOTING_DURATION => {
            Err("a proposal's deadline must be later than now and at most 30 days away".into())
        }
        Some(span) => Ok(span),
    }
}

/// Returns the option of a vote in the spelling of its proposal.
pub(crate) fn resolve_choice(proposal: &Proposal, typed: &str) -> Result<String, String> {
    find_option(&proposal.terms.options, typed)
        .map_err(|why| format!("proposal #{}: {why}", proposal.id))
}

/// Returns a text as one trimmed line.
pub(crate) fn single_line(text: &str, what: &str) -> Result<String, String> {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() > MAX_LINE_BYTES {
        return Err(format!("{what} has at most {MAX_LINE_BYTES} bytes"));
    }
    Ok(line)
}

fn find_option(options: &[ProposalOption], typed: &str) -> Result<String, String> {
    let typed = typed.trim();
    let name = typed.strip_prefix('@').unwrap_or(typed);
    let exact = options.iter().find(|option| option.id == typed);
    let meant = || options.iter().find(|option| option.id.eq_ignore_ascii_case(name));
    let found = exact.or_else(meant).map(|option| option.id.clone());
    found.ok_or_else(|| {
        let ids = || options.iter().map(|option| option.id.as_str());
        let near = nearest(typed, ids()).map(|near| format!("; did you mean `{near}`?"));
        let all = ids().collect::<Vec<_>>().join(", ");
        format!("there is no option `{typed}`; the options are {all}{}", near.unwrap_or_default())
    })
}

fn proposal_kind(request: &ProposalRequest) -> Result<ProposalKind, String> {
    let meant = match (request.role, request.work, &request.gate) {
        (None, None, None) => return Ok(request.kind.unwrap_or_default()),
        (Some(_), None, None) => (ProposalKind::Election, "role"),
        (None, Some(_), None) => (ProposalKind::Assignment, "work"),
        (None, None, Some(_)) => (ProposalKind::Approval, "gate"),
        _ => return Err("a proposal may have only one of `role`, `work` and `gate`".into()),
    };
    match request.kind {
        Some(kind) if kind != meant.0 => {
            Err(format!("`{}` is for an {}, not for {kind}", meant.1, meant.0))
        }
        Some(_) | None => Ok(meant.0),
    }
}

/// The kind of a proposal's options.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProposalOptionKind {
    Agent,
    Anything,
}

/// Returns the options of a vote. If agents are required, every option must be one.
fn options(
    asked: Option<Vec<ProposalOption>>,
    kind: ProposalKind,
    wanted: ProposalOptionKind,
    team: &[AgentName],
) -> Result<Vec<ProposalOption>, String> {
    let of_agents = matches!(kind, ProposalKind::Election | ProposalKind::Assignment);
    let Some(mut options) = asked else {
        return Ok(match kind {
            _ if of_agents => team.iter().map(|name| ProposalOption::new(name.as_str())).collect(),
            _ => [APPROVE, REJECT].map(ProposalOption::new).into(),
        });
    };
    if options.is_empty() || options.len() > MAX_OPTIONS {
        return Err(format!("a proposal has 1 to {MAX_OPTIONS} options"));
    }
    for option in &mut options {
        option.id = single_line(&option.id, "an option")?;
        if option.id.is_empty() || option.id.len() > MAX_OPTION_BYTES {
            return Err(format!("an option must have 1 to {MAX_OPTION_BYTES} bytes"));
        }
        if wanted == ProposalOptionKind::Agent {
            let name = option.id.strip_prefix('@').unwrap_or(&option.id);
            let known = team.iter().find(|agent| agent.as_str().eq_ignore_ascii_case(name));
            let known = known.ok_or_else(|| format!("there is no agent `{name}` to vote for"))?;
            option.id = known.to_string();
        }
    }
    for (at, option) in options.iter().enumerate() {
        if options[..at].iter().any(|other| other.id.eq_ignore_ascii_case(&option.id)) {
            return Err(format!("the option `{}` is listed twice", option.id));
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use agent_worker_protocol::{Sender, Seq};
    use agent_worker_store::ProposalAuthority;

    use super::*;
    use crate::voting::proposals::default_electorate;

    fn team() -> Vec<AgentName> {
        ["lead", "Coder"].map(|name| name.parse().unwrap()).into()
    }

    fn asks(change: impl FnOnce(&mut ProposalRequest)) -> Result<Terms, String> {
        let mut request = ProposalRequest { title: " ship\n it ".into(), ..Default::default() };
        change(&mut request);
        let (team, gates) = (team(), BTreeMap::new());
        let authority = ProposalAuthority::Person;
        let (finisher, creator) = (None, None);
        terms(request, ProposalTeam { team: &team, gates: &gates, finisher, authority, creator })
    }

    fn ids(terms: &Terms) -> Vec<&str> {
        terms.options.iter().map(|option| option.id.as_str()).collect()
    }

    #[test]
    fn a_gate_can_be_refused_by_its_voters() {
        let with = |ids: &[&str]| {
            let options = ids.iter().map(|id| ProposalOption::new(*id)).collect();
            asks(|request| {
                request.gate = Some("release".into());
                request.options = Some(options);
            })
        };
        assert!(with(&[APPROVE]).unwrap_err().contains("`reject`"));
        assert!(with(&[REJECT]).unwrap_err().contains("`approve`"));
        assert_eq!(ids(&with(&[APPROVE, REJECT, "later"]).unwrap()), [APPROVE, REJECT, "later"]);
    }

    #[test]
    fn omitted_terms_follow_from_the_given_ones() {
        let plain = asks(|_| {}).unwrap();
        assert_eq!((plain.title.as_str(), plain.kind), ("ship it", ProposalKind::Decision));
        assert_eq!((ids(&plain), plain.rule), (vec!["approve", "reject"], Rule::Plurality));
        assert!(!plain.binding);
        assert_eq!(plain.electorate, default_electorate(&team()));
        let elected = asks(|request| request.role = Some(Role::Coordinator)).unwrap();
        assert_eq!((elected.kind, ids(&elected)), (ProposalKind::Election, vec!["lead", "Coder"]));
        let assigned = asks(|request| {
            request.work = Some(Seq::new(3));
            request.options = Some(vec![ProposalOption::new("@coder")]);
            request.fallback = Some("CODER".into());
        })
        .unwrap();
        assert_eq!((assigned.kind, ids(&assigned)), (ProposalKind::Assignment, vec!["Coder"]));
        assert_eq!(assigned.fallback.as_deref(), Some("Coder"));
        let approved = asks(|request| request.gate = Some("release".into())).unwrap();
        assert_eq!((approved.kind, approved.rule), (ProposalKind::Approval, Rule::Majority));
    }

    #[test]
    fn invalid_terms_are_refused_with_a_reason() {
        type RequestEdit = fn(&mut ProposalRequest);
        let cases: [(RequestEdit, &str); 13] = [
            (|request| request.title = "  ".into(), "needs a title"),
            (|request| request.title = "x".repeat(2_000), "at most 1000 bytes"),
            (|request| request.options = Some(Vec::new()), "1 to 50 options"),
            (
                |request| request.options = Some(["a", "A"].map(ProposalOption::new).into()),
                "listed twice",
            ),
            (|request| request.quorum = Some(3), "between 1 and 2"),
            (|request| request.quorum = Some(0), "between 1 and 2"),
            (|request| request.close_at_quorum = true, "needs a `quorum`"),
            (
                |request| {
                    request.rule = Some(Rule::Unanimous);
                    request.quorum = Some(1);
                    request.close_at_quorum = true;
                },
                "cannot close at a quorum of 1",
            ),
            (|request| request.fallback = Some("aprove".into()), "did you mean `approve`?"),
            (
                |request| {
                    request.role = Some(Role::Coordinator);
                    request.work = Some(Seq::new(1));
                },
                "one of",
            ),
            (
                |request| {
                    request.role = Some(Role::Coordinator);
                    request.options = Some(vec![ProposalOption::new("zoe")]);
                },
                "no agent `zoe`",
            ),
            (
                |request| {
                    request.gate = Some("g".into());
                    request.options = Some(vec![ProposalOption::new("yes")]);
                },
                "`approve`",
            ),
            (|request| request.electorate = Some(vec![Sender::System]), "cannot vote"),
        ];
        for (change, expected) in cases {
            let told = asks(change).unwrap_err();
            assert!(told.contains(expected), "{told}");
        }
        let whole = asks(|request| {
            request.rule = Some(Rule::Unanimous);
            request.quorum = Some(2);
            request.close_at_quorum = true;
        });
        assert!(whole.is_ok(), "the quorum is the whole electorate");
        assert!(voting_duration(Some(Span::from_secs(0))).is_err());
        assert_eq!(voting_duration(None), Ok(DEFAULT_VOTING_DURATION));
    }

    #[test]
    fn no_vote_replaces_the_finisher_that_the_file_names() {
        let (team, gates) = (team(), BTreeMap::new());
        let elects = |role, finisher| {
            let context = ProposalTeam {
                team: &team,
                gates: &gates,
                finisher,
                authority: ProposalAuthority::Person,
                creator: None,
            };
            let title = "who".to_owned();
            terms(ProposalRequest { title, role: Some(role), ..Default::default() }, context)
        };
        let refused = elects(Role::Finisher, Some(&team[0])).unwrap_err();
        assert!(refused.contains("names lead as the finisher"), "{refused}");
        assert!(elects(Role::Finisher, None).is_ok());
        assert!(elects(Role::Coordinator, Some(&team[0])).is_ok());
    }
}
