package translate

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"switchyard.dev/routeserver/table"
)

// StandIn returns the replacement for a part that the proxy refused. Each of its match values
// has the entry of the part that the proxy last accepted (good, which can be nil); values that
// are missing there are refused with ReasonRefused, so that no known key reaches the baseline,
// except keys with requests that stay at the baseline. Values that are not in the refused part are
// dropped.
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

// Differing returns the names of the sandboxes in a part with entries that another part, which
// can be nil, does not have: sorted, each once, as in RoutedHeader.
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
