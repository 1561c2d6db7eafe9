// Package decode decodes bodies of requests. It is pure. null means unset, and fields beside those that an
// operation knows are ignored, because clients send back answers; inside of these fields an unknown field
// and another type are problems with their paths.
package decode

import (
	"bytes"
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

// MaxBody is the maximum size of a body. No object of the API server is larger.
const MaxBody = 2 << 20

// Tree is a JSON object.
type Tree = map[string]any

// JSON decodes a body. Numbers stay as they are written. The error is specfile.Problems.
func JSON(text []byte) (any, error) {
	var problems specfile.Problems
	if len(text) > MaxBody {
		problems.Add("", "the body has more than %d bytes", MaxBody)
		return nil, problems
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
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
	if err := clean("", body); err != nil {
		return nil, err
	}
	again, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return body, specfile.DecodeJSON(again, into)
}

// names returns the names of a struct's fields in JSON.
func names(t reflect.Type) (out []string) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out = append(out, name)
	}
	return out
}

// clean removes null from objects, and refuses null in lists, and texts with a NUL character, which
// no store can keep.
func clean(path string, value any) error {
	switch v := value.(type) {
	case string:
		if strings.ContainsRune(v, 0) {
			return specfile.Problems{{Path: path, Text: "has a NUL character"}}
		}
	case []any:
		for i, item := range v {
			at := fmt.Sprintf("%s[%d]", path, i)
			if item == nil {
				return specfile.Problems{{Path: at, Text: "is null; remove it from the list"}}
			}
			if err := clean(at, item); err != nil {
				return err
			}
		}
	case Tree:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			at := strings.TrimPrefix(path+"."+name, ".")
			if v[name] == nil {
				delete(v, name)
			} else if err := errors.Join(clean(at, name), clean(at, v[name])); err != nil {
				return err
			}
		}
	}
	return nil
}
