//! Numbers and words as the tables show them.

use std::fmt::Write as _;

use proto::v1::RequestClass;

use super::WIDTH;

/// What stands for a value that was not measured.
pub(super) const ABSENT: &str = "-";

/// A duration to three or four digits with its unit: `850 ns`, `450 µs`, `12.3 ms`, `1.234 s`, `2h05m`.
pub fn duration(ns: u64) -> String {
    let in_unit = |unit_ns: f64| ns as f64 / unit_ns;
    // Each bound is the first value that would be rounded up into the next form.
    match ns {
        0 => "0 s".to_owned(),
        1..1_000 => format!("{ns} ns"),
        1_000..9_950 => format!("{:.1} µs", in_unit(1e3)),
        9_950..999_500 => format!("{:.0} µs", in_unit(1e3)),
        999_500..9_995_000 => format!("{:.2} ms", in_unit(1e6)),
        9_995_000..999_950_000 => format!("{:.1} ms", in_unit(1e6)),
        999_950_000..99_999_500_000 => format!("{:.3} s", in_unit(1e9)),
        99_999_500_000..3_599_950_000_000 => format!("{:.1} s", in_unit(1e9)),
        _ => {
            let minutes = (ns / 1_000_000_000 + 30) / 60;
            let (days, hours, minutes) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
            if days == 0 { format!("{hours}h{minutes:02}m") } else { format!("{days}d{hours:02}h") }
        }
    }
}

/// A duration, or `-`.
pub(super) fn maybe(ns: Option<u64>) -> String {
    ns.map_or_else(|| ABSENT.to_owned(), duration)
}

/// Bytes in MiB, without the unit.
pub(super) fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

/// A count with separators between thousands: `12,345`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun, `1 event`, `12,345 events`.
pub(super) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// How long ago, coarse: `42s`, `5m`, `3h`, `2d`.
pub(super) fn age(ns: i64) -> String {
    let seconds = ns.max(0) / 1_000_000_000;
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// An instant of the contract, to the millisecond.
pub(super) fn instant(at: &prost_types::Timestamp) -> String {
    prost_types::Timestamp { seconds: at.seconds, nanos: at.nanos / 1_000_000 * 1_000_000 }.to_string()
}

/// The word of the glossary for an enum value: `MILESTONE_KIND_READY` is `ready`.
pub(super) fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_ascii_lowercase()
}

/// Who sent a request: `user`, `probe`, `self_warmup`, or `-`.
pub(super) fn class_word(class: RequestClass) -> String {
    match class {
        RequestClass::Unspecified => ABSENT.to_owned(),
        class => word(class.as_str_name(), "REQUEST_CLASS_"),
    }
}

/// Method and path template as people write them: `GET /users/{id}`, `~unparsed`.
pub(super) fn route_name(method: Option<&str>, route: &str) -> String {
    format!("{} {route}", method.unwrap_or_default()).trim().to_owned()
}

/// Breaks a line that begins `indent` columns from the left between words, and begins the others there.
pub(super) fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = String::with_capacity(text.len());
    let mut width = indent;
    for (at, word) in text.split(' ').enumerate() {
        let word_width = word.chars().count();
        if at > 0 && width + 1 + word_width > WIDTH {
            let _ = write!(lines, "\n{:indent$}", "");
            width = indent;
        } else if at > 0 {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(word);
        width += word_width;
    }
    lines
}

/// What can be shown of a text in lines of at most `width` characters, between words where that is possible. The end of
/// what needs more than `lines` lines is cut off.
pub(super) fn broken(text: &str, width: usize, lines: usize) -> Vec<String> {
    let text: Vec<char> = harmless(text.trim()).chars().collect();
    let (mut rest, mut broken) = (&text[..], Vec::new());
    loop {
        if broken.len() + 1 == lines || rest.len() <= width {
            broken.push(cut(&rest.iter().collect::<String>(), width));
            return broken;
        }
        // A blank right behind the line ends it, too.
        let blank = rest[..=width].iter().rposition(|c| *c == ' ').filter(|at| *at > 0);
        let (line, left) = rest.split_at(blank.unwrap_or(width));
        broken.push(line.iter().collect());
        rest = &left[usize::from(blank.is_some())..];
    }
}

/// At most `width` characters of what can be shown, the end cut off.
pub(super) fn cut(text: &str, width: usize) -> String {
    let text = harmless(text);
    if text.chars().count() <= width {
        return text;
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Names of threads, paths and evidence come from the observed process: what could steer a terminal is shown escaped.
pub(super) fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            let _ = write!(shown, "{}", c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_one_form_each() {
        let table = [
            (0, "0 s"),
            (999, "999 ns"),
            (1_000, "1.0 µs"),
            (9_949, "9.9 µs"),
            (9_950, "10 µs"),
            (450_000, "450 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (1_234_567, "1.23 ms"),
            (9_994_999, "9.99 ms"),
            (9_995_000, "10.0 ms"),
            (12_345_678, "12.3 ms"),
            (412_300_000, "412.3 ms"),
            (999_949_999, "999.9 ms"),
            (999_950_000, "1.000 s"),
            (1_234_000_000, "1.234 s"),
            (99_999_499_999, "99.999 s"),
            (99_999_500_000, "100.0 s"),
            (350_150_000_000, "350.1 s"),
            (3_599_949_999_999, "3599.9 s"),
            (3_599_950_000_000, "1h00m"),
            (7_500_000_000_000, "2h05m"),
            (180_000_000_000_000, "2d02h"),
            (u64::MAX, "213503d23h"),
        ];
        for (ns, expected) in table {
            assert_eq!(duration(ns), expected, "{ns}");
        }
    }

    #[test]
    fn counts_and_ages_are_short() {
        let counts = [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")];
        for (number, expected) in counts {
            assert_eq!(count(number), expected);
        }
        let ages = [(-5, "0s"), (119, "119s"), (120, "2m"), (7_199, "119m"), (7_200, "2h"), (200_000, "2d")];
        for (seconds, expected) in ages {
            assert_eq!(age(seconds * 1_000_000_000), expected);
        }
        assert_eq!((counted(1, "event"), counted(0, "event")), ("1 event".into(), "0 events".into()));
    }

    #[test]
    fn a_thread_name_cannot_steer_the_terminal() {
        assert_eq!(harmless("exec\u{1b}[2J\n"), "exec\\u{1b}[2J\\n");
        assert_eq!(harmless("Größe µs"), "Größe µs");
    }

    #[test]
    fn long_text_is_broken_between_words_and_words_that_are_too_long_anywhere() {
        let table: [(&str, &[&str]); 7] = [
            ("", &[""]),
            ("-Xmx1g", &["-Xmx1g"]),
            ("-Xmx1g -Xint -Xs", &["-Xmx1g", "-Xint", "-Xs"]),
            ("-Xint -X", &["-Xint -X"]),
            ("-Xint -Xs -a -b", &["-Xint", "-Xs -a", "-b"]),
            ("0123456789abc d", &["01234567", "89abc d"]),
            ("0123456789abcdef0123456789", &["01234567", "89abcdef", "0123456…"]),
        ];
        for (text, expected) in table {
            assert_eq!(broken(text, 8, 3), expected, "{text}");
        }
    }

    #[test]
    fn memory_is_in_mib() {
        let table = [(0, "0.0"), (52_429, "0.1"), (402_653_184, "384.0"), (u64::MAX, "17592186044416.0")];
        for (bytes, expected) in table {
            assert_eq!(mib(bytes), expected);
        }
    }

    #[test]
    fn long_text_is_cut_by_characters() {
        assert_eq!(cut("µµµµ", 4), "µµµµ");
        assert_eq!(cut("µµµµµ", 4), "µµµ…");
        assert_eq!(cut("\n\n\n", 4), "\\n\\…", "as it is shown");
    }
}
