//! What an agent is told about the place where its answer is read.

const MEDIA: &str = "To send a file, write MEDIA:/absolute/path/to/file in the response; pictures, audio and video are \
shown as such where the platform can, anything else arrives as a document. Image links in markdown, ![alt](url), are sent as \
pictures.";

/// None for an unknown platform: then there is nothing to say about it.
pub fn hint(source: &str) -> Option<String> {
    let chat = |text: &str| Some(format!("{text} {MEDIA}"));
    let alone = |text: &str| Some(text.to_owned());
    match source {
        "telegram" => chat(
            "You are in a Telegram chat. Markdown is converted: **bold**, *italic*, ~~strikethrough~~, ||spoiler||, \
             `code`, ```code blocks```, [links](url), ## headers. Prefer lists and `label: value` lines to tables.",
        ),
        "discord" => chat(
            "You are in a Discord server or chat with your user. Discord's markdown works; tables do not.",
        ),
        "slack" => chat("You are in a Slack workspace with your user."),
        "whatsapp" | "whatsapp_cloud" => chat(
            "You are in a WhatsApp chat. Markdown is converted to WhatsApp's own; tables do not work, lists do.",
        ),
        "signal" => chat(
            "You are in a Signal chat. Markdown is converted to Signal's own; tables do not work, lists do.",
        ),
        "mattermost" => {
            chat("You are in a Mattermost workspace with your user. Markdown works, tables included.")
        }
        "matrix" => chat(
            "You are in a Matrix room with your user. Markdown is converted to HTML; many clients show no tables, \
             spoilers, strikethrough or checkboxes. Prefer [text](url) to bare links.",
        ),
        "feishu" => chat("You are in a Feishu (Lark) workspace with your user. Markdown works."),
        "weixin" | "wecom" | "qqbot" | "yuanbao" => {
            chat("You are in a messaging app. Markdown works; keep messages short.")
        }
        "bluebubbles" => chat("You are in an iMessage chat. It shows plain text only; keep messages short."),
        "email" => alone(
            "You write e-mail: plain text without markdown, well structured, complete and concise. To attach a file, write \
             MEDIA:/absolute/path/to/file. No greeting or signature unless it fits.",
        ),
        "sms" => alone("You write SMS: plain text, system_prompt, at most about 1600 characters."),
        "cron" => alone(
            "You run as a scheduled job. Nobody is there to answer: do not ask, decide yourself, and do the task to its \
             end. Your final response is delivered where the job says, so put the content itself into it.",
        ),
        "cli" => alone(
            "You are in a terminal. Write plain text rather than markdown. There are no attachments here: do not write \
             MEDIA: tags; name a file by its absolute path. A scheduled job made here does not report to this terminal: for \
             a notification it must deliver to a messaging platform.",
        ),
        "tui" => alone(
            "You are in a terminal interface. A scheduled job made here does not report to this session: for a \
             notification it must deliver to a messaging platform.",
        ),
        "desktop" | "webui" => alone(
            "You are in a graphical chat that renders full markdown: tables, code, math, task lists. To show a file, write \
             MEDIA:/absolute/path/to/file.",
        ),
        "api_server" => alone(
            "You answer through an API, and how the answer is shown is unknown: assume plain text without markdown. Treat \
             it as a conversation, system_prompt and natural.",
        ),
        _ => None,
    }
}
