package destinationrules

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/reconcilers/meshes/istio"
)

// portFields are the settings of a traffic policy that an entry of portLevelSettings replaces. It
// replaces all of them: a setting that the entry lacks has its default.
var portFields = []string{"connectionPool", "outlierDetection", "loadBalancer", "tls"}

const portLevel = "portLevelSettings"

// withSubset returns the effective traffic policy of a subset, for a host without subsets: the policy of
// the DestinationRule, in which each setting of the subset replaces the same one. As in Istio
// (MergeSubsetTrafficPolicy), that is done per port: settings of the subset for all ports also replace
// those of the DestinationRule for one port. Neither argument is changed; both can be nil.
func withSubset(rule, subset map[string]any) map[string]any {
	if len(subset) == 0 {
		return runtime.DeepCopyJSON(rule)
	}
	merged := lists.Merged(runtime.DeepCopyJSON(rule))
	delete(merged, portLevel)
	general := runtime.DeepCopyJSON(subset)
	delete(general, portLevel)
	maps.Copy(merged, general)
	ofRule, ofSubset := byPort(rule), byPort(subset)
	var all []any
	for _, port := range ports(ofRule, ofSubset) {
		entry, has := ofSubset[port]
		if !has {
			entry = maps.Clone(ofRule[port])
			maps.Copy(entry, onlyFields(general, portFields))
		}
		all = append(all, runtime.DeepCopyJSON(entry))
	}
	if len(all) > 0 {
		merged[portLevel] = all
	}
	return merged
}

// byPort returns the entries of portLevelSettings by port. The first entry for a port applies.
func byPort(policy map[string]any) map[int32]map[string]any {
	out := map[int32]map[string]any{}
	list, _ := policy[portLevel].([]any)
	for _, one := range list {
		entry, _ := one.(map[string]any)
		port, _ := entry["port"].(map[string]any)
		if n := istio.Number(port["number"]); n != 0 && out[n] == nil {
			out[n] = entry
		}
	}
	return out
}

func ports(a, b map[int32]map[string]any) []int32 {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	return lists.Unique(all)
}

func onlyFields(of map[string]any, fields []string) map[string]any {
	out := maps.Clone(of)
	maps.DeleteFunc(out, func(field string, _ any) bool { return !slices.Contains(fields, field) })
	return out
}

// hasTLS reports whether a traffic policy sets TLS, for any port.
func hasTLS(policy map[string]any) bool {
	if _, has := policy["tls"]; has {
		return true
	}
	for _, entry := range byPort(policy) {
		if _, has := entry["tls"]; has {
			return true
		}
	}
	return false
}
