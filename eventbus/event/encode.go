package event

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
)

// Message is a fact in written form, ready for a NATS message.
type Message struct {
	// Subject is the key's subject, without the prefix of the log.
	Subject string
	// Header holds the CloudEvents attributes, names in lower case, values
	// escaped as the binding demands.
	Header map[string]string
	// Data is compact JSON.
	Data []byte
}

// Size counts the bytes of an event as NATS sends it.
func (m Message) Size() int {
	size := len(m.Data)
	for name, value := range m.Header {
		size += len(name) + len(value) + len(": \r\n")
	}
	return size
}

// The headers of an event.
const (
	headerSpecVersion = "ce-specversion"
	headerID          = "ce-id"
	headerSource      = "ce-source"
	headerType        = "ce-type"
	headerSubject     = "ce-subject"
	headerTime        = "ce-time"
	headerContentType = "ce-datacontenttype"

	headerCauseKind       = "ce-causekind"
	headerCauseNamespace  = "ce-causenamespace"
	headerCauseName       = "ce-causename"
	headerCauseUID        = "ce-causeuid"
	headerCauseGeneration = "ce-causegeneration"
	headerCauseManager    = "ce-causemanager"
	headerCauseVia        = "ce-causevia"
	headerCauseAuthor     = "ce-causeauthor"
	headerTrace           = "ce-traceparent"
)

const (
	specVersion = "1.0"
	source      = "switchyard.dev/reconcilers"
	contentType = "application/json"
)

// maxSubject bounds a subject: the server refuses a protocol line over 4,096
// bytes, and the line holds a reply subject and the log's prefix too.
const maxSubject = 3072

// Encode encodes a fact. The error states the defect of the fact: data that is not a fact, a
// key that does not match the data, text that is not UTF-8, or a key too long for a subject.
func Encode(f Fact) (Message, error) {
	typ := f.Type()
	if typ == "" {
		return Message{}, fmt.Errorf("fact of %q: %T is not the data of a fact", f.Key, f.Data)
	}
	if about := keyOfData(f.Data); about != f.Key {
		return Message{}, fmt.Errorf("fact of %q: its data is about %q", f.Key, about)
	}
	subject := f.Key.Subject()
	if len(subject) > maxSubject {
		return Message{}, fmt.Errorf("fact of %.64q...: the key takes %d bytes as a subject, more than %d", f.Key, len(subject), maxSubject)
	}
	data, err := written(f)
	if err != nil {
		return Message{}, err
	}
	return Message{Subject: subject, Header: header(f, typ, data), Data: data}, nil
}

// Same reports whether two facts state the same: the same type and data in written
// form. Cause and time do not count.
func Same(a, b Fact) bool {
	if a.Key != b.Key || a.Type() != b.Type() {
		return false
	}
	inA, errA := written(a)
	inB, errB := written(b)
	return errA == nil && errB == nil && bytes.Equal(inA, inB)
}

// written returns the data as compact JSON. protojson inserts spaces at random, so that its
// output is not compared; without them it is stable, because fields are in the order of their
// numbers.
func written(f Fact) ([]byte, error) {
	loose, err := protojson.Marshal(f.Data)
	if err != nil {
		return nil, fmt.Errorf("fact of %q cannot be written: %w", f.Key, err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, loose); err != nil {
		return nil, fmt.Errorf("fact of %q cannot be written: %w", f.Key, err)
	}
	return b.Bytes(), nil
}

func header(f Fact, typ string, data []byte) map[string]string {
	h := map[string]string{
		headerSpecVersion: specVersion,
		headerSource:      source,
		headerType:        typ,
		headerSubject:     escapeValue(string(f.Key)),
		headerContentType: contentType,
	}
	set := func(name, value string) {
		if value != "" {
			h[name] = escapeValue(value)
		}
	}
	if !f.Time.IsZero() {
		set(headerTime, f.Time.UTC().Format(time.RFC3339Nano))
	}
	set(headerCauseKind, f.Cause.Kind)
	set(headerCauseNamespace, f.Cause.Namespace)
	set(headerCauseName, f.Cause.Name)
	set(headerCauseUID, f.Cause.UID)
	if f.Cause.Generation != 0 {
		set(headerCauseGeneration, strconv.FormatInt(f.Cause.Generation, 10))
	}
	set(headerCauseManager, f.Cause.Manager)
	set(headerCauseVia, f.Cause.Via)
	set(headerCauseAuthor, f.Cause.Author)
	set(headerTrace, f.Cause.Trace)
	h[headerID] = id(h, data)
	return h
}

// idOver lists the headers that an event's id is computed from, in order. It never changes: an
// older reader would take the ids of newer events for wrong ones. Headers that were added
// since, such as ce-causevia and ce-causeauthor, are covered by the checksum of the log alone (Chain).
var idOver = [...]string{
	headerSource, headerType, headerSubject, headerTime, headerCauseKind, headerCauseNamespace, headerCauseName,
	headerCauseUID, headerCauseGeneration, headerCauseManager, headerTrace,
}

// id hashes the attributes and the data. So a statement that is sent again after an unclear
// answer is the same event, and an id that does not match its event shows that it was changed.
func id(h map[string]string, data []byte) string {
	var b []byte
	for _, name := range idOver {
		b = appendPart(b, h[name])
	}
	sum := sha256.Sum256(appendPart(b, data))
	return hex.EncodeToString(sum[:16])
}

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
		Author:     r.text(headerCauseAuthor),
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

// escapeValue writes a header value as the CloudEvents bindings demand: per
// cent and hexadecimal digits for a space, a double quote, a per cent sign and
// all that is not printable ASCII.
func escapeValue(s string) string {
	return escape(s, '%', func(c byte) bool { return c > ' ' && c <= '~' && c != '"' && c != '%' })
}

// unescapeValue reads back a header value.
func unescapeValue(s string) (string, error) { return unescape(s, '%') }

const upperHex = "0123456789ABCDEF"

// escape writes a mark and two hexadecimal digits for each byte of a text that is not plain.
func escape(text string, mark byte, plain func(c byte) bool) string {
	var b strings.Builder
	b.Grow(len(text))
	for i := range len(text) {
		if c := text[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte(mark)
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		}
	}
	return b.String()
}

var errEscape = errors.New("a per cent sign is not followed by two hexadecimal digits")

// unescape reads back what escape wrote. Other writers may use lower-case digits; they are
// read as well.
func unescape(text string, mark byte) (string, error) {
	before, rest, escaped := strings.Cut(text, string(mark))
	if !escaped {
		return text, nil
	}
	var b strings.Builder
	for escaped {
		c, err := hex.DecodeString(rest[:min(2, len(rest))])
		if err != nil || len(c) == 0 {
			return "", errEscape
		}
		b.WriteString(before)
		b.WriteByte(c[0])
		before, rest, escaped = strings.Cut(rest[2:], string(mark))
	}
	b.WriteString(before)
	return b.String(), nil
}
