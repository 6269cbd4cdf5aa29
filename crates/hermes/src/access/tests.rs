use super::*;
use crate::config::Config;
use crate::config::platforms::Platforms;
use serde_json::{Value, json};

/// What `_is_user_authorized` and `_get_unauthorized_dm_behavior` of Hermes 0.19.0 answered: platform,
/// variables, chat type, chat and user, bot, role, paired people, behaviour towards strangers
/// everywhere and settings of the platform; then whether this one may, and what a stranger gets.
const ANSWERED_BY_HERMES: &str = include_str!("access-0.19.jsonl");

#[test]
fn p31_whoever_hermes_lets_in_may_come_in_and_nobody_else() {
    let mut admitted = 0;
    for line in ANSWERED_BY_HERMES.lines() {
        let fields: Vec<Value> = serde_json::from_str(line).unwrap();
        let platform = fields[0].as_str().unwrap();
        let role = fields[4].as_bool().unwrap();
        let variable = |name: &str| match name {
            name if name.ends_with("_ALLOWED_ROLES") => Some("r".to_owned()),
            name => fields[1].get(name).and_then(Value::as_str).map(str::to_owned),
        };
        let mut tree = json!({ "platforms": { platform: { "extra": fields[7] } } });
        if let Some(everywhere) = fields[6].as_str() {
            tree["unauthorized_dm_behavior"] = json!(everywhere);
        }
        let config = Config::parse(&tree.to_string(), &variable).unwrap();
        let (platforms, notices) = Platforms::read(&config.root, None, &variable);
        assert_eq!(notices, []);
        let policy = &platforms.get(platform).unwrap().access;
        let text = |nth: usize| fields[2][nth].as_str().map(str::to_owned);
        let source = Source { user_id: text(2), ..Source::new(platform, text(0).unwrap(), text(1).unwrap()) };
        let roles: &[String] = if role { &["r".to_owned()] } else { &[] };
        let who = Who { source: &source, is_bot: fields[3].as_bool().unwrap(), roles };
        let paired = |user: &str| fields[5].as_array().unwrap().iter().any(|known| known == user);
        let admits = policy.admits(who, &paired);
        assert_eq!(admits, fields[8].as_bool().unwrap(), "{line}");
        let strangers = match policy.strangers {
            Strangers::Pair => "pair",
            Strangers::Ignore => "ignore",
        };
        // A sender that can sign is no stranger.
        assert!(policy.signed || strangers == fields[9].as_str().unwrap(), "{line}");
        admitted += usize::from(admits);
    }
    assert!((100..300).contains(&admitted), "{admitted}");
}

#[test]
fn p31_without_a_word_nobody_may() {
    let nobody = |_: &str| false;
    for kind in ["dm", "group", "channel", "thread"] {
        let source = Source { user_id: Some("1".into()), ..Source::new("telegram", kind, "5") };
        let who = Who { source: &source, is_bot: false, roles: &["admin".into()] };
        assert!(!AccessPolicy::default().admits(who, &nobody), "{kind}");
    }
}

#[test]
fn orders_are_everybodys_until_somebody_is_named() {
    let source =
        |kind: &str, user: &str| Source { user_id: Some(user.into()), ..Source::new("slack", kind, "5") };
    let open = Orders::default();
    assert!(open.permits(&source("dm", "1"), "restart") && open.is_admin(&source("group", "1")));
    let ranked = Orders {
        direct: UserRank {
            admins: vec!["1".into()],
            commands: vec!["status".into(), "set_home".into(), "q".into()],
        },
        group: UserRank::default(),
    };
    for (kind, user, command, may) in [
        ("dm", "1", "restart", true),
        ("dm", "2", "restart", false),
        ("dm", "2", "Status", true),
        ("dm", "2", "whoami", true),
        ("dm", "2", "sethome", true), // by any of its names
        ("dm", "2", "Set-Home", true),
        ("dm", "2", "queue", true),
        ("dm", "2", "reload_mcp", false),
        ("group", "2", "restart", true), // another list
    ] {
        assert_eq!(ranked.permits(&source(kind, user), command), may, "{kind} {user} {command}");
    }
    let nobody = Source::new("slack", "dm", "5");
    assert!(!ranked.permits(&nobody, "restart") && ranked.permits(&nobody, "help"));
}
