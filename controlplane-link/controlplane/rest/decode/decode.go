// Package decode decodes bodies of requests. It is pure. null means unset, and fields beside those that an
// operation knows are ignored, because clients send back answers; inside of these fields an unknown field
// and another type are problems with their paths.
package decode

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"switchyard.dev/workflows/specfile"
)

// maxDepth is how many objects and lists can be inside of each other. No specification needs half of that.
const maxDepth = 64

var tooDeep = fmt.Sprintf("the body is nested deeper than %d levels", maxDepth)

// Tree is a JSON object.
type Tree = map[string]any

// Specification is a body of which the specification counts.
type Specification[S any] struct {
	Spec S `json:"spec"`
}

// JSON decodes a body. Numbers stay as they are written. The error is specfile.Problems.
func JSON(text []byte) (any, error) {
	var problems specfile.Problems
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); errors.Is(err, io.EOF) {
		problems.Add("", "the body is empty; it must be JSON")
	} else if err != nil {
		problems.Add("", "the body is not JSON: %v", err)
	} else if _, err := d.Token(); !errors.Is(err, io.EOF) {
		problems.Add("", "the body has more than one JSON value")
	}
	return value, problems.OrNil()
}

// Object decodes a body, an object, into a struct. The tree is the decoded part of the body, without
// null. The error is specfile.Problems.
func Object(text []byte, into any) (Tree, error) {
	value, err := JSON(text)
	if err != nil {
		return nil, err
	}
	body, ok := value.(Tree)
	if !ok {
		return nil, specfile.Problems{{Text: "the body must be a JSON object"}}
	}
	known := names(reflect.TypeOf(into).Elem())
	maps.DeleteFunc(body, func(name string, _ any) bool { return !slices.Contains(known, name) })
	if p := clean(0, body); p != nil {
		p.Path = strings.TrimPrefix(p.Path, ".")
		return nil, specfile.Problems{*p}
	}
	again, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return body, specfile.DecodeJSON(again, into)
}

// maxField is the maximum size of a field of a body without a specification, in bytes, and maxFields those of some.
const maxField = 4 << 10

var maxFields = map[string]int{"value": 48 << 10}

// Short returns a problem of a field that is larger than it can be. The error is specfile.Problems.
func Short(body Tree) error {
	for name, value := range body {
		most := cmp.Or(maxFields[name], maxField)
		if n := len(fmt.Sprint(value)); n > most {
			return specfile.Problems{{Path: name, Text: fmt.Sprintf("has %d bytes; it can have %d", n, most)}}
		}
	}
	return nil
}

// names returns the names of a struct's fields in JSON.
func names(t reflect.Type) (out []string) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out = append(out, name)
	}
	return out
}

// clean removes null from objects. It returns a problem, with the path from the value, of null in a list, of
// a text with a NUL character, which no store can keep, and of a value that is nested too deep.
func clean(depth int, value any) *specfile.Problem {
	switch v := value.(type) {
	case string:
		if strings.ContainsRune(v, 0) {
			return &specfile.Problem{Text: "has a NUL character"}
		}
	case []any:
		if depth >= maxDepth {
			return &specfile.Problem{Text: tooDeep}
		}
		for i, item := range v {
			if item == nil {
				return &specfile.Problem{Path: fmt.Sprintf("[%d]", i), Text: "is null; remove it from the list"}
			}
			if p := clean(depth+1, item); p != nil {
				return within(fmt.Sprintf("[%d]", i), p)
			}
		}
	case Tree:
		if depth >= maxDepth {
			return &specfile.Problem{Text: tooDeep}
		}
		maps.DeleteFunc(v, func(_ string, of any) bool { return of == nil })
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if p := cmp.Or(clean(depth+1, name), clean(depth+1, v[name])); p != nil {
				return within("."+name, p)
			}
		}
	}
	return nil
}

// within returns the problem of a part as one of the whole. That of its depth is one of the body.
func within(part string, p *specfile.Problem) *specfile.Problem {
	if p.Text != tooDeep {
		p.Path = part + p.Path
	}
	return p
}
