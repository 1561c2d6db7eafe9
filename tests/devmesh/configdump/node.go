package configdump

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// node is a place in the JSON, with how one got there.
type node struct {
	path  string
	value any
}

func parse(text []byte) (node, error) {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return node{}, fmt.Errorf("read the dump: %w", err)
	}
	return node{"", value}, nil
}

// at descends by field names. A missing field has no value.
func (n node) at(fields ...string) node {
	for _, field := range fields {
		object, _ := n.value.(map[string]any)
		n = node{n.path + "." + field, object[field]}
	}
	return n
}

func (n node) absent() bool { return n.value == nil }

func (n node) text() string {
	text, _ := n.value.(string)
	return text
}

func (n node) number() float64 {
	number, _ := n.value.(float64)
	return number
}

func (n node) yes() bool {
	yes, _ := n.value.(bool)
	return yes
}

func (n node) list() (all []node) {
	values, _ := n.value.([]any)
	for i, value := range values {
		all = append(all, node{fmt.Sprintf("%s[%d]", n.path, i), value})
	}
	return all
}

// fields returns the fields of an object, in no order.
func (n node) fields() map[string]node {
	all := map[string]node{}
	object, _ := n.value.(map[string]any)
	for name, value := range object {
		all[name] = node{n.path + "." + name, value}
	}
	return all
}

// is reports whether this is a message of a type, by the end of its name.
func (n node) is(typeName string) bool {
	return strings.HasSuffix(n.at("@type").text(), "."+typeName)
}

// only complains of fields that are not among those that the caller understands.
func (n node) only(known ...string) error {
	var wrong []error
	for name, field := range n.fields() {
		if name != "@type" && !slices.Contains(known, name) {
			wrong = append(wrong, field.wrong("is not understood"))
		}
	}
	return errors.Join(wrong...)
}

func (n node) wrong(format string, values ...any) error {
	text, err := json.Marshal(n.value)
	if err != nil {
		text = []byte(err.Error())
	}
	return fmt.Errorf("%s: %s: %.300s", n.path, fmt.Sprintf(format, values...), text)
}
