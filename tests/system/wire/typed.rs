//! Reads the replies of the scenarios as the command line does: each key once, and in the type of the route.

use std::{collections::BTreeSet, fmt};

use agent_worker_protocol::{
    Receipt,
    api::{
        AgentDetail, AgentTools, AgentView, ApprovalView, AttentionItem, DeadLetter, DocumentDiff,
        DocumentEntry, DocumentNamed, DocumentText, FeedbackView, GrantView, Health, InboxReply,
        InstanceView, ListPage, LogReply, MessagesReply, ProposalView, ProposalsReply,
        QuestionView, ResourceEntry, ResourceText, RunView, StatsView, StoreReport, SuggestionView,
        TokenView, TurnDetail, TurnView,
    },
};
use serde::{
    Deserialize,
    de::{DeserializeOwned, Deserializer, Error, MapAccess, SeqAccess, Visitor},
};

/// A JSON document in which no object has a key twice. A parser into a map would keep the last one and hide the fault.
struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueKeysVisitor)
    }
}

struct UniqueKeysVisitor;

impl<'de> Visitor<'de> for UniqueKeysVisitor {
    type Value = UniqueKeys;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_bool<E>(self, _: bool) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_i64<E>(self, _: i64) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_u64<E>(self, _: u64) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_f64<E>(self, _: f64) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_str<E>(self, _: &str) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<UniqueKeys, A::Error> {
        while list.next_element::<UniqueKeys>()?.is_some() {}
        Ok(UniqueKeys)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<UniqueKeys, A::Error> {
        let mut keys = BTreeSet::new();
        while let Some((key, UniqueKeys)) = map.next_entry::<String, UniqueKeys>()? {
            if !keys.insert(key.clone()) {
                return Err(A::Error::custom(format!("the key `{key}` is there twice")));
            }
        }
        Ok(UniqueKeys)
    }
}

/// Fails if an object of the text has a key twice.
pub(super) fn check_keys(what: &str, text: &str) {
    let read: Result<UniqueKeys, _> = serde_json::from_str(text);
    assert!(read.is_ok(), "{what}: {}\n{text}", read.err().unwrap());
}

/// Fails if a reply of a route that reads is not of the type that the command line expects.
pub(super) fn check_reply(path: &str, body: &str) {
    let route = path.split('?').next().unwrap_or_default();
    let segments: Vec<&str> = route.trim_start_matches('/').split('/').collect();
    let check: fn(&str) -> Result<(), serde_json::Error> = match segments[..] {
        ["agents"] => is::<ListPage<AgentView>>,
        ["agents", _] => is::<AgentDetail>,
        ["agents", _, "tools"] => is::<ListPage<AgentTools>>,
        ["logs"] => is::<LogReply>,
        ["approvals"] => is::<ListPage<ApprovalView>>,
        ["grants"] => is::<ListPage<GrantView>>,
        ["attention"] => is::<ListPage<AttentionItem>>,
        ["dead"] => is::<ListPage<DeadLetter>>,
        ["documents"] | ["revisions", ..] => is::<ListPage<DocumentEntry>>,
        ["document"] => is::<DocumentNamed>,
        ["documents", ..] => is::<DocumentText>,
        ["diffs", ..] => is::<DocumentDiff>,
        ["suggestions"] => is::<ListPage<SuggestionView>>,
        ["feedback"] => is::<ListPage<FeedbackView>>,
        ["health"] => is::<Health>,
        ["doctor"] => is::<StoreReport>,
        ["inbox"] => is::<InboxReply>,
        ["messages"] => is::<MessagesReply>,
        ["messages", _, "receipts"] => is::<ListPage<Receipt>>,
        ["proposals"] => is::<ProposalsReply>,
        ["proposals", _] => is::<ProposalView>,
        ["questions"] => is::<ListPage<QuestionView>>,
        ["resources"] => is::<ListPage<ResourceEntry>>,
        ["resources", _] => is::<ResourceText>,
        ["runs"] => is::<ListPage<RunView>>,
        ["runs", _] => is::<RunView>,
        ["stats"] => is::<ListPage<StatsView>>,
        ["tokens"] => is::<ListPage<TokenView>>,
        ["turns"] => is::<ListPage<TurnView>>,
        ["turns", _] => is::<TurnDetail>,
        ["workflows"] => is::<ListPage<InstanceView>>,
        _ => panic!("GET {path} has no type here"),
    };
    let read = check(body);
    assert!(read.is_ok(), "GET {path}: {}\n{body}", read.unwrap_err());
}

fn is<T: DeserializeOwned>(body: &str) -> Result<(), serde_json::Error> {
    serde_json::from_str::<T>(body).map(drop)
}
