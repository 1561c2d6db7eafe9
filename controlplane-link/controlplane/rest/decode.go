package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"switchyard.dev/workflows/specfile"
)

// maxBody is the maximum size of a body. No object of the API server is larger.
const maxBody = 2 << 20

// tree is a JSON object.
type tree = map[string]any

// decode decodes the body, an object, into a struct. null is unset, and fields beside those of the
// struct are ignored. Inside them an unknown field or another type is a failure with its path. The
// tree is the decoded part of the body, without null.
func (r *request) decode(into any) (tree, error) {
	value, err := r.body()
	if err != nil {
		return nil, err
	}
	body, ok := value.(tree)
	if !ok {
		return nil, fail(http.StatusBadRequest, "the body must be a JSON object")
	}
	known := names(reflect.TypeOf(into).Elem())
	maps.DeleteFunc(body, func(name string, _ any) bool { return !slices.Contains(known, name) })
	if err := clean("", body); err != nil {
		return nil, err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return body, specfile.DecodeJSON(text, into)
}

// body returns the body as a value. Numbers stay as they are written.
func (r *request) body() (any, error) {
	text, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, fail(http.StatusBadRequest, "the body cannot be read")
	case len(text) > maxBody:
		return nil, fail(http.StatusBadRequest, "the body has more than %d bytes", maxBody)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, fail(http.StatusBadRequest, "the body is not JSON: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fail(http.StatusBadRequest, "the body has more than one JSON value")
	}
	return value, nil
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
	case tree:
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
