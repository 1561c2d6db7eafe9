package specfile

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"switchyard.dev/eventbus/spelling"
)

// Decode decodes the file into a struct with the fields name and, unless KeepName was called,
// spec. The error is Problems, in the order of the file.
func (f *File) Decode(into any) error {
	var c checks
	t := reflect.TypeOf(into).Elem()
	spec, _ := fieldNamed(t, "spec")
	for i := 0; i+1 < len(f.root.Content); i += 2 {
		key, value := f.root.Content[i], f.root.Content[i+1]
		if field, ok := fieldNamed(t, key.Value); ok {
			c.check(value, field, key.Value)
		} else if text, wrong := f.stray(key.Value, t, spec); wrong {
			c.problems = append(c.problems, Problem{Text: text, File: f.Name, Line: key.Line})
		} else if text != "" {
			f.warnings = append(f.warnings, Problem{Text: text, File: f.Name, Line: key.Line})
		}
	}
	for _, name := range fields(t) {
		switch {
		case keyed(f.root, name) != nil:
		case f.printed():
			c.problems.Add("", "is the output of a get command without a %s: those print one only for objects that apply has written and nothing else has changed", name)
		default:
			c.problems.Add("", "has no field %q", name)
		}
	}
	if len(c.problems) == 0 {
		if err := assign(f.root, into); err != nil {
			c.problems.Add("", "%s", strings.TrimPrefix(err.Error(), "json: "))
		}
	}
	return f.Locate(c.problems).OrNil()
}

// KeepName removes everything but the name from the file, for callers that need only that:
// variables in other fields then need no value.
func (f *File) KeepName() {
	name, at := child(f.root, "name")
	f.root = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: f.root.Line}
	if name != nil {
		f.root.Content = []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: "name", Line: at}, name}
	}
}

// shown are fields in the output of get commands beside name and spec, of this program and of the
// published client.
var shown = []string{"createdAt", "updatedAt", "author", "routingKey", "endpoints", "status", "defaults", "workloads", "matchedSandboxes"}

// repeated are fields of spec that the output of this program's get commands has beside it, too.
var repeated = []string{"description", "labels", "resources"}

// printed reports whether the file is the output of a get command: it has status or createdAt.
func (f *File) printed() bool {
	return keyed(f.root, "status") != nil || keyed(f.root, "createdAt") != nil
}

// JSON returns a field of the file, with its directives replaced, as JSON.
func (f *File) JSON(field string) (json.RawMessage, error) {
	n, _ := child(f.root, field)
	if n == nil {
		return nil, nil
	}
	value, err := plain(n)
	if err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

// heads are fields that objects of the cluster have beside spec.
var heads = []string{"apiVersion", "kind"}

// stray returns a message about a field beside those of t. wrong: it is misspelt, or belongs into
// the spec, and would be lost. Others have no effect.
func (f *File) stray(name string, t, spec reflect.Type) (text string, wrong bool) {
	if slices.Contains(heads, name) || f.printed() && slices.Contains(shown, name) {
		return "", false
	}
	if spec != nil {
		_, ok := fieldNamed(spec, name)
		if known := f.printed() && slices.Contains(repeated, name); ok && !known {
			return fmt.Sprintf("has the field %q beside spec; move it into spec", name), true
		} else if ok && !f.repeats(name) {
			return fmt.Sprintf("has the field %q beside spec with another value than in spec; change it in spec", name), true
		} else if ok {
			return "", false
		}
	}
	if meant := nearest(name, fields(t)); meant != "" {
		return fmt.Sprintf("has a field %q, which does not exist; did you mean %q?", name, meant), true
	}
	if spec != nil {
		if meant := nearest(name, fields(spec)); meant != "" {
			return fmt.Sprintf("has a field %q beside spec, which does not exist; did you mean %q in spec?", name, meant), true
		}
	}
	return fmt.Sprintf("has a field %q beside spec, which has no effect", name), false
}

// repeats reports whether a field beside spec has the same value as in spec; lists are compared
// by names.
func (f *File) repeats(name string) bool {
	top, _ := child(f.root, name)
	spec, _ := child(f.root, "spec")
	if spec == nil {
		return true
	}
	in, _ := child(spec, name)
	if in == nil {
		return len(top.Content) == 0 && top.Value == ""
	}
	if len(top.Content) != len(in.Content) || top.Value != in.Value {
		return false
	}
	for i := range top.Content {
		a, b := top.Content[i], in.Content[i]
		if top.Kind == yaml.MappingNode && i%2 == 0 {
			a, _ = child(top, b.Value)
			b = in.Content[i+1]
		} else if top.Kind == yaml.MappingNode {
			continue
		} else if named, _ := child(b, "name"); named != nil {
			a, _ = child(a, "name")
			b = named
		}
		if a == nil || a.Value != b.Value {
			return false
		}
	}
	return true
}

// DecodeJSON decodes a JSON value, as strictly as Decode: an unknown field and a value of another type
// are Problems, with paths and without lines. null is the zero value.
func DecodeJSON(text []byte, into any) error {
	root, err := parse(text)
	if err != nil || root == nil {
		return Problems{{Text: "is not JSON that a specification can have"}}
	}
	c := checks{exact: true}
	if c.check(root, reflect.TypeOf(into).Elem(), ""); len(c.problems) == 0 {
		if err := assign(root, into); err != nil {
			c.problems.Add("", "cannot be read: %s", strings.TrimPrefix(err.Error(), "json: "))
		}
	}
	return c.problems.OrNil()
}

// DecodeText decodes a field's text of YAML into a value, as strictly as Decode. Problems have
// the field's path, and the line within the text. The text may be a patch, with directives such
// as $patch among its fields.
func DecodeText(path, text string, into any) Problems {
	c := checks{directives: true}
	root, err := parse([]byte(text))
	if err == nil && root == nil {
		return nil
	}
	if err == nil {
		c.check(root, reflect.TypeOf(into).Elem(), "")
		within := (&File{root: root}).Locate(c.problems)
		for i, p := range within {
			within[i] = Problem{Path: path, Text: fmt.Sprintf("has a problem on its line %d: %s", p.Line, Problem{Path: p.Path, Text: p.Text}.Error())}
		}
		if len(within) > 0 {
			return within
		}
		err = assign(root, into)
	}
	if p, ok := err.(Problem); ok {
		p = hinted([]byte(text), p)
		return Problems{{Path: path, Text: fmt.Sprintf("%s (on its line %d)", p.Text, p.Line)}}
	}
	if err != nil {
		return Problems{{Path: path, Text: "cannot be read: " + strings.TrimPrefix(err.Error(), "json: ")}}
	}
	return nil
}

// assign decodes a checked tree into a value, through JSON.
func assign(root *yaml.Node, into any) error {
	value, err := plain(root)
	if err != nil {
		return err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// plain returns a tree as values that JSON can encode. The error is a Problem.
func plain(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			value, err := plain(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			out[n.Content[i].Value] = value
		}
		return out, nil
	case yaml.SequenceNode:
		out := []any{}
		for _, c := range n.Content {
			value, err := plain(c)
			if err != nil {
				return nil, err
			}
			out = append(out, value)
		}
		return out, nil
	}
	switch n.Tag {
	case "!!null", "!!bool", "!!int", "!!float":
		var value any
		if err := n.Decode(&value); err != nil {
			return nil, Problem{Line: n.Line, Text: wrong(err).Text}
		}
		if _, err := json.Marshal(value); err != nil {
			return nil, Problem{Line: n.Line, Text: fmt.Sprintf("has the number %s, which JSON cannot have", n.Value)}
		}
		return value, nil
	}
	return n.Value, nil
}

// checks compares a tree with a type.
type checks struct {
	problems Problems
	// directives: fields that begin with $ are directives of a patch.
	directives bool
	// exact: a number must not be text.
	exact bool
}

// unmarshaler is implemented by types that decode their JSON themselves.
var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// check adds problems for values that do not fit a type.
func (c *checks) check(n *yaml.Node, t reflect.Type, path string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n.Tag == "!!null" || reflect.PointerTo(t).Implements(unmarshaler) {
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		c.object(n, t, path)
	case reflect.Map:
		if c.is(n, yaml.MappingNode, path, "an object") {
			for i := 0; i+1 < len(n.Content); i += 2 {
				c.check(n.Content[i+1], t.Elem(), join(path, n.Content[i].Value))
			}
		}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			c.text(n, path)
			return
		}
		if c.is(n, yaml.SequenceNode, path, "a list with items that begin with -") {
			for i, item := range n.Content {
				c.check(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i))
			}
		}
	case reflect.String:
		c.text(n, path)
	case reflect.Bool:
		if n.Tag != "!!bool" {
			c.problems.Add(path, "must be true or false, not %s", described(n))
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		c.number(n, t, path)
	}
}

// object checks the fields of a struct.
func (c *checks) object(n *yaml.Node, t reflect.Type, path string) {
	if !c.is(n, yaml.MappingNode, path, "an object with fields such as "+strings.Join(fields(t)[:min(len(fields(t)), 3)], ", ")) {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i].Value
		field, ok := fieldNamed(t, name)
		switch {
		case ok:
			c.check(n.Content[i+1], field, join(path, name))
		case !c.directives || !strings.HasPrefix(name, "$"):
			c.problems.Add(join(path, name), "is not a field%s", Suggest(name, fields(t)))
		}
	}
}

// is reports whether a node is of a kind, and adds a problem when it is not.
func (c *checks) is(n *yaml.Node, kind yaml.Kind, path, wanted string) bool {
	if n.Kind != kind {
		c.problems.Add(path, "must be %s, not %s", wanted, described(n))
	}
	return n.Kind == kind
}

// text checks that a node is a text.
func (c *checks) text(n *yaml.Node, path string) {
	switch {
	case n.Kind != yaml.ScalarNode:
		c.problems.Add(path, "must be text, not %s", described(n))
	case n.Tag == "!!int" || n.Tag == "!!float" || n.Tag == "!!bool":
		c.problems.Add(path, "must be text, not %s; put it in quotes: %q", described(n), n.Value)
	}
}

// number checks that a node is a number that fits. A field named port may be text, because the
// replacement of a directive is text.
func (c *checks) number(n *yaml.Node, t reflect.Type, path string) {
	value, err := strconv.ParseInt(n.Value, 0, t.Bits())
	switch {
	case n.Kind != yaml.ScalarNode || n.Tag != "!!int" && (c.exact || n.Tag != "!!str" || !strings.HasSuffix(path, ".port")):
		c.problems.Add(path, "must be a number, not %s", described(n))
	case err != nil:
		c.problems.Add(path, "must be a whole number of at most %d bits, not %s", t.Bits(), described(n))
	default:
		n.Tag, n.Value = "!!int", strconv.FormatInt(value, 10)
	}
}

// described describes a node, for messages.
func described(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "an object"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!int" || n.Tag == "!!float":
		return "the number " + n.Value
	case n.Tag == "!!bool":
		return n.Value
	case len(n.Value) > 40:
		return fmt.Sprintf("the text %q…", strings.ToValidUTF8(n.Value[:40], ""))
	}
	return fmt.Sprintf("the text %q", n.Value)
}

// join adds a field to a path.
func join(path, name string) string {
	if strings.ContainsAny(name, `.[]"`) || name == "" {
		return path + "[" + strconv.Quote(name) + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// fields returns the names of a struct's fields in JSON.
func fields(t reflect.Type) []string {
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			out = append(out, fields(f.Type)...)
		case name != "" && name != "-":
			out = append(out, name)
		}
	}
	return out
}

// fieldNamed returns the type of the field with this name in JSON.
func fieldNamed(t reflect.Type, name string) (reflect.Type, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.Anonymous && tag == "" {
			if inner, ok := fieldNamed(f.Type, name); ok {
				return inner, true
			}
		} else if tag == name && tag != "" && tag != "-" {
			return f.Type, true
		}
	}
	return nil, false
}

// nearest returns the known name that is most similar to a wrong one; empty when none is similar.
func nearest(name string, known []string) string {
	best, least := "", max(1, len(name)/4)+1
	for _, k := range known {
		if d := spelling.Distance(strings.ToLower(name), strings.ToLower(k), least); d < least {
			best, least = k, d
		}
	}
	return best
}

// Suggest returns the end of a message about a wrong name: the most similar known one, else all
// of them; empty when there are none.
func Suggest(name string, known []string) string {
	if meant := nearest(name, known); meant != "" {
		return fmt.Sprintf("; did you mean %q?", meant)
	}
	const most = 20
	switch {
	case len(known) == 0:
		return ""
	case len(known) > most:
		return fmt.Sprintf("; use one of %s and %d more", strings.Join(known[:most], ", "), len(known)-most)
	}
	return "; use " + strings.Join(known, " or ")
}
