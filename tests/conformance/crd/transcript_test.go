package crd_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// podTemplate is the type of the only fields that the transcript does not
// spell out: they are Kubernetes' own.
const podTemplate = "core/v1 PodTemplateSpec"

// namedPatterns are the patterns that the transcript has names for.
var namedPatterns = strings.NewReplacer(
	"=LNAME_RE", `=^$|^[a-z]([a-z0-9-]*[a-zA-Z0-9])?$`,
	"=NAME_RE", `=^$|^[a-zA-Z]([a-zA-Z0-9-]*[a-zA-Z0-9])?$`,
)

// block is a shape, a kind, or a field with the fields below it.
type block struct {
	name       string
	typ        string   // TYPE of the notation; empty for a shape or a kind
	attributes []string // of the field; for a kind what its line says
	items      []string // attributes of a list's items
	fields     []*block
}

// transcript is testdata/published.txt, read.
type transcript struct {
	shapes map[string]*block
	kinds  []*block
}

// readTranscript reads testdata/published.txt.
func readTranscript(t *testing.T) transcript {
	t.Helper()
	text, err := os.ReadFile("testdata/published.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := transcript{shapes: map[string]*block{}}
	var open []*block // the last block at each depth
	for i, line := range strings.Split(string(text), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if !strings.HasPrefix(line, " ") {
			top := &block{name: words[1], attributes: words[2:]}
			if words[0] == "shape" {
				out.shapes[top.name] = top
			} else {
				out.kinds = append(out.kinds, top)
			}
			open = []*block{top}
			continue
		}
		field, depth, err := parseField(line)
		if err != nil || depth > len(open) {
			t.Fatalf("testdata/published.txt:%d: %q stands too deep or is no line of the notation: %v", i+1, line, err)
		}
		open[depth-1].fields = append(open[depth-1].fields, field)
		open = append(open[:depth], field)
	}
	return out
}

// fieldLine is one line of a tree.
var fieldLine = regexp.MustCompile(`^( +)(\w+): (core/v1 PodTemplateSpec|[\w\[\]]+(?:\(any\))?)(?: \((.*?)\))?(?: items:\((.*?)\))?$`)

// parseField reads one line of a tree; depth 1 is directly below a shape or a
// kind.
func parseField(line string) (field *block, depth int, err error) {
	m := fieldLine.FindStringSubmatch(line)
	if m == nil {
		return nil, 0, fmt.Errorf("no match")
	}
	return &block{name: m[2], typ: m[3], attributes: split(m[4]), items: split(m[5])}, len(m[1]) / 2, nil
}

// split takes apart what stands in brackets and puts named patterns and formats
// into full form.
func split(text string) []string {
	if text == "" {
		return nil
	}
	out := strings.Split(namedPatterns.Replace(text), ", ")
	for i, a := range out {
		if a == "int32" || a == "int64" || a == "date-time" {
			out[i] = "format=" + a
		}
	}
	return out
}

// pathTable is a schema as a flat table: what each path is. Paths look like
// spec.customization.patches[].target.name; [] stands for the items of a list,
// {} for the values of a map.
type pathTable map[string]string

// put notes what a path is; the order of the facts does not matter.
func (s pathTable) put(path string, facts ...string) {
	facts = slices.Clone(facts)
	slices.Sort(facts)
	s[path] = strings.Join(facts, " ")
}

// published returns the published schema of a kind.
func (tr transcript) published(t *testing.T, kind *block) pathTable {
	out := pathTable{}
	for _, field := range kind.fields {
		tr.flatten(t, out, field.name, field)
	}
	return out
}

// flatten puts a field and all below it into the table.
func (tr transcript) flatten(t *testing.T, out pathTable, path string, field *block) {
	typ, facts := field.typ, field.attributes
	if item, list := strings.CutPrefix(typ, "[]"); list {
		out.put(path, append([]string{"array"}, facts...)...)
		path, typ, facts = path+"[]", item, field.items
	} else if value, dictionary := strings.CutPrefix(typ, "map[string]"); dictionary {
		out.put(path, append([]string{"object"}, facts...)...)
		path, typ, facts = path+"{}", value, nil
	}
	below := field.fields
	switch typ {
	case "string", "boolean", "integer", "object", podTemplate:
	case "object(any)":
		typ = "object"
	default:
		shape, known := tr.shapes[typ]
		if !known {
			t.Fatalf("testdata/published.txt: %s has the unknown type %q", path, typ)
		}
		typ, below = "object", shape.fields
	}
	out.put(path, append([]string{typ}, facts...)...)
	for _, f := range below {
		tr.flatten(t, out, path+"."+f.name, f)
	}
}
