//! The memory server that a home is connected to, by Hermes' names. Who may see what of it, [`throughline_core::access`]
//! decides.
//!
//! What cannot be used is off, and says why: nothing is remembered elsewhere instead.

use super::people::{PeopleLookup, person_of_scope};
use super::plugins::Plugins;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use throughline_core::Message;
use throughline_core::memory::{Erasure, MemoryError, Naming, Provider, Retention, Scope, Wanted};
use throughline_core::port::Promise;
use throughline_core::tool::Spec;
use throughline_gateway::Memory;
use throughline_hermes::profile;
use throughline_home::config::Settings;
use throughline_home::home::Home;
use throughline_memory::hindsight::{self, Hindsight};
use throughline_memory::honcho::settings::{SettingsFile, SettingsSources};
use throughline_memory::honcho::{
    self, Audience, Honcho, HonchoSurroundings, MigrationLedger, Role, migration,
};

/// Hermes' way of saying that there is none.
const NONE: [&str; 3] = ["", "none", "builtin"];

/// Whether a name means none at all, or one that is built in.
pub fn is_native(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    NONE.contains(&name.as_str()) || ["hindsight", "honcho"].contains(&name.as_str())
}

/// None: there is no provider, or it is off and `off` says why.
pub fn memory(
    home: &Home,
    settings: &Settings,
    workspace: &Path,
    plugins: &Plugins,
    off: &mut Vec<String>,
) -> Option<Memory> {
    let name = settings.tools.memory.provider.as_ref().map_or("", |provider| provider.value.trim());
    let profile = profile_of(home);
    let provider = match name.to_ascii_lowercase().as_str() {
        name if NONE.contains(&name) => return None,
        "hindsight" => hindsight(home, settings),
        "honcho" => honcho(home, &profile, settings, workspace, off),
        other => plugins.provider().ok_or_else(|| {
            format!(
                "there is no provider called {other:?} here; hindsight and honcho are built in, and no plugin of that \
                 name runs. Nothing is remembered outside until `memory.provider` names one that is there, or is empty."
            )
        }),
    };
    match provider {
        Ok(provider) => {
            let patience = Duration::from_millis(settings.recall_patience.value);
            Some(Memory::new(&profile, provider, patience))
        }
        Err(why) => {
            off.push(format!("memory provider {name}: {why}"));
            None
        }
    }
}

fn hindsight(home: &Home, settings: &Settings) -> Result<Arc<dyn Provider>, String> {
    let own = text(&home.path().join("hindsight/config.json"))?;
    let global = match user_home(settings) {
        Some(user) => text(&user.join(".hindsight/config.json"))?,
        None => None,
    };
    let variable = |name: &str| settings.variable(name);
    let read = || hindsight::HindsightSettings::read(own.as_deref(), global.as_deref(), &variable);
    let many = Arc::new(Hindsight::new(read()?)?);
    many.settings().notes.iter().for_each(|note| tracing::warn!("{note}"));
    let one = Arc::new(Hindsight::new(read()?)?.of_one_person());
    Ok(Arc::new(PeopleAwareProvider { one, many, people: PeopleLookup::of(home, settings), files: None }))
}

/// What Hermes' files say about Honcho, or why it is off.
fn honcho_settings(
    home: &Home,
    profile: &str,
    settings: &Settings,
) -> Result<honcho::HonchoSettings, String> {
    let user = user_home(settings);
    // A profile without a file of its own uses that of the root it belongs to.
    let root =
        home.path().parent().filter(|parent| parent.ends_with(profile::DIRECTORY)).and_then(Path::parent);
    let mut places: Vec<PathBuf> = vec![home.path().join("honcho.json")];
    places.extend(root.map(|root| root.join("honcho.json")));
    places.extend(user.map(|user| user.join(".honcho/config.json")));
    let looked_for: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    let mut files = Vec::new();
    for place in &places {
        if let Some(text) = text(place)? {
            files.push((place.display().to_string(), text));
        }
    }
    let files: Vec<SettingsFile<'_>> = files.iter().map(|(path, text)| SettingsFile { path, text }).collect();
    let written = &settings.tools.memory;
    let given = SettingsSources {
        files: &files,
        profile: Some(profile),
        base_url: written.honcho_base_url.as_ref().map(|url| url.value.trim()),
        timeout: written.honcho_timeout.as_ref().map(|seconds| seconds.value),
    };
    let read = honcho::HonchoSettings::parse(&given, |name: &str| settings.variable(name));
    let read = read.map_err(|error| error.to_string())?;
    if !read.enabled {
        return Err(disabled(&read, files.first(), &looked_for));
    }
    Ok(read)
}

fn honcho(
    home: &Home,
    profile: &str,
    settings: &Settings,
    workspace: &Path,
    off: &mut Vec<String>,
) -> Result<Arc<dyn Provider>, String> {
    let read = honcho_settings(home, profile, settings)?;
    let people = PeopleLookup::of(home, settings);
    if !people.now().has_owner() {
        off.extend(unowned(home.path(), &read));
    }
    let surroundings = |audience| HonchoSurroundings {
        directory: workspace.display().to_string(),
        repository: repository(workspace),
        audience,
    };
    let many = Honcho::new(read.clone(), surroundings(Audience::Many));
    let one = Arc::new(Honcho::new(read, surroundings(Audience::One)));
    let files = Some(HonchoFiles::of(home.path(), many.clone()));
    Ok(Arc::new(PeopleAwareProvider { one, many: Arc::new(many), people, files }))
}

/// Said where the home has memory files and no owner is known.
fn unowned(home: &Path, read: &honcho::HonchoSettings) -> Option<String> {
    let any_scope = Scope::of("any".parse().expect("a plain word is an id"));
    let brought = migration(read, &any_scope, Role::Owner);
    let is_there = |name: &&str| {
        let place = if *name == "SOUL.md" { home.join(name) } else { home.join("memories").join(name) };
        text(&place).is_ok_and(|text| text.is_some_and(|text| !text.trim().is_empty()))
    };
    let there: Vec<&str> = brought.into_iter().filter(is_there).collect();
    (!there.is_empty()).then(|| {
        format!(
            "memory files: {} are not brought to Honcho from chats, because several people can write and none of them is \
             known as the owner. Name the owner's id under `allow_admin_from` of a platform, or first on its allow-list.",
            there.join(", ")
        )
    })
}

/// Why Honcho is off, and what to do about it.
fn disabled(read: &honcho::HonchoSettings, file: Option<&SettingsFile<'_>>, looked_for: &[String]) -> String {
    match file {
        Some(file) if read.is_reachable => format!(
            "{} says that it is not enabled. Set `enabled` to true there, or empty `memory.provider`.",
            file.path
        ),
        Some(file) => format!(
            "{} has neither `apiKey` nor `baseUrl`, and does not enable it. Write one of them there, or empty \
             `memory.provider`.",
            file.path
        ),
        None => format!(
            "neither honcho.json (looked for: {}) nor HONCHO_API_KEY or HONCHO_BASE_URL was found. Write one of \
             them, or empty `memory.provider`.",
            looked_for.join(", ")
        ),
    }
}

/// A provider in two forms: one that tells all it knows, and one that keeps people apart.
struct PeopleAwareProvider {
    one: Arc<dyn Provider>,
    many: Arc<dyn Provider>,
    people: PeopleLookup,
    files: Option<HonchoFiles>,
}

impl PeopleAwareProvider {
    /// Decided for each call: another person may have been let in since the last one.
    fn of(&self, scope: &Scope) -> &dyn Provider {
        match self.people.now().may_see_whole_memory(person_of_scope(scope)) {
            true => self.one.as_ref(),
            false => self.many.as_ref(),
        }
    }
}

/// Whose files the home's are.
fn role(people: &PeopleLookup, scope: &Scope) -> Role {
    match people.now().are_files_about(person_of_scope(scope)) {
        true => Role::Owner,
        false => Role::Guest,
    }
}

impl Provider for PeopleAwareProvider {
    fn name(&self) -> &str {
        self.many.name()
    }

    /// The same for one and for many: a person who is let in later renames nothing.
    fn naming(&self, scope: &Scope) -> Naming {
        self.many.naming(scope)
    }

    fn every(&self) -> Option<u64> {
        self.many.every()
    }

    fn recall<'a>(&'a self, scope: &'a Scope, query: &'a str) -> Promise<'a, Result<String, MemoryError>> {
        self.of(scope).recall(scope, query)
    }

    fn retain<'a>(&'a self, retention: &'a Retention) -> Promise<'a, Result<(), MemoryError>> {
        Box::pin(async move {
            if let Some(files) = &self.files {
                files.bring(retention, role(&self.people, &retention.scope)).await?;
            }
            self.of(&retention.scope).retain(retention).await?;
            if let Some(files) = &self.files {
                files.mirror(retention, role(&self.people, &retention.scope)).await;
            }
            Ok(())
        })
    }

    fn erase<'a>(&'a self, erasure: &'a Erasure) -> Promise<'a, Result<(), MemoryError>> {
        self.of(&erasure.scope).erase(erasure)
    }

    fn before_compression<'a>(
        &'a self,
        scope: &'a Scope,
        messages: &'a [Message],
    ) -> Promise<'a, Result<String, MemoryError>> {
        self.of(scope).before_compression(scope, messages)
    }

    fn prompt(&self) -> Option<String> {
        self.many.prompt()
    }

    fn tools(&self) -> Vec<Spec> {
        self.many.tools()
    }

    fn call<'a>(&'a self, scope: &'a Scope, wanted: Wanted<'a>) -> Promise<'a, String> {
        self.of(scope).call(scope, wanted)
    }
}

/// The home's memory files go to Honcho before the first turn of their owner's does, once.
struct HonchoFiles {
    home: PathBuf,
    honcho: Honcho,
    ledger: MigrationLedger,
}

impl HonchoFiles {
    fn of(home: &Path, honcho: Honcho) -> Self {
        Self { home: home.to_owned(), honcho, ledger: MigrationLedger::of(&home.join("memories")) }
    }

    async fn bring(&self, retention: &Retention, role: Role) -> Result<(), MemoryError> {
        let wanted = migration(self.honcho.settings(), &retention.scope, role);
        let read = |name: &str| {
            text(&match name {
                "SOUL.md" => self.home.join(name),
                _ => self.home.join("memories").join(name),
            })
        };
        self.honcho.migrate(&retention.scope, &retention.document, &wanted, &read, &self.ledger).await
    }

    /// The turn is there already: what fails here is made up for with the next one.
    async fn mirror(&self, retention: &Retention, role: Role) {
        if role != Role::Owner {
            return;
        }
        let memories = self.home.join("memories");
        let outcome = match honcho::additions(&memories) {
            Ok(additions) => {
                let mirrored = self.honcho.mirror(retention, &additions, &self.ledger).await;
                mirrored.map_err(|error| error.to_string())
            }
            Err(error) => Err(format!("the journal of {} cannot be read: {error}", memories.display())),
        };
        if let Err(error) = outcome {
            tracing::warn!(
                error,
                "Honcho does not know yet what was added to USER.md; it is tried again with the next turn"
            );
        }
    }
}

/// Hermes' name for the agent of a home.
pub fn profile_of(home: &Home) -> String {
    let is_below = home.path().parent().is_some_and(|parent| parent.ends_with(profile::DIRECTORY));
    let name = home.path().file_name().filter(|_| is_below);
    name.map_or_else(|| profile::DEFAULT.to_owned(), |name| name.to_string_lossy().into_owned())
}

fn text(path: &Path) -> Result<Option<String>, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{} cannot be read ({error}). Put it right and restart.", path.display())),
    }
}

fn user_home(settings: &Settings) -> Option<PathBuf> {
    settings.environment.get("HOME").map(PathBuf::from)
}

/// The name of the directory at the root of the repository that the workspace lies in.
fn repository(workspace: &Path) -> Option<String> {
    let root = workspace.ancestors().find(|directory| directory.join(".git").exists())?;
    Some(root.file_name()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p31_a_honcho_of_ones_own_in_config_yaml_is_the_one_that_is_used() {
        use throughline_home::config::Environment;
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path(), throughline_home::home::ChosenBy::CommandLine);
        let config = "honcho: {base_url: 'http://127.0.0.1:9', request_timeout: 7}\n";
        std::fs::write(directory.path().join("config.yaml"), config).unwrap();
        std::fs::write(directory.path().join("honcho.json"), r#"{"apiKey": "k"}"#).unwrap();
        let settings = home.settings(&Environment::from([])).unwrap();
        let read = honcho_settings(&home, "default", &settings).unwrap();
        assert_eq!(read.base_url, "http://127.0.0.1:9");
        assert_eq!(read.timeout, Duration::from_secs(7));
    }

    fn world(variables: &str) -> (tempfile::TempDir, Home, Arc<Settings>) {
        use throughline_home::config::Environment;
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path(), throughline_home::home::ChosenBy::CommandLine);
        std::fs::write(directory.path().join(".env"), format!("TELEGRAM_BOT_TOKEN=1:a\n{variables}"))
            .unwrap();
        std::fs::write(directory.path().join("config.yaml"), "memory: {provider: honcho}\n").unwrap();
        std::fs::write(directory.path().join("honcho.json"), r#"{"apiKey": "k", "enabled": true}"#).unwrap();
        std::fs::create_dir_all(directory.path().join("memories")).unwrap();
        std::fs::write(directory.path().join("memories/USER.md"), "likes tea").unwrap();
        let settings = home.settings(&Environment::from([])).unwrap();
        (directory, home, settings)
    }

    #[test]
    fn p29_among_several_people_the_files_are_the_owners() {
        let (_directory, home, settings) = world("TELEGRAM_ALLOWED_USERS=42,7\n");
        let people = PeopleLookup::of(&home, &settings);
        let role_of = |platform: &str, user: Option<&str>, kind: &str| {
            let mut scope = Scope::of("s".parse().unwrap());
            (scope.platform, scope.user) = (platform.to_owned(), user.map(str::to_owned));
            scope.place.kind = Some(kind.to_owned());
            role(&people, &scope)
        };
        assert_eq!(role_of("telegram", Some("42"), "dm"), Role::Owner);
        assert_eq!(role_of("telegram", Some("7"), "dm"), Role::Guest);
        assert_eq!(role_of("telegram", Some("42"), "group"), Role::Guest, "others read along");
        assert_eq!(
            role_of("slack", Some("42"), "dm"),
            Role::Guest,
            "the same number elsewhere is another person"
        );
        assert_eq!(role_of("api_server", Some("42"), "dm"), Role::Guest);
        assert_eq!(role_of("cron", None, "dm"), Role::Guest, "it names no peer");
        assert_eq!(role_of("cli", None, "dm"), Role::Owner);
    }

    #[test]
    fn p29_where_no_one_can_be_the_owner_that_is_said_with_the_setting() {
        let said = |variables: &str| {
            let (directory, home, settings) = world(variables);
            let mut off = Vec::new();
            honcho(&home, "default", &settings, directory.path(), &mut off).map(drop).unwrap();
            off
        };
        let open = said("TELEGRAM_ALLOW_ALL_USERS=true\n");
        let [open] = &open[..] else { panic!("{open:?}") };
        assert!(open.contains("USER.md") && open.contains("`allow_admin_from`"), "{open}");
        assert_eq!(said("TELEGRAM_ALLOWED_USERS=42,7\n"), Vec::<String>::new());
        assert_eq!(said("TELEGRAM_ALLOWED_USERS=42\n"), Vec::<String>::new());
    }

    #[test]
    fn a_honcho_that_is_off_says_only_what_its_file_lacks() {
        for (text, said) in [
            (r#"{"apiKey": "k", "enabled": false}"#, "honcho.json says that it is not enabled."),
            (
                r#"{"baseUrl": "http://127.0.0.1:1", "enabled": false}"#,
                "honcho.json says that it is not enabled.",
            ),
            (
                r#"{"enabled": false}"#,
                "honcho.json has neither `apiKey` nor `baseUrl`, and does not enable it.",
            ),
            ("{}", "honcho.json has neither `apiKey` nor `baseUrl`, and does not enable it."),
        ] {
            let files = [SettingsFile { path: "honcho.json", text }];
            let given = SettingsSources { files: &files, ..SettingsSources::default() };
            let read = honcho::HonchoSettings::parse(&given, |_: &str| None).unwrap();
            assert!(!read.enabled, "{text}");
            let told = disabled(&read, files.first(), &[]);
            assert!(told.starts_with(said), "{text}: {told}");
        }
        let read = honcho::HonchoSettings::parse(&SettingsSources::default(), |_: &str| None).unwrap();
        let told = disabled(&read, None, &["a".to_owned(), "b".to_owned()]);
        assert!(told.starts_with("neither honcho.json (looked for: a, b) nor HONCHO_API_KEY"), "{told}");
    }
}
