//! Tables of voters and rules: each creator, each effect, with and without gates that the file fixes.

use agent_worker_protocol::{Role, Seq};
use agent_worker_workflow::{Workflow, parse};

use super::*;

const GATES: &str = "gates:
  release: { electorate: [user], rule: unanimous }
  deploy: { electorate: [coder] }
";

fn workflow(agents: &[&str], gates: &str) -> Workflow {
    let agent = |name: &&str| {
        let requires = match *name {
            "coder" => ", requires: { document_append: release, document_write: deploy }",
            _ => "",
        };
        format!("  {name}: {{ backend: mock{requires} }}\n")
    };
    let agents: String = agents.iter().map(agent).collect();
    parse(&format!("name: t\nagents:\n{agents}{gates}"), "t.yaml".as_ref()).unwrap()
}

/// Returns `voters rule`, or the refused term, for a binding proposal of `creator` (`person`, `client` or an agent).
fn decide(
    workflow: &Workflow,
    creator: &str,
    change: impl FnOnce(&mut ProposalRequest),
) -> Result<String, String> {
    let mut request = ProposalRequest { binding: true, ..Default::default() };
    change(&mut request);
    let team: Vec<AgentName> = workflow.agents.iter().map(|agent| agent.name.clone()).collect();
    let authority =
        if creator == "person" { ProposalAuthority::Person } else { ProposalAuthority::Own };
    let creator = workflow.agents.iter().find(|agent| agent.name.as_str() == creator);
    let (gates, finisher) = (&workflow.gates, None);
    let context = ProposalTeam { team: &team, gates, finisher, authority, creator };
    let (gate, kind) = (request.gate.clone(), ProposalKind::Approval);
    voting_terms(&request, kind, gate.as_deref(), context).map(|terms| {
        let voters: Vec<_> = terms.electorate.iter().map(ToString::to_string).collect();
        format!("{} {}", voters.join(","), terms.rule)
    })
}

fn gate(name: &'static str) -> impl Fn(&mut ProposalRequest) + Copy {
    move |request| request.gate = Some(name.into())
}

#[test]
fn the_creator_of_a_proposal_about_its_own_gate_has_no_vote() {
    let (one, two) = (&["coder"][..], &["coder", "critic"][..]);
    for (agents, gates, creator, name, expected) in [
        (two, "", "coder", "release", "critic majority"),
        (two, "", "critic", "release", "coder,critic majority"),
        (two, "", "coder", "other", "coder,critic majority"),
        (two, "", "person", "release", "coder,critic majority"),
        (one, "", "coder", "release", "user majority"),
        (one, "", "coder", "other", "user majority"),
        (one, "", "person", "release", "user majority"),
        (two, GATES, "coder", "release", "user unanimous"),
        (two, GATES, "critic", "release", "user unanimous"),
        (two, GATES, "person", "release", "user unanimous"),
        (two, GATES, "coder", "deploy", "user majority"),
        (two, GATES, "critic", "deploy", "coder majority"),
    ] {
        let found = decide(&workflow(agents, gates), creator, gate(name));
        assert_eq!(found.as_deref(), Ok(expected), "{agents:?} {gates} {creator} {name}");
    }
}

#[test]
fn only_a_person_chooses_terms_that_replace_the_votes_of_the_team() {
    type RequestEdit = fn(&mut ProposalRequest);
    let effects: [RequestEdit; 3] = [
        |request| request.gate = Some("other".into()),
        |request| request.role = Some(Role::Coordinator),
        |request| request.work = Some(Seq::new(1)),
    ];
    let terms: [(RequestEdit, &str); 4] = [
        (|request| request.electorate = Some(vec![Sender::from("coder".to_owned())]), "electorate"),
        (|request| request.quorum = Some(1), "quorum"),
        (|request| request.fallback = Some("coder".into()), "fallback"),
        (|request| request.rule = Some(Rule::Plurality), "rule: plurality"),
    ];
    let team = workflow(&["coder", "critic"], "");
    for effect in effects {
        for (term, name) in terms {
            for creator in ["coder", "client", "person"] {
                let found = decide(&team, creator, |request| {
                    effect(request);
                    term(request);
                });
                let refused = found.err().is_some_and(|why| why.contains(&format!("`{name}`")));
                assert_eq!(refused, creator != "person", "{creator} {name}");
                let advice = decide(&team, creator, |request| {
                    effect(request);
                    term(request);
                    request.binding = false;
                });
                assert!(advice.is_ok(), "advice binds nobody: {advice:?}");
            }
        }
        let rule = decide(&team, "coder", effect);
        assert_eq!(rule.as_deref(), Ok("coder,critic majority"));
    }
}

#[test]
fn terms_of_the_file_can_be_repeated_and_not_changed() {
    let team = workflow(&["coder", "critic"], GATES);
    let named =
        |names: &[&str]| names.iter().map(|name| Sender::from((*name).to_owned())).collect();
    for (electorate, rule, quorum, is_accepted) in [
        (Some(named(&["user"])), Some(Rule::Unanimous), None, true),
        (Some(named(&["critic"])), None, None, false),
        (None, Some(Rule::Majority), None, false),
        (None, None, Some(1), false),
    ] {
        for creator in ["person", "critic"] {
            let found = decide(&team, creator, |request| {
                gate("release")(request);
                (request.electorate, request.rule, request.quorum) =
                    (electorate.clone(), rule, quorum);
            });
            assert_eq!(found.is_ok(), is_accepted, "{creator} {found:?}");
        }
    }
}

#[test]
fn a_voter_of_the_file_that_left_the_team_does_not_decide() {
    let full = workflow(&["coder", "critic"], "gates: { release: { electorate: [critic] } }\n");
    let mut left = full.clone();
    left.agents.retain(|agent| agent.name.as_str() == "coder");
    assert_eq!(decide(&left, "coder", gate("release")).as_deref(), Ok("user majority"));
}
