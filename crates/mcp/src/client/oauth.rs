//! Logins to servers: the tokens that one left, sent along and renewed.
//!
//! They are in the files in which Hermes keeps them, below `mcp-tokens/` of the home: `<server>.json` has the tokens,
//! `<server>.client.json` the client that was registered, `<server>.meta.json` what the authorization server says of
//! itself. All are readable by their owner only. They are read again for each request: Hermes, `throughline mcp login`
//! and a gateway may share them.
//!
//! Deliberately absent: asking a person (`crate::login`).

use super::http_client;
use super::redact::ErrorRedactor;
use crate::settings::{OAuthSettings, RemoteSettings, ServerSettings, VerifyTls};
use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, CredentialStore, OAuthClientConfig,
    OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest, OAuthTokenResponse, StoredCredentials,
};
use serde_json::{Map, Value, json};
use std::future::Future;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use throughline_private_files as private_files;
use tokio::sync::Mutex;

/// A token that ends sooner is renewed before it is used.
const RENEW_BEFORE: Duration = Duration::from_secs(30);
/// What a person is sent back to where nothing else is known: a renewal sends no person there.
const NOWHERE: &str = "http://127.0.0.1/callback";
/// Nothing that an authorization server says is longer.
const ANSWER_LENGTH_MAX: usize = 1024 * 1024;

/// Where the login of one server is kept.
#[derive(Clone, Debug)]
pub struct LoginFiles {
    directory: PathBuf,
    name: String,
}

/// What is kept of a login.
#[derive(Clone)]
struct StoredTokens {
    access: String,
    token: Value,
    client: Option<String>,
    /// How long the token is still good; None: as long as it works.
    left: Option<Duration>,
}

impl StoredTokens {
    fn is_good(&self) -> bool {
        self.left.is_none_or(|left| left >= RENEW_BEFORE)
    }
}

impl LoginFiles {
    pub fn new(home: &Path, server: &str) -> Self {
        Self { directory: home.join("mcp-tokens"), name: file_name(server) }
    }

    pub fn tokens(&self) -> PathBuf {
        self.directory.join(format!("{}.json", self.name))
    }

    fn client(&self) -> PathBuf {
        self.directory.join(format!("{}.client.json", self.name))
    }

    fn metadata(&self) -> PathBuf {
        self.directory.join(format!("{}.meta.json", self.name))
    }

    fn stored(&self) -> Option<StoredTokens> {
        let mut token = read(&self.tokens())?;
        let now = since_1970();
        let ends = match (token.remove("expires_at").and_then(|at| at.as_f64()), token.get("expires_in")) {
            (Some(at), _) => Some(at),
            // Older files say only how long it was good when it was written.
            (None, Some(seconds)) => {
                written(&self.tokens()).zip(seconds.as_f64()).map(|(at, good)| at + good)
            }
            (None, None) => None,
        };
        let left = ends.map(|ends| Duration::try_from_secs_f64(ends - now).unwrap_or_default());
        match left {
            Some(left) => token.insert("expires_in".to_owned(), json!(left.as_secs())),
            None => token.remove("expires_in"),
        };
        let access = token.get("access_token")?.as_str()?.to_owned();
        let client = read(&self.client()).and_then(|client| text(&client, "client_id"));
        Some(StoredTokens { access, token: Value::Object(token), client, left })
    }

    /// Keeps what an authorization server gave.
    pub fn keep_tokens(&self, token: &OAuthTokenResponse, scopes: &[String]) -> io::Result<()> {
        let Value::Object(given) = serde_json::to_value(token)? else {
            return Err(io::Error::other("a token that is no object cannot be kept"));
        };
        let mut kept = Map::new();
        for name in ["access_token", "refresh_token", "expires_in", "scope"] {
            if let Some(value) = given.get(name).filter(|value| !value.is_null()) {
                kept.insert(name.to_owned(), value.clone());
            }
        }
        kept.insert("token_type".to_owned(), json!("Bearer"));
        if !kept.contains_key("scope") && !scopes.is_empty() {
            kept.insert("scope".to_owned(), json!(scopes.join(" ")));
        }
        if let Some(seconds) = kept.get("expires_in").and_then(Value::as_f64) {
            kept.insert("expires_at".to_owned(), json!(since_1970() + seconds));
        }
        write(&self.tokens(), &Value::Object(kept))
    }

    /// Keeps who we are to the authorization server.
    pub fn keep_client(
        &self,
        config: &OAuthClientConfig,
        name: &str,
        metadata: &AuthorizationMetadata,
    ) -> io::Result<()> {
        // As the library chooses: in the body only where the header is not taken.
        let methods = metadata.additional_fields.get("token_endpoint_auth_methods_supported");
        let takes = |method: &str| {
            methods.and_then(Value::as_array).is_some_and(|all| all.iter().any(|one| one == method))
        };
        let method = match config.client_secret {
            None => "none",
            Some(_) if takes("client_secret_post") && !takes("client_secret_basic") => "client_secret_post",
            Some(_) => "client_secret_basic",
        };
        let mut client = json!({
            "redirect_uris": [config.redirect_uri],
            "token_endpoint_auth_method": method,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "client_name": name,
            "client_id": config.client_id,
        });
        if !config.scopes.is_empty() {
            client["scope"] = config.scopes.join(" ").into();
        }
        if let Some(secret) = &config.client_secret {
            client["client_secret"] = secret.as_str().into();
        }
        write(&self.client(), &client)
    }

    /// Keeps where tokens are renewed.
    pub fn keep_metadata(&self, metadata: &AuthorizationMetadata) -> io::Result<()> {
        let mut metadata = serde_json::to_value(metadata)?;
        if let Value::Object(fields) = &mut metadata {
            fields.retain(|_, value| !value.is_null());
        }
        write(&self.metadata(), &metadata)
    }
}

/// As Hermes names its files.
fn file_name(server: &str) -> String {
    let kept = |c: char| if c.is_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let name: String = server.chars().map(kept).collect();
    let name: String = name.trim_matches('_').chars().take(128).collect();
    if name.is_empty() { "default".to_owned() } else { name }
}

fn since_1970() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn written(path: &Path) -> Option<f64> {
    let at = std::fs::metadata(path).ok()?.modified().ok()?;
    Some(at.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())
}

fn read(path: &Path) -> Option<Map<String, Value>> {
    match serde_json::from_slice(&http_client::bounded_file(path).ok()?) {
        Ok(Value::Object(fields)) => Some(fields),
        _ => None,
    }
}

fn text(fields: &Map<String, Value>, name: &str) -> Option<String> {
    fields.get(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Whole or not at all, for the owner's eyes only.
fn write(path: &Path, value: &Value) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    private_files::restrict_directory(directory)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = PathBuf::from(beside);
    let _ = std::fs::remove_file(&beside); // its mode is only ours if it is made here
    let mut file = private_files::file_options().write(true).create_new(true).open(&beside)?;
    let done = file
        .write_all(serde_json::to_string_pretty(value)?.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&beside, path));
    if done.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    done
}

/// The token of one server, as it is now.
pub struct LoginTokens {
    files: LoginFiles,
    url: Url,
    remote: RemoteSettings,
    oauth: OAuthSettings,
    redactor: ErrorRedactor,
    /// Made when a token is first renewed. One renewal at a time: most tokens that renew can be used once.
    manager: Mutex<Option<AuthorizationManager>>,
}

impl LoginTokens {
    /// None: the server is not one that a person logs in to, or the user wrote a header that says who we are.
    pub fn of(
        settings: &ServerSettings,
        remote: &RemoteSettings,
        url: &Url,
        home: &Path,
        redactor: &ErrorRedactor,
    ) -> Option<Arc<Self>> {
        let is_given = remote.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        let oauth = remote.oauth.clone().filter(|_| !is_given)?;
        Some(Arc::new(Self {
            files: LoginFiles::new(home, &settings.name),
            url: url.clone(),
            remote: remote.clone(),
            oauth,
            redactor: redactor.clone(),
            manager: Mutex::default(),
        }))
    }

    async fn stored(&self) -> Option<StoredTokens> {
        let files = self.files.clone();
        let stored = tokio::task::spawn_blocking(move || files.stored()).await.ok().flatten()?;
        let renews = stored.token["refresh_token"].as_str();
        [Some(stored.access.as_str()), renews]
            .into_iter()
            .flatten()
            .for_each(|token| self.redactor.learn(token));
        Some(stored)
    }

    /// The token to send now.
    pub async fn token(&self) -> Result<String, AuthError> {
        match self.stored().await {
            Some(stored) if stored.is_good() => Ok(stored.access),
            Some(stored) => self.renewed(&stored.access).await,
            None => Err(AuthError::AuthorizationRequired),
        }
    }

    /// Another token than one that is no longer good.
    pub async fn renewed(&self, old: &str) -> Result<String, AuthError> {
        let mut manager = self.manager.lock().await;
        let stored = self.stored().await.ok_or(AuthError::AuthorizationRequired)?;
        if stored.access != old && stored.is_good() {
            return Ok(stored.access); // another process was first
        }
        if stored.token.get("refresh_token").is_none_or(Value::is_null) {
            return Err(AuthError::AuthorizationRequired);
        }
        if manager.is_none() {
            *manager = Some(self.manager().await?);
        }
        let made = manager.as_ref().ok_or(AuthError::AuthorizationRequired)?;
        match made.refresh_token().await {
            Ok(_) => {}
            Err(AuthError::TokenRefreshRejected(_)) => return Err(AuthError::AuthorizationRequired),
            Err(error) => {
                *manager = None; // what is known of the authorization server may be what is wrong
                return Err(error);
            }
        }
        let stored = self.stored().await.ok_or(AuthError::AuthorizationRequired)?;
        Ok(stored.access)
    }

    async fn manager(&self) -> Result<AuthorizationManager, AuthError> {
        let mut manager = manager(&self.url, &self.remote).await?;
        let files = self.files.clone();
        let read =
            tokio::task::spawn_blocking(move || (read(&files.metadata()), read(&files.client()))).await;
        let (metadata, client) = read.map_err(|error| AuthError::CredentialStoreError(error.to_string()))?;
        let known = metadata.and_then(|fields| serde_json::from_value(Value::Object(fields)).ok());
        manager.set_metadata(match known {
            Some(metadata) => metadata,
            None => manager.resolve_metadata().await?.metadata,
        });
        let client = client.unwrap_or_default();
        let id = text(&client, "client_id").or_else(|| self.oauth.client_id.clone());
        let id = id.ok_or(AuthError::AuthorizationRequired)?;
        let mut config = OAuthClientConfig::new(id, NOWHERE);
        let given = self.oauth.client_secret.as_ref().map(|secret| secret.expose().to_owned());
        config.client_secret = text(&client, "client_secret").or(given);
        manager.configure_client(config)?;
        manager.set_credential_store(LibraryLoginStore {
            files: self.files.clone(),
            id: self.oauth.client_id.clone(),
        });
        Ok(manager)
    }
}

/// What talks to authorization servers: with the certificates that the user wrote for the server, without its headers.
pub async fn manager(url: &Url, remote: &RemoteSettings) -> Result<AuthorizationManager, AuthError> {
    throughline_net::install_tls();
    if remote.verify == VerifyTls::Roots && remote.identity.is_none() {
        // It looks at the addresses that names stand for: a server must not send us to this machine's own services.
        return AuthorizationManager::new_allowing_private_addresses(url.clone()).await;
    }
    let client = http_client::bare(remote).map_err(AuthError::InternalError)?;
    AuthorizationManager::new_with_oauth_http_client(url.clone(), Arc::new(OAuthHttp(client))).await
}

/// HTTP with certificates of the user's own. No redirect is followed: a code must not follow one.
struct OAuthHttp(reqwest::Client);

impl OAuthHttpClient for OAuthHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let mut asked = reqwest::Request::try_from(request.request)?;
            *asked.timeout_mut() = request.timeout;
            let mut response = self.0.execute(asked).await?;
            let mut answer = http::Response::builder().status(response.status());
            for (name, value) in response.headers() {
                answer = answer.header(name, value);
            }
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await? {
                if body.len() + chunk.len() > ANSWER_LENGTH_MAX {
                    return Err("the authorization server answers with more than 1 MB".into());
                }
                body.extend_from_slice(&chunk);
            }
            Ok(answer.body(body)?)
        })
    }
}

/// The same files, as the library asks for them.
struct LibraryLoginStore {
    files: LoginFiles,
    /// Of a client that was registered by hand.
    id: Option<String>,
}

type Promised<'a, T> = Pin<Box<dyn Future<Output = Result<T, AuthError>> + Send + 'a>>;

async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, AuthError> {
    let done = tokio::task::spawn_blocking(work).await.map_err(io::Error::other).and_then(|done| done);
    done.map_err(|error| AuthError::CredentialStoreError(error.to_string()))
}

impl CredentialStore for LibraryLoginStore {
    fn load<'life0, 'async_trait>(&'life0 self) -> Promised<'async_trait, Option<StoredCredentials>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            let files = self.files.clone();
            let Some(stored) = apart(move || Ok(files.stored())).await? else { return Ok(None) };
            let Some(client) = stored.client.or_else(|| self.id.clone()) else { return Ok(None) };
            let scope = stored.token["scope"].as_str().unwrap_or_default();
            let scopes = scope.split_whitespace().map(str::to_owned).collect();
            let token = serde_json::from_value(stored.token)
                .map_err(|error| AuthError::CredentialStoreError(error.to_string()))?;
            Ok(Some(StoredCredentials::new(client, Some(token), scopes, Some(since_1970() as u64))))
        })
    }

    fn save<'life0, 'async_trait>(&'life0 self, credentials: StoredCredentials) -> Promised<'async_trait, ()>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            let files = self.files.clone();
            let Some(token) = credentials.token_response else { return Ok(()) };
            apart(move || files.keep_tokens(&token, &credentials.granted_scopes)).await
        })
    }

    /// A person decides when a login is given up.
    fn clear<'life0, 'async_trait>(&'life0 self) -> Promised<'async_trait, ()>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async { Ok(()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(home: &Path) -> LoginFiles {
        LoginFiles::new(home, "my server!")
    }

    #[test]
    fn what_hermes_wrote_is_read_and_what_is_written_hermes_reads() {
        let home = tempfile::tempdir().unwrap();
        let files = files(home.path());
        assert_eq!(files.tokens(), home.path().join("mcp-tokens/my_server.json"));
        let hermes = json!({"access_token": "a", "token_type": "Bearer", "expires_in": 3600, "scope": "x y",
            "refresh_token": "r", "expires_at": since_1970() + 100.0});
        write(&files.tokens(), &hermes).unwrap();
        write(&files.client(), &json!({"client_id": "c"})).unwrap();
        let stored = files.stored().unwrap();
        assert_eq!((stored.access.as_str(), stored.client.as_deref()), ("a", Some("c")));
        let left = stored.left.unwrap();
        assert!((90..=100).contains(&left.as_secs()), "{left:?}");

        let token: OAuthTokenResponse = serde_json::from_value(stored.token).unwrap();
        files.keep_tokens(&token, &[]).unwrap();
        let kept = read(&files.tokens()).unwrap();
        assert_eq!((&kept["token_type"], &kept["scope"]), (&json!("Bearer"), &json!("x y")));
        assert!(kept["expires_at"].as_f64().unwrap() > since_1970() + 80.0);
        assert_eq!(kept["refresh_token"], "r");
    }

    #[test]
    fn a_token_without_an_end_is_good_and_an_old_file_counts_from_when_it_was_written() {
        let home = tempfile::tempdir().unwrap();
        let files = files(home.path());
        write(&files.tokens(), &json!({"access_token": "a"})).unwrap();
        assert!(files.stored().unwrap().is_good());
        write(&files.tokens(), &json!({"access_token": "a", "expires_in": 5})).unwrap();
        assert!(!files.stored().unwrap().is_good());
        write(&files.tokens(), &json!({"token": "a"})).unwrap();
        assert!(files.stored().is_none());
    }

    #[cfg(unix)]
    #[test]
    fn p31_only_the_owner_can_read_a_login() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let files = files(home.path());
        write(&files.tokens(), &json!({})).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&files.tokens()), 0o600);
        assert_eq!(mode(files.tokens().parent().unwrap()), 0o700);
    }
}
