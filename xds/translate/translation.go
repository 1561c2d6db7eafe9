package translate

import (
	"fmt"

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
