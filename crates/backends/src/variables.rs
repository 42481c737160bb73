//! The variables of the caller's environment that reach the program of a backend.
//!
//! Variables of the network and of the vendor always reach it. The credentials of a cloud reach it only if the variable
//! that selects this cloud is set: an agent's shell must not have credentials that its program does not use.

use std::{borrow::Cow, collections::BTreeMap};

use agent_worker_protocol::{Api, Backend};

use crate::{
    acp_agents::find_acp_agent, providers::EndpointVariables, registry::find_backend,
    spec::BackendSpec,
};

/// Variables of the network: proxies and certificates.
pub const NETWORK_VARIABLES: [&str; 12] = [
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "REQUESTS_CA_BUNDLE",
];

/// Values of a switch that do not select its cloud.
const OFF: [&str; 3] = ["", "0", "false"];

/// A cloud through which a program can reach its models.
#[derive(Debug)]
pub struct CloudVariables {
    /// The variable that selects the cloud.
    pub switch: &'static str,
    /// Its region, project and credentials.
    pub variables: &'static [&'static str],
}

impl CloudVariables {
    fn is_selected(&self, env: &BTreeMap<String, String>) -> bool {
        env.get(self.switch).is_some_and(|value| !OFF.contains(&value.as_str()))
    }
}

const AWS_VARIABLES: &[&str] = &[
    "ANTHROPIC_BEDROCK_BASE_URL",
    "ANTHROPIC_SMALL_FAST_MODEL_AWS_REGION",
    "AWS_ACCESS_KEY_ID",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_CA_BUNDLE",
    "AWS_CONFIG_FILE",
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_ROLE_ARN",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
];

/// The clouds of Claude Code.
pub(crate) const CLAUDE_CLOUDS: &[CloudVariables] = &[
    CloudVariables { switch: "CLAUDE_CODE_USE_BEDROCK", variables: AWS_VARIABLES },
    CloudVariables {
        switch: "CLAUDE_CODE_USE_VERTEX",
        variables: &[
            "ANTHROPIC_VERTEX_BASE_URL",
            "ANTHROPIC_VERTEX_PROJECT_ID",
            "CLAUDE_CODE_SKIP_VERTEX_AUTH",
            "CLOUD_ML_REGION",
            "GCLOUD_PROJECT",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GOOGLE_CLOUD_PROJECT",
        ],
    },
    CloudVariables {
        switch: "CLAUDE_CODE_USE_FOUNDRY",
        variables: &[
            "ANTHROPIC_FOUNDRY_API_KEY",
            "ANTHROPIC_FOUNDRY_AUTH_TOKEN",
            "ANTHROPIC_FOUNDRY_BASE_URL",
            "ANTHROPIC_FOUNDRY_RESOURCE",
            "AZURE_CLIENT_ID",
            "AZURE_CLIENT_SECRET",
            "AZURE_TENANT_ID",
            "CLAUDE_CODE_SKIP_FOUNDRY_AUTH",
        ],
    },
];

/// The cloud of Gemini CLI.
pub(crate) const GEMINI_CLOUDS: &[CloudVariables] = &[CloudVariables {
    switch: "GOOGLE_GENAI_USE_VERTEXAI",
    variables: &[
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_CLOUD_LOCATION",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_VERTEX_BASE_URL",
    ],
}];

/// The variables of one program.
#[derive(Clone, Copy)]
struct ProgramVariables {
    own: &'static [&'static str],
    network: &'static [&'static str],
    clouds: &'static [CloudVariables],
}

impl ProgramVariables {
    fn of(backend: &Backend) -> Self {
        let network = &NETWORK_VARIABLES[..];
        let (own, clouds): (&[&str], &[CloudVariables]) = match backend {
            Backend::Native(native) => find_backend(native.cli.word())
                .map_or((&[], &[]), |spec| (spec.variables, spec.clouds)),
            Backend::Acp(acp) => {
                let agent = acp.agent.as_ref().and_then(|agent| find_acp_agent(agent.word()));
                agent.map_or((&[], &[]), |spec| (spec.variables, spec.clouds))
            }
            Backend::Api(_) => (&[], &[]),
            Backend::Mock { .. } | Backend::Command { .. } => {
                return Self { own: &[], network: &[], clouds: &[] };
            }
        };
        Self { own, network, clouds }
    }
}

/// Returns every variable that may reach the program of a backend, in addition to the common ones and those that the
/// workflow file names.
pub fn backend_variables(backend: &Backend) -> impl Iterator<Item = Cow<'static, str>> {
    let ProgramVariables { own, network, clouds } = ProgramVariables::of(backend);
    let clouds = clouds
        .iter()
        .flat_map(|cloud| std::iter::once(cloud.switch).chain(cloud.variables.iter().copied()));
    let fixed = own.iter().chain(network).copied().chain(clouds).map(Cow::Borrowed);
    fixed.chain(endpoint_variables(backend).map(Cow::Owned))
}

/// Returns the variables of a backend without a program: the endpoint and the key of its provider, and the values of its
/// headers. The worker reads them itself, and no child of it gets them.
pub fn endpoint_variables(backend: &Backend) -> impl Iterator<Item = String> {
    let of_api = |api: &Api| {
        let usual = EndpointVariables::of_provider(&api.provider);
        let named = api.api_key.iter().chain(api.headers.values());
        let named = named.filter_map(|written| named_variable(written)).map(str::to_owned);
        usual.base_url.into_iter().chain(usual.keys).chain(named).collect::<Vec<_>>()
    };
    let found = match backend {
        Backend::Api(api) => of_api(api),
        Backend::Native(_) | Backend::Acp(_) | Backend::Mock { .. } | Backend::Command { .. } => {
            Vec::new()
        }
    };
    found.into_iter()
}

/// Returns the name in `$NAME` or `${NAME}`; none for a value that names no variable.
pub fn named_variable(written: &str) -> Option<&str> {
    let name = written.strip_prefix('$')?;
    Some(name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name))
}

/// Returns the variable of `env` that selects a cloud of a backend.
pub fn selected_cloud(spec: &BackendSpec, env: &BTreeMap<String, String>) -> Option<&'static str> {
    spec.clouds.iter().find(|cloud| cloud.is_selected(env)).map(|cloud| cloud.switch)
}

/// Returns true if a variable of `env` reaches the program of a backend.
pub fn takes_variable(backend: &Backend, name: &str, env: &BTreeMap<String, String>) -> bool {
    let ProgramVariables { own, network, clouds } = ProgramVariables::of(backend);
    let is_selected = |cloud: &&CloudVariables| cloud.is_selected(env);
    own.contains(&name)
        || network.contains(&name)
        || endpoint_variables(backend).any(|one| one == name)
        || clouds.iter().any(|cloud| cloud.switch == name)
        || clouds.iter().filter(is_selected).any(|cloud| cloud.variables.contains(&name))
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{Native, SessionPolicy};

    use super::*;

    #[test]
    fn the_credentials_of_a_cloud_reach_a_program_only_if_it_uses_that_cloud() {
        let claude = Backend::Native(Native {
            cli: "claude".into(),
            command: Vec::new(),
            args: Vec::new(),
            mode: None,
            session: SessionPolicy::Continue,
        });
        let command = Backend::Command { command: vec!["agent".to_owned()] };
        let api = Backend::Api(Api {
            provider: "openai".to_owned(),
            model: "gpt-6-sol".to_owned(),
            base_url: None,
            api_key: Some("$MINE".to_owned()),
            headers: [("x-team".to_owned(), "${TEAM}".to_owned())].into(),
            session: SessionPolicy::Continue,
            context_window: None,
            temperature: None,
            extra: serde_json::Map::new(),
            tools: Vec::new(),
        });
        for (backend, env, name, expected) in [
            (&claude, &[][..], "ANTHROPIC_API_KEY", true),
            (&claude, &[], "https_proxy", true),
            (&claude, &[], "CLAUDE_CODE_USE_BEDROCK", true),
            (&claude, &[], "AWS_SECRET_ACCESS_KEY", false),
            (&claude, &[("CLAUDE_CODE_USE_BEDROCK", "0")], "AWS_SECRET_ACCESS_KEY", false),
            (&claude, &[("CLAUDE_CODE_USE_BEDROCK", "1")], "AWS_SECRET_ACCESS_KEY", true),
            (&claude, &[("CLAUDE_CODE_USE_VERTEX", "1")], "AWS_SECRET_ACCESS_KEY", false),
            (&claude, &[("CLAUDE_CODE_USE_VERTEX", "1")], "GOOGLE_CLOUD_PROJECT", true),
            (&claude, &[], "OPENAI_API_KEY", false),
            (&command, &[], "HTTPS_PROXY", false),
            (&api, &[], "HTTPS_PROXY", true),
            (&api, &[], "OPENAI_API_KEY", true),
            (&api, &[], "OPENAI_BASE_URL", true),
            (&api, &[], "MINE", true),
            (&api, &[], "TEAM", true),
            (&api, &[], "ANTHROPIC_API_KEY", false),
        ] {
            let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let env: BTreeMap<String, String> = env.collect();
            assert_eq!(takes_variable(backend, name, &env), expected, "{name} with {env:?}");
        }
        assert!(backend_variables(&claude).any(|name| name == "AWS_PROFILE"));
        assert_eq!(backend_variables(&command).count(), 0);
    }
}
