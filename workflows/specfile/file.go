package specfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits of a file. The API server accepts no object over about 1.5 MiB, so nothing useful is
// lost, and a file cannot exhaust the memory by repeating itself with aliases.
const (
	// MaxBytes is the maximum size of a file with its replaced directives.
	MaxBytes = 4 << 20
	maxNodes = 20_000
	maxDepth = 64
)

// File is a parsed file. Make one with Parse.
type File struct {
	// Name is its name in problems.
	Name string
	root *yaml.Node
	// warnings are fields that have no effect.
	warnings Problems
}

// Warnings returns the fields that have no effect, as found by Decode.
func (f *File) Warnings() Problems { return f.warnings }

// Parse parses a file of one YAML or JSON document. The error is Problems.
func Parse(name string, text []byte) (*File, error) {
	f := &File{Name: name}
	refuse := func(line int, format string, args ...any) (*File, error) {
		return nil, Problems{{File: name, Line: line, Text: fmt.Sprintf(format, args...)}}
	}
	if len(text) > MaxBytes {
		return refuse(0, "has %d bytes; the limit is %d", len(text), MaxBytes)
	}
	if strings.HasSuffix(name, ".star") {
		return refuse(1, "describes a %s; %s", smartTest, remedies[smartTest])
	}
	root, err := parse(text)
	var p Problem
	switch {
	case errors.As(err, &p):
		p = hinted(text, p)
		return refuse(p.Line, "%s", p.Text)
	case root == nil || root.Kind != yaml.MappingNode:
		return refuse(1, "must be an object with the fields name and spec")
	}
	f.root = root
	return f, nil
}

// parse returns the tree of a document, without aliases; nil when it is empty. The error is
// a Problem.
func parse(text []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var first *yaml.Node
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		switch {
		case errors.Is(err, io.EOF) && first == nil:
			return nil, nil
		case errors.Is(err, io.EOF):
			r := resolution{room: maxNodes}
			return r.resolve(first, 0)
		case err != nil:
			return nil, wrong(err)
		case empty(&document): // as between a separator and the end
		case first != nil:
			return nil, Problem{Line: document.Content[0].Line, Text: "has a second document, and a file describes one object: put each in a file of its own"}
		default:
			first = document.Content[0]
		}
	}
}

// empty reports whether a document is empty.
func empty(document *yaml.Node) bool {
	return len(document.Content) == 0 || document.Content[0].ShortTag() == "!!null" && document.Content[0].Value == ""
}

// resolution copies a tree without its aliases.
type resolution struct {
	room int // how many more nodes are allowed
}

// resolve returns a node with its aliases replaced by copies of their targets. The error is a
// Problem.
func (r *resolution) resolve(n *yaml.Node, depth int) (*yaml.Node, error) {
	if depth > maxDepth {
		return nil, Problem{Line: n.Line, Text: fmt.Sprintf("is nested more than %d levels deep", maxDepth)}
	}
	if r.room--; r.room < 0 {
		return nil, Problem{Line: n.Line, Text: fmt.Sprintf("holds more than %d values", maxNodes)}
	}
	if n.Kind == yaml.AliasNode {
		return r.resolve(n.Alias, depth+1)
	}
	out := &yaml.Node{Kind: n.Kind, Tag: n.ShortTag(), Value: n.Value, Line: n.Line}
	var merged []*yaml.Node
	for i, c := range n.Content {
		isKey := n.Kind == yaml.MappingNode && i%2 == 0
		if isKey && c.ShortTag() == "!!merge" {
			merged = append(merged, n.Content[i+1])
		}
		if n.Kind == yaml.MappingNode && n.Content[i-i%2].ShortTag() == "!!merge" {
			continue
		}
		next, err := r.resolve(c, depth+1)
		switch {
		case err != nil:
			return nil, err
		case isKey && next.Kind != yaml.ScalarNode:
			return nil, Problem{Line: c.Line, Text: "has a field name that is not text"}
		case isKey && keyed(out, next.Value) != nil:
			return nil, Problem{Line: c.Line, Text: fmt.Sprintf("has the field %q twice, first on line %d", next.Value, keyed(out, next.Value).Line)}
		}
		out.Content = append(out.Content, next)
	}
	return out, r.merge(out, merged, depth)
}

// merge adds the fields of other mappings by "<<" that the mapping itself does not have. The
// first mapping with a field wins.
func (r *resolution) merge(into *yaml.Node, from []*yaml.Node, depth int) error {
	for len(from) > 0 {
		other, err := r.resolve(from[0], depth+1)
		switch {
		case err != nil:
			return err
		case other.Kind == yaml.SequenceNode:
			from = append(append([]*yaml.Node{}, other.Content...), from[1:]...)
			if depth++; depth > maxDepth {
				return Problem{Line: other.Line, Text: fmt.Sprintf("is nested more than %d levels deep", maxDepth)}
			}
			continue
		case other.Kind != yaml.MappingNode:
			return Problem{Line: from[0].Line, Text: "has << before something that is not an object"}
		}
		for i := 0; i+1 < len(other.Content); i += 2 {
			if keyed(into, other.Content[i].Value) == nil {
				into.Content = append(into.Content, other.Content[i], other.Content[i+1])
			}
		}
		from = from[1:]
	}
	return nil
}

// keyed returns the key of a mapping with this name, or nil.
func keyed(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Kind == yaml.MappingNode && n.Content[i].Value == name {
			return n.Content[i]
		}
	}
	return nil
}

// child returns the node at one step of a path, and the line on which it begins; nil when there
// is none.
func child(n *yaml.Node, step string) (*yaml.Node, int) {
	if index, ok := strings.CutPrefix(step, "["); ok && n.Kind == yaml.SequenceNode {
		i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
		if err != nil || i < 0 || i >= len(n.Content) {
			return nil, 0
		}
		return n.Content[i], n.Content[i].Line
	}
	if name, err := strconv.Unquote(strings.TrimSuffix(strings.TrimPrefix(step, "["), "]")); err == nil {
		step = name
	}
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		if n.Content[i].Value == step {
			return n.Content[i+1], n.Content[i].Line
		}
	}
	return nil, 0
}
