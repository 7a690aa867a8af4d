//! What a client offers in its ClientHello, as far as that was captured (RFC 8446, section 4.1.2).

use crate::wire::bytes::Held;

/// The handshake message's type.
pub(super) const CLIENT_HELLO: u8 = 1;
/// Bytes of it that are looked at.
const HELLO_MAX: usize = 4096;
const ALPN: u16 = 16;
const PSK_KEY_EXCHANGE_MODES: u16 = 45;

/// A ClientHello.
#[derive(Debug, Default)]
pub(super) struct Hello {
    held: Held,
    closed: bool,
    http2: Option<bool>,
    tickets: Option<bool>,
}

impl Hello {
    /// One that nobody saw.
    pub fn unseen() -> Self {
        Self { closed: true, ..Self::default() }
    }

    /// Takes bytes of the client's handshake records.
    pub fn take(&mut self, bytes: &[u8]) {
        if !self.closed {
            let room = HELLO_MAX - self.held.0.len();
            self.held.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// There is no more of it.
    pub fn close(&mut self) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        let held = std::mem::take(&mut self.held.0);
        let mut reader = Reader(&held);
        if let Some(whole) = self.read(&mut reader) {
            self.http2 = self.http2.or(whole.then_some(false));
            self.tickets = self.tickets.or(whole.then_some(false));
        }
    }

    /// Whether HTTP/2 is offered, or may be; not before all of the hello has come.
    pub fn may_offer_http2(&self) -> bool {
        self.closed && self.http2 != Some(false)
    }

    /// Whether a server may send tickets (RFC 8446, section 4.2.9).
    pub fn may_take_tickets(&self) -> bool {
        self.tickets != Some(false)
    }

    /// Reads the extensions, and tells whether these were all.
    fn read(&mut self, reader: &mut Reader<'_>) -> Option<bool> {
        // Type and length, version, random.
        reader.bytes(4 + 2 + 32)?;
        let session = reader.u8()?;
        reader.bytes(session.into())?;
        let suites = reader.u16()?;
        reader.bytes(suites.into())?;
        let compressions = reader.u8()?;
        reader.bytes(compressions.into())?;
        if reader.0.is_empty() {
            return Some(true);
        }
        let length = usize::from(reader.u16()?);
        let whole = reader.0.len() >= length;
        let mut extensions = Reader(&reader.0[..length.min(reader.0.len())]);
        while let Some(kind) = extensions.u16() {
            let length = extensions.u16()?;
            match kind {
                ALPN => {
                    let mut names = Reader(extensions.bytes(length.into())?);
                    names.u16()?;
                    let mut http2 = false;
                    while let Some(length) = names.u8() {
                        http2 |= names.bytes(length.into())? == b"h2";
                    }
                    self.http2 = Some(http2);
                }
                PSK_KEY_EXCHANGE_MODES => {
                    self.tickets = Some(true);
                    extensions.bytes(length.into())?;
                }
                _ => {
                    extensions.bytes(length.into())?;
                }
            }
        }
        Some(whole)
    }
}

/// Numbers and bytes one after the other, as long as they are there.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Option<u16> {
        self.bytes(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }
}
