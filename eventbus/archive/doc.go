// Package archive keeps a log in a file: to keep what the log itself forgets, to
// audit it, and to replay it on another machine.
//
// A file is text, a line for each event. The first line says what the file is:
//
//	{"switchyard":"log","version":1,"epoch":"4y2k…","floor":1,"tip":4711}
//
// then comes every event from the floor to the tip, in order, in the JSON mode of
// CloudEvents 1.0 (event.AppendStructured), so that jq, grep and any CloudEvents
// reader can work on it. A file whose name ends in .gz is compressed. The same
// log gives the same bytes.
//
// Writer and Reader stream; Create and OpenFile do so on files. Nothing is lost
// on the way: the checksums of what is read still come out. The Reader reads
// what the lines say and no more, so that somebody who looks for tampering
// (package audit) sees everything that is there; it fails only, and names the
// line, where a line is no event. Load, for those who want to use the log, also
// verifies it, and gives it as an eventbus.Reader: a whole route server can run
// on any version of an archive.
package archive
