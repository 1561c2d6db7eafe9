// Package carrier is a session of many connections, in both directions, over one: that between a
// workstation and a tunnel proxy (protos/tunnel/v1/session.proto), and that between an agent and
// its control plane (protos/link/v1/link.proto). The caller makes the connection and its TLS.
// Settings are the differences between the two: the protocol's name, the messages that begin the
// session and its connections, time limits and bounds.
//
// The multiplexer is go-yamux (decision record 0045). This package adds messages with size limits
// and deadlines, liveness checks at both ends, an error instead of io.EOF for a stream that was
// cut, and a bound on the memory of unread data.
//
//   - An end that has heard nothing for Timing.Dead ends the session.
//     Both ends send a message after Timing.Silence.
//   - A stream ends with io.EOF only when the other side has called CloseWrite or Close and all
//     that it sent was read. Anything else is ErrCut, of reads and writes, at both ends.
//   - A stream may have 256 KiB of unread data in flight, 4 MiB if fewer than four are open and the process has
//     less than 64 MiB of unread data, and more as its reader proves quick: up to 16 MiB, with 12 MiB of growth for
//     all streams of the session together. Those that begin between two reads of the session's connection, of at
//     most 16 KiB, all have the first window of the one before. Where a session has more than 48 MiB of unread data, or the process 256 MiB,
//     the stream that has the most is cut.
//   - Of what streams send, 128 KiB and a frame of each wait for the session's connection. A stream that
//     sends little waits for that at most, and for what the system has queued.
//   - A second session can join a first one, for connections that carry much: others do not wait for what the
//     system has queued of these, or for their lost packets (decision record 0067). The bounds hold for both in sum.
//   - A peer may have at most 1,024 connections open at once, 256 of them not yet accepted. Others
//     are refused as EXHAUSTED. Limits can change these bounds, and those of unread data.
package carrier
