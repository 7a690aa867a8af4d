//! Decoded events in, timelines out.
