package translate

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/routeserver/table"
)

// Translation is the routes of one workload at one version of the table. It is a
// value: Updated gives a new one, which shares with the old one the parts that did
// not change. Make one with Translate.
type Translation struct {
	workload table.Workload
	input    []byte // what the map is looked up by, written
	head     *Head
	parts    Parts
	version  string
}

// Translate returns the routes of a workload. The table must be whole. The error names the
// sandbox with a rule that protobuf cannot encode (text that is not UTF-8).
func Translate(t table.Table, w table.Workload) (Translation, error) {
	empty, err := emptyRoutes(w, headingOf(t, w))
	if err != nil {
		return Translation{}, fmt.Errorf("translate the routes of %s %s/%s: %w", w.Kind, w.Namespace, w.Name, err)
	}
	var all edits
	for rule := range t.Of(w) {
		if err := all.add(rule); err != nil {
			return Translation{}, fmt.Errorf("translate the routes of %s %s/%s: %w", w.Kind, w.Namespace, w.Name, err)
		}
	}
	return empty.with(&all)
}

// Updated returns the routes at another version of the table. The changes are the result of
// table.Diff for this workload, from the table of the old routes to t. Only the changes are
// marshaled.
func (r Translation) Updated(t table.Table, changes []table.Change) (Translation, error) {
	head, err := newHead(r.workload, headingOf(t, r.workload))
	if err != nil {
		return Translation{}, err
	}
	r.head = head
	var changed edits
	for _, c := range changes {
		if c.Baseline != r.workload {
			continue
		}
		changed.drop(c.Old)
		if err := changed.add(c.New); err != nil {
			w := r.workload
			return Translation{}, fmt.Errorf("translate the routes of %s %s/%s: %w", w.Kind, w.Namespace, w.Name, err)
		}
	}
	return r.with(&changed)
}

// with returns the routes with some entries changed.
func (r Translation) with(changed *edits) (Translation, error) {
	for i, changes := range changed {
		if changes == nil {
			continue
		}
		part, err := r.parts[i].edited(r.workload, i, r.input, changes)
		if err != nil {
			return Translation{}, fmt.Errorf("write part %s: %w", partLabel(i), err)
		}
		r.parts[i] = part
	}
	r.version = versionOf(r.head, &r.parts)
	return r, nil
}

// emptyRoutes send everything to the baseline.
func emptyRoutes(w table.Workload, says heading) (Translation, error) {
	head, err := newHead(w, says)
	if err != nil {
		return Translation{}, err
	}
	by, err := mapInput()
	if err != nil {
		return Translation{}, err
	}
	input, err := proto.MarshalOptions{Deterministic: true}.Marshal(by)
	if err != nil {
		return Translation{}, fmt.Errorf("write the input of the map: %w", err)
	}
	r := Translation{workload: w, input: input, head: head}
	r.version = versionOf(head, &r.parts)
	return r, nil
}

// Version is the version of the whole: that of Whole and of Head. It changes
// exactly when one of them does, or a part.
func (r Translation) Version() string { return r.version }

// Head returns the head as a resource of PartType.
func (r Translation) Head() Resource {
	return written(PartType, HeadName(r.workload), r.version, r.head.content)
}

// Parts returns the parts that there are, as resources of PartType sorted by name.
func (r Translation) Parts() []Resource {
	out := make([]Resource, 0, PartCount)
	for _, p := range r.parts {
		if p != nil {
			out = append(out, p.Resource)
		}
	}
	return out
}

// Whole returns the complete RouteConfiguration, as Compose builds it from Head and Parts. Each
// call marshals it.
func (r Translation) Whole() (Resource, error) { return Compose(r.head, &r.parts) }

// Head is what all parts have in common: the virtual host without its map. Its
// resource's version is that of the whole. It is read only.
type Head struct {
	workload table.Workload
	says     heading
	content  []byte
	hash     [32]byte
}

// Part is some of the entries of a workload's map, sorted by match value. It is
// read only.
type Part struct {
	// Resource is the part as it is sent. Its version is the hash of its content.
	Resource
	hash           [32]byte
	input, entries []byte
}

// Parts are those of one workload, each in its place; nil where there is none.
type Parts [PartCount]*Part

// newHead returns the head of a workload's routes.
func newHead(w table.Workload, says heading) (*Head, error) {
	host, err := headOf(says)
	if err != nil {
		return nil, err
	}
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(host)
	if err != nil {
		return nil, fmt.Errorf("write the virtual host: %w", err)
	}
	return &Head{workload: w, says: says, content: content, hash: sha256.Sum256(content)}, nil
}

// newPart returns the part with these entries, which are sorted; nil without any.
func newPart(w table.Workload, i int, input, entries []byte) (*Part, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	host, err := proto.Marshal(&routev3.VirtualHost{Name: partLabel(i), Domains: []string{"*"}})
	if err != nil {
		return nil, fmt.Errorf("write part %s: %w", partLabel(i), err)
	}
	tree := field(field(make([]byte, 0, len(input)+len(entries)+16), treeInput, input), treeMap, entries)
	content := field(host, hostMatcher, field(nil, matcherTree, tree))
	hash := sha256.Sum256(content)
	return partIn(written(PartType, PartName(w, i), shortened(hash), content), hash)
}

// partIn finds the entries in a part's resource.
func partIn(r Resource, hash [32]byte) (*Part, error) {
	matcher, err := only(r.Any.GetValue(), hostMatcher)
	if err != nil {
		return nil, err
	}
	tree, err := only(matcher, matcherTree)
	if err != nil {
		return nil, err
	}
	p := &Part{Resource: r, hash: hash}
	if p.input, err = only(tree, treeInput); err != nil {
		return nil, err
	}
	if p.entries, err = only(tree, treeMap); err != nil {
		return nil, err
	}
	return p, nil
}

// edited returns a part with some entries changed; p may be nil, and so may the
// result be. When nothing changes it is p itself.
func (p *Part) edited(w table.Workload, i int, input []byte, changes map[string][]byte) (*Part, error) {
	values := slices.Sorted(maps.Keys(changes))
	var was []byte
	if p != nil {
		was = p.entries
	}
	entries := make([]byte, 0, len(was)+256*len(changes))
	put := func(before string, all bool) {
		for len(values) > 0 && (all || values[0] < before) {
			entries = append(entries, changes[values[0]]...)
			values = values[1:]
		}
	}
	err := mapEntries(was, func(value string, raw []byte) error {
		put(value, false)
		if _, changed := changes[value]; !changed {
			entries = append(entries, raw...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	put("", true)
	if p != nil && bytes.Equal(entries, was) {
		return p, nil
	}
	return newPart(w, i, input, entries)
}
