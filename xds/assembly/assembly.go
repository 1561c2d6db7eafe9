// Package assembly puts the routes of a workload together from the parts that a sidecar
// receives, and withholds from the proxy those parts that it refuses. It is pure: the caller
// supplies the function that offers routes to the proxy and returns its answer.
//
// # Quarantine
//
// When the proxy refuses routes, the parts that changed are tried one by one. A part that the
// proxy refuses, or that contains routes which the operator's route server never produces
// (translate.Part.Unfit), stays in quarantine until it changes; the other parts are updated as
// usual. For the keys of a quarantined part the proxy keeps its previous routes, and keys that
// are new in it are answered with 503 and sd-reason: sandbox-route-refused, so that no known
// key reaches the baseline. If the first routes since the program started are refused there are
// no earlier parts: then all keys are answered this way until their part has been tried, which
// takes a second or two, and those in quarantine for as long as they stay there. If the proxy
// refuses that too, or refuses the routes without any part, nothing changes: a new key then
// stays unknown.
package assembly

import (
	"errors"
	"fmt"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/translate"
)

// Assembly keeps the routes of a workload that a route server has sent, and which of them the
// proxy uses. It outlives streams, so that only changes are sent again.
type Assembly struct {
	workload table.Workload
	edge     bool
	secret   string
	held     Held
	// head is nil until it has come; version is that of the whole.
	head    *translate.Head
	version string
	parts   translate.Parts
	// good are the parts that the proxy has, and kept those in quarantine, by their place.
	good translate.Parts
	kept map[int]kept
}

// Held is called for each part that is put in quarantine, with the sandboxes that have routes in
// it other than those in the proxy, and the reason.
type Held func(part string, sandboxes []string, why string)

// New returns an empty Assembly. edge is true for the sidecar of an edge workload, and secret is that of
// translate.Head.Returning.
func New(w table.Workload, edge bool, secret string, held Held) *Assembly {
	return &Assembly{workload: w, edge: edge, secret: secret, held: held, kept: map[int]kept{}}
}

// Forget drops the received parts, so that they are requested again. The proxy's parts and the
// quarantine are kept.
func (a *Assembly) Forget() { a.head, a.version, a.parts = nil, "", translate.Parts{} }

// HasHead reports whether there is anything that could be a whole.
func (a *Assembly) HasHead() bool { return a.head != nil }

// Version returns the expected version of the whole, as given in the head.
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

// Take stores the resources of a response. After an error the received parts no longer match
// the route server's record of them: call Forget.
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
			a.head, a.version = head.Returning(a.secret), one.Version
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

// ErrNotWhole means that the received parts are not the whole that the route server sent.
var ErrNotWhole = errors.New("the parts received do not make the whole")

// Whole composes the received parts. It returns an error if the result does not have the
// version that the head gives.
func (a *Assembly) Whole() (translate.Resource, error) {
	whole, err := translate.Compose(a.head, &a.parts)
	if err != nil {
		return translate.Resource{}, fmt.Errorf("%w: %w", ErrNotWhole, err)
	}
	if whole.Version != a.version {
		return translate.Resource{}, fmt.Errorf("%w: they have version %s and the head gives %.64q", ErrNotWhole, whole.Version, a.version)
	}
	return whole, nil
}
