//! JDKs of this machine, and small programs that run on them until they are told to end.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::OnceLock,
};

use agent::identity::Proc;

/// Does what each line of its input says, and answers when it is done.
const PROGRAM: &str = r#"
import java.io.BufferedReader;
import java.io.InputStreamReader;

public class Told {
    static long sum;

    public static void premain(String options) {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("up");
        for (String line; (line = lines.readLine()) != null; ) {
            if (line.equals("work")) {
                for (int i = 0; i < 300_000; i++) {
                    sum += Integer.toString(i).hashCode();
                }
            }
            System.gc();
            System.out.println("done");
        }
    }
}
"#;

/// A JDK.
#[derive(Clone)]
pub struct Jdk {
    home: PathBuf,
}

/// All that are found: at least one.
pub fn jdks() -> Vec<Jdk> {
    static CLASSES: OnceLock<()> = OnceLock::new();
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&on_path).filter_map(|dir| fs::canonicalize(dir.join("javac")).ok());
    let installed = fs::read_dir("/usr/lib/jvm").into_iter().flatten();
    let installed = installed.filter_map(|dir| fs::canonicalize(dir.ok()?.path().join("bin/javac")).ok());
    let homes = on_path.chain(installed).filter_map(|javac| Some(javac.parent()?.parent()?.to_owned()));
    let mut jdks: Vec<Jdk> = homes.map(|home| Jdk { home }).filter(|jdk| jdk.feature() >= 17).collect();
    jdks.sort_by_key(Jdk::feature);
    jdks.dedup_by_key(|jdk| jdk.home.clone());
    let oldest = jdks.first().expect("a JDK on the PATH or under /usr/lib/jvm");
    CLASSES.get_or_init(|| {
        let source = scratch("Told.java");
        fs::write(&source, PROGRAM).unwrap();
        let dir = scratch("classes");
        oldest.tool("javac", &["-d", dir.to_str().unwrap(), source.to_str().unwrap()]);
        let manifest = scratch("manifest");
        fs::write(&manifest, "Premain-Class: Told\n").unwrap();
        let jar = scratch("agent.jar");
        let [jar, manifest, dir] = [&jar, &manifest, &dir].map(|path| path.to_str().unwrap());
        oldest.tool("jar", &["cfm", jar, manifest, "-C", dir, "."]);
        oldest.tool("jar", &["cf", scratch("app.jar").to_str().unwrap(), "-C", dir, "."]);
    });
    jdks
}

/// A file of the build's own directory for tests. [`jdks`] makes `app.jar`, and `agent.jar` with an agent that does nothing.
pub fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("jvm");
    fs::create_dir_all(&dir).unwrap();
    dir.join(name)
}

/// Words that run a command in a root of its own, whose /tmp is "none" or "ro".
pub fn root_with_tmp(jdk: &Jdk, tmp: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("jvm-root-{tmp}-{}", jdk.name()));
    fs::create_dir_all(&root).unwrap();
    let script = format!(
        "set -e; r={}; mount -t tmpfs none $r; for d in usr etc proc lib lib64 opt dev; do \
         [ -e /$d ] || continue; mkdir $r/$d; mount --rbind /$d $r/$d; done; \
         mkdir $r/classes; mount --rbind {} $r/classes; export CLASSPATH=/classes/app.jar; \
         [ {tmp} = none ] || {{ mkdir $r/tmp; mount -t tmpfs -o ro none $r/tmp; }}; exec chroot $r \"$@\"",
        root.display(),
        scratch("").display(),
    );
    ["unshare", "--mount", "sh", "-c", &script, "sh"].map(str::to_owned).into()
}

impl Jdk {
    /// The name of its directory.
    pub fn name(&self) -> &str {
        self.home.file_name().unwrap().to_str().unwrap()
    }

    /// 17, 21, 25…
    pub fn feature(&self) -> u32 {
        let release = fs::read_to_string(self.home.join("release")).unwrap_or_default();
        let version =
            release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\"")).unwrap_or_default();
        version.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).unwrap_or(0)
    }

    /// What one of its tools prints.
    pub fn tool(&self, name: &str, arguments: &[&str]) -> String {
        let output = Command::new(self.home.join("bin").join(name)).args(arguments).output().unwrap();
        assert!(output.status.success(), "{name} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// A JVM that waits for lines.
pub struct Java {
    /// Its process id here.
    pub pid: u32,
    child: Child,
    lines: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Java {
    /// Starts one, which has come to its main class.
    pub fn start(jdk: &Jdk, options: &[&str]) -> Self {
        Self::with(jdk, &[], options, |_| {})
    }

    /// Starts one below a command that runs another.
    pub fn with(jdk: &Jdk, wrap: &[&str], options: &[&str], set: impl FnOnce(&mut Command)) -> Self {
        let java = jdk.home.join("bin/java");
        let own = [java.to_str().unwrap()];
        let words = wrap.iter().chain(&own).chain(options).chain(&["Told"]);
        let words: Vec<&str> = words.copied().collect();
        let mut command = Command::new(words[0]);
        // In the environment, where a root of its own can have it in another place.
        command.env("CLASSPATH", scratch("app.jar"));
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        set(&mut command);
        let mut child = command.spawn().unwrap();
        let lines = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut java = Self { pid: 0, child, lines, answers };
        java.hear("up");
        let proc = Proc::new("/proc");
        let of_it = |pid: &u32| proc.descends(*pid, java.child.id()) && proc.libjvm(*pid).is_some();
        java.pid = proc.pids().into_iter().find(of_it).expect("it runs");
        java
    }

    /// Has it do something, and waits until it is done.
    pub fn ask(&mut self, what: &str) {
        writeln!(self.lines.as_mut().unwrap(), "{what}").unwrap();
        self.hear("done");
    }

    /// Lets it end by itself.
    pub fn end(&mut self) {
        self.lines = None;
        self.child.wait().unwrap();
    }

    /// Skips what the virtual machine itself says.
    fn hear(&mut self, answer: &str) {
        let mut line = String::new();
        while line.trim_end() != answer {
            line.clear();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "it ended before it said {answer}");
        }
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        self.end();
    }
}
