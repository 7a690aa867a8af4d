//! How much of a terminal the text may use.

use std::ffi::OsString;

/// What the reader's side can show. The default is plain text, for files and pipes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Bars of block characters, to an eighth of a column; of `#` otherwise.
    pub unicode: bool,
    /// ANSI colours.
    pub color: bool,
}

/// What a part of the text is, for its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Title,
    Aside,
    /// Time that the request itself worked.
    Work,
    /// Time that the machine withheld.
    Machine,
    /// Time that others took.
    Others,
    Unknown,
}

impl Style {
    /// The style for a stream that is a terminal or not. `env` gives the variables `NO_COLOR` and `TERM`, which take
    /// the colours, or everything, away.
    pub fn of(is_terminal: bool, env: impl Fn(&str) -> Option<OsString>) -> Self {
        let capable = is_terminal && env("TERM").is_none_or(|term| term != "dumb");
        let refused = env("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { unicode: capable, color: capable && !refused }
    }

    /// The text in its colour. It must hold nothing that could steer the terminal by itself.
    pub(super) fn paint(self, ink: Ink, text: &str) -> String {
        if !self.color || text.is_empty() {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Title => "1",
            Ink::Aside => "2",
            Ink::Work => "32",
            Ink::Machine => "33",
            Ink::Others => "36",
            Ink::Unknown => "35",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_what_its_user_wants() {
        let style = |is_terminal, set: &[(&str, &str)]| {
            let style = Style::of(is_terminal, |name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
            });
            (style.unicode, style.color)
        };
        assert_eq!(style(true, &[]), (true, true));
        assert_eq!(style(true, &[("TERM", "xterm-256color"), ("NO_COLOR", "")]), (true, true));
        assert_eq!(style(true, &[("NO_COLOR", "1")]), (true, false));
        assert_eq!(style(true, &[("TERM", "dumb")]), (false, false));
        assert_eq!(style(false, &[("TERM", "xterm")]), (false, false));
    }
}
