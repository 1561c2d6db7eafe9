package specfile

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Values are the values of variables by their names.
type Values map[string]string

// variable matches the name of a variable.
var variable = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_.-]*$`)

// ValuesOf reads values of the form NAME=VALUE. A repetition of the same value is allowed.
func ValuesOf(set []string) (Values, error) {
	values := Values{}
	for _, s := range set {
		name, value, ok := strings.Cut(s, "=")
		switch before, given := values[name]; {
		case !ok:
			return nil, fmt.Errorf("--set %s has no value; write --set NAME=VALUE", s)
		case !variable.MatchString(name):
			return nil, fmt.Errorf("--set %s: %q is not a variable; a name is a letter, then letters, digits, _ . and -", s, name)
		case given && before != value:
			return nil, fmt.Errorf("--set gives %s two values, %q and %q; give it one", name, before, value)
		}
		values[name] = value
	}
	return values, nil
}

// Embed returns the content of a file, by its path in the spec file.
type Embed func(path string) ([]byte, error)

// Expand replaces the directives of the file. The error is Problems; one of them lists all
// variables without a value.
func (f *File) Expand(values Values, embed Embed) error {
	e := expansion{values: values, embed: embed, missing: map[string][]int{}, room: MaxBytes}
	e.walk(f.root, "")
	if len(e.missing) > 0 {
		var names, flags []string
		first := 0
		for _, name := range slices.Sorted(maps.Keys(e.missing)) {
			names = append(names, fmt.Sprintf("%s (%s)", name, lines(e.missing[name])))
			flags = append(flags, "--set "+name+"=…")
			if at := e.missing[name][0]; first == 0 || at < first {
				first = at
			}
		}
		e.problems = append(e.problems, Problem{Line: first, Text: fmt.Sprintf(
			"uses variables without a value: %s; set them with %s", strings.Join(names, ", "), strings.Join(flags, " "))})
	}
	for i := range e.problems {
		e.problems[i].File = f.Name
	}
	return e.problems.OrNil()
}

// lines lists lines of a file.
func lines(all []int) string {
	all = slices.Compact(slices.Sorted(slices.Values(all)))
	text := "line "
	if len(all) > 1 {
		text = "lines "
	}
	for i, n := range all {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprint(n)
	}
	return text
}

// expansion is one walk through a file.
type expansion struct {
	values   Values
	embed    Embed
	problems Problems
	// missing are the lines of variables without a value.
	missing map[string][]int
	// room is how many more bytes directives may insert.
	room int
}

// directive matches possible directives.
var directive = regexp.MustCompile(`@\{[^}]+\}`)

// walk replaces the directives in all texts below a node.
func (e *expansion) walk(n *yaml.Node, path string) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if key := n.Content[i]; directive.MatchString(key.Value) {
				e.refuse(key, path, "has a directive in the field name %q; directives work in values only", key.Value)
			}
			e.walk(n.Content[i+1], join(path, n.Content[i].Value))
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			e.walk(c, fmt.Sprintf("%s[%d]", path, i))
		}
	case yaml.ScalarNode:
		if n.Tag == "!!str" {
			e.expand(n, path)
		}
	}
}

func (e *expansion) refuse(n *yaml.Node, path, format string, args ...any) {
	e.problems = append(e.problems, Problem{Path: path, Line: n.Line, Text: fmt.Sprintf(format, args...)})
}

// expand replaces the directives of one text.
func (e *expansion) expand(n *yaml.Node, path string) {
	whole := directive.FindString(n.Value) == n.Value && n.Value != ""
	wanted, value := encodingRaw, []byte(nil)
	text := directive.ReplaceAllStringFunc(n.Value, func(d string) string {
		got, encoding, err := e.value(d, n.Line)
		if err == nil && encoding != encodingRaw && !whole {
			err = fmt.Errorf("%s is part of a longer text; [%s] needs a directive that is the whole text", d, encoding)
		}
		if err == nil && encoding == encodingRaw && !utf8.Valid(got) {
			err = fmt.Errorf("%s is not text; use [binary] to have it in base64", d)
		}
		if e.room -= len(got); err == nil && e.room < 0 {
			err = fmt.Errorf("the file with its directives replaced has more than %d bytes", MaxBytes)
		}
		if err != nil {
			e.refuse(n, path, "%v", err)
			return ""
		}
		wanted, value = encoding, got
		return string(got)
	})
	switch wanted {
	case encodingRaw:
		n.Value = text
	case encodingBinary:
		n.Value = base64.StdEncoding.EncodeToString(value)
	case encodingYAML:
		tree, err := parse(value)
		var p Problem
		switch {
		case errors.As(err, &p):
			e.refuse(n, path, "is replaced by a value that %s (on its line %d)", p.Text, p.Line)
		case tree == nil:
			*n = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: n.Line}
		default:
			placed(tree, n.Line)
			*n = *tree
		}
	}
}

// placed sets the line of all nodes of a tree.
func placed(n *yaml.Node, line int) {
	n.Line = line
	for _, c := range n.Content {
		placed(c, line)
	}
}

// Encodings of a replacement.
const (
	encodingRaw    = "raw"
	encodingYAML   = "yaml"
	encodingBinary = "binary"
)

// value returns the value of a directive, and its encoding. A variable without a value is noted.
func (e *expansion) value(d string, line int) (value []byte, encoding string, err error) {
	inner := strings.TrimSuffix(strings.TrimPrefix(d, "@{"), "}")
	name, path, operation := strings.Cut(inner, ":")
	name, encoding, err = encodingOf(strings.TrimSpace(name))
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("%s %w", d, err)
	case operation && name != "embed":
		return nil, "", fmt.Errorf("%s asks for %q; there is @{embed: path}, and @{name} for a variable", d, name)
	case operation:
		path = strings.TrimSpace(path)
		if value, err = e.embed(path); err != nil {
			return nil, "", fmt.Errorf("%s cannot be embedded: %w", d, err)
		}
		return value, encoding, nil
	case !variable.MatchString(name):
		return nil, "", fmt.Errorf("%s is not a variable; a name is a letter, then letters, digits, _ . and -", d)
	}
	text, known := e.values[name]
	if !known {
		e.missing[name] = append(e.missing[name], line)
	}
	return []byte(text), encoding, nil
}

// encodingOf splits the encoding off a name: name[yaml].
func encodingOf(text string) (name, encoding string, err error) {
	name, encoding, found := strings.Cut(text, "[")
	if !found {
		return name, encodingRaw, nil
	}
	encoding, closed := strings.CutSuffix(encoding, "]")
	encoding = strings.TrimSpace(encoding)
	switch {
	case !closed:
		return "", "", errors.New("opens [ and does not close it")
	case encoding != encodingRaw && encoding != encodingYAML && encoding != encodingBinary:
		return "", "", fmt.Errorf("asks for [%s]; there are [raw], [yaml] and [binary]", encoding)
	}
	return strings.TrimSpace(name), encoding, nil
}
