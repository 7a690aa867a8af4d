//! Container id and pod UID from a process's cgroup paths: v1, hybrid and v2, of the systemd and the cgroupfs driver.

use timeline::StartPod;

/// Container and pod that the text of `/proc/PID/cgroup` tells, if any.
///
/// The kubelet names a pod's cgroup `pod<uid>` (cgroupfs) or `kubepods-…-pod<uid with underscores>.slice` (systemd:
/// pkg/kubelet/cm/cgroup_manager_linux.go); runtimes name the container's `<id>`, `<runtime>-<id>.scope` or
/// `<runtime>:…:<id>`.
pub fn container(cgroup: &str) -> Option<StartPod> {
    // hierarchy:controllers:path; all that name a container name the same one.
    let paths = cgroup.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.filter_map(of_path).max_by_key(|pod| pod.uid.is_some())
}

fn of_path(path: &str) -> Option<StartPod> {
    let segments: Vec<&str> = path.split('/').collect();
    let (at, container_id) =
        segments.iter().enumerate().rev().find_map(|(at, segment)| Some((at, container_id(segment)?)))?;
    let parents = &segments[..at];
    let uid = parents.iter().rev().find_map(|segment| pod_uid(segment));
    let qos_class = uid.is_some().then(|| {
        let has = |class: &str| parents.iter().any(|segment| segment.contains(class));
        if has("besteffort") {
            "besteffort"
        } else if has("burstable") {
            "burstable"
        } else {
            "guaranteed"
        }
        .to_owned()
    });
    Some(StartPod { container_id: container_id.to_owned(), uid, qos_class })
}

fn container_id(segment: &str) -> Option<&str> {
    let name = segment.strip_suffix(".scope").unwrap_or(segment);
    let id = name.rsplit(['-', ':']).next().unwrap_or(name);
    (id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit())).then_some(id)
}

fn pod_uid(segment: &str) -> Option<String> {
    let name = segment.strip_suffix(".slice").unwrap_or(segment);
    let uid = match name.strip_prefix("pod") {
        Some(uid) => uid.to_owned(),
        None => name.rsplit_once("-pod")?.1.replace('_', "-"),
    };
    // A UUID, or for a static pod the hash of its manifest (32 digits).
    let digits = uid.bytes().filter(u8::is_ascii_hexdigit).count();
    let is_uid = digits == 32 && uid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    is_uid.then_some(uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "f1c2e0ad3bc1c9e1f0a4a3f9d4a7f0a1b2c3d4e5f60718293a4b5c6d7e8f9012";
    const UID: &str = "6f9619ff-8b86-d011-b42d-00c04fc964ff";

    fn check(cgroup: &str, expect: Option<(Option<&str>, Option<&str>)>) {
        let cgroup = cgroup.replace("ID", ID).replace("U_ID", &UID.replace('-', "_")).replace("U-ID", UID);
        let found = container(&cgroup);
        let expect = expect.map(|(uid, qos)| StartPod {
            container_id: ID.to_owned(),
            uid: uid.map(str::to_owned),
            qos_class: qos.map(str::to_owned),
        });
        assert_eq!(found, expect, "{cgroup}");
    }

    #[test]
    fn paths_of_kubelets_and_runtimes() {
        let under = UID.replace('-', "_");
        check(
            &format!(
                "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{under}.slice/cri-containerd-ID.scope\n"
            ),
            Some((Some(UID), Some("burstable"))),
        );
        check(
            &format!("0::/kubepods.slice/kubepods-pod{under}.slice/crio-ID.scope/container\n"),
            Some((Some(UID), Some("guaranteed"))),
        );
        check(&format!("0::/kubepods/besteffort/pod{UID}/ID\n"), Some((Some(UID), Some("besteffort"))));
        check(
            &format!(
                "12:cpu,cpuacct:/kubepods/burstable/pod{UID}/ID\n1:name=systemd:/kubepods/burstable/pod{UID}/ID\n0::/system.slice/containerd.service\n"
            ),
            Some((Some(UID), Some("burstable"))),
        );
        check(
            &format!(
                "0::/system.slice/containerd.service/kubepods-besteffort-pod{under}.slice:cri-containerd:ID\n"
            ),
            Some((None, None)),
        );
        check(
            &format!(
                "0::/../../kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{under}.slice/cri-containerd-ID.scope\n"
            ),
            Some((Some(UID), Some("guaranteed"))),
        );
        check(
            "0::/kubepods/podaabbccddeeff00112233445566778899/ID\n",
            Some((Some("aabbccddeeff00112233445566778899"), Some("guaranteed"))),
        );
        check("0::/system.slice/docker-ID.scope\n", Some((None, None)));
        check("11:memory:/docker/ID\n0::/\n", Some((None, None)));
        check("0::/user.slice/user-0.slice/session-1.scope\n", None);
        check("", None);
        check("garbage without colons\n0::\n", None);
    }
}
