package structure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// maxDepth is how deep values can be; deeper bodies are not decoded.
const maxDepth = 200

var errTooDeep = errors.New("more than 200 levels")

// JSON decodes one JSON value.
func JSON(body []byte) (*Value, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var decoded any
	if err := d.Decode(&decoded); err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode JSON: more than one value")
	}
	v, err := valueOf(decoded, 0)
	if err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	return v, nil
}

// valueOf returns a value that encoding/json has decoded, with numbers as their text.
func valueOf(decoded any, depth int) (*Value, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	switch of := decoded.(type) {
	case string:
		return &Value{Kind: Text, Text: of}, nil
	case json.Number:
		return &Value{Kind: Number, Text: of.String()}, nil
	case bool:
		return &Value{Kind: Bool, Text: strconv.FormatBool(of)}, nil
	case []any:
		list := &Value{Kind: List}
		for _, e := range of {
			v, err := valueOf(e, depth+1)
			if err != nil {
				return nil, err
			}
			list.Elements = append(list.Elements, v)
		}
		return list, nil
	case map[string]any:
		var members []Member
		for name, m := range of {
			v, err := valueOf(m, depth+1)
			if err != nil {
				return nil, err
			}
			members = append(members, Member{name, v})
		}
		return ObjectOf(members...), nil
	}
	return &Value{Kind: Null, Text: "null"}, nil
}
