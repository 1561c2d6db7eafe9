package event

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
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
	set(headerTrace, f.Cause.Trace)
	h[headerID] = id(h, data)
	return h
}

// idOver lists the headers that an event's id is computed from, in order. It never changes: an
// older reader would take the ids of newer events for wrong ones. Headers that were added
// since, such as ce-causevia, are covered by the checksum of the log alone (Chain).
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
