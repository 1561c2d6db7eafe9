package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
)

// Log is a log that does not grow, as it was at one moment. It is safe for
// concurrent use.
type Log struct {
	eventbus.Reader
	header Header
	events []event.Stored
}

// Load reads a whole archive into memory and verifies it: eventbus.ErrDamaged,
// with the reason, when its events do not follow each other.
func Load(a *Reader) (*Log, error) { return Collect(a.header, a.Next) }

// Collect does what Load does with events from anywhere: next gives them in order
// and io.EOF behind the last one.
func Collect(h Header, next func() (event.Stored, error)) (*Log, error) {
	v := eventbus.NewVerifier(h.Epoch, event.Mark{})
	var events []event.Stored
	for {
		s, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = v.Take(s)
		}
		if err != nil {
			return nil, err
		}
		events = append(events, s)
	}
	if _, err := v.Done(h.TipPos()); err != nil {
		return nil, err
	}
	return newLog(h, events)
}

// newLog takes events that were verified.
func newLog(h Header, events []event.Stored) (*Log, error) {
	if len(events) > 0 && events[0].Pos.Seq != h.Floor || uint64(len(events)) != h.Len() {
		return nil, fmt.Errorf("%w: the header of the archive declares events %d to %d, and the archive has %d events", eventbus.ErrDamaged, h.Floor, h.Tip, len(events))
	}
	return logOf(h, events), nil
}

func logOf(h Header, events []event.Stored) *Log {
	return &Log{Reader: memory.Holding(event.Mark{Pos: h.TipPos()}, events).Open(), header: h, events: events}
}

// Header returns what the log holds.
func (l *Log) Header() Header { return l.header }

// Event returns the event at a sequence, which must be one that is held.
func (l *Log) Event(seq uint64) event.Stored { return l.events[seq-l.header.Floor] }

// Until returns the log as it was when the event at a sequence was its last. The
// sequence must be one that is held.
func (l *Log) Until(seq uint64) *Log {
	h := l.header
	h.Tip = seq
	return logOf(h, l.events[:h.Len():h.Len()])
}

// Kept implements eventbus.Reader. It counts no bytes: those of the file are others.
func (l *Log) Kept(ctx context.Context) (eventbus.Kept, error) {
	kept, err := l.Reader.Kept(ctx)
	kept.Bytes = 0
	return kept, err
}

// Version is the version of the format that is written. A reader refuses any
// that it does not know.
const Version = 1

// kind is the value of the first line that identifies the file.
const kind = "log"

// Header identifies the log and the range of events in an archive.
type Header struct {
	// Epoch is the epoch of all its events.
	Epoch string
	// Floor and Tip are the sequences of its first and last event. A log without
	// events has its Floor one behind its Tip.
	Floor, Tip uint64
}

// Len is how many events the archive is to have.
func (h Header) Len() uint64 { return h.Tip + 1 - h.Floor }

// TipPos returns the place of the last event.
func (h Header) TipPos() event.Pos { return event.Pos{Epoch: h.Epoch, Seq: h.Tip} }

// Validate returns an error if the Header is not valid.
func (h Header) Validate() error {
	switch {
	case h.Epoch == "":
		return errors.New("an archive must name the epoch of its log")
	case h.Floor == 0 || h.Floor > h.Tip+1:
		return fmt.Errorf("an archive cannot begin at event %d and end at event %d", h.Floor, h.Tip)
	}
	return nil
}

// line is the first line of an archive.
type line struct {
	Switchyard string `json:"switchyard"`
	Version    int    `json:"version"`
	Epoch      string `json:"epoch"`
	Floor      uint64 `json:"floor"`
	Tip        uint64 `json:"tip"`
}

func (h Header) written() ([]byte, error) {
	b, err := json.Marshal(line{kind, Version, h.Epoch, h.Floor, h.Tip})
	return append(b, '\n'), err
}

func parseHeader(b []byte) (Header, error) {
	var l line
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&l); err != nil || l.Switchyard != kind {
		return Header{}, errors.New("this is not the archive of a routing log: its first line is not an archive header")
	}
	if l.Version != Version {
		return Header{}, fmt.Errorf("the archive is of version %d, and this program reads version %d: use a newer one", l.Version, Version)
	}
	h := Header{Epoch: l.Epoch, Floor: l.Floor, Tip: l.Tip}
	return h, h.Validate()
}
