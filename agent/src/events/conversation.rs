//! An outbound conversation, by the first bytes of each turn.

use timeline::{Service, What, service};

/// What an outbound connection has said so far.
#[derive(Debug, Default)]
pub struct Conversation {
    service: Option<Service>,
}

impl Conversation {
    /// This side begins a turn.
    pub fn asked(&mut self, fd: i32, opening: &[u8]) -> What {
        let told = self.tell(service::of_sent(opening));
        let setup = self.service.is_some_and(|service| service::is_setup(service, opening));
        What::Asked { fd, service: told, setup }
    }

    /// The peer begins its turn.
    pub fn answered(&mut self, fd: i32, opening: &[u8]) -> What {
        let told = self.tell(service::of_received(opening));
        What::Answered { fd, service: told }
    }

    /// The service, when these bytes are the first that tell it.
    fn tell(&mut self, service: Option<Service>) -> Option<Service> {
        let news = service.filter(|_| self.service.is_none())?;
        self.service = Some(news);
        Some(news)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_postgresql_handshake_ends_with_the_first_query() {
        let mut conversation = Conversation::default();
        let mut asked = |bytes: &[u8]| conversation.asked(5, bytes);
        let of = |service, setup| What::Asked { fd: 5, service, setup };
        assert_eq!(asked(&[0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f]), of(Some(Service::Postgresql), true));
        assert_eq!(asked(&[0, 0, 0, 9, 0, 3, 0, 0, 0]), of(None, true));
        assert_eq!(asked(b"p\0\0\0\x36SCRAM-SHA-256"), of(None, true));
        assert_eq!(asked(b"P\0\0\0\x20\0SELECT 1"), of(None, false));
    }
}
