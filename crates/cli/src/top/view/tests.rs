//! Tests of the full screen at every width: the lists, the details, the help.

use agent_worker_protocol::Seq;
use ratatui::{Terminal, backend::TestBackend};

use super::*;
use crate::{
    live::line_editor::LineEditor,
    output::samples::{agent_name, at},
    top::state::tests::{run_id, sample},
};

/// Returns the drawn screen, without blanks at the ends of lines.
fn screen(state: &mut TopState, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(state, frame, at(60), Colour::On)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| -> String {
        let mut line = String::new();
        let mut x = 0;
        while x < width {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            // A wide character has two cells.
            x += u16::try_from(text::width(symbol).max(1)).unwrap();
        }
        line.trim_end().to_owned()
    };
    (0..height).map(|y| row(y) + "\n").collect()
}

#[test]
fn the_screen_is_complete_at_120_and_80_columns() {
    let mut state = sample();
    insta::assert_snapshot!(screen(&mut state, 120, 24), @r"
    agent-worker top · 2 runs · 4 agents · 21k tok · $0.14
    Agents ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────
    review:pr-1 · running · 1:00 · 4 turns · 9 messages · 11k tok · $0.09
    ▸ lead    idle
      coder   Edit src/parser/tokens.rs · I add a check of the length. · 1.2k tok · $0.04 · 0:20
      tester  idle
    docs · running · 1:00 · 4 turns · 9 messages · 10k tok · $0.05
      writer  idle
    Attention (3) ──────────────────────────────────────────────────────────────────────────────────────────────────────────
      question #1 writer@docs: Ship the change today, or wait for the ␛[2Jreview?
      request #3 coder@review:pr-1 wants Bash $ git push origin main
      dead letter #2 tester@review:pr-1: 3 failures: the worker is gone
    Channel ────────────────────────────────────────────────────────────────────────────────────────────────────────────────
      review:pr-1 #1 user → lead: please review this change
      docs #3 user → writer: write the 请 page
      review:pr-1 #4 lead → coder, tester: @coder fix line 42 @tester write its cases ␛[2J







    ? help · q quit · Enter detail · Tab list · a answer · s send · / filter · ↑↓ move
    ");
    insta::assert_snapshot!(screen(&mut state, 80, 24), @r"
    agent-worker top · 2 runs · 4 agents · 21k tok · $0.14
    Agents ─────────────────────────────────────────────────────────────────────────
    review:pr-1 · running · 1:00 · 4 turns · 9 messages · 11k tok · $0.09
    ▸ lead    idle
      coder   Edit src/parser/tokens.rs · …of the length. · 1.2k tok · $0.04 · 0:20
      tester  idle
    docs · running · 1:00 · 4 turns · 9 messages · 10k tok · $0.05
      writer  idle
    Attention (3) ──────────────────────────────────────────────────────────────────
      question #1 writer@docs: Ship the change today, or wait for the ␛[2Jreview?
      request #3 coder@review:pr-1 wants Bash $ git push origin main
      dead letter #2 tester@review:pr-1: 3 failures: the worker is gone
    Channel ────────────────────────────────────────────────────────────────────────
      review:pr-1 #1 user → lead: please review this change
      docs #3 user → writer: write the 请 page
      review:pr-1 #4 lead → coder, tester: @coder fix line 42 @tester write its cas…







    ? help · q quit · Enter detail · Tab list · a answer · s send · / filter
    ");
}

#[test]
fn the_screen_leaves_out_figures_at_60_and_40_columns() {
    let mut state = sample();
    insta::assert_snapshot!(screen(&mut state, 60, 20), @r"
    agent-worker top · 2 runs · 4 agents · 21k tok · $0.14
    Agents ─────────────────────────────────────────────────────
    review:pr-1 · running · 1:00 · 4 turns · 11k tok · $0.09
    ▸ lead    idle
      coder   Edit src/parser/tokens.… · 1.2k tok · $0.04 · 0:20
      tester  idle
    docs · running · 1:00 · 4 turns · 10k tok · $0.05
      writer  idle
    Attention (3) ──────────────────────────────────────────────
      question #1 writer@docs: Ship the change today, or wait f…
      request #3 coder@review:pr-1 wants Bash $ git push origin…
      dead letter #2 tester@review:pr-1: 3 failures: the worker…
    Channel ────────────────────────────────────────────────────
      review:pr-1 #1 user → lead: please review this change
      docs #3 user → writer: write the 请 page
      review:pr-1 #4 lead → coder, tester: @coder fix line 42 @…



    ? help · q quit · Enter detail · Tab list · a answer
    ");
    insta::assert_snapshot!(screen(&mut state, 40, 16), @r"
    agent-worker top · 2 runs · 4 agents · …
    Agents ─────────────────────────────────
    review:pr-1 · running · 1:00 · $0.09
    ▸ lead    idle
      coder   Edit src/parser/tokens… · 0:20
      tester  idle
    docs · running · 1:00 · $0.05
      writer  idle
    Attention (3) ──────────────────────────
      question #1 writer@docs: Ship the cha…
      request #3 coder@review:pr-1 wants Ba…
      dead letter #2 tester@review:pr-1: 3 …
    Channel ────────────────────────────────
      docs #3 user → writer: write the 请 p…
      review:pr-1 #4 lead → coder, tester: …
    ? help · q quit · Enter detail · s send
    ");
}

#[test]
fn a_low_terminal_shows_the_selected_list_and_the_smallest_one_does_not_fail() {
    let mut state = sample();
    state.pane = TopPane::Attention;
    insta::assert_snapshot!(screen(&mut state, 40, 8), @r"
    agent-worker top · 2 runs · 4 agents · …
    Attention (3) ──────────────────────────
    ▸ question #1 writer@docs: Ship the cha…
      request #3 coder@review:pr-1 wants Ba…
      dead letter #2 tester@review:pr-1: 3 …


    ? help · q quit · Enter detail · s send
    ");
    for (width, height) in [(10, 4), (3, 2), (1, 1)] {
        for mode in [TopMode::List, TopMode::Help] {
            state.mode = mode;
            screen(&mut state, width, height);
        }
    }
    insta::assert_snapshot!(screen(&mut TopState::new(), 60, 14), @r"
    agent-worker top · 0 runs · 0 agents
    Agents ─────────────────────────────────────────────────────
      no agent of a live run
    Attention ──────────────────────────────────────────────────
      nothing needs you
    Channel ────────────────────────────────────────────────────
      no messages






    ? help · q quit · Enter detail · Tab list · a answer
    ");
}

#[test]
fn details_show_the_whole_row() {
    let mut state = sample();
    let mut shown = |key: EntryKey, width| {
        state.mode = TopMode::Detail(key, 0);
        screen(&mut state, width, 12)
    };
    let items: Vec<EntryKey> = sample().keys_of(TopPane::Attention);
    insta::assert_snapshot!(shown(items[0].clone(), 80), @r"
    agent-worker top · 2 runs · 4 agents · 21k tok · $0.14
    writer@docs
      question #1 of writer
      │ Ship the change today,
      │ or wait for the ␛[2Jreview?
      1 today
      2 wait
      1–2 answers



    Esc back
    ");
    insta::assert_snapshot!(shown(items[1].clone(), 40), @r"
    agent-worker top · 2 runs · 4 agents · …
    coder@review:pr-1
      #3 coder wants Bash
      │ $ git push origin main
      y once · n deny
      r deny with a reason





    Esc back
    ");
    insta::assert_snapshot!(shown(items[2].clone(), 80), @r"
    agent-worker top · 2 runs · 4 agents · 21k tok · $0.14
    dead letter #2 tester@review:pr-1: 3 failures: the worker is gone
    #2 user → tester: run all tests
    try again: agent-worker dead redrive 2 @review:pr-1
    give up: agent-worker dead drop 2 @review:pr-1






    Esc back · ↑↓ scroll
    ");
    insta::assert_snapshot!(shown(EntryKey::Agent(run_id(1), agent_name("coder")), 60), @r"
    agent-worker top · 2 runs · 4 agents · 21k tok · $0.14
    coder@review:pr-1
      coder   Edit src/parser/tokens.… · 1.2k tok · $0.04 · 0:20
    #4 lead → coder, tester
      @coder fix line 42
      @tester write its cases ␛[2J
    more: agent-worker status coder@review:pr-1
    talk: agent-worker chat coder@review:pr-1



    Esc back · ↑↓ scroll
    ");
    insta::assert_snapshot!(shown(EntryKey::Message(run_id(1), Seq::new(4)), 60), @r"
    agent-worker top · 2 runs · 4 agents · 21k tok · $0.14
    #4 lead → coder, tester
      @coder fix line 42
      @tester write its cases ␛[2J







    Esc back · ↑↓ scroll
    ");
}

#[test]
fn the_last_line_is_the_text_that_is_typed_or_a_notice() {
    let mut state = sample();
    let mut last = |mode: TopMode, notice: Option<StyledLine>| {
        (state.mode, state.notice) = (mode, notice);
        screen(&mut state, 60, 16).lines().last().unwrap_or_default().to_owned()
    };
    let compose = TopMode::Compose(run_id(2), LineEditor::with_text("@writer go"));
    assert_eq!(last(compose, None), "to @docs: @writer go▏");
    assert_eq!(last(TopMode::Filter(LineEditor::with_text("cod")), None), "filter: cod▏");
    let notice = StyledLine::new(Tone::Warn, "could not send");
    assert_eq!(last(TopMode::List, Some(notice)), "could not send");
}

#[test]
fn the_help_names_every_key() {
    let mut state = sample();
    state.mode = TopMode::Help;
    insta::assert_snapshot!(screen(&mut state, 80, 24), @r"
    agent-worker top · 2 runs · 4 agents · 21k tok · $0.14
      ↑ ↓, j k    move in a list; Page Up, Page Down, Home and End too
      Tab         next list: agents, attention, channel
      Enter       details of the selected row
      a           the oldest item that needs you
      y a n r     in a request: once, for this run, deny, deny with a reason
      1–9 t       in a question: an answer, a typed answer
      s           message to the team of the selected row
      /           filter of all lists; Escape removes it
      Esc, Enter  back to the lists
      q, Ctrl-C   quit; the agents continue
      ?           this help











    Esc back · ↑↓ scroll
    ");
}

#[test]
fn a_list_shows_the_rows_around_the_selected_one() {
    for (rows, selected, height, expected) in [
        (3, 0, 5, 0..3),
        (10, 0, 4, 0..4),
        (10, 5, 4, 3..7),
        (10, 9, 4, 6..10),
        (10, 9, 0, 5..5),
        (0, 0, 4, 0..0),
    ] {
        let found = visible_rows(rows, selected, height);
        assert!(found.len() <= height, "{found:?}");
        assert!(height == 0 || found == expected, "{found:?} instead of {expected:?}");
    }
}
