// Package audit records every connection that passes a tunnel proxy: one record before its
// first byte, one at its end.
//
//	Begin   writes the first record into the journal, syncs it, then writes it to the log.
//	        When it returns an error no byte may pass.
//	End     writes the last one to the log, then into the journal.
//	Open    reads the journal of the process before: connections that have a first record and
//	        no last one are given it, "proxy died".
//
// The journal is a file in a folder that survives a crash of the process (an emptyDir), and
// serves only that: people read the log, JSON lines on standard output, and the Sinks. Both
// records have all fields of the connection, so that each can be read alone.
//
// # Crashes
//
// A first record is written to the journal before the log, a last record to the log before the
// journal. So a crash at any moment loses none: for a first record that did not reach the log the
// next process writes the last one, and a last one that did not reach the journal is written
// again, as "proxy died", with the same id. Readers keep the first last record of an id.
//
// # Cost
//
// Records that come while others are written are written with the next write and one sync: a
// thousand connections at once cost a few. The journal is bounded: when it has grown by
// JournalBytes it is rewritten with the connections that are open. Their number is bounded too.
package audit
