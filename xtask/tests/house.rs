//! Rules of the house that a compiler does not hold: who may know whom, and licences.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use xtask::{build, repo};

/// The workspace as cargo knows it.
fn metadata() -> Value {
    let output = build::cargo().args(["metadata", "--format-version", "1", "--locked"]).output().unwrap();
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn members(metadata: &Value) -> BTreeSet<&str> {
    array(&metadata["workspace_members"]).map(text).collect()
}

#[test]
fn who_may_know_whom() {
    let metadata = metadata();
    let members = members(&metadata);
    let packages: Vec<&Value> =
        array(&metadata["packages"]).filter(|package| members.contains(text(&package["id"]))).collect();
    let names: BTreeSet<&str> = packages.iter().map(|package| text(&package["name"])).collect();
    // Tests may know more than the code does: dev-dependencies are not part of the picture.
    let known = |package: &Value| -> BTreeSet<String> {
        array(&package["dependencies"])
            .filter(|dependency| dependency["kind"] != "dev" && names.contains(text(&dependency["name"])))
            .map(|dependency| text(&dependency["name"]).to_owned())
            .collect()
    };
    let seen: BTreeMap<&str, BTreeSet<String>> =
        packages.iter().map(|package| (text(&package["name"]), known(package))).collect();

    let may: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("agent", &["agent-ebpf", "proto", "timeline"][..]),
        ("agent-ebpf", &[]),
        ("cli", &["proto", "timeline"]),
        ("collector", &["proto", "timeline"]),
        ("proto", &[]),
        ("timeline", &["proto"]),
        ("xtask", &[]),
    ]);
    for (name, known) in seen {
        let allowed = may.get(name).unwrap_or_else(|| panic!("crate {name} is not in the picture"));
        for other in known {
            assert!(
                allowed.contains(&other.as_str()),
                "{name} knows {other}; the picture does not have that arrow"
            );
        }
    }
}

#[test]
fn every_crate_says_its_licence_and_the_texts_are_there() {
    let metadata = metadata();
    let members = members(&metadata);
    for package in array(&metadata["packages"]).filter(|package| members.contains(text(&package["id"]))) {
        let name = text(&package["name"]);
        let expected = match name {
            "agent-ebpf" => "(Apache-2.0 OR MIT) AND (GPL-2.0-only OR MIT)",
            _ => "Apache-2.0 OR MIT",
        };
        assert_eq!(text(&package["license"]), expected, "licence of {name}");
    }
    for (file, words) in [
        ("LICENSE-APACHE", "Apache License"),
        ("LICENSE-MIT", "The jcold authors"),
        ("agent-ebpf/LICENSE-GPL-2.0", "GNU GENERAL PUBLIC LICENSE"),
    ] {
        let text = std::fs::read_to_string(repo::root().join(file))
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(words), "{file} lacks `{words}`");
    }
}

#[test]
fn user_space_has_no_copyleft_dependency() {
    let metadata = metadata();
    let members = members(&metadata);
    let licences: BTreeMap<&str, &str> = array(&metadata["packages"])
        .map(|package| (text(&package["id"]), text(&package["license"])))
        .collect();
    let nodes: BTreeMap<&str, &Value> =
        array(&metadata["resolve"]["nodes"]).map(|node| (text(&node["id"]), node)).collect();

    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = members.iter().copied().collect();
    while let Some(id) = open.pop() {
        if reached.insert(id) {
            let others = array(&nodes[id]["deps"])
                .filter(|other| array(&other["dep_kinds"]).any(|kind| kind["kind"] != "dev"));
            open.extend(others.map(|other| text(&other["pkg"])));
        }
    }
    let forced: Vec<String> = reached
        .iter()
        .filter(|id| !members.contains(*id) && !free(licences[*id]))
        .map(|id| format!("{id}: {}", licences[id]))
        .collect();
    assert!(
        forced.is_empty(),
        "dependencies that no licence without copyleft covers:\n{}",
        forced.join("\n")
    );
}

/// Whether an SPDX expression can be met without a licence of the GPL family.
fn free(expression: &str) -> bool {
    let alternatives = |part: &str| {
        part.split(" OR ")
            .flat_map(|part| part.split('/'))
            .any(|licence| !licence.trim().is_empty() && !licence.contains("GPL"))
    };
    let flat = expression.replace(['(', ')'], "");
    flat.split(" AND ").all(alternatives)
}

#[test]
fn a_choice_that_includes_gpl_is_free_and_a_lone_gpl_is_not() {
    assert!(
        free("MIT OR GPL-2.0-only") && free("(MIT OR Apache-2.0) AND Unicode-3.0") && free("MIT/Apache-2.0")
    );
    assert!(!free("GPL-3.0") && !free("MIT AND LGPL-2.1-or-later") && !free(""));
}
