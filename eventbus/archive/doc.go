// Package archive keeps a log in a file: to keep what the log itself forgets, to
// audit it, and to replay it on another machine.
//
// A file is text, one line per event. The first line identifies the file:
//
//	{"switchyard":"log","version":1,"epoch":"4y2k…","floor":1,"tip":4711}
//
// It is followed by every event from the floor to the tip, in order, in the JSON mode of
// CloudEvents 1.0 (event.AppendStructured), so that jq, grep and any CloudEvents reader can
// process it. A file with a name that ends in .gz is compressed. The same log always gives the
// same bytes.
//
// Writer and Reader stream; Create and OpenFile do so on files. Nothing is lost in an archive:
// the checksums of the events remain valid. The Reader returns the lines unverified, so that an
// audit for tampering (package audit) sees the whole content; it fails only at a line that is
// not an event, and names the line. Load also verifies the log, and returns it as an
// eventbus.Reader: a whole route server can run on any version of an archive.
package archive
