package structure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxDepth is how deep values can be; deeper bodies are not decoded.
const maxDepth = 200

var errTooDeep = errors.New("more than 200 levels")

// JSON decodes one JSON value.
func JSON(body []byte) (*Value, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	v, err := decodeJSON(d, 0)
	if err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode JSON: more than one value")
	}
	return v, nil
}

func decodeJSON(d *json.Decoder, depth int) (*Value, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case string:
		return &Value{Kind: Text, Text: t}, nil
	case json.Number:
		return &Value{Kind: Number, Text: t.String()}, nil
	case bool:
		return &Value{Kind: Bool, Text: fmt.Sprint(t)}, nil
	case json.Delim:
		if t == '[' {
			return listJSON(d, depth)
		}
		return objectJSON(d, depth)
	}
	return &Value{Kind: Null, Text: "null"}, nil
}

func listJSON(d *json.Decoder, depth int) (*Value, error) {
	v := &Value{Kind: List}
	for d.More() {
		element, err := decodeJSON(d, depth+1)
		if err != nil {
			return nil, err
		}
		v.Elements = append(v.Elements, element)
	}
	_, err := d.Token()
	return v, err
}

func objectJSON(d *json.Decoder, depth int) (*Value, error) {
	var members []Member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		value, err := decodeJSON(d, depth+1)
		if err != nil {
			return nil, err
		}
		members = append(members, Member{fmt.Sprint(name), value})
	}
	_, err := d.Token()
	return ObjectOf(members...), err
}
