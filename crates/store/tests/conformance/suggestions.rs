//! Suggestions: changes to documents that an agent other than the owner proposes.

use std::sync::Arc;

use agent_worker_protocol::{
    DeliveryState, DocumentPath, Outcome, Revision, Role, Seq, SuggestionState, api::SuggestionView,
};
use agent_worker_store::{
    DocumentBase, DocumentEdit, DocumentWrite, Error, Lease, ListRange, NewRun, NewSuggestion,
    Once, Store, SuggestionAnswer, SuggestionVerdict, WriteContext,
};

use crate::team::{NOW, Team, agent, end, keyed, name, new_run, text, user};

const MAX_BYTES: usize = 4096;

/// Makes a team in which `b` owns the documents, with live attempts of both agents.
async fn team_with_owner(store: &Arc<dyn Store>) -> (Team, Lease, Lease) {
    let mut team = Team::new(store, &["a", "b"]).await;
    team.settle(end(Outcome::Done)).await;
    let roles = vec![(Role::DocumentOwner, name("b"))];
    team.start(NewRun { roles, ..new_run(&["a", "b"]) }).await;
    team.say("go", &["a", "b"]).await;
    let (a, b) = (team.lease("a").await, team.lease("b").await);
    (team, a, b)
}

async fn write(team: &Team, content: &str) {
    let write = DocumentWrite {
        workflow: team.workflow,
        path: DocumentPath::default(),
        content: content.into(),
        base: DocumentBase::Append,
        max_bytes: MAX_BYTES,
    };
    team.store.document_put(user(), write, NOW).await.unwrap();
}

async fn content(team: &Team) -> String {
    let found = team.store.document_get(team.workflow, DocumentPath::default(), None).await;
    found.unwrap().unwrap().content
}

async fn suggest(
    team: &Team,
    by: WriteContext,
    edit: Option<DocumentEdit>,
) -> Result<Once<Seq>, Error> {
    let new = NewSuggestion {
        workflow: team.workflow,
        path: DocumentPath::default(),
        text: "say it better".into(),
        edit,
        message: text("a suggestion", &[]),
        pause: None,
    };
    team.store.suggestion_put(by, new, NOW).await
}

async fn answer(
    team: &Team,
    by: WriteContext,
    suggestion: Seq,
    verdict: SuggestionVerdict,
) -> Result<Once<Option<Revision>>, Error> {
    let message = text("an answer", &[]);
    let workflow = team.workflow;
    let answer = SuggestionAnswer {
        workflow,
        suggestion,
        verdict,
        message,
        pause: None,
        max_bytes: MAX_BYTES,
    };
    team.store.suggestion_answer(by, answer, NOW).await
}

fn replace(old: &str, new: &str) -> DocumentEdit {
    DocumentEdit::Replace { old: old.into(), new: new.into() }
}

fn rejection() -> SuggestionVerdict {
    SuggestionVerdict::Reject("not so".into())
}

pub(crate) async fn a_suggestion_wakes_the_owner_and_is_answered_once(store: Arc<dyn Store>) {
    let (team, a, b) = team_with_owner(&store).await;
    let by = || keyed(agent(&a), "k", "args");
    let seq = suggest(&team, by(), None).await.unwrap().value();
    assert_eq!(suggest(&team, by(), None).await.unwrap(), Once::Deduplicated(seq));
    assert_eq!(team.state(seq, "b").await, DeliveryState::Pending);
    assert_eq!(team.inbox("b").await, [seq]);
    let view = SuggestionView {
        suggestion: seq,
        file: DocumentPath::default(),
        author: "a".into(),
        attempt: Some(a.id),
        text: "say it better".into(),
        old: None,
        new: None,
        state: SuggestionState::Open,
        by: None,
        reason: None,
        revision: None,
        made: NOW.wall,
    };
    let get = || store.suggestion_get(team.workflow, seq);
    assert_eq!(get().await.unwrap(), Some(view.clone()));
    assert_eq!(answer(&team, agent(&b), seq, rejection()).await.unwrap().value(), None);
    let rejected = SuggestionView {
        state: SuggestionState::Rejected,
        by: Some("b".into()),
        reason: Some("not so".into()),
        ..view
    };
    assert_eq!(get().await.unwrap(), Some(rejected.clone()));
    assert_eq!(
        store.suggestion_list(team.workflow, ListRange::first(9)).await.unwrap(),
        [rejected]
    );
    let again = answer(&team, agent(&b), seq, SuggestionVerdict::Accept).await;
    assert!(
        matches!(again, Err(Error::SuggestionAnswered(SuggestionState::Rejected))),
        "{again:?}"
    );
    // The author of a rejected suggestion is woken with the reason.
    let told = *team.inbox("a").await.last().unwrap();
    assert!(told > seq && team.state(told, "a").await == DeliveryState::Pending);
    let kinds = team.kinds().await;
    let of = |kind: &str| kinds.iter().filter(|found| **found == kind).count();
    assert_eq!((of("suggestion.open"), of("suggestion.rejected")), (1, 1), "{kinds:?}");
    let nothing = answer(&team, user(), Seq::new(999), rejection()).await;
    assert!(matches!(nothing, Err(Error::NotFound("suggestion"))), "{nothing:?}");
}

pub(crate) async fn accepting_an_exact_edit_writes_it(store: Arc<dyn Store>) {
    let (team, a, b) = team_with_owner(&store).await;
    write(&team, "teh end\n").await;
    let first = suggest(&team, agent(&a), Some(replace("teh", "the"))).await.unwrap().value();
    let more = Some(DocumentEdit::Append("more\n".into()));
    let second = suggest(&team, user(), more).await.unwrap().value();
    let words = suggest(&team, agent(&a), None).await.unwrap().value();
    let yes = || SuggestionVerdict::Accept;
    let wrote = answer(&team, agent(&b), first, yes()).await.unwrap().value();
    assert_eq!((wrote, content(&team).await.as_str()), (Some(Revision::new(2)), "the end\n"));
    let wrote = answer(&team, user(), second, yes()).await.unwrap().value();
    assert_eq!((wrote, content(&team).await.as_str()), (Some(Revision::new(3)), "the end\nmore\n"));
    assert_eq!(answer(&team, user(), words, yes()).await.unwrap().value(), None);
    let found = store.suggestion_get(team.workflow, first).await.unwrap().unwrap();
    assert_eq!((found.state, found.revision), (SuggestionState::Accepted, Some(Revision::new(2))));
    let history =
        store.document_history(team.workflow, found.file, ListRange::first(9)).await.unwrap();
    let by: Vec<_> = history.iter().map(|info| info.author.as_str()).collect();
    assert_eq!(by, ["user", "b", "user"], "who accepts it writes it");
}

pub(crate) async fn a_passage_that_is_not_there_once_is_refused_when_it_is_suggested_and_when_it_is_accepted(
    store: Arc<dyn Store>,
) {
    let (team, a, b) = team_with_owner(&store).await;
    write(&team, "one two two\n").await;
    for (old, times) in [("two", 2), ("three", 0)] {
        let refused = suggest(&team, agent(&a), Some(replace(old, "x"))).await;
        assert!(matches!(refused, Err(Error::PassageNotUnique(n)) if n == times), "{refused:?}");
    }
    let seq = suggest(&team, agent(&a), Some(replace("one", "1"))).await.unwrap().value();
    write(&team, "one more\n").await;
    let refused = answer(&team, agent(&b), seq, SuggestionVerdict::Accept).await;
    assert!(matches!(refused, Err(Error::PassageNotUnique(2))), "{refused:?}");
    let found = store.suggestion_get(team.workflow, seq).await.unwrap().unwrap();
    assert_eq!(found.state, SuggestionState::Open, "nothing was done");
    assert_eq!(content(&team).await, "one two two\none more\n");
}

pub(crate) async fn only_who_may_not_write_suggests_and_only_who_may_answers(
    store: Arc<dyn Store>,
) {
    let (team, a, b) = team_with_owner(&store).await;
    let own = suggest(&team, agent(&b), None).await;
    assert!(matches!(own, Err(Error::SuggestionNotNeeded)), "{own:?}");
    let seq = suggest(&team, agent(&a), None).await.unwrap().value();
    let refused = answer(&team, agent(&a), seq, SuggestionVerdict::Accept).await;
    assert!(matches!(&refused, Err(Error::NotOwner(owner)) if *owner == name("b")), "{refused:?}");
    let free = Team::new(&store, &["a"]).await;
    let nobody = suggest(&free, user(), None).await;
    assert!(matches!(nobody, Err(Error::SuggestionNotNeeded)), "{nobody:?}");
    let elsewhere = answer(&free, user(), seq, rejection()).await;
    assert!(matches!(elsewhere, Err(Error::NotFound("suggestion"))), "{elsewhere:?}");
}
