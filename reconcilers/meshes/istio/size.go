package istio

import (
	"encoding/json"
	"slices"
	"strings"
)

// etcd refuses a request of more than 1.5 MiB, and the API server keeps every object in one.
const (
	etcdBytes = 3 << 19
	// MaxBytes leaves room for what others add to the object: the fields' managers, a status.
	MaxBytes = etcdBytes - 64<<10
	// NearBytes is from where on it is told.
	NearBytes = etcdBytes / 5 * 4
)

// fill derives our routes, key by key, until the object has no room for those of the next one.
// Keys that have routes in the object already come first, so that no new one drives them out.
func (m *Mesh) fill(r *Rendering, sources []source) {
	var services []*managed
	for _, s := range sources {
		services = append(services, s.services...)
	}
	services = slices.Compact(slices.SortedFunc(slices.Values(services), func(a, b *managed) int { return strings.Compare(a.host, b.host) }))
	total := size(r.original.bare)
	all := byPresence(keys(services), services, r.original.ours)
	for i, key := range all {
		bytes, ofKey := 0, make([][]derived, len(sources))
		for at, s := range sources {
			ofKey[at] = m.derive(r, s, key)
			for _, d := range ofKey[at] {
				bytes += size(d.entry) + 1
			}
		}
		if total+bytes > MaxBytes {
			r.full(total, services, all[i:])
			break
		}
		total += bytes
		for at := range sources {
			sources[at].derived = append(sources[at].derived, ofKey[at]...)
		}
	}
	if total > NearBytes {
		r.large(total)
	}
	for _, s := range sources { // Who was there first does not show.
		slices.SortStableFunc(s.derived, func(a, b derived) int { return strings.Compare(a.key, b.key) })
	}
}

// byPresence returns sorted keys, those first that have a route of one of these names.
func byPresence(keys []string, services []*managed, names map[string]bool) []string {
	if len(names) == 0 {
		return keys
	}
	var there, others []string
	for _, key := range keys {
		if slices.ContainsFunc(services, func(s *managed) bool {
			for port := range s.sandboxes[key].to {
				if names[routeName(key, s.Name, port)] {
					return true
				}
			}
			return false
		}) {
			there = append(there, key)
		} else {
			others = append(others, key)
		}
	}
	return slices.Concat(there, others)
}

func size(value any) int {
	text, err := json.Marshal(value)
	if err != nil {
		return 0 // JSON came in
	}
	return len(text)
}
