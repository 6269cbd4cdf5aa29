use super::*;
use proptest::prelude::*;
use throughline_core::redact::Secret;

fn place(chat: &str, thread: Option<&str>, reply_to: Option<&str>) -> Destination {
    let own = |text: &str| text.to_owned();
    Destination {
        platform: NAME.into(),
        account: "1".into(),
        chat: chat.into(),
        thread: thread.map(own),
        reply_to: reply_to.map(own),
    }
}

proptest! {
    #[test]
    fn a_nonce_is_a_function_of_the_key(key in ".{0,200}", other in ".{0,200}") {
        prop_assert_eq!(nonce(&key), nonce(&key));
        prop_assert_eq!(nonce(&key).chars().count(), NONCE_LENGTH);
        prop_assert!(key == other || nonce(&key) != nonce(&other));
    }
}

#[test]
fn the_account_is_the_bots_id_and_never_part_of_the_secret() {
    let token = format!("{}.x.y", BASE64_URL_SAFE_NO_PAD.encode("123456789012345678"));
    assert_eq!(account(&token), "123456789012345678");
    for nonsense in ["", "secret", "c2VjcmV0.x.y"] {
        let account = account(nonsense);
        assert!(!account.contains("secret") && account.len() == 16, "{account}");
    }
}

#[test]
fn an_address_is_made_of_numbers_only() {
    let address = DiscordAddress::of(&place("5", None, Some("6"))).unwrap();
    assert_eq!(address, DiscordAddress { channel: Id(5), message: Some(Id(6)), born_at: None });
    let thread = DiscordAddress::of(&place("5", Some("6"), Some("5/6"))).unwrap();
    let birth = ThreadStart { channel: Id(5), message: Id(6) };
    assert_eq!(thread, DiscordAddress { channel: Id(6), message: None, born_at: Some(birth) });
    for odd in ["", "../users/@me", "#general", "5/6", "-1"] {
        assert!(matches!(DiscordAddress::of(&place(odd, None, None)), Err(SendError::Never { .. })), "{odd}");
    }
}

#[test]
fn only_the_first_row_of_a_reply_has_no_number() {
    assert!(is_first("s/1") && is_first("a+b") && !is_first("s/1+2") && !is_first("s/1+17"));
}

#[test]
fn a_session_is_resumed_only_where_discord_is() {
    let real = Discord::new(DiscordSettings::new(Secret::new("t")));
    for (address, origin) in [
        ("wss://gateway-us-east1-b.discord.gg", Some("wss://gateway-us-east1-b.discord.gg")),
        ("wss://gateway.discord.gg/?x=1", Some("wss://gateway.discord.gg")),
        ("ws://gateway.discord.gg", None),
        ("wss://discord.gg.evil.example", None),
        ("wss://evildiscord.gg", None),
        ("", None),
    ] {
        assert_eq!(real.gateway_at(address).as_deref(), origin, "{address}");
    }
    let local = DiscordSettings {
        gateway_url: Some("ws://127.0.0.1:9".into()),
        ..DiscordSettings::new(Secret::new("t"))
    };
    let local = Discord::new(local);
    assert_eq!(local.gateway_at("ws://127.0.0.1:7").as_deref(), Some("ws://127.0.0.1:7"));
    assert_eq!(local.gateway_at("wss://gateway.discord.gg"), None);
}

#[test]
fn files_are_fetched_only_from_where_discord_keeps_them() {
    let real = Discord::new(DiscordSettings::new(Secret::new("t")));
    for (address, allowed) in [
        ("https://cdn.discordapp.com/attachments/1/2/a.png?ex=1", true),
        ("https://media.discordapp.net/a.png", true),
        ("http://cdn.discordapp.com/a.png", false),
        ("https://cdn.discordapp.com.evil.example/a.png", false),
        ("http://169.254.169.254/latest/meta-data", false),
        ("file:///etc/passwd", false),
    ] {
        assert_eq!(real.file_at(address).is_some(), allowed, "{address}");
    }
}

#[test]
fn settings_are_read_by_hermes_names() {
    let told = DiscordSettings::told(Secret::new("t"), |name| {
        Some(match name {
            "DISCORD_AUTO_THREAD" | "DISCORD_REACTIONS" => "false".to_owned(),
            "DISCORD_NO_THREAD_CHANNELS" => " 1, #general ,,".to_owned(),
            "DISCORD_ALLOW_MENTION_EVERYONE" => "yes".to_owned(),
            "DISCORD_REPLY_TO_MODE" => "ALL".to_owned(),
            _ => return None,
        })
    });
    assert!(!told.auto_thread && !told.reactions && told.require_mention && told.mentions.everyone);
    assert!(told.mentions.users && !told.mentions.roles);
    assert_eq!(told.no_thread_channels, ["1", "#general"]);
    assert_eq!(told.reply_to, ReplyTo::All);
    let silent = DiscordSettings::told(Secret::new("t"), |_| None);
    assert_eq!(silent, DiscordSettings::new(Secret::new("t")));
    assert!(!silent.mentions.everyone && !silent.mentions.roles);
}
