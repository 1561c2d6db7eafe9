package event

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
)

// ErrUnknownType means that the event is of a type that this version of the program does not
// know. A newer writer wrote it; skip it.
var ErrUnknownType = errors.New("unknown type of event")

// Decode reads a fact back. ErrUnknownType for an event of a newer kind, with a fact that has
// nothing but its key; unknown fields of the data are skipped. Any other error means that the
// record is damaged or was not written by this project.
func Decode(m Message) (Fact, error) {
	typ := m.Header[headerType]
	data := newData(typ)
	if data == nil {
		key, err := KeyOf(m.Subject)
		if err != nil {
			return Fact{}, err
		}
		return Fact{Key: key}, fmt.Errorf("event %q of %q: %w %q", m.Header[headerID], m.Subject, ErrUnknownType, typ)
	}
	f := Fact{Data: data}
	if err := decodeHeader(&f, m); err != nil {
		return Fact{}, fmt.Errorf("event %q of %q: %w", m.Header[headerID], m.Subject, err)
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(m.Data, data); err != nil {
		return Fact{}, fmt.Errorf("event %q of %q: its data does not read as %s: %w", m.Header[headerID], m.Subject, typ, err)
	}
	if about := keyOfData(data); about != f.Key {
		return Fact{}, fmt.Errorf("event %q of %q: its data is about %q", m.Header[headerID], m.Subject, about)
	}
	return f, nil
}

func decodeHeader(f *Fact, m Message) error {
	if v := m.Header[headerSpecVersion]; v != specVersion {
		return fmt.Errorf("%s is %q, not %q", headerSpecVersion, v, specVersion)
	}
	r := reader{header: m.Header}
	f.Key = Key(r.text(headerSubject))
	f.Time = r.time(headerTime)
	f.Cause = Cause{
		Kind:       r.text(headerCauseKind),
		Namespace:  r.text(headerCauseNamespace),
		Name:       r.text(headerCauseName),
		UID:        r.text(headerCauseUID),
		Generation: r.number(headerCauseGeneration),
		Manager:    r.text(headerCauseManager),
		Via:        r.text(headerCauseVia),
		Trace:      r.text(headerTrace),
	}
	if r.err != nil {
		return r.err
	}
	if f.Key.Subject() != m.Subject {
		return fmt.Errorf("%s %q does not belong on this subject", headerSubject, f.Key)
	}
	return nil
}

// reader reads header values and keeps the first error.
type reader struct {
	header map[string]string
	err    error
}

func (r *reader) text(name string) string {
	s, err := unescapeValue(r.header[name])
	r.keep(name, err)
	return s
}

func (r *reader) number(name string) int64 {
	s := r.text(name)
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	r.keep(name, err)
	return n
}

func (r *reader) time(name string) time.Time {
	s := r.text(name)
	if s == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	r.keep(name, err)
	return t.UTC()
}

func (r *reader) keep(name string, err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s %q: %w", name, r.header[name], err)
	}
}
