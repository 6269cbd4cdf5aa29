use super::*;
use throughline_core::chain::Amount;

const NOW: Time = Time(1_700_000_000_000_000);

fn root_of(home: &str, session: &str) -> Root {
    Root { home: home.into(), session: session.parse().unwrap() }
}

fn share(origin: &str, asker: &str) -> Share {
    Share {
        origin: origin.into(),
        root: Some(root_of("/homes/a", "began")),
        hops: 1,
        amount: Amount::Turn,
        asker: root_of(asker, "s"),
        place: Some("shop|1".into()),
        hops_max: 8,
        turns_max: 3,
        calls_max: 5,
    }
}

fn process(pid: u32) -> ProcessId {
    ProcessId { pid, started: Some(i64::from(pid) * 100) }
}

fn take(ledger: &mut LedgerFile, share: &Share) -> Shared {
    ledger.write(NOW, |page| page.take(share)).unwrap()
}

#[test]
fn p6_what_one_origin_spends_is_one_count_for_all_processes_and_starts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("chains.db");
    let mut granted = 0;
    for round in 0..4 {
        // Two processes, and both begin anew each round.
        let (mut one, mut other) = (LedgerFile::at(&path), LedgerFile::at(&path));
        for ledger in [&mut one, &mut other] {
            granted += u32::from(take(ledger, &share("h", "/homes/b")) == Shared::Granted);
        }
        assert!(granted <= 3, "round {round}");
    }
    assert_eq!(granted, 3);
    let mut ledger = LedgerFile::at(&path);
    assert_eq!(
        take(&mut ledger, &share("another", "/homes/b")),
        Shared::Granted,
        "another word, another budget"
    );
}

#[test]
fn p6_a_cut_is_announced_by_one_agent_in_a_chat_and_told_to_those_who_began_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut ledger = LedgerFile::at(directory.path().join("chains.db"));
    (0..3).for_each(|_| assert_eq!(take(&mut ledger, &share("h", "/homes/b")), Shared::Granted));
    let announces = |ledger: &mut LedgerFile, share: &Share| match take(ledger, share) {
        Shared::Refused(cut) => (cut.number, cut.announce),
        Shared::Granted => panic!("there was one left"),
    };
    assert_eq!(announces(&mut ledger, &share("h", "/homes/b")), (0, true));
    assert_eq!(announces(&mut ledger, &share("h", "/homes/c")), (0, false), "another agent in the same chat");
    assert_eq!(announces(&mut ledger, &share("h", "/homes/b")), (0, true), "the same again, after a crash");
    let elsewhere = Share { place: Some("shop|2".into()), ..share("h", "/homes/c") };
    assert_eq!(announces(&mut ledger, &elsewhere), (0, true), "another chat");
    let untold = ledger.read(NOW, |page| page.untold("/homes/a")).unwrap();
    assert_eq!(untold.iter().map(|cut| &cut.root).collect::<Vec<_>>(), [&root_of("/homes/a", "began")]);
    assert_eq!(ledger.read(NOW, |page| page.untold("/homes/b")).unwrap(), [], "only where it began");
    ledger.write(NOW, |page| page.told(&untold[0])).unwrap();
    assert_eq!(ledger.read(NOW, |page| page.untold("/homes/a")).unwrap(), []);
    assert_eq!(
        ledger.read(NOW, |page| page.cuts("/homes/a")).unwrap(),
        untold,
        "status shows it all the same"
    );
}

#[test]
fn p6_a_chain_is_opened_again_by_its_people_or_where_it_was_cut_and_by_nobody_else() {
    for (opens, by) in [
        (true, root_of("/homes/a", "began")),
        (true, root_of("/homes/b", "s")),
        (false, root_of("/homes/c", "s")),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut ledger = LedgerFile::at(directory.path().join("chains.db"));
        for _ in 0..4 {
            let _ = take(&mut ledger, &share("h", "/homes/b"));
        }
        ledger.write(NOW, |page| page.reopen(&by)).unwrap();
        assert_eq!(take(&mut ledger, &share("h", "/homes/b")) == Shared::Granted, opens, "{by:?}");
        let cuts = ledger.read(NOW, |page| page.cuts("/homes/a")).unwrap();
        assert_eq!(cuts.is_empty(), opens, "what is open is not shown as cut");
        if opens {
            (0..2).for_each(|_| assert_eq!(take(&mut ledger, &share("h", "/homes/b")), Shared::Granted));
            let Shared::Refused(cut) = take(&mut ledger, &share("h", "/homes/b")) else {
                panic!("spent again")
            };
            assert_eq!((cut.number, cut.announce), (1, true), "a second cut is told again");
        }
    }
}

#[test]
fn p6_a_message_of_ours_is_recognised_with_what_it_follows_from() {
    let directory = tempfile::tempdir().unwrap();
    let mut ledger = LedgerFile::at(directory.path().join("chains.db"));
    let post = Post { platform: "shop".into(), chat: "1".into(), message: "7".into(), author: "bot".into() };
    let trace =
        Trace { origin: "h".into(), root: Some(root_of("/homes/a", "began")), hops: 2, foreign: None };
    assert!(!ledger.read(NOW, |page| page.is_ours("shop", "bot")).unwrap());
    ledger.write(NOW, |page| page.introduce("shop", "other bot")).unwrap();
    assert!(
        ledger.read(NOW, |page| page.is_ours("shop", "other bot")).unwrap(),
        "before it has said anything"
    );
    ledger.write(NOW, |page| page.posted(&post, &trace)).unwrap();
    assert_eq!(ledger.read(NOW, |page| page.post(&post)).unwrap(), Some(trace));
    assert!(ledger.read(NOW, |page| page.is_ours("shop", "bot")).unwrap());
    let other = Post { chat: "2".into(), ..post.clone() };
    assert_eq!(ledger.read(NOW, |page| page.post(&other)).unwrap(), None, "ids are a chat's own");
    let later = NOW.plus(KEPT_FOR + Duration::from_secs(1));
    ledger.write(later, |page| page.forget_old()).unwrap();
    assert_eq!(ledger.read(later, |page| page.post(&post)).unwrap(), None);
}

#[test]
fn p6_a_ledger_that_cannot_be_opened_grants_nothing_and_one_that_was_replaced_is_opened_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state").join("chains.db");
    let mut ledger = LedgerFile::at(&path);
    assert!(ledger.write(NOW, |page| page.take(&share("h", "/homes/b"))).is_err(), "there is no directory");
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    assert_eq!(take(&mut ledger, &share("h", "/homes/b")), Shared::Granted, "and now there is");
    for file in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    assert_eq!(take(&mut ledger, &share("h", "/homes/b")), Shared::Granted);
    assert!(path.exists(), "what was taken is in a file that others see");
}

#[test]
fn p6_an_order_of_silence_reaches_each_running_gateway_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut ledger = LedgerFile::at(directory.path().join("chains.db"));
    ledger.write(NOW, |page| page.order(SilenceKind::Stop)).unwrap();
    ledger.write(NOW, |page| page.join("/homes/a", process(7))).unwrap();
    let pending = |ledger: &mut LedgerFile| ledger.read(NOW, |page| page.pending("/homes/a")).unwrap();
    assert_eq!(pending(&mut ledger), None, "what was ordered before its first start is not for it");
    let order = ledger.write(NOW, |page| page.order(SilenceKind::Stop)).unwrap();
    ledger.write(NOW, |page| page.join("/homes/a", process(8))).unwrap();
    assert_eq!(pending(&mut ledger), Some(order), "a restart does not escape it");
    let reports = |ledger: &mut LedgerFile| ledger.read(NOW, |page| page.reports(order)).unwrap();
    let report = |report: Option<&str>| GatewayReport {
        home: "/homes/a".into(),
        process: process(8),
        report: report.map(str::to_owned),
    };
    assert_eq!(reports(&mut ledger), [report(None)]);
    ledger.write(NOW, |page| page.carried_out("/homes/a", order, "2 turns")).unwrap();
    assert_eq!(pending(&mut ledger), None);
    assert_eq!(reports(&mut ledger), [report(Some("2 turns"))]);
    ledger.write(NOW, |page| page.leave("/homes/a", 8)).unwrap();
    assert_eq!(reports(&mut ledger), []);
}

#[test]
fn p6_people_who_began_a_chain_read_of_its_cut_once_in_a_chat() {
    let directory = tempfile::tempdir().unwrap();
    let mut ledger = LedgerFile::at(directory.path().join("chains.db"));
    for _ in 0..4 {
        let _ = take(&mut ledger, &share("h", "/homes/b"));
    }
    let cut = ledger.read(NOW, |page| page.untold("/homes/a")).unwrap().remove(0);
    let announces = |ledger: &mut LedgerFile, cut: &CutChain, place: &str| {
        ledger.write(NOW, |page| page.announces(cut, place)).unwrap()
    };
    assert!(!announces(&mut ledger, &cut, "shop|1"), "the agent that cut it has announced it there");
    assert!(announces(&mut ledger, &cut, "shop|2"), "their own chat has heard nothing yet");
    assert!(announces(&mut ledger, &cut, "shop|2"), "the same again, after a crash");
    let other = Share { place: Some("shop|2".into()), ..share("h", "/homes/c") };
    let Shared::Refused(refused) = take(&mut ledger, &other) else { panic!("there was one left") };
    assert!(!refused.announce, "and now another agent does not");
    ledger.write(NOW, |page| page.reopen(&cut.root)).unwrap();
    let again = CutChain { number: 1, ..cut };
    assert!(announces(&mut ledger, &again, "shop|1"), "another cut is another announcement");
}

#[test]
fn a_ledger_of_an_earlier_version_learns_when_a_process_began() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("chains.db");
    let earlier = include_str!("schema.sql").replace("    started INTEGER,\n", "");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(&earlier).unwrap();
    assert!(connection.prepare("SELECT started FROM gateway").is_err());
    drop(connection);
    let mut ledger = LedgerFile::at(&path);
    ledger.write(NOW, |page| page.join("/homes/a", process(7))).unwrap();
    let order = ledger.write(NOW, |page| page.order(SilenceKind::Stop)).unwrap();
    let mut other = LedgerFile::at(&path);
    let reports = other.read(NOW, |page| page.reports(order)).unwrap();
    assert_eq!(reports.iter().map(|gateway| gateway.process).collect::<Vec<_>>(), [process(7)]);
}

#[test]
fn p6_gateways_that_start_at_once_each_find_the_ledger_and_enter_their_bots() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("chains.db");
    std::thread::scope(|scope| {
        for nth in 0..9 {
            let path = &path;
            scope.spawn(move || {
                let bot = format!("bot{nth}");
                LedgerFile::at(path).note(NOW, |page| page.introduce("shop", &bot)).unwrap();
            });
        }
    });
    let mut ledger = LedgerFile::at(&path);
    for nth in 0..9 {
        assert!(ledger.read(NOW, |page| page.is_ours("shop", &format!("bot{nth}"))).unwrap(), "bot{nth}");
    }
}
