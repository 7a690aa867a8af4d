//! What a java command line runs. Only the main class or the jar is kept: the rest may hold secrets.

/// Options whose value is the next argument (java(1)).
const WITH_VALUE: &[&str] = &[
    "-cp",
    "-classpath",
    "--class-path",
    "-p",
    "--module-path",
    "--upgrade-module-path",
    "--add-modules",
    "--enable-native-access",
    "--limit-modules",
    "--add-reads",
    "--add-exports",
    "--add-opens",
    "--patch-module",
    "-d",
    "--describe-module",
    "--source",
];

/// Main class, module or jar of a command line; `None` when it shows none, as with an argument file.
pub fn main_of(command: &[String]) -> Option<String> {
    let mut args = command.iter().skip(1).map(String::as_str);
    while let Some(arg) = args.next() {
        match arg {
            "-jar" | "-m" | "--module" => return args.next().map(str::to_owned),
            _ if WITH_VALUE.contains(&arg) => {
                args.next();
            }
            _ if arg.starts_with("--module=") => return arg.split_once('=').map(|(_, main)| main.to_owned()),
            _ if arg.starts_with('-') || arg.starts_with('@') => {}
            _ => return Some(arg.to_owned()),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        for (line, expect) in [
            ("java -Xmx1g -jar /app/app.jar --server.port=1", Some("/app/app.jar")),
            ("java -cp /a:/b -Dpassword=x com.acme.Main arg", Some("com.acme.Main")),
            (
                "java --add-opens java.base/java.lang=ALL-UNNAMED -m app/com.acme.Main",
                Some("app/com.acme.Main"),
            ),
            ("java --module=app/com.acme.Main", Some("app/com.acme.Main")),
            ("java @/app/args", None),
            ("java -version", None),
            ("java", None),
            ("", None),
        ] {
            let command: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(main_of(&command).as_deref(), expect, "{line}");
        }
    }
}
