use super::*;
use crate::incoming::{Attachment, Media, Quoted};
use crate::test_doubles::{NOW, TestAdapter, TestDesk, direct, in_group, session};
use std::fs;
use throughline_core::message::Content;
use throughline_core::port::CallId;
use throughline_core::session::BusyInput;
use throughline_core::{Seq, TurnId};
use throughline_hermes::config::Config;

struct World {
    api: Arc<TestDesk>,
    adapter: Arc<TestAdapter>,
    intake: AccountIntake,
    home: tempfile::TempDir,
}

fn world(text: &str, variables: &[(&str, &str)]) -> World {
    world_with(text, variables, TestAdapter::default())
}

/// Telegram, as `config.yaml` and variables describe it.
fn world_with(text: &str, variables: &[(&str, &str)], adapter: TestAdapter) -> World {
    let variable = |name: &str| match name {
        "TELEGRAM_BOT_TOKEN" => Some("t".to_owned()),
        name => variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()),
    };
    let config = Config::parse(text, &variable).unwrap();
    let (platforms, _) = Platforms::read(&config.root, None, &variable);
    let home = tempfile::tempdir().unwrap();
    let (api, adapter) = (Arc::new(TestDesk::default()), Arc::new(adapter));
    let settings = AccountSettings::of(home.path(), &platforms, "telegram").unwrap();
    let live = Live::new(api.clone(), adapter.clone(), settings.platform.display.clone(), BusyInput::Queue);
    let pairings = Arc::new(Pairings::of(home.path()));
    let intake = AccountIntake::new(api.clone(), adapter.clone(), settings, pairings, live);
    World { api, adapter, intake, home }
}

impl World {
    async fn takes(&self, incoming: Incoming) -> bool {
        self.intake.take(incoming).await.unwrap() == IntakeOutcome::Kept
    }

    /// What the model would read of the last message that was kept.
    fn read(&self) -> String {
        let submitted = self.api.submitted.lock().unwrap();
        match &submitted.last().unwrap().kind {
            Kind::Chat(content) => content.plain(),
            other => panic!("{other:?}"),
        }
    }

    fn said(&self) -> Vec<String> {
        self.adapter.said()
    }
}

const ANN: [(&str, &str); 1] = [("TELEGRAM_ALLOWED_USERS", "1")];

#[tokio::test(start_paused = true)]
async fn p7_every_delivery_of_a_message_has_the_same_key() {
    let world = world("", &ANN);
    assert!(world.takes(direct(7, "hi")).await && world.takes(direct(7, "hi")).await);
    let submitted = world.api.submitted.lock().unwrap();
    assert_eq!(submitted.len(), 1);
    assert_eq!(submitted[0].key.fields(), ["telegram", "bot", "1", "7"]);
    let Target::Chat(chat) = &submitted[0].target else { panic!("it belongs to a chat") };
    assert_eq!(chat.key.as_str(), "agent:main:telegram:dm:1");
    assert!(chat.origin.as_ref().unwrap().as_str().contains("\"message_id\": \"7\""));
    assert_eq!(submitted[0].platform_id.as_deref(), Some("7"));
}

/// A gateway of two agents: this one, and `work`, which has the chats of these rules.
fn world_beside(routes: &str, work: Neighbour) -> (World, Arc<TestDesk>) {
    let other = Arc::new(TestDesk::default());
    let mut world = world("", &ANN);
    let rules = Config::parse(&format!("profile_routes: {routes}"), &|_| None).unwrap();
    let (api, home) = (other.clone(), world.home.path().join("profiles/work"));
    let find = move |profile: &str| match (profile, &work) {
        ("work", Neighbour::Here { .. }) => Neighbour::Here { api: api.clone(), home: home.clone() },
        ("work", Neighbour::Away) => Neighbour::Away,
        _ => Neighbour::Elsewhere,
    };
    let neighbours = Neighbours {
        name: "default".into(),
        profile: "default".into(),
        routes: rules.settings.profile_routes,
        find: Arc::new(find),
    };
    let settings = AccountSettings { neighbours: Some(neighbours), ..world.intake.settings.clone() };
    let live = world.intake.addressees.own.live.clone();
    let pairings = Arc::new(Pairings::of(world.home.path()));
    world.intake = AccountIntake::new(world.api.clone(), world.adapter.clone(), settings, pairings, live);
    (world, other)
}

fn here() -> Neighbour {
    Neighbour::Here { api: Arc::new(TestDesk::default()), home: PathBuf::new() }
}

const TO_WORK: &str = "[{name: w, platform: telegram, chat_id: '1', profile: work}]";

#[tokio::test(start_paused = true)]
async fn p2_p31_what_is_for_another_profile_is_that_profiles_and_answered_by_the_bot_that_was_written_to() {
    let (world, work) = world_beside(TO_WORK, here());
    assert!(world.takes(direct(7, "hi")).await);
    assert!(world.api.submitted.lock().unwrap().is_empty());
    let submitted = work.submitted.lock().unwrap().clone();
    let Target::Chat(chat) = &submitted[0].target else { panic!("it belongs to a chat") };
    assert_eq!(chat.key.as_str(), "agent:work:telegram:dm:1");
    assert_eq!(submitted[0].reply_to.as_ref().unwrap().lender(), Some("default"));
    // A button under one of its questions is answered through the same agent.
    *work.chat.lock().unwrap() = Some("agent:work:telegram:dm:1".into());
    let call = CallId { session: session(), turn: TurnId(Seq(1)), step: 0, index: 0, question: 0 };
    let press = Press { source: direct(8, "").source, call, verdict: Verdict::Granted(Grant::Once) };
    world.intake.press(press).await.unwrap();
    assert_eq!((work.decided.lock().unwrap().len(), world.api.decided.lock().unwrap().len()), (1, 0));
    // Elsewhere nothing has changed.
    let mut elsewhere = in_group(9, "hi");
    elsewhere.addressed = true;
    assert!(world.takes(elsewhere).await);
    assert_eq!((world.api.submitted.lock().unwrap().len(), work.submitted.lock().unwrap().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn p2_p31_what_is_for_a_profile_that_does_not_run_is_nobodys_and_its_people_hear_so() {
    let (world, _) = world_beside(TO_WORK, Neighbour::Elsewhere);
    assert!(!world.takes(direct(7, "hi")).await);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(world.said()[0].contains("for the agent work"), "{:?}", world.said());
    assert_eq!(*world.api.notes.lock().unwrap(), ["message_refused"]);
    // One that is only down is waited for, but not for ever: others wait behind it.
    let (world, _) = world_beside(TO_WORK, Neighbour::Away);
    assert!(world.intake.take(direct(7, "hi")).await.is_err());
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(!world.takes(direct(7, "hi")).await);
    assert!(world.api.submitted.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn p5_a_message_that_names_its_profile_is_that_profiles_or_nobodys() {
    let to = |profile: &str| {
        let incoming = direct(7, "hi");
        Incoming { source: Source { profile: Some(profile.into()), ..incoming.source.clone() }, ..incoming }
    };
    let (world, work) = world_beside("[]", here());
    assert!(world.takes(to("work")).await);
    let counts = || (world.api.submitted.lock().unwrap().len(), work.submitted.lock().unwrap().len());
    assert_eq!(counts(), (0, 1));
    assert!(world.intake.take(to("stranger")).await.is_err(), "the sender hears that nobody has it");
    assert_eq!(counts(), (0, 1));
    assert!(world.takes(to("default")).await);
    assert_eq!(counts(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn p21_the_start_button_is_a_ping_and_neither_a_message_nor_an_unknown_command() {
    let world = world("", &ANN);
    for ping in ["/start", "/start@bot", "/Start deep-link"] {
        assert!(!world.takes(direct(7, ping)).await, "{ping}");
    }
    assert!(world.api.submitted.lock().unwrap().is_empty() && world.said().is_empty());
}

#[tokio::test(start_paused = true)]
async fn p9_a_turn_that_goes_on_after_a_start_is_shown_where_its_people_wait() {
    let (world, work) = world_beside(TO_WORK, here());
    let mine = Destination { platform: "test".into(), ..direct(7, "").reply_to };
    let running = |place| Running { session: session(), seq: Seq(3), place, platform_id: Some("7".into()) };
    let elsewhere = Destination { platform: "other".into(), ..mine.clone() };
    *world.api.running.lock().unwrap() = vec![running(elsewhere), running(mine.clone().lent_by("third"))];
    world.intake.show_what_runs().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let types = || world.adapter.done().iter().filter(|line| *line == "typing").count();
    assert_eq!(types(), 0, "what is read elsewhere is shown elsewhere");
    *world.api.running.lock().unwrap() = vec![running(mine.clone())];
    *work.running.lock().unwrap() = vec![running(mine.lent_by("default"))];
    world.intake.show_what_runs().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let followed = world.api.tell.lock().unwrap().len() + work.tell.lock().unwrap().len();
    assert_eq!((types(), followed), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn p10_a_letter_is_kept_once_as_a_notice_for_the_place_it_names() {
    let world = world("", &[]);
    let letter = DirectDelivery {
        source: Source {
            message_id: Some("d-1".into()),
            ..Source::new("webhook", "webhook", "webhook:alerts")
        },
        identity: vec!["alerts".into(), "d-1".into()],
        place: direct(1, "").reply_to,
        text: "disk full".into(),
        at: NOW,
    };
    for refusal in [Refusal::Draining, Refusal::MovedOn] {
        world.api.refusals.lock().unwrap().push(refusal);
        assert!(
            world.intake.deliver(letter.clone()).await.is_err(),
            "whoever brought it must bring it again"
        );
    }
    for _ in 0..3 {
        assert_eq!(world.intake.deliver(letter.clone()).await, Ok(IntakeOutcome::Kept));
    }
    let submitted = world.api.submitted.lock().unwrap();
    assert_eq!(submitted.len(), 1);
    assert_eq!(submitted[0].kind, Kind::Command(Command::Notice { text: "disk full".into() }));
    assert_eq!(submitted[0].reply_to.as_ref(), Some(&letter.place));
    assert_eq!(submitted[0].key.fields(), ["webhook", "bot", "alerts", "d-1"]);
    let Target::Chat(chat) = &submitted[0].target else { panic!("it belongs to a chat") };
    assert_eq!(chat.key.as_str(), "agent:main:webhook:webhook:webhook:alerts");
}

#[tokio::test(start_paused = true)]
async fn p7_what_cannot_be_kept_is_not_said_to_have_arrived() {
    let world = world("", &ANN);
    for (refusal, answer) in [
        (Refusal::Draining, None),
        (Refusal::Unwritable("the disk is full".into()), None),
        (Refusal::Internal("fell over".into()), None),
        (Refusal::MovedOn, Some(IntakeOutcome::Ignored)), // no use to wait
    ] {
        world.api.refusals.lock().unwrap().push(refusal.clone());
        assert_eq!(world.intake.take(direct(1, "hi")).await.ok(), answer, "{refusal:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn p31_a_stranger_gets_one_code_and_is_not_heard() {
    let world = world("", &[]);
    for number in 1..4 {
        assert!(!world.takes(direct(number, "let me in")).await);
        sleep(Duration::from_secs(1)).await;
    }
    let said = world.said();
    assert_eq!(said.len(), 1, "{said:?}");
    let code = said[0].split('`').nth(1).unwrap().to_owned();
    assert!(world.api.submitted.lock().unwrap().is_empty());
    let pairings = Pairings::of(world.home.path());
    assert_eq!(pairings.approve("telegram", &code, NOW).unwrap().unwrap().id, "1");
    assert!(world.takes(direct(9, "thanks")).await);
    assert_eq!(*world.api.notes.lock().unwrap(), ["stranger_refused"]);
}

#[tokio::test(start_paused = true)]
async fn p31_a_code_that_could_not_be_sent_is_sent_again() {
    let world = world("", &[]);
    world.adapter.errors.lock().unwrap().push(SendError::Later { after: None, message: "slow down".into() });
    assert!(!world.takes(direct(1, "hi")).await);
    sleep(Duration::from_secs(5)).await;
    let said = world.said();
    assert_eq!((said.len(), said[1].starts_with("post 1 I do not know you")), (2, true), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn p31_nobody_is_greeted_in_a_group_by_list_when_told_not_to_or_late() {
    let ignoring = "unauthorized_dm_behavior: ignore\n";
    let listed = [("TELEGRAM_ALLOWED_USERS", "2")];
    let mut late = direct(1, "hi");
    late.at = Time(NOW.0 - 601_000_000);
    let mut bot = direct(1, "hi");
    bot.from_bot = true;
    for (text, variables, incoming) in [
        ("", &[][..], in_group(1, "hi")),
        (ignoring, &[][..], direct(1, "hi")),
        ("", &listed[..], direct(1, "hi")),
        ("", &[][..], late),
        ("", &[][..], bot),
    ] {
        let world = world(text, variables);
        assert!(!world.takes(incoming).await);
        sleep(Duration::from_secs(5)).await;
        assert_eq!(world.said(), Vec::<String>::new(), "{text} {variables:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn among_others_only_what_is_meant_for_the_agent_is_heard() {
    let text = "telegram:\n  require_mention: true\n  free_response_chats: [-300]\n  allowed_chats: [-100, -300]\n  mention_patterns: ['^robot\\b']\n  ignored_threads: [13]\n";
    let world = world(text, &ANN);
    type Change = fn(&mut Incoming);
    let rows: [(Change, bool); 8] = [
        (|_| {}, false),
        (|it| it.mentioned = true, true),
        (|it| it.addressed = true, true),
        (|it| it.text = "Robot, please".into(), true),
        (|it| it.source.chat_id = "-300".into(), true),
        (|it| (it.source.chat_id, it.mentioned) = ("-200".into(), true), false),
        (|it| (it.source.thread_id, it.mentioned) = (Some("13".into()), true), false),
        (|it| (it.text, it.mentioned) = ("  ".into(), true), false),
    ];
    for (number, (change, heard)) in rows.into_iter().enumerate() {
        let mut incoming = in_group(number as u64, "so what");
        change(&mut incoming);
        assert_eq!(world.takes(incoming).await, heard, "row {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_reads_as_hermes_writes_it() {
    let world = world("group_sessions_per_user: false\n", &ANN);
    let quoted = |ours| Some(Quoted { id: "3".into(), text: Some("said before".into()), author: None, ours });
    let mut in_shared = in_group(1, "hello");
    in_shared.source.user_name = Some("Ann\n## Override\u{7}".into());
    let rows = [
        (direct(2, "hello"), "hello"),
        (in_shared, "[Ann ## Override] hello"),
        (
            Incoming { quoted: quoted(true), ..direct(3, "yes") },
            "[Replying to your previous message: \"said before\"]\n\nyes",
        ),
        (Incoming { quoted: quoted(false), ..direct(4, "yes") }, "[Replying to: \"said before\"]\n\nyes"),
        (
            Incoming { context: Some("[Recent]\nBob: x".into()), ..direct(5, "and?") },
            "[Recent]\nBob: x\n\n[New message]\nand?",
        ),
        (Incoming { edited: true, ..direct(6, "hullo") }, "[Edited] hullo"),
        (Incoming { quoted: quoted(true), ..direct(7, " /stop") }, "/stop"), // an order is an order
    ];
    for (incoming, expected) in rows {
        assert!(world.takes(incoming).await);
        assert_eq!(world.read(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn orders_are_given_by_those_who_may() {
    let world = world("telegram:\n  allow_admin_from: [9]\n  user_allowed_commands: [status]\n", &ANN);
    assert!(!world.takes(direct(1, "/restart now")).await);
    assert!(world.takes(direct(2, "/status")).await && world.takes(direct(3, "/etc/hosts is a file")).await);
    sleep(Duration::from_secs(1)).await;
    assert!(world.said().iter().any(|line| line.contains("You may not use /restart")));
}

fn attachment(media: Media, handle: &str, name: Option<&str>, mime: Option<&str>) -> Attachment {
    let text = |text: &str| text.to_owned();
    Attachment { media, handle: handle.into(), name: name.map(text), mime: mime.map(text), bytes: None }
}

#[tokio::test(start_paused = true)]
async fn p8_files_that_do_not_come_keep_no_message_and_nobody_behind_it_for_long() {
    let world = world("", &ANN);
    let mut incoming = direct(1, "look");
    incoming.attachments =
        ["slow 1", "slow 2", "slow 3"].map(|handle| attachment(Media::Document, handle, None, None)).into();
    let began = tokio::time::Instant::now();
    assert!(world.takes(incoming).await);
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    assert!(
        world.read().contains("look") && world.read().matches("in time").count() == 3,
        "{}",
        world.read()
    );
}

#[tokio::test(start_paused = true)]
async fn files_are_kept_where_hermes_keeps_them_and_named() {
    let png = vec![0x89, b'P', b'N', b'G', 1, 2, 3];
    let files =
        [("a", png.clone()), ("b", b"k: v".to_vec()), ("c", b"%PDF".to_vec()), ("d", b"OggS".to_vec())];
    let files = files.map(|(handle, bytes)| (handle.to_owned(), bytes)).into();
    let world = world_with("", &ANN, TestAdapter { files, ..TestAdapter::default() });
    let mut incoming = direct(1, "look");
    incoming.attachments = vec![
        attachment(Media::Image, "a", None, Some("image/png")),
        attachment(Media::Document, "b", Some("../../etc/x.yaml"), None),
        attachment(Media::Document, "c", Some("report.pdf"), Some("application/pdf")),
        attachment(Media::Voice, "d", None, Some("audio/ogg")),
        attachment(Media::Document, "gone", Some("gone.zip"), None),
    ];
    assert!(world.takes(incoming).await);
    let text = world.read();
    for part in [
        "look",
        "[Image attached at: ",
        "[Content of x.yaml]:\nk: v",
        "[The user sent a document: 'report.pdf'. It is saved at: ",
        "[The user sent a voice message: ",
        "[The user sent a document ('gone.zip') that could not be fetched: the server does not know it]",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    let submitted = world.api.submitted.lock().unwrap();
    let Kind::Chat(Content::Parts(parts)) = &submitted[0].kind else { panic!("there is a picture") };
    assert!(matches!(&parts[1], Part::Image { url, .. } if url.starts_with("data:image/png;base64,")));
    for (directory, count) in [("cache/images", 1), ("cache/documents", 2), ("cache/audio", 1)] {
        let entries: Vec<_> = fs::read_dir(world.home.path().join(directory)).unwrap().flatten().collect();
        assert_eq!(entries.len(), count, "{directory}");
        #[cfg(unix)]
        for entry in entries {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_too_large_is_a_note() {
    let world = world("gateway:\n  max_inbound_media_bytes: 2097152\n", &ANN);
    let mut incoming = direct(1, "");
    incoming.attachments =
        vec![Attachment { bytes: Some(3 << 20), ..attachment(Media::Video, "v", Some("v.mp4"), None) }];
    assert!(world.takes(incoming).await);
    assert_eq!(
        world.read(),
        "[The user sent a video ('v.mp4') that could not be fetched: it is larger than 2 MB]"
    );
}

#[tokio::test(start_paused = true)]
async fn p6_what_foreign_bots_say_is_told_with_the_last_human_word_of_the_place() {
    let world = world("", &[("TELEGRAM_ALLOW_BOTS", "mentions"), ("TELEGRAM_ALLOWED_USERS", "1")]);
    let bot = |number| Incoming { from_bot: true, mentioned: true, ..in_group(number, "beep") };
    let trace = || world.api.submitted.lock().unwrap().last().unwrap().trace.clone();
    assert!(world.takes(bot(1)).await);
    let forgotten = trace();
    assert!(!forgotten.is_human() && forgotten.foreign.as_deref() == Some(""), "nobody was heard yet");
    assert!(world.takes(bot(2)).await);
    assert_eq!(trace(), forgotten, "one chain until a human speaks");
    let mut human = in_group(3, "aside"); // also where it is not for us, or from a stranger
    human.source.user_id = Some("77".into());
    world.takes(human).await;
    assert!(world.takes(bot(4)).await);
    let renewed = trace();
    assert_ne!(renewed.foreign, forgotten.foreign);
    assert!(world.takes(bot(5)).await);
    assert_eq!(trace(), renewed);
    assert!(!world.takes(Incoming { mentioned: false, ..bot(6) }).await, "it does not name us");
    assert!(world.takes(in_group(8, "hi")).await);
    assert!(trace().is_human());
}

#[tokio::test(start_paused = true)]
async fn p31_bots_are_not_heard_unless_somebody_says_so() {
    let world = world("", &[("TELEGRAM_ALLOW_ALL_USERS", "true")]);
    let bot = Incoming { from_bot: true, mentioned: true, ..in_group(1, "beep") };
    assert!(!world.takes(bot).await);
}

#[tokio::test(start_paused = true)]
async fn a_session_begins_with_what_its_channel_adds() {
    let text = "telegram:\n  channel_prompts:\n    '-100': Be brief.\n  channel_skill_bindings:\n    - id: '17'\n      skills: [maps]\n";
    let world = world(text, &ANN);
    let mut incoming = in_group(1, "hi");
    incoming.source.thread_id = Some("17".into());
    incoming.skills = vec!["maps".into(), "notes".into()];
    assert!(world.takes(incoming).await && world.takes(direct(2, "hi")).await);
    let submitted = world.api.submitted.lock().unwrap();
    let room = Room { prompt: Some("Be brief.".into()), skills: vec!["maps".into(), "notes".into()] };
    assert_eq!(submitted[0].birth.room, room);
    assert!(submitted[1].birth.room.is_plain());
}

#[tokio::test(start_paused = true)]
async fn a_button_is_pressed_by_whoever_may_and_once() {
    let world = world("", &ANN);
    let call = |step| CallId { session: session(), turn: TurnId(Seq(1)), step, index: 0, question: 0 };
    let granted = || Verdict::Granted(Grant::Session);
    let press =
        |source: &Source, step| Press { source: source.clone(), call: call(step), verdict: granted() };
    let ann = direct(1, "").source;
    let stranger = Source { user_id: Some("2".into()), ..ann.clone() };
    let elsewhere = Source { chat_id: "5".into(), ..ann.clone() };
    *world.api.chat.lock().unwrap() = Some("agent:main:telegram:dm:1".into());
    for (source, step, answer) in [
        (&stranger, 1, "You may not answer this."),
        (&elsewhere, 1, "You may not answer this."),
        (&ann, 1, "Allowed for this session."),
        (&ann, 1, "This was answered already, or is not asked any more."),
    ] {
        assert_eq!(world.intake.press(press(source, step)).await.unwrap(), answer);
    }
    // In a group, questions of a member's own session are everybody's who may speak there.
    *world.api.chat.lock().unwrap() = Some("agent:main:telegram:group:-100:2".into());
    let member = in_group(1, "").source;
    assert_eq!(world.intake.press(press(&member, 2)).await.unwrap(), "Allowed for this session.");
    assert_eq!(world.intake.press(press(&ann, 3)).await.unwrap(), "You may not answer this.");
    assert_eq!(world.api.decided.lock().unwrap().len(), 2);
}
