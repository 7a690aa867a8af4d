//! What is deployed: manifests that parse, an agent with no more rights than it needs, alerts that fire when they should.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde_yaml_ng::Value;
use xtask::repo;

fn deploy() -> PathBuf {
    repo::root().join("deploy")
}

/// Every document of a YAML file.
fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_yaml_ng::Deserializer::from_str(&text)
        .map(|document| {
            Value::deserialize(document).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        })
        .collect()
}

fn yaml_files(folder: &str) -> Vec<PathBuf> {
    let folder = deploy().join(folder);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "yaml"))
        .collect();
    assert!(!files.is_empty(), "no manifest in {}", folder.display());
    files
}

/// The one document of a kind among the manifests.
fn manifest(kind: &str) -> Value {
    let mut found: Vec<Value> = yaml_files("manifests")
        .iter()
        .flat_map(|file| documents(file))
        .filter(|document| document["kind"] == kind)
        .collect();
    assert_eq!(found.len(), 1, "{kind}");
    found.remove(0)
}

#[test]
fn every_manifest_is_an_object_of_the_jcold_namespace() {
    for file in yaml_files("manifests").iter().chain(&yaml_files("prometheus")) {
        if file.to_string_lossy().ends_with("_test.yaml") {
            continue;
        }
        for document in documents(file) {
            let kind = document["kind"].as_str().unwrap_or_else(|| panic!("{}: no kind", file.display()));
            assert!(document["apiVersion"].is_string(), "{}: {kind} without apiVersion", file.display());
            match kind {
                "Kustomization" => assert_eq!(document["namespace"], "jcold"),
                "Namespace" => assert_eq!(document["metadata"]["name"], "jcold"),
                _ => assert_eq!(document["metadata"]["namespace"], "jcold", "{}: {kind}", file.display()),
            }
        }
    }
}

#[test]
fn every_manifest_is_listed_for_kustomize() {
    let list = documents(&deploy().join("manifests/kustomization.yaml")).remove(0);
    let mut listed: Vec<String> = list["resources"]
        .as_sequence()
        .unwrap()
        .iter()
        .map(|file| file.as_str().unwrap().to_owned())
        .collect();
    let mut there: Vec<String> = yaml_files("manifests")
        .iter()
        .map(|file| file.file_name().unwrap().to_string_lossy().into_owned())
        .filter(|name| name != "kustomization.yaml")
        .collect();
    listed.sort();
    there.sort();
    assert_eq!(listed, there);
}

#[test]
fn the_agent_has_the_rights_it_needs_and_no_others() {
    let pod = &manifest("DaemonSet")["spec"]["template"]["spec"];
    assert_eq!(pod["hostPID"], true);
    assert_eq!(pod["automountServiceAccountToken"], false);
    for open in ["hostNetwork", "hostIPC", "volumes"] {
        assert!(pod[open].is_null(), "{open} is not needed");
    }
    let containers = pod["containers"].as_sequence().unwrap();
    assert_eq!(containers.len(), 1);
    let rights = &containers[0]["securityContext"];
    assert_eq!(rights["privileged"], false);
    assert_eq!(rights["allowPrivilegeEscalation"], false);
    assert_eq!(rights["readOnlyRootFilesystem"], true);
    let capabilities: Value =
        serde_yaml_ng::from_str("{drop: [ALL], add: [BPF, PERFMON, SYS_PTRACE, DAC_READ_SEARCH]}").unwrap();
    assert_eq!(rights["capabilities"], capabilities);
}

#[test]
fn the_collector_has_no_rights_at_all() {
    let pod = &manifest("StatefulSet")["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let rights = &pod["containers"][0]["securityContext"];
    assert_eq!(rights["allowPrivilegeEscalation"], false);
    assert_eq!(rights["readOnlyRootFilesystem"], true);
    assert_eq!(rights["capabilities"], serde_yaml_ng::from_str::<Value>("{drop: [ALL]}").unwrap());
}

#[test]
fn the_agent_is_told_the_address_of_the_collectors_service() {
    let service = manifest("Service");
    let (name, port) = (
        service["metadata"]["name"].as_str().unwrap(),
        service["spec"]["ports"][0]["port"].as_u64().unwrap(),
    );
    let agent = manifest("DaemonSet");
    let arguments = agent["spec"]["template"]["spec"]["containers"][0]["args"].as_sequence().unwrap().clone();
    let url = format!("http://{name}.jcold:{port}");
    assert!(
        arguments.windows(2).any(|pair| pair[0] == "--collector" && pair[1] == url.as_str()),
        "{arguments:?}, {url}"
    );
}

#[test]
fn alerts_fire_when_they_should() {
    let folder = tempfile::tempdir().unwrap();
    let rules = documents(&deploy().join("prometheus/rules.yaml")).remove(0);
    std::fs::write(folder.path().join("rules.yaml"), serde_yaml_ng::to_string(&rules["spec"]).unwrap())
        .unwrap();
    let tests: Vec<PathBuf> = yaml_files("prometheus")
        .into_iter()
        .filter(|file| file.to_string_lossy().ends_with("_test.yaml"))
        .collect();
    assert!(!tests.is_empty());
    promtool(folder.path(), &["check", "rules", "rules.yaml"]);
    for test in tests {
        let name = test.file_name().unwrap().to_str().unwrap().to_owned();
        std::fs::copy(&test, folder.path().join(&name)).unwrap();
        promtool(folder.path(), &["test", "rules", &name]);
    }
}

fn promtool(folder: &Path, arguments: &[&str]) {
    let output = Command::new("promtool")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap_or_else(|error| panic!("promtool: {error}; run `cargo xtask setup`"));
    let words = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success(),
        "promtool {}:\n{}",
        arguments.join(" "),
        String::from_utf8_lossy(&words)
    );
}
