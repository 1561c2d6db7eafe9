// Package structure decodes messages into trees of values, so that they are compared by structure.
//
//	content.go   content encodings, within a limit, and the choice by content type
//	json.go      JSON; numbers keep their text
//	protobuf.go  protobuf by field number; gRPC's frames
//	text.go      text: members, lines, or one line
package structure

import (
	"encoding/json"
	"slices"
	"strings"

	"switchyard.dev/eventbus/lists"
)

// Kind is the type of a value.
type Kind string

// The types.
const (
	Null   Kind = "null"
	Bool   Kind = "boolean"
	Number Kind = "number"
	Text   Kind = "text"
	List   Kind = "list"
	Object Kind = "object"
	Opaque Kind = "bytes" // not decoded: Text is its digest
)

// Value is a node of a message. Members of an object are sorted by name.
type Value struct {
	Kind     Kind
	Text     string // of a scalar
	Members  []Member
	Elements []*Value
}

// Member is a named value of an object.
type Member struct {
	Name  string
	Value *Value
}

// Member returns a member of an object; nil if there is none.
func (v *Value) Member(name string) *Value {
	at, found := slices.BinarySearchFunc(v.Members, name, func(m Member, name string) int { return strings.Compare(m.Name, name) })
	if !found {
		return nil
	}
	return v.Members[at].Value
}

// Scalar reports whether a value has no values below it.
func (v *Value) Scalar() bool { return v.Kind != List && v.Kind != Object }

// ObjectOf returns an object of members in any order; of several of a name the last counts.
func ObjectOf(members ...Member) *Value {
	slices.SortStableFunc(members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	kept := members[:0]
	for i, m := range members {
		if i == len(members)-1 || members[i+1].Name != m.Name {
			kept = append(kept, m)
		}
	}
	return &Value{Kind: Object, Members: kept}
}

// Any returns a value as encoding/json writes it; nil if there is none.
func (v *Value) Any() any {
	if v == nil || v.Kind == Null {
		return nil
	}
	switch v.Kind {
	case Bool:
		return v.Text == "true"
	case Number:
		return json.Number(v.Text)
	case List:
		return append([]any{}, lists.Map(v.Elements, (*Value).Any)...)
	case Object:
		object := map[string]any{}
		for _, m := range v.Members {
			object[m.Name] = m.Value.Any()
		}
		return object
	}
	return v.Text
}

// String returns a value as JSON-like text, members sorted.
func (v *Value) String() string {
	if v == nil {
		return "nothing"
	}
	return string(v.appendTo(nil))
}

func (v *Value) appendTo(to []byte) []byte {
	switch v.Kind {
	case Object:
		to = append(to, '{')
		for i, m := range v.Members {
			if i > 0 {
				to = append(to, ',')
			}
			to = append(append(to, m.Name...), ':')
			to = m.Value.appendTo(to)
		}
		return append(to, '}')
	case List:
		to = append(to, '[')
		for i, e := range v.Elements {
			if i > 0 {
				to = append(to, ',')
			}
			to = e.appendTo(to)
		}
		return append(to, ']')
	case Text:
		return append(append(append(to, '"'), v.Text...), '"')
	}
	return append(to, v.Text...)
}
