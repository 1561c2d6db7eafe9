package archive

import (
	"context"
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
