package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"

	"google.golang.org/protobuf/types/known/anypb"

	"switchyard.dev/routeserver/table"
)

// Resource is one xDS resource, written out.
type Resource struct {
	// Type is its type URL and Name its name.
	Type, Name string
	// Version is a hash of the content: equal exactly when Any is.
	Version string
	// Any is the resource. It is shared: read only.
	Any *anypb.Any
}

// NoTable is the version that answers name when they were routed without any
// table: the control plane has not been reached yet.
const NoTable = "none"

// Resources gives what the sidecars of one workload are to have: its
// RouteConfiguration. A workload without rules gets one that leads everything to
// the baseline. The table must be whole. The error names the sandbox whose rule
// has no form in protobuf (text that is not UTF-8).
func Resources(t table.Table, w table.Workload) ([]Resource, error) {
	return resources(w, t.Of(w), t.HashOf(w).String()[:16])
}

// Baseline gives the resources that lead everything to the baseline, for a
// sidecar that has never reached the control plane. Its answers, when asked,
// name the version NoTable.
func Baseline(w table.Workload) ([]Resource, error) {
	return resources(w, func(func(*table.Rule) bool) {}, NoTable)
}

func resources(w table.Workload, rules iter.Seq[*table.Rule], version string) ([]Resource, error) {
	config, err := routes(w, rules, version)
	if err != nil {
		return nil, fmt.Errorf("translate the routes of %s %s/%s: %w", w.Kind, w.Namespace, w.Name, err)
	}
	written, err := packed(config)
	if err != nil {
		return nil, fmt.Errorf("translate the routes of %s %s/%s: %w", w.Kind, w.Namespace, w.Name, err)
	}
	hash := sha256.Sum256(written.Value)
	return []Resource{{
		Type: RouteType, Name: config.Name,
		Version: hex.EncodeToString(hash[:16]), Any: written,
	}}, nil
}
