//! Every refusal has a correction: code in it is accepted by the loader, and runs without making the value code.

use std::collections::BTreeSet;

use agent_worker_workflow::RenderStyle;

use crate::{
    positions::{BASH, POSIX},
    read_with_agent,
    shell::{run_any, step},
};

/// Returns the correction of a refused script.
fn hint(script: &str) -> Option<String> {
    let script = serde_json::to_string(script).unwrap();
    let yaml = format!("setup:\n  - {{ shell: 'true', as: x }}\n  - {{ shell: {script} }}\n");
    let error = read_with_agent(&yaml).err()?;
    assert!(error.render(RenderStyle::Plain).contains("= help: "), "{error}");
    error.hint()
}

#[test]
fn the_code_of_every_correction_is_accepted_and_runs() {
    let mut rewrites = BTreeSet::new();
    for position in POSIX.iter().chain(BASH) {
        for word in ["${{ x }}", "\"$(echo ${{ x }})\""] {
            let Some(hint) = hint(&position.replace('@', word)) else { continue };
            let code: Vec<&str> = hint.split('`').filter(|part| part.contains("${{ ")).collect();
            rewrites.extend(code.into_iter().map(str::to_owned));
        }
    }
    assert!(rewrites.len() > 25, "{rewrites:#?}");
    for rewrite in rewrites {
        let script = rewrite.replace('…', "x");
        let step = step("bash", &script).unwrap_or_else(|error| panic!("{rewrite}: {error}"));
        // Programs and hosts that may be missing here.
        if ["ssh", "node", "which"].iter().any(|name| script.contains(name)) {
            continue;
        }
        let value = if script.contains("int(") { "5" } else { "$(touch pwned) a[$(touch pwned)]" };
        run_any(&step, value);
    }
}
