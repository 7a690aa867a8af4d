//! Which arguments of a virtual machine may be kept: those on a list, in a form that can hold no secret.
//!
//! System properties, agents' options and paths hold passwords and customers' names. An argument survives only when its
//! form is known here; what stands behind a path or an agent's name is cut off. `java.rt.vmArgs` joins arguments with
//! blanks and no quotes, so a part of some property's value may look like an argument of its own: that is one more
//! reason to ask for a known form.

/// Stands for what was cut off.
const CUT: &str = "…";

/// Options without a value.
const PLAIN: &[&str] = &[
    "-Xint",
    "-Xcomp",
    "-Xmixed",
    "-Xbatch",
    "-Xnoclassgc",
    "-Xrs",
    "-Xdebug",
    "-Xfuture",
    "--enable-preview",
];

/// Options whose value is a size.
const SIZES: &[&str] = &["-Xmx", "-Xms", "-Xmn", "-Xss"];

/// Options whose value is one of few words.
const WORDS: &[&str] = &[
    "-Xshare:",
    "-Xverify:",
    "-XX:AOTMode=",
    "-XX:CompilationMode=",
    "-XX:NativeMemoryTracking=",
    "-XX:ShenandoahGCHeuristics=",
    "-XX:ShenandoahGCMode=",
    "--illegal-access=",
    "--illegal-native-access=",
    "--sun-misc-unsafe-memory-access=",
    "--finalization=",
];

/// Options whose value is a file: its name is kept.
const FILES: &[&str] = &[
    "-XX:AOTCache=",
    "-XX:AOTCacheOutput=",
    "-XX:AOTConfiguration=",
    "-XX:ArchiveClassesAtExit=",
    "-XX:SharedArchiveFile=",
    "-XX:SharedClassListFile=",
    "-XX:DumpLoadedClassList=",
    "-javaagent:",
    "-agentpath:",
    "-agentlib:",
];

/// Options whose value names modules and packages.
const MODULES: &[&str] = &[
    "--add-modules=",
    "--add-opens=",
    "--add-exports=",
    "--add-reads=",
    "--limit-modules=",
    "--enable-native-access=",
    "--enable-final-field-mutation=",
];

/// Options that are named without their value.
const NAMED: &[&str] = &[
    "-Xlog:",
    "-Xloggc:",
    "-Xbootclasspath/a:",
    "-Xbootclasspath/p:",
    "-Xbootclasspath:",
    "--module-path=",
    "--upgrade-module-path=",
    "--patch-module=",
];

/// Options of the launcher whose value is the next word, and which it hands on as `--option=value` (java.c,
/// IsModuleOption).
const TWO_WORDS: &[&str] = &[
    "--add-modules",
    "--add-opens",
    "--add-exports",
    "--add-reads",
    "--limit-modules",
    "--enable-native-access",
    "--module-path",
    "--upgrade-module-path",
    "--patch-module",
];

/// Options of the launcher whose value is the next word, and which the virtual machine does not see.
const OF_LAUNCHER: &[&str] =
    &["-cp", "-classpath", "--class-path", "-p", "-d", "--describe-module", "--source"];

/// An argument with one of these in it, however it is written, is never kept.
const NEVER: &[&str] =
    &["password", "passwd", "passphrase", "pwd", "token", "secret", "credential", "apikey", "api_key"];

/// Longest kept argument.
const LONGEST: usize = 256;

/// Arguments of a virtual machine, as given: not to be told before [`Args::kept`] has looked at them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Args(Vec<String>);

/// What may be told of arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// In their order.
    pub args: Vec<String>,
    /// How many others there were.
    pub withheld: usize,
}

impl Args {
    /// Of `java.rt.vmArgs`; a text that may have been cut loses its last word.
    pub fn of_text(text: &str, cut: bool) -> Self {
        let mut args: Vec<String> = text.split_ascii_whitespace().map(str::to_owned).collect();
        if cut {
            args.pop();
        }
        Self(args)
    }

    /// Of a command line, up to the main class. Options of the environment and of argument files are not in it.
    pub fn of_command(command: &[String]) -> Self {
        let mut args = Vec::new();
        let mut words = command.iter().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "-jar" | "-m" | "--module" => break,
                option if TWO_WORDS.contains(&option) => {
                    args.push(format!("{option}={}", words.next().map_or("", String::as_str)));
                }
                option if OF_LAUNCHER.contains(&option) => drop(words.next()),
                option if option.starts_with('-') => args.push(option.to_owned()),
                argument_file if argument_file.starts_with('@') => {}
                _ => break,
            }
        }
        Self(args)
    }

    /// Whether `-XX:+name` or `-XX:-name` is given; the last one counts.
    pub fn switch(&self, name: &str) -> Option<bool> {
        self.0.iter().rev().find_map(|arg| match arg.strip_prefix("-XX:")?.split_at_checked(1)? {
            ("+", found) if found == name => Some(true),
            ("-", found) if found == name => Some(false),
            _ => None,
        })
    }

    /// What follows the prefix of an argument; the last one counts. Not to be told.
    pub fn value(&self, prefix: &str) -> Option<&str> {
        self.values(prefix).next_back()
    }

    /// What follows the prefix in each argument that has it. Not to be told.
    pub fn values<'a>(&'a self, prefix: &str) -> impl DoubleEndedIterator<Item = &'a str> {
        self.0.iter().filter_map(move |arg| arg.strip_prefix(prefix))
    }

    /// Whether an argument stands there word for word.
    pub fn has(&self, arg: &str) -> bool {
        self.0.iter().any(|found| found == arg)
    }

    /// What may be told.
    pub fn kept(&self) -> Kept {
        let args: Vec<String> = self.0.iter().filter_map(|arg| keep(arg)).collect();
        Kept { withheld: self.0.len() - args.len(), args }
    }
}

// What stands in an argument must not get into a log by accident.
impl std::fmt::Debug for Args {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Args").field(&self.kept()).finish()
    }
}

/// The form of an argument that may be kept.
fn keep(arg: &str) -> Option<String> {
    let kept = known_form(arg)?;
    // Of the whole argument, not of what is left: a name like this tells what stands behind it.
    (kept.len() <= LONGEST && !suspicious(arg)).then_some(kept)
}

fn known_form(arg: &str) -> Option<String> {
    if PLAIN.contains(&arg) {
        return Some(arg.to_owned());
    }
    let of = |list: &[&str]| {
        list.iter()
            .find_map(|prefix| Some((prefix.len(), arg.strip_prefix(prefix)?)))
            .map(|(at, v)| (&arg[..at], v))
    };
    if let Some((_, size)) = of(SIZES) {
        return is_number(size).then(|| arg.to_owned());
    }
    if let Some((_, word)) = of(WORDS) {
        let known =
            word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-') && (1..=24).contains(&word.len());
        return known.then(|| arg.to_owned());
    }
    if let Some((prefix, path)) = of(FILES) {
        return Some(format!("{prefix}{}", file_name(path).unwrap_or(CUT)));
    }
    if let Some((_, modules)) = of(MODULES) {
        let known = |b: u8| b.is_ascii_alphanumeric() || b"._$,/=-".contains(&b);
        return modules.bytes().all(known).then(|| arg.to_owned());
    }
    if let Some((prefix, _)) = of(NAMED) {
        return Some(format!("{prefix}{CUT}"));
    }
    let flag = arg.strip_prefix("-XX:")?;
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    match flag.split_once('=') {
        Some((name, value)) if is_name(name) => {
            Some(format!("-XX:{name}={}", if is_number(value) { value } else { CUT }))
        }
        None if flag.strip_prefix(['+', '-']).is_some_and(is_name) => Some(arg.to_owned()),
        None if is_name(flag) => Some(arg.to_owned()),
        _ => None,
    }
}

/// The name of the file in an option's value, without what an agent is told behind `=`, or words for it.
pub fn told_name(value: &str) -> &str {
    file_name(value).unwrap_or("(name withheld)")
}

fn file_name(value: &str) -> Option<&str> {
    let path = value.split('=').next()?;
    let name = path.rsplit('/').next().filter(|name| !name.is_empty())?;
    // The kinds of names that jars, libraries and archives have.
    let known = |b: u8| b.is_ascii_alphanumeric() || b"._+-".contains(&b);
    (name.bytes().all(known) && name.len() <= LONGEST && !suspicious(name)).then_some(name)
}

/// A number, with a fraction, a unit or a sign, or a hexadecimal one.
fn is_number(text: &str) -> bool {
    if let Some(digits) = text.strip_prefix("0x") {
        return (1..=16).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    }
    let number = text.strip_suffix(|unit: char| "kKmMgGtT".contains(unit)).unwrap_or(text);
    let number = number.strip_prefix('-').unwrap_or(number);
    number.len() <= 20
        && number.starts_with(|first: char| first.is_ascii_digit())
        && number.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// Bytes that a size such as `512m` stands for.
pub fn bytes_of(size: &str) -> Option<u64> {
    let digits = size.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let shift = match &size[digits.len()..] {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn suspicious(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    NEVER.iter().any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(arg: &str, expect: Option<&str>) {
        assert_eq!(Args::of_text(arg, false).kept().args.first().map(String::as_str), expect, "{arg}");
    }

    #[test]
    fn known_forms_survive() {
        for arg in [
            "-Xmx512m",
            "-Xss1024",
            "-Xint",
            "-Xshare:off",
            "-XX:+UseG1GC",
            "-XX:-TieredCompilation",
            "-XX:TieredStopAtLevel=1",
            "-XX:MaxRAMPercentage=75.0",
            "-XX:ReservedCodeCacheSize=240M",
            "-XX:StartFlightRecording",
            "-XX:AOTMode=record",
            "-XX:ShenandoahGCHeuristics=adaptive",
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
            "--add-modules=java.se,jdk.compiler",
            "--enable-preview",
        ] {
            check(arg, Some(arg));
        }
    }

    #[test]
    fn paths_and_options_of_agents_are_cut() {
        for (arg, expect) in [
            ("-javaagent:/opt/customer/agent-1.2.jar=key=abc,url=http://x", "-javaagent:agent-1.2.jar"),
            ("-agentlib:jdwp=transport=dt_socket,address=*:5005", "-agentlib:jdwp"),
            ("-agentpath:/opt/lib/libprofiler.so=start", "-agentpath:libprofiler.so"),
            ("-XX:AOTCache=/srv/customer/app.aot", "-XX:AOTCache=app.aot"),
            ("-XX:SharedArchiveFile=/a/base.jsa:/b/top.jsa", "-XX:SharedArchiveFile=top.jsa"),
            ("-Xlog:gc*:file=/srv/customer/gc.log", "-Xlog:…"),
            ("-Xloggc:/srv/customer/gc.log", "-Xloggc:…"),
            ("-XX:OnError=curl", "-XX:OnError=…"),
            ("-XX:OnOutOfMemoryError=kill", "-XX:OnOutOfMemoryError=…"),
            ("-XX:HeapDumpPath=/srv/customer", "-XX:HeapDumpPath=…"),
            ("-XX:StartFlightRecording=filename=/srv/customer.jfr", "-XX:StartFlightRecording=…"),
            ("--module-path=/srv/customer/lib", "--module-path=…"),
        ] {
            check(arg, Some(expect));
        }
    }

    #[test]
    fn the_rest_does_not_survive() {
        for arg in [
            "-Dspring.datasource.password=hunter2",
            "-Dname=value",
            "-Xhunter2",
            "-Xmxhunter2",
            "-XX:+Use-Hunter",
            "-XX:Token=12345",
            "-XX:+SecretFlag",
            "-javaagent:/a/token-agent.jar",
            "-javaagent:agent.jar=password=x",
            "--add-modules=com.acme.SECRET",
            "--add-opens=a'b",
            "hunter2",
            "/srv/customer.jar",
            "-",
            "-XX:",
            "-XX:=1",
        ] {
            check(arg, None);
        }
    }

    #[test]
    fn a_propertys_value_with_blanks() {
        let args = Args::of_text(
            "-Dfoo=a b -Xsecret -Dkey=c -Xmx1g -Xmx2g -XX:+UseSerialGC -XX:-UseSerialGC",
            false,
        );
        let kept = args.kept();
        assert_eq!(kept.args, ["-Xmx1g", "-Xmx2g", "-XX:+UseSerialGC", "-XX:-UseSerialGC"]);
        assert_eq!(kept.withheld, 4);
        assert_eq!(args.value("-Xmx"), Some("2g"));
        assert_eq!(args.switch("UseSerialGC"), Some(false));
        assert_eq!(args.switch("UseG1GC"), None);
        assert!(!format!("{args:?}").contains("secret"));
        assert_eq!(Args::of_text("-Xmx1g -Xmx20", true).kept().args, ["-Xmx1g"]);
    }

    #[test]
    fn of_a_command_line() {
        let line = "java -cp /a --add-opens java.base/java.lang=ALL-UNNAMED @args -Xmx1g -Da=b Main -Xmx2g";
        let command: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let kept = Args::of_command(&command).kept();
        assert_eq!(kept.args, ["--add-opens=java.base/java.lang=ALL-UNNAMED", "-Xmx1g"]);
        assert_eq!(kept.withheld, 1);
        assert_eq!(Args::of_command(&[]).kept(), Kept::default());
    }

    #[test]
    fn sizes() {
        for (text, expect) in [
            ("512m", Some(512 << 20)),
            ("1G", Some(1 << 30)),
            ("99", Some(99)),
            ("m", None),
            ("1x", None),
            ("", None),
        ] {
            assert_eq!(bytes_of(text), expect, "{text}");
        }
        assert_eq!(bytes_of("99999999999999t"), None);
    }

    proptest! {
        /// Whatever a secret looks like, it does not come through a property, an agent's options or a log's path.
        #[test]
        fn a_secret_does_not_survive(secret in "[!-~]{6,40}", blank in "[ -~]{0,20}") {
            let marker = format!("Zq{secret}");
            for arg in [
                format!("-D{blank}={marker}"),
                format!("-Dkey={blank}{marker}"),
                format!("-javaagent:/a.jar={marker}"),
                format!("-Xlog:gc:{marker}"),
                format!("-XX:OnError={marker}"),
            ] {
                for kept in Args::of_text(&arg, false).kept().args {
                    prop_assert!(!kept.contains(&marker), "{} kept {}", arg, kept);
                }
            }
        }
    }
}
