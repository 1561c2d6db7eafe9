package translate

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"switchyard.dev/routeserver/table"
)

// StandIn returns what a proxy uses of a part that it refused: for each of the
// part's match values what it had for it in the part that it last accepted, which
// may be nil; and for the others a refusal with ReasonRefused, so that no key that
// is known goes to the baseline, but for those that are to go there. What the refused
// part does not have is gone.
func StandIn(w table.Workload, refused, good *Part) (*Part, error) {
	i, err := PlaceOf(w, refused.Name)
	if err != nil {
		return nil, err
	}
	had, err := good.byValue()
	if err != nil {
		return nil, err
	}
	var entries []byte
	err = mapEntries(refused.entries, func(value string, raw []byte) error {
		if was, ok := had[value]; ok {
			entries = append(entries, was...)
			return nil
		}
		sandbox, kept := sandboxIn(raw)
		if kept {
			return nil // Without an entry the request reaches the baseline, as it is to.
		}
		written, err := entry(value, refusal(RoutedSandbox+sandbox, ReasonRefused, fmt.Sprintf(
			"sandbox %q holds this routing key and the proxy refused its route; the route server knows why", sandbox)))
		entries = append(entries, written...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return newPart(w, i, refused.input, entries)
}

// Differing names the sandboxes of a part whose entries are not in another one,
// which may be nil: sorted, each once, as the answers' RoutedHeader does.
func Differing(p, from *Part) []string {
	had, err := from.byValue()
	if err != nil {
		return nil
	}
	var names []string
	err = mapEntries(p.entries, func(value string, raw []byte) error {
		if !bytes.Equal(had[value], raw) {
			name, _ := sandboxIn(raw)
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return nil
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// byValue returns the entries of a part, which may be nil.
func (p *Part) byValue() (map[string][]byte, error) {
	if p == nil {
		return nil, nil
	}
	out := map[string][]byte{}
	err := mapEntries(p.entries, func(value string, raw []byte) error {
		out[value] = raw
		return nil
	})
	return out, err
}

// sandboxIn returns the name of the sandbox that an entry is for, as far as it can be
// read, and whether its requests are kept at the baseline.
func sandboxIn(raw []byte) (name string, kept bool) {
	route, err := routeIn(raw)
	if err != nil {
		return "unknown", false
	}
	if name, kept = strings.CutPrefix(route.GetName(), RoutedKept); kept {
		return name, true
	}
	name, _ = strings.CutPrefix(route.GetName(), RoutedSandbox)
	return name, false
}
