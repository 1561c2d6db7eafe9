// Package output keeps a stream of output in files. The first 64 MiB and the last 64 MiB of a stream are
// kept; the bytes between them are lost when it is longer than both together. The total is always exact.
//
// A stream is a folder of segments: files of at most 1 MiB, each with the offset of its first byte as name.
// Segments are only appended to and removed, so that a process can be killed at any moment: the
// total is the end of the last segment, and what Append has acknowledged is there after a restart.
//
// A stream has one writer. Readers open the segments by themselves, and never block it.
package output
