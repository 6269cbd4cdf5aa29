//! The providers that Hermes knows by name: where they are, which variable holds their key, and
//! which of the two wire formats they speak.
//!
//! Deliberately absent: logins. A provider that Hermes reaches by OAuth, a cloud's own signature
//! or another program is listed as such, so that it can be named in an error.

/// How a provider is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// OpenAI's chat completions.
    Chat,
    /// Anthropic's messages.
    Messages,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Known {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    pub reach: Reach,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Reach {
    Key {
        wire: Wire,
        /// Empty: the user must say it.
        base_url: &'static str,
        /// The first that is set counts.
        key_variables: &'static [&'static str],
        base_url_variable: Option<&'static str>,
    },
    /// The user's own endpoint.
    Custom,
    /// Hermes signs in by other means than a key.
    Login,
}

const fn key(
    name: &'static str,
    aliases: &'static [&'static str],
    base_url: &'static str,
    key_variables: &'static [&'static str],
    base_url_variable: &'static str,
) -> Known {
    let base_url_variable = if base_url_variable.is_empty() { None } else { Some(base_url_variable) };
    Known {
        name,
        aliases,
        reach: Reach::Key { wire: Wire::Chat, base_url, key_variables, base_url_variable },
    }
}

const fn messages(
    name: &'static str,
    aliases: &'static [&'static str],
    base_url: &'static str,
    key_variables: &'static [&'static str],
    base_url_variable: &'static str,
) -> Known {
    let base_url_variable = Some(base_url_variable);
    Known {
        name,
        aliases,
        reach: Reach::Key { wire: Wire::Messages, base_url, key_variables, base_url_variable },
    }
}

const fn login(name: &'static str, aliases: &'static [&'static str]) -> Known {
    Known { name, aliases, reach: Reach::Login }
}

/// In the order in which a key that is set chooses its provider, when the user names none. Gemini is
/// reached through its OpenAI-compatible door.
#[rustfmt::skip]
pub static PROVIDERS: [Known; 40] = [
    key("openrouter", &["or"], "https://openrouter.ai/api/v1", &["OPENROUTER_API_KEY"], "OPENROUTER_BASE_URL"),
    key("openai-api", &["openai"], "https://api.openai.com/v1", &["OPENAI_API_KEY"], "OPENAI_BASE_URL"),
    messages("anthropic", &["claude", "claude-code"], "https://api.anthropic.com", &["ANTHROPIC_API_KEY"], "ANTHROPIC_BASE_URL"),
    key("lmstudio", &["lm-studio", "lm_studio"], "http://127.0.0.1:1234/v1", &["LM_API_KEY"], "LM_BASE_URL"),
    key("gemini", &["google", "google-gemini", "google-ai-studio"], "https://generativelanguage.googleapis.com/v1beta/openai", &["GOOGLE_API_KEY", "GEMINI_API_KEY"], "GEMINI_BASE_URL"),
    key("zai", &["glm", "z-ai", "z.ai", "zhipu"], "https://api.z.ai/api/paas/v4", &["GLM_API_KEY", "ZAI_API_KEY", "Z_AI_API_KEY"], "GLM_BASE_URL"),
    key("kimi-coding", &["kimi", "moonshot", "kimi-for-coding"], "https://api.moonshot.ai/v1", &["KIMI_API_KEY", "KIMI_CODING_API_KEY"], "KIMI_BASE_URL"),
    key("kimi-coding-cn", &["kimi-cn", "moonshot-cn"], "https://api.moonshot.cn/v1", &["KIMI_CN_API_KEY"], ""),
    key("stepfun", &["step", "stepfun-coding-plan"], "https://api.stepfun.ai/step_plan/v1", &["STEPFUN_API_KEY"], "STEPFUN_BASE_URL"),
    key("arcee", &["arcee-ai", "arceeai"], "https://api.arcee.ai/api/v1", &["ARCEEAI_API_KEY"], "ARCEE_BASE_URL"),
    key("gmi", &["gmi-cloud", "gmicloud"], "https://api.gmi-serving.com/v1", &["GMI_API_KEY"], "GMI_BASE_URL"),
    messages("minimax", &["mini-max"], "https://api.minimax.io/anthropic", &["MINIMAX_API_KEY"], "MINIMAX_BASE_URL"),
    messages("minimax-cn", &["minimax-china", "minimax_cn"], "https://api.minimaxi.com/anthropic", &["MINIMAX_CN_API_KEY"], "MINIMAX_CN_BASE_URL"),
    key("alibaba", &["dashscope", "alibaba-cloud", "qwen-dashscope"], "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", &["DASHSCOPE_API_KEY"], "DASHSCOPE_BASE_URL"),
    key("alibaba-coding-plan", &["alibaba_coding", "alibaba-coding", "alibaba_coding_plan", "dashscope-coding"], "https://coding-intl.dashscope.aliyuncs.com/v1", &["ALIBABA_CODING_PLAN_API_KEY", "DASHSCOPE_API_KEY"], "ALIBABA_CODING_PLAN_BASE_URL"),
    key("deepseek", &["deepseek-chat"], "https://api.deepseek.com/v1", &["DEEPSEEK_API_KEY"], "DEEPSEEK_BASE_URL"),
    key("xai", &["x-ai", "x.ai", "grok"], "https://api.x.ai/v1", &["XAI_API_KEY"], "XAI_BASE_URL"),
    key("nvidia", &["nvidia-nim"], "https://integrate.api.nvidia.com/v1", &["NVIDIA_API_KEY"], "NVIDIA_BASE_URL"),
    key("opencode-zen", &["opencode", "opencode_zen", "zen"], "https://opencode.ai/zen/v1", &["OPENCODE_ZEN_API_KEY"], "OPENCODE_ZEN_BASE_URL"),
    key("opencode-go", &["opencode_go", "go", "opencode-go-sub"], "https://opencode.ai/zen/go/v1", &["OPENCODE_GO_API_KEY"], "OPENCODE_GO_BASE_URL"),
    key("kilocode", &["kilo", "kilo-code", "kilo-gateway"], "https://api.kilo.ai/api/gateway", &["KILOCODE_API_KEY"], "KILOCODE_BASE_URL"),
    key("huggingface", &["hf", "hugging-face", "huggingface-hub"], "https://router.huggingface.co/v1", &["HF_TOKEN"], "HF_BASE_URL"),
    key("xiaomi", &["mimo", "xiaomi-mimo"], "https://api.xiaomimimo.com/v1", &["XIAOMI_API_KEY"], "XIAOMI_BASE_URL"),
    key("tencent-tokenhub", &["tencent", "tokenhub", "tencent-cloud", "tencentmaas"], "https://tokenhub.tencentmaas.com/v1", &["TOKENHUB_API_KEY"], "TOKENHUB_BASE_URL"),
    key("ollama-cloud", &["ollama_cloud"], "https://ollama.com/v1", &["OLLAMA_API_KEY"], "OLLAMA_BASE_URL"),
    key("deepinfra", &["deep-infra", "deepinfra-ai"], "https://api.deepinfra.com/v1/openai", &["DEEPINFRA_API_KEY"], "DEEPINFRA_BASE_URL"),
    key("fireworks", &["fireworks-ai", "fw"], "https://api.fireworks.ai/inference/v1", &["FIREWORKS_API_KEY"], ""),
    key("novita", &["novita-ai", "novitaai"], "https://api.novita.ai/openai/v1", &["NOVITA_API_KEY"], "NOVITA_BASE_URL"),
    key("upstage", &["solar"], "https://api.upstage.ai/v1", &["UPSTAGE_API_KEY"], "UPSTAGE_BASE_URL"),
    key("azure-foundry", &["azure", "azure-ai-foundry", "azure-ai"], "", &["AZURE_FOUNDRY_API_KEY"], "AZURE_FOUNDRY_BASE_URL"),
    Known { name: "custom", aliases: &["ollama", "local", "vllm", "llamacpp", "llama.cpp", "llama-cpp"], reach: Reach::Custom },
    login("nous", &["nous-portal", "nousresearch"]),
    login("openai-codex", &["codex", "openai_codex"]),
    login("xai-oauth", &["x-ai-oauth", "grok-oauth", "xai-grok-oauth"]),
    login("qwen-oauth", &["qwen", "qwen-portal", "qwen-cli"]),
    login("minimax-oauth", &["minimax-portal", "minimax-global", "minimax_oauth"]),
    login("copilot", &["github", "github-copilot", "github-models", "github-model"]),
    login("copilot-acp", &["github-copilot-acp", "copilot-acp-agent"]),
    login("bedrock", &["aws", "aws-bedrock", "amazon-bedrock", "amazon"]),
    login("vertex", &["google-vertex", "vertex-ai", "gcp-vertex", "vertexai"]),
];

/// The provider of that name or alias.
pub fn known(name: &str) -> Option<&'static Known> {
    let name = name.trim().to_lowercase();
    PROVIDERS.iter().find(|known| known.name == name || known.aliases.contains(&name.as_str()))
}

/// The host of a URL in lower case, without user, port and brackets.
pub fn host(base_url: &str) -> Option<String> {
    let (_, rest) = base_url.trim().split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.split(']').next()?,
        None => host.split(':').next()?,
    };
    (!host.is_empty()).then(|| host.trim_end_matches('.').to_lowercase())
}

/// `host` is `domain` or below it. A look-alike (`openai.com.example`) is not.
pub fn host_within(host: &str, domain: &str) -> bool {
    host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

/// What an address alone tells about its wire format. Hermes' rule, without the formats that we
/// do not speak: OpenAI and xAI take chat completions, too.
pub fn wire_of(base_url: &str) -> Wire {
    let host = host(base_url).unwrap_or_default();
    let path = base_url.trim().to_lowercase();
    let path = path.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/').to_owned();
    let anthropic = path.ends_with("/anthropic") || path.ends_with("/anthropic/v1");
    match host == "api.anthropic.com" || anthropic || (host == "api.kimi.com" && path.contains("/coding")) {
        true => Wire::Messages,
        false => Wire::Chat,
    }
}

/// The variable in which a vendor's key is looked for by the name of its host:
/// `api.groq.com` → `GROQ_API_KEY`. Never one that belongs to another vendor.
pub fn key_variable_of(base_url: &str) -> Option<String> {
    let host = host(base_url)?;
    for (domain, variable) in [
        ("openai.com", "OPENAI_API_KEY"),
        ("openai.azure.com", "OPENAI_API_KEY"),
        ("openrouter.ai", "OPENROUTER_API_KEY"),
        ("ollama.com", "OLLAMA_API_KEY"),
    ] {
        if host_within(&host, domain) {
            return Some(variable.to_owned());
        }
    }
    let labels: Vec<_> = host
        .split('.')
        .filter(|label| !label.is_empty())
        .skip_while(|label| matches!(*label, "api" | "www"))
        .collect();
    let [.., vendor, top] = labels.as_slice() else { return None };
    if top.contains(|c: char| c.is_ascii_digit()) || host.contains(':') {
        return None; // an address, not a name
    }
    let vendor: String =
        vendor.chars().map(|c| if c.is_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    let usable = vendor.starts_with(|c: char| c.is_ascii_alphabetic())
        && !matches!(vendor.as_str(), "OPENAI" | "OPENROUTER" | "OLLAMA");
    usable.then(|| format!("{vendor}_API_KEY"))
}

/// Words that people leave where a key should be.
const PLACEHOLDERS: [&str; 12] = [
    "*",
    "**",
    "***",
    "changeme",
    "your_api_key",
    "your_api_key_here",
    "your-api-key",
    "placeholder",
    "example",
    "dummy",
    "null",
    "none",
];

/// Whether this can be a key at all: Hermes' test.
pub fn is_usable_secret(text: &str, length_min: usize) -> bool {
    let text = text.trim();
    text.chars().count() >= length_min && !PLACEHOLDERS.contains(&text.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_and_alias_leads_to_one_provider() {
        let mut seen = HashSet::new();
        for known in &PROVIDERS {
            for name in known.aliases.iter().chain([&known.name]) {
                assert!(seen.insert(*name), "{name} is there twice");
            }
        }
        assert_eq!(known(" OpenAI ").map(|known| known.name), Some("openai-api"));
        assert_eq!(known("ollama").map(|known| &known.reach), Some(&Reach::Custom));
        assert_eq!(known("nous").map(|known| &known.reach), Some(&Reach::Login));
        assert_eq!(known("frobnicate"), None);
    }

    #[test]
    fn p31_a_key_goes_to_its_own_host_only() {
        for (url, variable) in [
            ("https://api.openai.com/v1", Some("OPENAI_API_KEY")),
            ("https://my.openai.azure.com/x", Some("OPENAI_API_KEY")),
            ("https://openrouter.ai/api/v1", Some("OPENROUTER_API_KEY")),
            ("https://api.deepseek.com/v1", Some("DEEPSEEK_API_KEY")),
            ("https://api.groq.com/openai/v1", Some("GROQ_API_KEY")),
            ("https://openai.com.attacker.test/v1", Some("ATTACKER_API_KEY")),
            ("https://api.openai.example/v1", None),
            ("http://127.0.0.1:11434/v1", None),
            ("http://[::1]:8080/v1", None),
            ("http://localhost:1234", None),
            ("http://user:pass@api.mistral.ai:443/v1?x=openai.com", Some("MISTRAL_API_KEY")),
            ("no url", None),
        ] {
            assert_eq!(key_variable_of(url).as_deref(), variable, "{url}");
        }
    }

    #[test]
    fn an_address_tells_its_wire_format() {
        for (url, wire) in [
            ("https://api.anthropic.com", Wire::Messages),
            ("https://api.minimax.io/anthropic/", Wire::Messages),
            ("https://proxy.example/anthropic/v1", Wire::Messages),
            ("https://api.anthropic.com.attacker.test/v1", Wire::Chat),
            ("https://api.kimi.com/coding", Wire::Messages),
            ("http://127.0.0.1:8000/v1", Wire::Chat),
        ] {
            assert_eq!(wire_of(url), wire, "{url}");
        }
    }

    #[test]
    fn a_placeholder_is_no_key() {
        for (text, usable) in
            [("sk-abcd", true), ("***", false), (" none ", false), ("abc", false), ("", false)]
        {
            assert_eq!(is_usable_secret(text, 4), usable, "{text}");
        }
    }
}
