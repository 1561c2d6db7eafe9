// Package carrier is the session between a workstation and a tunnel proxy: many connections,
// in both directions, over one (protos/tunnel/v1/session.proto). The caller makes the
// connection and its TLS.
//
// The multiplexer is go-yamux (decision record 0045). What it lacks is here: messages with caps and
// deadlines, liveness at both ends, an error in place of an end of file for whatever is cut, and a
// bound on the memory of what nobody reads.
//
//   - A session in which nothing was heard for Timing.Dead is over at the end that listened.
//     Both ends speak up after Timing.Silence.
//   - A stream ends with io.EOF only when the other side has called CloseWrite or Close, and all
//     that it sent was read. Anything else is ErrCut, of reads and writes, at both ends.
//   - A stream may have 256 KiB on the way that nobody reads, and more as the reader proves quick:
//     up to 16 MiB, of 24 MiB for all streams of the session together. Where a session has more than
//     48 MiB that was not read, or the process 256 MiB, the stream that has the most is cut.
//   - At most 1,024 connections that the peer has opened are there at once, 256 of them not yet
//     accepted. Others are refused as EXHAUSTED.
package carrier
