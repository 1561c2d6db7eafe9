package istio

import (
	"encoding/json"
	"maps"
	"slices"
)

// etcd refuses a request of more than 1.5 MiB, and the API server keeps every object in one.
const (
	etcdBytes = 3 << 19
	// maxBytes leaves room for what others add to the object: the fields' managers, a status.
	maxBytes = etcdBytes - 64<<10
	// nearBytes is from where on it is told.
	nearBytes = etcdBytes / 5 * 4
)

// fit takes out the routes of the keys that the object has no room for. Keys that have
// routes in the object already come first, so that no new one drives them out.
func (m *Mesh) fit(r *Rendering, wanted, before map[string]any, byEntry [][]derived) {
	total, cost := size(wanted), map[string]int{}
	for _, list := range byEntry {
		for _, d := range list {
			cost[d.key] += size(d.entry) + 1
		}
	}
	for _, bytes := range cost {
		total += bytes
	}
	if total <= nearBytes {
		return
	}
	if total <= maxBytes {
		r.large(total)
		return
	}
	room, full := maxBytes-size(wanted), map[string]bool{}
	for _, key := range byPresence(before, byEntry) {
		if cost[key] > room {
			full[key] = true
			continue
		}
		room -= cost[key]
	}
	for i := range byEntry {
		byEntry[i] = slices.DeleteFunc(byEntry[i], func(d derived) bool {
			if full[d.key] {
				r.full(d)
			}
			return full[d.key]
		})
	}
	r.large(maxBytes - room)
}

// byPresence returns the keys of routes, those first of which the object has any.
func byPresence(object map[string]any, byEntry [][]derived) []string {
	spec, _ := object["spec"].(map[string]any)
	list, _ := spec["http"].([]any)
	names := map[string]bool{}
	for _, entry := range list {
		if ours(entry) {
			names[nameOf(entry)] = true
		}
	}
	present := map[string]bool{}
	for _, list := range byEntry {
		for _, d := range list {
			present[d.key] = present[d.key] || names[nameOf(d.entry)]
		}
	}
	all := slices.Sorted(maps.Keys(present))
	slices.SortStableFunc(all, func(a, b string) int {
		switch {
		case present[a] == present[b]:
			return 0
		case present[a]:
			return -1
		}
		return 1
	})
	return all
}

func size(value any) int {
	text, err := json.Marshal(value)
	if err != nil {
		return 0 // JSON came in
	}
	return len(text)
}
