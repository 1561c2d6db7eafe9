package structure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"switchyard.dev/eventbus/lists"
)

// maxDepth is how deep values can be; deeper bodies are not decoded.
const maxDepth = 200

var errTooDeep = errors.New("more than 200 levels")

// JSON decodes one JSON value. Nothing of a body that is too deep is decoded.
func JSON(body []byte) (*Value, error) {
	if tooDeep(body) {
		return nil, fmt.Errorf("decode JSON: %w", errTooDeep)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var decoded any
	if err := d.Decode(&decoded); err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode JSON: more than one value")
	}
	return valueOf(decoded), nil
}

// tooDeep reports whether objects and lists are inside of each other at more than maxDepth levels. It reads to the first such level.
func tooDeep(body []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && (c == '[' || c == '{'):
			if depth++; depth > maxDepth {
				return true
			}
		case !quoted && (c == ']' || c == '}'):
			depth--
		}
	}
	return false
}

// valueOf returns a value that encoding/json has decoded, with numbers as their text.
func valueOf(decoded any) *Value {
	switch of := decoded.(type) {
	case string:
		return &Value{Kind: Text, Text: of}
	case json.Number:
		return &Value{Kind: Number, Text: of.String()}
	case bool:
		return &Value{Kind: Bool, Text: strconv.FormatBool(of)}
	case []any:
		return &Value{Kind: List, Elements: lists.Map(of, valueOf)}
	case map[string]any:
		var members []Member
		for name, m := range of {
			members = append(members, Member{name, valueOf(m)})
		}
		return ObjectOf(members...)
	}
	return &Value{Kind: Null, Text: "null"}
}
