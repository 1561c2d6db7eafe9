package keeper

import (
	"errors"
	"fmt"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/translate"
)

// received is what the route server has sent of the workload's routes. It is kept
// over all streams: only what has changed is sent again.
type received struct {
	workload table.Workload
	edge     bool // the sidecar is that of an edge
	// head is nil until it has come; version is that of the whole.
	head    *translate.Head
	version string
	parts   translate.Parts
}

// versions gives those of the parts that are there, by name.
func (r *received) versions() map[string]string {
	out := map[string]string{}
	for _, p := range r.parts {
		if p != nil {
			out[p.Name] = p.Version
		}
	}
	return out
}

// take takes in a response. The error says what is wrong with it; nothing that was
// received is of use then, for nobody knows what the route server takes it for.
func (r *received) take(response *discoveryv3.DeltaDiscoveryResponse) error {
	headName := translate.HeadName(r.workload)
	for _, sent := range response.GetResources() {
		one := translate.Resource{
			Type: response.GetTypeUrl(), Name: sent.GetName(), Version: sent.GetVersion(), Any: sent.GetResource(),
		}
		if one.Name == headName {
			head, err := translate.ReadHead(r.workload, one)
			if err != nil {
				return err
			}
			if r.edge {
				head = head.AtEdge()
			}
			r.head, r.version = head, one.Version
			continue
		}
		i, part, err := translate.ReadPart(r.workload, one)
		if err != nil {
			return err
		}
		r.parts[i] = part
	}
	for _, name := range response.GetRemovedResources() {
		if name == headName {
			r.head, r.version = nil, ""
			continue
		}
		i, err := translate.PlaceOf(r.workload, name)
		if err != nil {
			return err
		}
		r.parts[i] = nil
	}
	return nil
}

// errNotWhole says that what was received is not what the route server meant.
var errNotWhole = errors.New("the parts received do not make the whole")

// whole puts together what was received. It is an error when that is not what the
// head says.
func (r *received) whole() (translate.Resource, error) {
	whole, err := translate.Compose(r.head, &r.parts)
	if err != nil {
		return translate.Resource{}, fmt.Errorf("%w: %w", errNotWhole, err)
	}
	if whole.Version != r.version {
		return translate.Resource{}, fmt.Errorf("%w: they have version %s and the head says %.64q", errNotWhole, whole.Version, r.version)
	}
	return whole, nil
}
