package model

import (
	"fmt"
	"maps"
	"slices"
)

// ReasonForeign: the cluster has an object of that name with another manager, which the message names.
const ReasonForeign = "ManagedByOther"

// IsNewer reports whether a cluster has a newer object than the store that was not adopted.
func (s Status) IsNewer() bool {
	for _, part := range s.Clusters {
		if part.IsNewer() {
			return true
		}
	}
	return s.Newer > s.Adopted
}

// With returns the status of a route group with the part of a cluster: the union of all parts.
func (s Status) With(cluster string, part Status) Status {
	parts := maps.Clone(s.Clusters)
	if parts == nil {
		parts = map[string]Status{}
	}
	parts[cluster] = part
	return union(parts)
}

// Without returns the status of a route group without the part of a cluster.
func (s Status) Without(cluster string) Status {
	parts := maps.Clone(s.Clusters)
	if delete(parts, cluster); len(parts) == 0 {
		return Status{}
	}
	return union(parts)
}

// union is ready if all parts are, and of the generation that all have. Its reason is that of the first
// cluster that is not ready.
func union(parts map[string]Status) Status {
	out := Status{Ready: true, Clusters: parts}
	for n, cluster := range slices.Sorted(maps.Keys(parts)) {
		p := parts[cluster]
		if n == 0 || p.Generation < out.Generation {
			out.Generation = p.Generation
		}
		if n == 0 || out.Ready && !p.Ready {
			out.Ready, out.Reason, out.Message = p.Ready, p.Reason, p.Message
			if len(parts) > 1 && !p.Ready {
				out.Message = fmt.Sprintf("cluster %s: %s", cluster, p.Message)
			}
		}
		if end := p.ScheduledDeleteTime; out.ScheduledDeleteTime.IsZero() || !end.IsZero() && end.Before(out.ScheduledDeleteTime) {
			out.ScheduledDeleteTime = end
		}
		out.Matched = append(out.Matched, p.Matched...)
	}
	slices.Sort(out.Matched)
	out.Matched = slices.Compact(out.Matched)
	return out
}
