package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// TypeWritten is the type of an event in JSON that carries another event in its data, byte for
// byte, which cannot be represented as a CloudEvent without loss: a damaged one, or one that
// another program wrote with other escapes.
const TypeWritten = "dev.switchyard.log.written.v1"

// Members of an event in JSON that are no attributes of the event itself.
const (
	memberSequence = "sequence"
	memberData     = "data"
)

// shownFirst are the attributes that every event has, in the order in which they
// are written in JSON; the others follow in the order of their names.
var shownFirst = [...]string{headerSpecVersion, headerID, headerSource, headerType, headerSubject, headerTime, headerContentType}

// written is the data of a TypeWritten; all of it is base64 in JSON, for it may
// be anything.
type writtenEvent struct {
	Subject []byte      `json:"subject"`
	Header  [][2][]byte `json:"header"`
	Data    []byte      `json:"data"`
}

// AppendStructured appends an event of a log in the JSON mode of CloudEvents
// 1.0, on one line without its end: the attributes as strings, the sequence as
// the extension of that name, and the data as it was written. The epoch is not
// in it. The same event gives the same bytes.
//
// Headers that are no attributes belong to the transport and are left out; all
// else comes back from ParseStructured exactly, so that the checksum of the
// event still comes out.
func AppendStructured(b []byte, s Stored) []byte {
	names, plain := attributesOf(s.Message)
	if !plain {
		return appendWritten(b, s)
	}
	b = append(b, '{')
	b = appendMember(b, memberSequence, strconv.FormatUint(s.Pos.Seq, 10))
	for _, name := range names {
		value, _ := unescapeValue(s.Message.Header[name]) // attributesOf has read it
		b = appendMember(append(b, ','), strings.TrimPrefix(name, attributes), value)
	}
	if len(s.Message.Data) > 0 {
		b = append(append(b, `,"`+memberData+`":`...), s.Message.Data...)
	}
	return append(b, '}')
}

// attributesOf returns the names of the headers to write, in order, and whether the event can
// be written plainly: reading it back gives the same message.
func attributesOf(m Message) (names []string, plain bool) {
	names = slices.Clone(shownFirst[:])
	names = slices.DeleteFunc(names, func(name string) bool { _, there := m.Header[name]; return !there })
	first := len(names)
	for name, value := range m.Header {
		if !strings.HasPrefix(name, attributes) {
			continue
		}
		text, err := unescapeValue(value)
		if err != nil || escapeValue(text) != value || !utf8.ValidString(text) || !isAttribute(strings.TrimPrefix(name, attributes)) {
			return nil, false
		}
		if !slices.Contains(names[:first], name) {
			names = append(names, name)
		}
	}
	slices.Sort(names[first:])
	if slices.ContainsFunc(shownFirst[:4], func(required string) bool { return m.Header[required] == "" }) {
		return nil, false
	}
	key, err := unescapeValue(m.Header[headerSubject])
	return names, err == nil && Key(key).Subject() == m.Subject && m.Header[headerType] != TypeWritten && isCompact(m.Data)
}

// isAttribute reports whether a CloudEvents attribute can have this name, and it is not one of
// the members that this package adds in JSON.
func isAttribute(name string) bool {
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && name != memberSequence && name != memberData
}

func isCompact(data []byte) bool {
	if len(data) == 0 {
		return true
	}
	var b bytes.Buffer
	return json.Compact(&b, data) == nil && bytes.Equal(b.Bytes(), data) && utf8.Valid(data)
}

func appendMember(b []byte, name, value string) []byte {
	b = append(append(b, '"'), name...)
	b = append(b, `":`...)
	return append(b, quoted(value)...)
}

// quoted returns a string in JSON. Text needs no other escapes than JSON's own.
func quoted(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func appendWritten(b []byte, s Stored) []byte {
	w := writtenEvent{Subject: []byte(s.Message.Subject), Data: s.Message.Data}
	for name, value := range s.Message.Header {
		if strings.HasPrefix(name, attributes) {
			w.Header = append(w.Header, [2][]byte{[]byte(name), []byte(value)})
		}
	}
	slices.SortFunc(w.Header, func(a, b [2][]byte) int { return bytes.Compare(a[0], b[0]) })
	data, _ := json.Marshal(w) // byte strings always encode
	seq := strconv.FormatUint(s.Pos.Seq, 10)
	b = append(b, '{')
	for i, member := range [...][2]string{{memberSequence, seq}, {"specversion", specVersion}, {"id", seq}, {"source", source}, {"type", TypeWritten}} {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendMember(b, member[0], member[1])
	}
	b = append(append(b, `,"`+memberData+`":`...), data...)
	return append(b, '}')
}

// ParseStructured decodes the output of AppendStructured, as an event of an epoch. The error
// states the defect of the line. It does not verify the event: see Check.
func ParseStructured(line []byte, epoch string) (Stored, error) {
	s := Stored{Pos: Pos{Epoch: epoch}, Message: Message{Header: map[string]string{}}}
	members, err := membersOf(line)
	if err != nil {
		return Stored{}, err
	}
	for name, raw := range members {
		if name == memberData {
			s.Message.Data = raw
			continue
		}
		var value string
		if err := json.Unmarshal(raw, &value); err != nil {
			return Stored{}, fmt.Errorf("%q is not a string", name)
		}
		if name == memberSequence {
			if s.Pos.Seq, err = strconv.ParseUint(value, 10, 64); err != nil {
				return Stored{}, fmt.Errorf("%q is %q and no number", name, value)
			}
			continue
		}
		if !isAttribute(name) {
			return Stored{}, fmt.Errorf("%q is not the name of an attribute", name)
		}
		s.Message.Header[attributes+name] = escapeValue(value)
		if name == strings.TrimPrefix(headerSubject, attributes) {
			s.Message.Subject = Key(value).Subject()
		}
	}
	if s.Pos.Seq == 0 {
		return Stored{}, fmt.Errorf("it has no %q, its place in the log", memberSequence)
	}
	if s.Message.Header[headerType] == TypeWritten {
		return parseWritten(s)
	}
	return s, nil
}

// membersOf reads an object of JSON, each member once.
func membersOf(line []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(line))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New("it is no event in JSON")
	}
	members := map[string]json.RawMessage{}
	for d.More() {
		token, err := d.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil, fmt.Errorf("it is no event in JSON: %w", err)
		}
		if _, twice := members[name]; twice {
			return nil, fmt.Errorf("it has %q twice", name)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, fmt.Errorf("%q does not read as JSON: %w", name, err)
		}
		members[name] = raw
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("it is truncated")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after its end")
	}
	return members, nil
}

func parseWritten(s Stored) (Stored, error) {
	var w writtenEvent
	d := json.NewDecoder(bytes.NewReader(s.Message.Data))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return Stored{}, fmt.Errorf("the data of this %s does not read: %w", TypeWritten, err)
	}
	s.Message = Message{Subject: string(w.Subject), Header: make(map[string]string, len(w.Header)), Data: w.Data}
	for _, h := range w.Header {
		s.Message.Header[string(h[0])] = string(h[1])
	}
	return s, nil
}
