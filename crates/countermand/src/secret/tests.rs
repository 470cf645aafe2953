use super::*;
use std::io::Write;

fn reference(source: SecretSource) -> SecretRef {
    SecretRef { source, prefix: Some("Bearer ".into()) }
}

fn exec(script: &str) -> SecretRef {
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    reference(SecretSource::Exec { argv, ttl: Duration::from_secs(300) })
}

#[tokio::test]
async fn an_environment_variable_is_read_with_its_prefix() {
    let secret = Secrets::new().resolve(&reference(SecretSource::Env("PATH".into()))).await.unwrap();
    assert_eq!(secret.expose(), format!("Bearer {}", std::env::var("PATH").unwrap()));
}

#[tokio::test]
async fn an_error_names_the_reference() {
    let secrets = Secrets::new();
    let missing =
        secrets.resolve(&reference(SecretSource::Env("COUNTERMAND_NO_SUCH".into()))).await.unwrap_err();
    assert_eq!(
        missing.to_string(),
        "failed to read the secret { env: COUNTERMAND_NO_SUCH }: the environment variable is not set: set it"
    );
    let failing = secrets.resolve(&exec("echo s3cr3t; exit 3")).await.unwrap_err().to_string();
    assert!(failing.contains("{ exec: [sh, …] }") && failing.contains('3'), "{failing}");
    assert!(!failing.contains("s3cr3t"), "{failing}");
    let absent = secrets.resolve(&reference(SecretSource::File("/no/such/file".into()))).await.unwrap_err();
    assert!(absent.to_string().contains("{ file: /no/such/file }"), "{absent}");
}

#[tokio::test]
async fn a_trailing_newline_is_not_part_of_a_file_s_secret() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "t0ken").unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    let secret = Secrets::new().resolve(&reference(SecretSource::File(path))).await.unwrap();
    assert_eq!(secret.expose(), "Bearer t0ken");
}

#[tokio::test]
async fn a_program_runs_once_until_its_answer_is_refused() {
    let count = tempfile::NamedTempFile::new().unwrap();
    let counter = count.path().to_str().unwrap();
    let reference = exec(&format!("echo x >> {counter}; printf 'token-'; wc -l < {counter}"));
    let secrets = Secrets::new();
    let first = secrets.resolve(&reference).await.unwrap();
    assert_eq!(first.expose().trim_end(), "Bearer token-1");
    assert_eq!(secrets.resolve(&reference).await.unwrap().expose(), first.expose());
    let second = secrets.refresh(&reference, &first).await.unwrap();
    assert_eq!(second.expose().trim_end(), "Bearer token-2");
    // The first was refused to somebody else too: there is a newer one by now.
    assert_eq!(secrets.refresh(&reference, &first).await.unwrap().expose(), second.expose());
}

#[test]
fn a_secret_is_not_shown() {
    let secret = Secret::new("Bearer ", "hunter22".into());
    assert_eq!(format!("{secret:?}"), "Secret([secret])");
    assert_eq!(secret.redact("bad token hunter22!"), "bad token [secret]!");
}
