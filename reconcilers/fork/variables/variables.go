// Package variables substitutes variables in patches, such as {{ .sandbox.name }}, and returns the address
// of a fork that a variable names. It is pure: values in, values out.
package variables

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Syntax of variables in patches: {{ .sandbox.name }}. Quoted text is literal, so {{ "{{" }} expands to
// two braces.
const (
	openVariable  = "{{"
	closeVariable = "}}"
)

// Values are the texts by their names, such as .resources.db.objectName.
type Values map[string]string

// String lists the names for a message.
func (v Values) String() string {
	const most = 12
	names := slices.Sorted(maps.Keys(v))
	if len(names) == 0 {
		return "none"
	}
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// Substitute returns the content of a patch with the variables in its strings substituted, or an error if
// the result is longer than most bytes. It works on decoded JSON, so that a string stays one string
// whatever the value of a variable. Variables do not change which fields a patch writes: they are not
// substituted in field names nor, in the operations of a JSON patch, outside values.
func (v Values) Substitute(content []byte, operations bool, most int) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		return nil, fmt.Errorf("its JSON cannot be read: %w", err)
	}
	s := substitution{known: v, most: most, room: most}
	if list, ok := document.([]any); ok && operations {
		for i, operation := range list {
			s.operation(operation, "["+strconv.Itoa(i)+"]")
		}
	} else {
		document = s.value(document, "")
	}
	if s.err != nil {
		return nil, s.err
	}
	return json.Marshal(document)
}

// substitution is one traversal of a patch; it ends at the first error.
type substitution struct {
	known Values
	most  int // How many bytes all texts may have,
	room  int // and how many they still may.
	err   error
}

// operation substitutes in the value of an operation of a JSON patch.
func (s *substitution) operation(operation any, path string) {
	fields, ok := operation.(map[string]any)
	if !ok {
		s.fixed(operation, path)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if key == "value" {
			fields[key] = s.value(fields[key], path+".value")
		} else {
			s.fixed(key, path)
			s.fixed(fields[key], path+"."+key)
		}
	}
}

// value returns the value with variables substituted in all its texts.
func (s *substitution) value(value any, path string) any {
	switch v := value.(type) {
	case string:
		out, err := s.expand(v)
		if err != nil && s.err == nil {
			s.err = fmt.Errorf("%s is wrong: %w", place(path), err)
		}
		return out
	case []any:
		for i := range v {
			v[i] = s.value(v[i], path+"["+strconv.Itoa(i)+"]")
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			s.fixed(key, path)
			if strings.HasPrefix(key, "$") { // A directive to the patch itself.
				s.fixed(v[key], path+"."+key)
				continue
			}
			v[key] = s.value(v[key], path+"."+key)
		}
	}
	return value
}

// fixed refuses variables where nothing may depend on them.
func (s *substitution) fixed(value any, path string) {
	text, err := json.Marshal(value)
	if err == nil && s.err == nil && bytes.Contains(text, []byte(openVariable)) {
		s.err = fmt.Errorf("%s has %q in %s, where no variable may stand: only values of fields, and of operations their value, may have one",
			place(path), openVariable, shown(string(text)))
	}
}

// place names a place in a patch.
func place(path string) string {
	if path == "" {
		return "the patch"
	}
	return strings.TrimPrefix(path, ".")
}

// shown returns the beginning of a text for a message.
func shown(text string) string {
	const most = 80
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// expand returns a text with its variables substituted. What does not fit is not even
// put together.
func (s *substitution) expand(text string) (string, error) {
	var out strings.Builder
	for rest := text; ; {
		before, after, found := strings.Cut(rest, openVariable)
		out.WriteString(before)
		s.room -= len(before)
		if !found {
			return out.String(), nil
		}
		value, left, err := expandOne(after, s.known)
		if err != nil {
			return "", err
		}
		if s.room -= len(value); s.room < 0 {
			return "", fmt.Errorf("with its variables substituted the patch has more than %d bytes", s.most)
		}
		out.WriteString(value)
		rest = left
	}
}

// expandOne returns the value of one variable, and the text after it. text begins after the opening
// braces.
func expandOne(text string, known Values) (value, rest string, err error) {
	body := strings.TrimLeft(text, " \t\r\n")
	if quoted, ok := strings.CutPrefix(body, `"`); ok {
		value, body, ok = strings.Cut(quoted, `"`)
		if !ok {
			return "", "", fmt.Errorf("%q has a quotation mark that is not closed", shown(openVariable+text))
		}
		body = strings.TrimLeft(body, " \t\r\n")
		if rest, ok = strings.CutPrefix(body, closeVariable); !ok {
			return "", "", fmt.Errorf("%q goes on after the quoted text: close it with %s", shown(openVariable+text), closeVariable)
		}
		return value, rest, nil
	}
	name, rest, found := strings.Cut(text, closeVariable)
	if !found || strings.Contains(name, openVariable) {
		return "", "", fmt.Errorf("%q opens a variable that is not closed with %s (to have %s in the text write {{ \"{{\" }})",
			shown(openVariable+text), closeVariable, openVariable)
	}
	name = strings.TrimSpace(name)
	value, ok := known[name]
	switch {
	case ok:
		return value, rest, nil
	case name == "":
		err = errors.New("a variable has no name")
	default:
		err = fmt.Errorf("the variable %q is not known", shown(name))
	}
	return "", "", fmt.Errorf("%w; known are: %s", err, known)
}
