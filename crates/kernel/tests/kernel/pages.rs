//! Pages of lists: what a caller reads page by page is the whole list, in one order.

use agent_worker_kernel::{
    ChannelPosition, ChannelQuery, Error, InstanceSelector, ListingScope, PageRequest, Principal,
};
use agent_worker_protocol::{
    RunMode, Seq,
    api::{ListPage, MessagesReply},
};

use crate::world::{KernelWorld, instance_selector, team};

fn page(limit: u32, after: Option<String>) -> PageRequest {
    PageRequest::new(Some(limit), after).unwrap()
}

/// Reads a list in pages of two and returns their sizes and all items.
async fn read_all<T>(
    list: impl AsyncFn(PageRequest) -> Result<ListPage<T>, Error>,
) -> (Vec<usize>, Vec<T>) {
    let (mut sizes, mut items, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let read = list(page(2, after)).await.unwrap();
        sizes.push(read.items.len());
        items.extend(read.items);
        match read.next {
            Some(next) => after = Some(next),
            None => return (sizes, items),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_run_is_reached_page_by_page_live_ones_first_then_newest_first() {
    let world = KernelWorld::new().await;
    let mut ended = Vec::new();
    for tag in ["a", "b", "a", "c"] {
        let run = world.begin_run(RunMode::Start, tag, &team("coder", "")).await.unwrap().run;
        world.stop(run).await.unwrap();
        ended.push(run);
        world.pass_time(std::time::Duration::from_secs(1)).await;
    }
    let live = world.begin_run(RunMode::Start, "b", &team("coder", "")).await.unwrap().run;
    ended.reverse();
    let expected: Vec<_> = [live].into_iter().chain(ended).collect();
    let user = &Principal::User;
    for selector in [
        InstanceSelector::default(),
        InstanceSelector { target: None, project: Some(world.folder().into()) },
    ] {
        let list = async |page: PageRequest| {
            world.kernel.runs().list(user, &selector, ListingScope::All, &page).await
        };
        let (sizes, runs) = read_all(list).await;
        assert_eq!(runs.iter().map(|run| run.run).collect::<Vec<_>>(), expected);
        assert_eq!(sizes, [2, 2, 1]);
    }
    let (anywhere, nine) = (InstanceSelector::default(), page(9, None));
    let live_runs = world.kernel.runs().list(user, &anywhere, ListingScope::Live, &nine);
    assert_eq!(
        live_runs.await.unwrap().items.iter().map(|run| run.run).collect::<Vec<_>>(),
        [live]
    );
    let one = instance_selector("@a");
    let runs = world.kernel.runs().list(user, &one, ListingScope::All, &page(9, None)).await;
    assert_eq!(runs.unwrap().items.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_between_two_pages_is_neither_repeated_nor_lost() {
    for ends in 0..4 {
        let world = KernelWorld::new().await;
        let mut runs = Vec::new();
        for tag in ["a", "b", "c", "d", "e"] {
            let run = world.begin_run(RunMode::Start, tag, &team("coder", "")).await.unwrap().run;
            world.pass_time(std::time::Duration::from_secs(1)).await;
            runs.push(run);
        }
        world.stop(runs[4]).await.unwrap();
        let list = async |page: PageRequest| {
            let (user, anywhere) = (&Principal::User, &InstanceSelector::default());
            world.kernel.runs().list(user, anywhere, ListingScope::All, &page).await.unwrap()
        };
        let (mut read, mut after) = (Vec::new(), None);
        loop {
            let part = list(page(1, after)).await;
            read.extend(part.items.iter().map(|run| run.run));
            // After its own page, or before it.
            if read.len() == 2 {
                world.stop(runs[ends]).await.unwrap();
            }
            match part.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(read.len(), 5, "run {ends}: {read:?}");
        read.sort();
        runs.sort();
        assert_eq!(read, runs, "run {ends}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_while_a_page_is_read_is_on_it_once() {
    let world = KernelWorld::new().await;
    let run = world.start(&team("coder", "")).await;
    let live = world.store.withhold_answer("run_list");
    let (user, anywhere, nine) = (&Principal::User, InstanceSelector::default(), page(9, None));
    let list = world.kernel.runs().list(user, &anywhere, ListingScope::All, &nine);
    let end = async {
        live.reached().await;
        world.stop(run).await.unwrap();
        live.release();
    };
    let (listed, ()) = tokio::join!(list, end);
    let listed: Vec<_> = listed.unwrap().items.iter().map(|view| view.run).collect();
    assert_eq!(listed, [run]);
}

#[tokio::test(start_paused = true)]
async fn agents_of_several_instances_are_read_page_by_page_and_in_no_other_folder() {
    let world = KernelWorld::new().await;
    for tag in ["a", "b"] {
        world.begin_run(RunMode::Start, tag, &team("one two three", "")).await.unwrap();
    }
    let list = async |project: Option<&str>, page: PageRequest| {
        let selector = InstanceSelector { target: None, project: project.map(Into::into) };
        world.kernel.agents().list(&Principal::User, &selector, ListingScope::All, &page).await
    };
    let (sizes, agents) = read_all(async |page| list(None, page).await).await;
    let names: Vec<_> = agents.iter().map(|one| one.name.as_str()).collect();
    assert_eq!((sizes, names), (vec![2, 2, 2], vec!["one", "two", "three", "one", "two", "three"]));
    assert!(list(Some("/elsewhere"), page(9, None)).await.unwrap().items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_channel_is_read_back_page_by_page_while_new_messages_arrive() {
    let world = KernelWorld::new().await;
    world.start(&team("coder", "")).await;
    for number in 1..=5 {
        world.send_to_team(&format!("note {number}")).await;
    }
    let read = async |query: ChannelQuery| -> MessagesReply {
        let at = &instance_selector("@team");
        world.kernel.messages().list(&Principal::User, at, query).await.unwrap()
    };
    let seqs = |reply: &MessagesReply| -> Vec<i64> {
        reply.items.iter().map(|message| message.seq.get()).collect()
    };
    let back = |after| ChannelQuery { page: page(2, after), ..ChannelQuery::default() };
    let first = read(back(None)).await;
    assert_eq!(seqs(&first), [4, 5]);
    world.send_to_team("note 6").await;
    let second = read(back(first.next)).await;
    assert_eq!(seqs(&second), [2, 3]);
    let last = read(back(second.next)).await;
    assert_eq!((seqs(&last), last.next), (vec![1], None));
    let forward =
        |after| ChannelQuery { since: Some(ChannelPosition::Seq(Seq::new(1))), ..back(after) };
    let first = read(forward(None)).await;
    assert_eq!(seqs(&first), [2, 3]);
    let second = read(forward(first.next)).await;
    assert_eq!(seqs(&second), [4, 5]);
    let last = read(forward(second.next)).await;
    assert_eq!((seqs(&last), last.next), (vec![6], None));
    let found = |after| ChannelQuery { search: Some("note".to_owned()), ..back(after) };
    let first = read(found(None)).await;
    assert_eq!(seqs(&first), [6, 5], "a search returns the newest first");
    assert_eq!(seqs(&read(found(first.next)).await), [4, 3]);
}

#[tokio::test(start_paused = true)]
async fn the_pages_of_a_channel_stay_in_the_run_of_the_first_page() {
    let world = KernelWorld::new().await;
    let run = world.start(&team("coder", "")).await;
    for number in 1..=5 {
        world.send_to_team(&format!("note {number}")).await;
    }
    let read = async |since: Option<i64>, search: Option<&str>, after| {
        let since = since.map(|seq| ChannelPosition::Seq(Seq::new(seq)));
        let search = search.map(str::to_owned);
        let query = ChannelQuery { since, search, page: page(2, after), ..ChannelQuery::default() };
        let at = &instance_selector("@team");
        let reply = world.kernel.messages().list(&Principal::User, at, query).await.unwrap();
        let seqs: Vec<_> = reply.items.iter().map(|message| message.seq.get()).collect();
        (seqs, reply.next)
    };
    let back = read(None, None, None).await;
    let forward = read(Some(1), None, None).await;
    let found = read(None, Some("note"), None).await;
    assert_eq!((back.0, forward.0, found.0), (vec![4, 5], vec![2, 3], vec![5, 4]));
    world.stop(run).await.unwrap();
    world.start(&team("coder", "")).await;
    world.send_to_team("note 6").await;
    assert_eq!(read(None, None, None).await.0, [6], "a first page has the live run");
    let (seqs, next) = read(None, None, back.1).await;
    assert_eq!(seqs, [2, 3]);
    assert_eq!(read(None, None, next).await, (vec![1], None));
    assert_eq!(read(Some(1), None, forward.1).await, (vec![4, 5], None));
    assert_eq!(read(None, Some("note"), found.1).await.0, [3, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_cursor_has_one_position_however_many_runs_are_live() {
    let world = KernelWorld::new().await;
    for tag in ["a", "b", "c", "d"] {
        world.begin_run(RunMode::Start, tag, &team("coder", "")).await.unwrap();
    }
    let (user, anywhere) = (&Principal::User, InstanceSelector::default());
    let (mut lengths, mut after) = (Vec::new(), None);
    loop {
        let one = page(1, after);
        let read = world.kernel.runs().list(user, &anywhere, ListingScope::All, &one).await;
        let Some(next) = read.unwrap().next else { break };
        lengths.push(next.len());
        after = Some(next);
    }
    assert_eq!(lengths.len(), 3);
    assert!(lengths.iter().all(|length| *length == lengths[0]), "{lengths:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cursor_of_another_query_of_messages_is_refused() {
    let world = KernelWorld::new().await;
    world.start(&team("coder", "")).await;
    world.begin_run(RunMode::Start, "other", &team("coder", "")).await.unwrap();
    for number in 1..=3 {
        world.send_to_team(&format!("note {number}")).await;
    }
    let read = async |target: &str, query: ChannelQuery| {
        world.kernel.messages().list(&Principal::User, &instance_selector(target), query).await
    };
    let all = || ChannelQuery { page: page(1, None), all_runs: true, ..ChannelQuery::default() };
    let plain = || ChannelQuery { page: page(1, None), ..ChannelQuery::default() };
    let found = || ChannelQuery { search: Some("note".to_owned()), ..plain() };
    let thread = || ChannelQuery { thread: Some(Seq::new(1)), ..plain() };
    let next = read("@team", plain()).await.unwrap().next.unwrap();
    for (target, query) in
        [("@team", all()), ("@team", found()), ("@team", thread()), ("@other", plain())]
    {
        let query = ChannelQuery { page: page(1, Some(next.clone())), ..query };
        let refused = read(target, query.clone()).await.unwrap_err().to_string();
        assert!(
            refused.starts_with("`after` is the `next` of another query"),
            "{query:?}: {refused}"
        );
    }
    let of_all = read("@team", all()).await.unwrap().next.unwrap();
    let back = ChannelQuery { page: page(1, Some(of_all)), ..plain() };
    assert!(matches!(read("@team", back).await, Err(Error::BadRequest(_))));
    let rest = ChannelQuery { page: page(9, Some(next)), ..plain() };
    assert_eq!(read("@team", rest).await.unwrap().items.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_removed_while_a_list_is_read_does_not_hide_the_others() {
    let user = &Principal::User;
    let (anywhere, nine) = (InstanceSelector::default(), page(9, None));
    for list in ["agents", "stats"] {
        let world = KernelWorld::new().await;
        let gone = world.begin_run(RunMode::Start, "a", &team("one", "")).await.unwrap().run;
        world.begin_run(RunMode::Start, "b", &team("two", "")).await.unwrap();
        world.stop(gone).await.unwrap();
        let kernel = &world.kernel;
        let instances = world.store.withhold_answer("instance_list");
        let read = async {
            if list == "agents" {
                let page = kernel.agents().list(user, &anywhere, ListingScope::All, &nine);
                let agents = page.await.unwrap().items.into_iter();
                agents.map(|agent| agent.instance.to_string()).collect::<Vec<_>>()
            } else {
                let page = kernel.runs().stats(user, &anywhere, ListingScope::All, &nine);
                let stats = page.await.unwrap().items.into_iter();
                stats.map(|stats| stats.instance.to_string()).collect()
            }
        };
        let remove = async {
            instances.reached().await;
            kernel.instances().remove(user, &instance_selector("@a")).await.unwrap();
            instances.release();
        };
        let (read, ()) = tokio::join!(read, remove);
        assert_eq!(read, ["b"], "{list}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_removed_while_health_is_read_is_not_counted_and_hides_nothing() {
    let world = KernelWorld::new().await;
    let gone = world.begin_run(RunMode::Start, "a", &team("one", "")).await.unwrap().run;
    world.begin_run(RunMode::Start, "b", &team("two three", "")).await.unwrap();
    let live = world.store.withhold_answer("run_list");
    let end = async {
        live.reached().await;
        world.stop(gone).await.unwrap();
        let at = instance_selector("@a");
        world.kernel.instances().remove(&Principal::User, &at).await.unwrap();
        live.release();
    };
    let (counts, ()) = tokio::join!(world.kernel.health().activity_counts(), end);
    assert_eq!(counts.unwrap().agents, 2);
}
