//! How much a model can read, by its name: what Hermes assumes unless it is configured.

/// For a model that no name below is part of.
pub const UNKNOWN: u64 = 256_000;

/// Parts of names, in lower case. The longest that fits decides.
const WINDOWS: [(u64, &[&str]); 22] = [
    (8_192, &["gemma", "grok-2-vision"]),
    (32_768, &["solar-mini"]),
    (65_536, &["solar-pro2", "deepseek-ai/deepseek-v3.2"]),
    (128_000, &["gpt-5.3-codex-spark", "gpt-5.1-chat", "gpt-4", "deepseek"]),
    (
        131_072,
        &[
            "gemma-3",
            "llama",
            "qwen",
            "grok",
            "grok-2",
            "grok-3",
            "solar-pro3",
            "nemotron",
            "qwen/qwen3.5-397b-a17b",
            "qwen/qwen3.5-35b-a3b",
        ],
    ),
    (200_000, &["claude", "grok-composer"]),
    (202_752, &["glm", "zai-org/glm-5"]),
    (204_800, &["minimax", "minimaxai/minimax-m2.5"]),
    (256_000, &["gemma-4", "gemma4", "gemma-4-31b", "grok-build", "grok-code-fast", "grok-4"]),
    (
        262_144,
        &[
            "qwen3-coder",
            "qwen3-max",
            "kimi",
            "solar-open2",
            "hy3",
            "hy3-preview",
            "trinity",
            "elephant",
            "mimo-v2-omni",
            "mimo-v2-flash",
        ],
    ),
    (400_000, &["gpt-5", "gpt-5.4-nano", "gpt-5.4-mini"]),
    (500_000, &["grok-4.5", "grok-build-latest"]),
    (
        1_000_000,
        &[
            "claude-fable",
            "claude-sonnet-5",
            "claude-opus-4-8",
            "claude-opus-4.8",
            "claude-opus-4-7",
            "claude-opus-4.7",
            "claude-opus-4-6",
            "claude-opus-4.6",
            "claude-sonnet-4-6",
            "claude-sonnet-4.6",
        ],
    ),
    (1_000_000, &["deepseek-v4-pro", "deepseek-v4-flash", "deepseek-chat", "deepseek-reasoner"]),
    (1_000_000, &["qwen3-coder-plus", "minimax-m3", "grok-4.3"]),
    (1_047_576, &["gpt-4.1"]),
    (1_048_576, &["gemini", "qwen3.6-plus", "qwen3.7-plus", "glm-5.2", "kimi-k3"]),
    (1_048_576, &["mimo-v2-pro", "mimo-v2.5-pro", "mimo-v2.5"]),
    (1_050_000, &["gpt-5.4", "gpt-5.5"]),
    (1_050_000, &["gpt-5.6-luna", "gpt-5.6-terra", "gpt-5.6-sol"]),
    (2_000_000, &["grok-4-fast"]),
    (2_000_000, &["grok-4.20"]),
];

/// What a model of this name can read, in tokens.
pub fn assumed(model: &str) -> u64 {
    let model = model.to_lowercase();
    let parts = WINDOWS.iter().flat_map(|(window, parts)| parts.iter().map(move |part| (part, *window)));
    let fitting = parts.filter(|(part, _)| model.contains(**part));
    fitting.max_by_key(|(part, _)| part.len()).map_or(UNKNOWN, |(_, window)| window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_part_of_a_name_decides() {
        for (model, window) in [
            ("anthropic/claude-haiku-4-5", 200_000),
            ("claude-opus-4-6-20260101", 1_000_000),
            ("openai/gpt-5.4-mini", 400_000),
            ("gpt-5.4", 1_050_000),
            ("gpt-5.1", 400_000),
            ("Gemma-2-9b", 8_192),
            ("gemma-3-27b", 131_072),
            ("z-ai/glm-5.2", 1_048_576),
            ("my-own-model", UNKNOWN),
        ] {
            assert_eq!(assumed(model), window, "{model}");
        }
    }
}
