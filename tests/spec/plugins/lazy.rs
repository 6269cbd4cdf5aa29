//! Toolsets of Hermes that are switched on and not built in here come along by themselves, and nothing of Python runs
//! until one of their tools is called.

use super::*;

/// Computes where it is asked to.
fn computing() -> ModelServer {
    ModelServer::answering(Duration::ZERO, |request| {
        let messages = request["messages"].as_array().unwrap();
        match (messages.last().unwrap()["role"].as_str(), last(request).as_str()) {
            (Some("tool"), _) => said("it is computed"),
            (_, "compute") => calls(&[("execute_code", json!({"code": "print(6 * 7)"}))]),
            (_, other) => said(&format!("re: {other}")),
        }
    })
}

impl Company {
    /// Processes of Hermes' Python that work for this home.
    fn pythons(&self) -> usize {
        let package = self.directory("hermes_host").display().to_string();
        let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
        lines.filter(|line| String::from_utf8_lossy(line).contains(&package)).count()
    }

    /// The tools that the model was offered last.
    fn offered(&self) -> Vec<Value> {
        let request = self.world.model.requests().pop().unwrap();
        request["tools"].as_array().cloned().unwrap_or_default()
    }

    fn computes(&self, times: usize) {
        self.says("compute");
        // Hermes imports half of the world before it answers.
        self.until("the result", || self.world.times_shown("it is computed") == times);
        let request = self.world.model.requests().pop().unwrap();
        let result = text(request["messages"].as_array().unwrap().last().unwrap());
        assert!(result.contains("42"), "{result}");
    }
}

fn named<'a>(tools: &'a [Value], name: &str) -> Vec<&'a Value> {
    tools.iter().filter(|tool| tool["function"]["name"] == name).collect()
}

#[test]
fn hermes_toolsets_come_along_by_themselves_and_nothing_runs_until_they_are_called() {
    let Some(python) = peers::hermes_python("0.19.0") else { return };
    let config = format!(
        "approvals: {{mode: 'off'}}\nmemory: {{nudge_interval: 0}}\nthroughline: {{hermes: {{python: {}}}}}\n",
        python.display()
    );
    let company = Company::with(computing(), &config);
    let gateway = company.world.launch.start();
    company.hears("before anything is known"); // nothing waits for it
    company.until("it is known what there is, and nothing runs any more", || {
        let hermes = &company.plugins()["data"][0];
        hermes["what"].as_str().is_some_and(|what| what.contains("tool"))
            && hermes["state"] == "idle"
            && company.pythons() == 0
    });
    company.hears("and offered from then on");
    assert_eq!(named(&company.offered(), "execute_code").len(), 1, "{:#?}", company.offered());
    assert!(gateway.stop().success());

    let gateway = company.world.launch.start();
    company.hears("hello");
    assert_eq!(company.pythons(), 0, "what is remembered needs no process");
    let offered = company.offered();
    assert_eq!(named(&offered, "execute_code").len(), 1, "{offered:#?}");
    let ours = named(&offered, "terminal");
    assert_eq!(ours.len(), 1, "what is built in is there once");
    company.computes(1);
    assert_eq!(company.pythons(), 1);
    company.hears("afterwards");
    assert_eq!(company.offered(), offered, "the list stays as it was");
    assert!(gateway.stop().success());
    assert_eq!(company.pythons(), 0);

    // What turns out to be otherwise is known to the next start, and changes nothing until then.
    let abilities = company.directory("hermes").join("abilities.json");
    let mut known: Value = serde_json::from_str(&fs::read_to_string(&abilities).unwrap()).unwrap();
    let tools = known["tools"].as_array_mut().unwrap();
    let tool = tools.iter_mut().find(|tool| tool["name"] == "execute_code").unwrap();
    tool["description"] = json!("It computed in earlier days.");
    fs::write(&abilities, known.to_string()).unwrap();
    let gateway = company.world.launch.start();
    company.hears("hello again");
    let old = company.offered();
    assert_eq!(named(&old, "execute_code")[0]["function"]["description"], "It computed in earlier days.");
    company.computes(2);
    company.hears("afterwards again");
    assert_eq!(company.offered(), old);
    assert!(gateway.stop().success());
    let gateway = company.world.launch.start();
    company.hears("hello for the last time");
    assert_eq!(company.offered(), offered);
    assert!(gateway.stop().success());
}

#[test]
fn p31_what_hermes_asks_people_about_is_asked_here_and_not_run_unseen_by_a_guard() {
    let Some(python) = peers::hermes_python("0.19.0") else { return };
    let config = format!(
        "approvals: {{mode: manual, timeout: 600}}\nmemory: {{nudge_interval: 0}}\n\
         throughline: {{hermes: {{python: {}, tools: [code_execution]}}}}\n",
        python.display()
    );
    let company = Company::with(computing(), &config);
    let gateway = company.world.launch.start();
    company.until("it is known what there is", || {
        company.plugins()["data"][0]["what"].as_str().is_some_and(|what| what.contains("tool"))
    });
    let result = || {
        let request = company.world.model.requests().pop().unwrap();
        text(request["messages"].as_array().unwrap().last().unwrap())
    };
    let asks = |times: usize| {
        company.says("compute");
        let asked = |world: &World| {
            let shown = world.shown();
            shown
                .iter()
                .filter(|shown| shown.contains("May I run this?") && shown.contains("print(6 * 7)"))
                .count()
        };
        company.until("the question", || asked(&company.world) == times);
    };
    asks(1);
    company.says("/deny");
    company.until("the result", || company.world.times_shown("it is computed") == 1);
    assert!(result().contains("denied by user") && !result().contains("42"), "{}", result());
    asks(2);
    company.says("/approve session");
    company.until("the result", || company.world.times_shown("it is computed") == 2);
    assert!(result().contains("42"), "{}", result());
    company.computes(3); // which is no longer asked about
    assert!(gateway.stop().success());

    // A script calls tools by itself, and this hook would not hear of it.
    let hook = "hooks_auto_accept: true\nhooks: {pre_tool_call: [{command: 'true', matcher: terminal}]}\n";
    company.world.place.append("home/config.yaml", hook);
    let gateway = company.world.launch.start();
    company.until("it is known what there is", || {
        company.plugins()["data"][0]["what"].as_str().is_some_and(|what| what.contains("tool"))
    });
    company.says("compute");
    company.until("the refusal", || company.world.times_shown("it is computed") == 4);
    assert!(
        result().contains("execute_code was not run") && result().contains("a hook of yours"),
        "{}",
        result()
    );
    assert!(gateway.stop().success());
}

#[test]
fn toolsets_of_hermes_stay_away_where_the_user_says_so() {
    let Some(python) = peers::hermes_python("0.19.0") else { return };
    for (setting, toolsets) in [
        (", tools: []", ""),
        (", enabled: false", ""),
        (
            "",
            "platform_toolsets: {cli: [todo], api_server: [todo], telegram: [todo], discord: [todo], slack: [todo], webhook: [todo]}\n",
        ),
    ] {
        let hermes = format!("throughline: {{hermes: {{python: {}{setting}}}}}\n", python.display());
        let company = Company::with(chatty(), &format!("{toolsets}{hermes}"));
        let checked = company.world.place.launch().arg("config").arg("check").run();
        assert!(!checked.stdout.contains("plugin hermes"), "{}", checked.stdout);
        let gateway = company.world.launch.start();
        company.hears("hello");
        assert!(named(&company.offered(), "execute_code").is_empty());
        assert!(!company.directory("hermes").exists(), "{setting}: nothing was started to learn anything");
        assert!(gateway.stop().success());
    }
    // And where nothing keeps them away, `config check` names them.
    let hermes = format!("throughline: {{hermes: {{python: {}}}}}\n", python.display());
    let company = Company::with(chatty(), &hermes);
    let checked = company.world.place.launch().arg("config").arg("check").run();
    let line = checked.stdout.lines().find(|line| line.starts_with("plugin hermes"));
    assert!(line.is_some_and(|line| line.contains("code_execution")), "{}", checked.stdout);
}
