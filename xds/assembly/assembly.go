// Package assembly puts the routes of a workload together from the parts in which a sidecar
// receives them, and keeps from its proxy those parts that it refuses. It is pure: what the
// proxy says of a whole comes from a function that the caller gives.
//
// # Quarantine
//
// When the proxy refuses routes, the parts that changed are tried one by one. A part that it
// refuses, or that has routes which no route server of ours makes (translate.Part.Unfit), is
// in quarantine until it changes, and the others go on being updated. For its keys the proxy
// keeps the routes that it had, and keys that are new in it answer 503 with sd-reason:
// sandbox-route-refused, so no key that is known goes to the baseline. When the first routes
// since the program started are refused there are no earlier parts: then all keys answer so
// until their part has been tried, a second or two, and those in quarantine for as long as
// they are. Only if the proxy refuses that too, or the routes without any of the parts, all
// stays as it was: then a new key is not known yet, as before it came.
package assembly

import (
	"errors"
	"fmt"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/translate"
)

// Assembly is what a route server has sent of a workload's routes, and what the proxy has of
// that. It is kept over all streams: only what has changed is sent again.
type Assembly struct {
	workload table.Workload
	edge     bool
	held     Held
	// head is nil until it has come; version is that of the whole.
	head    *translate.Head
	version string
	parts   translate.Parts
	// good are the parts that the proxy has, and kept those in quarantine, by their place.
	good translate.Parts
	kept map[int]kept
}

// Held is called for each part that is put in quarantine, with the sandboxes whose routes
// in it differ from what the proxy has, and why.
type Held func(part string, sandboxes []string, why string)

// New returns an Assembly of nothing yet. edge says that the sidecar is that of an edge.
func New(w table.Workload, edge bool, held Held) *Assembly {
	return &Assembly{workload: w, edge: edge, held: held, kept: map[int]kept{}}
}

// Forget drops what was received, to be sent anew. What the proxy has, and what is in
// quarantine, is known all the same.
func (a *Assembly) Forget() { a.head, a.version, a.parts = nil, "", translate.Parts{} }

// HasHead reports whether there is anything that could be a whole.
func (a *Assembly) HasHead() bool { return a.head != nil }

// Version returns the version that the whole is to have, as the head says.
func (a *Assembly) Version() string { return a.version }

// Versions returns those of the parts that are there, by name.
func (a *Assembly) Versions() map[string]string {
	out := map[string]string{}
	for _, p := range a.parts {
		if p != nil {
			out[p.Name] = p.Version
		}
	}
	return out
}

// Take takes in a response. The error says what is wrong with it; nothing that was
// received is of use then, for nobody knows what the route server takes it for: Forget it.
func (a *Assembly) Take(response *discoveryv3.DeltaDiscoveryResponse) error {
	headName := translate.HeadName(a.workload)
	for _, sent := range response.GetResources() {
		one := translate.Resource{
			Type: response.GetTypeUrl(), Name: sent.GetName(), Version: sent.GetVersion(), Any: sent.GetResource(),
		}
		if one.Name == headName {
			head, err := translate.ReadHead(a.workload, one)
			if err != nil {
				return err
			}
			if a.edge {
				head = head.AtEdge()
			}
			a.head, a.version = head, one.Version
			continue
		}
		i, part, err := translate.ReadPart(a.workload, one)
		if err != nil {
			return err
		}
		a.parts[i] = part
	}
	for _, name := range response.GetRemovedResources() {
		if name == headName {
			a.head, a.version = nil, ""
			continue
		}
		i, err := translate.PlaceOf(a.workload, name)
		if err != nil {
			return err
		}
		a.parts[i] = nil
	}
	return nil
}

// ErrNotWhole says that what was received is not what the route server meant.
var ErrNotWhole = errors.New("the parts received do not make the whole")

// Whole puts together what was received. It is an error when that is not what the
// head says.
func (a *Assembly) Whole() (translate.Resource, error) {
	whole, err := translate.Compose(a.head, &a.parts)
	if err != nil {
		return translate.Resource{}, fmt.Errorf("%w: %w", ErrNotWhole, err)
	}
	if whole.Version != a.version {
		return translate.Resource{}, fmt.Errorf("%w: they have version %s and the head says %.64q", ErrNotWhole, whole.Version, a.version)
	}
	return whole, nil
}
