package istio

import (
	"encoding/json"
	"slices"
	"strings"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/reconcilers/meshes/istio/names"
)

// Sizes of objects in bytes. etcd rejects requests of more than 1.5 MiB, which limits each object.
const (
	etcdBytes = 3 << 19
	// MaxBytes leaves space for additions by others, such as managed fields and a status.
	MaxBytes = etcdBytes - 64<<10
	// NearBytes is the size above which there is a finding (ReasonLarge).
	NearBytes = etcdBytes / 5 * 4
)

// fill adds derived routes to the sources, key by key, until the object has no space for those of the
// next key. Keys that already have routes in the object come first, so that new ones do not displace
// them. A new key is admitted while the routes of its author take at most half of the space that others
// leave, so that no author can take all of it.
func (m *Mesh) fill(r *Rendering, sources []source) {
	services := slices.Concat(lists.Map(sources, func(s source) []*managed { return s.services })...)
	services = slices.Compact(slices.SortedFunc(slices.Values(services), (*managed).compare))
	total := size(r.original.bare)
	all, there := byPresence(keys(services), services, r.original.stems)
	shares := shares{}
	for i, key := range all {
		author := authorOf(services, key)
		if i >= there && shares.full(author) {
			r.shareFull(author, shares[author].bytes, services, key)
			continue
		}
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
		if i >= there && !shares.admit(author, bytes, total) {
			r.shareFull(author, shares[author].bytes, services, key)
			continue
		}
		shares.take(author, bytes)
		total += bytes
		for at := range sources {
			sources[at].derived = append(sources[at].derived, ofKey[at]...)
		}
	}
	if total > NearBytes {
		r.large(total)
	}
	for _, s := range sources { // Routes are in the order of keys, not of admission.
		slices.SortStableFunc(s.derived, func(a, b derived) int { return strings.Compare(a.key, b.key) })
	}
}

// shares are the shares of an object that the routes of each author take.
type shares map[string]share

// share is the size of an author's routes in bytes, and whether a key was refused because of it.
type share struct {
	bytes int
	full  bool
}

func (s shares) full(author string) bool { return author != "" && s[author].full }

func (s shares) take(author string, bytes int) {
	of := s[author]
	of.bytes += bytes
	s[author] = of
}

// admit reports whether an author's routes, with bytes more, take at most half of the space that all
// others leave in an object. total is the size of the object. After a refusal, full returns true.
func (s shares) admit(author string, bytes, total int) bool {
	of := s[author]
	if author == "" || of.bytes+bytes <= (MaxBytes-(total-of.bytes))/2 {
		return true
	}
	of.full = true
	s[author] = of
	return false
}

// authorOf returns the author of the sandbox with a key; empty if there is none.
func authorOf(services []*managed, key string) string {
	for _, s := range services {
		if sandbox, has := s.sandboxes[key]; has {
			return sandbox.author
		}
	}
	return ""
}

// byPresence returns the keys with those first that have a route with one of the stems, and the number
// of these. Both parts keep their order.
func byPresence(keys []string, services []*managed, stems map[string]bool) (all []string, present int) {
	if len(stems) == 0 {
		return keys, 0
	}
	var there, others []string
	for _, key := range keys {
		if slices.ContainsFunc(services, func(s *managed) bool {
			for port := range s.sandboxes[key].to {
				if stems[names.Stem(key, s.Name, port)] {
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
	return slices.Concat(there, others), len(there)
}

func size(value any) int {
	text, err := json.Marshal(value)
	if err != nil {
		return 0 // JSON came in
	}
	return len(text)
}
