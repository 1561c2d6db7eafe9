package event

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Chain is the running checksum of a log: the SHA-256 of an event together with the Chain of
// the event before it. It covers the whole log up to there: nothing before it can be altered,
// dropped, inserted or reordered without changing it. Written as 64 hexadecimal digits.
type Chain [sha256.Size]byte

// String returns the checksum in hexadecimal, 64 digits.
func (c Chain) String() string { return hex.EncodeToString(c[:]) }

// ParseChain reads what String wrote, and nothing else that means the same: not
// one byte of an event may change unseen.
func ParseChain(s string) (Chain, error) {
	var c Chain
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(c) {
		return Chain{}, fmt.Errorf("%q is not a checksum of %d hexadecimal digits", s, 2*len(c))
	}
	copy(c[:], b)
	if c.String() != s {
		return Chain{}, fmt.Errorf("%q is not a checksum: its digits a to f are not in lower case", s)
	}
	return c, nil
}

// Genesis is the checksum before the first event of an epoch.
func Genesis(epoch string) Chain { return sha256.Sum256([]byte("switchyard routing log " + epoch)) }

// Mark is a place in a log together with the checksum there. It is sufficient to verify later
// that the log is still the same one. The zero Mark means that nothing is known.
type Mark struct {
	Pos
	Chain Chain
}

// Stored is an event in written form, as the log keeps it, with its place.
type Stored struct {
	Pos     Pos
	Message Message
}

// The headers that the log adds to a fact when it is recorded. Both are
// CloudEvents extension attributes; recordedtime is a documented one.
const (
	headerRecorded = "ce-recordedtime"
	headerChain    = "ce-chain"
	// headerPrevious, on a Floor only, is the checksum of the event before it: a
	// log that begins with it can be verified from its first event on.
	headerPrevious = "ce-previous"
)

// attributes begins the name of every header that is part of an event. Other
// headers belong to the transport and may differ from one copy to another.
const attributes = "ce-"

// Errors of a log with inconsistent events; test with errors.Is.
var (
	// ErrAltered: the event is not the one that was recorded at its place after the event
	// before it.
	ErrAltered = errors.New("the event does not fit its checksum")
	// ErrUnsealed: the event carries no readable checksum or time of recording.
	ErrUnsealed = errors.New("the event has no readable checksum")
)

// Seal writes a fact down as the event that follows the one at last: with the
// time at which it was recorded and the checksum that links both. It returns the
// sealed message and its Mark. The time is for people and for "the table at
// that moment": the caller sees to it that it never goes back in an epoch.
func Seal(m Message, last Mark, at time.Time) (Message, Mark) {
	sealed := Message{Subject: m.Subject, Header: make(map[string]string, len(m.Header)+2), Data: m.Data}
	maps.Copy(sealed.Header, m.Header)
	if m.Header[headerType] == TypeFloor {
		sealed.Header[headerPrevious] = last.Chain.String()
	}
	sealed.Header[headerRecorded] = at.UTC().Format(time.RFC3339Nano)
	here := Mark{Pos: Pos{Epoch: last.Epoch, Seq: last.Seq + 1}}
	here.Chain = link(last.Chain, here.Seq, sealed)
	sealed.Header[headerChain] = here.Chain.String()
	return sealed, here
}

// Before returns the Mark in front of the first event of an epoch.
func Before(epoch string) Mark { return Mark{Pos: Pos{Epoch: epoch}, Chain: Genesis(epoch)} }

// Check returns the Mark of an event that follows the one at last, and otherwise an error:
// ErrAltered when its checksum does not match, ErrUnsealed when it has none. It checks the
// checksum only; the caller verifies that the places follow each other.
func Check(s Stored, last Chain) (Mark, error) {
	chain, err := ChainOf(s.Message)
	if err != nil {
		return Mark{}, fmt.Errorf("event %d of %q: %w", s.Pos.Seq, s.Message.Subject, err)
	}
	if link(last, s.Pos.Seq, s.Message) != chain {
		return Mark{}, fmt.Errorf("event %d of %q: %w", s.Pos.Seq, s.Message.Subject, ErrAltered)
	}
	return Mark{Pos: s.Pos, Chain: chain}, nil
}

// CheckFirst is Check for the first event that a log keeps: one at sequence 1, or a Floor. It
// returns ErrUnsealed for any other: the events before it are missing.
func CheckFirst(s Stored) (Mark, error) {
	if s.Pos.Seq == 1 {
		return Check(s, Genesis(s.Pos.Epoch))
	}
	previous, err := ParseChain(s.Message.Header[headerPrevious])
	if s.Message.Header[headerType] != TypeFloor || err != nil {
		return Mark{}, fmt.Errorf("event %d of %q: %w, for it is no floor and the events before it are missing", s.Pos.Seq, s.Message.Subject, ErrUnsealed)
	}
	return Check(s, previous)
}

// ChainOf returns the checksum in an event's headers. ErrUnsealed when there is none.
func ChainOf(m Message) (Chain, error) {
	c, err := ParseChain(m.Header[headerChain])
	if err != nil {
		return Chain{}, fmt.Errorf("%w: %w", ErrUnsealed, err)
	}
	return c, nil
}

// RecordedAt returns when an event was recorded. ErrUnsealed when the event does not contain
// it.
func RecordedAt(m Message) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, m.Header[headerRecorded])
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: %s: %w", ErrUnsealed, headerRecorded, err)
	}
	return t.UTC(), nil
}

// Open reads an event of a log. As with Decode, ErrUnknownType comes with a
// Recorded that has all but the fact's data. It does not check the checksum,
// which needs the event before it: see Check.
func Open(s Stored) (Recorded, error) {
	fact, err := Decode(s.Message)
	if err != nil && !errors.Is(err, ErrUnknownType) {
		return Recorded{}, err
	}
	r := Recorded{Pos: s.Pos, Fact: fact}
	var sealed error
	if r.At, sealed = RecordedAt(s.Message); sealed != nil {
		return Recorded{}, sealed
	}
	if r.Chain, sealed = ChainOf(s.Message); sealed != nil {
		return Recorded{}, sealed
	}
	return r, err
}

// link is the checksum of an event at a place behind another: over all its
// attributes in the order of their names, its subject and its data, each with
// its length before it, so that no two events have the same bytes.
func link(last Chain, seq uint64, m Message) Chain {
	names := make([]string, 0, len(m.Header))
	for name := range m.Header {
		if name != headerChain && strings.HasPrefix(name, attributes) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var room [2048]byte
	b := append(room[:0], last[:]...)
	b = binary.BigEndian.AppendUint64(b, seq)
	b = appendPart(b, m.Subject)
	for _, name := range names {
		b = appendPart(appendPart(b, name), m.Header[name])
	}
	return sha256.Sum256(appendPart(b, m.Data))
}

// appendPart appends a text with its length before it.
func appendPart[T string | []byte](b []byte, text T) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(text))), text...)
}
