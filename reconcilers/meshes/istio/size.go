package istio

import (
	"encoding/json"
	"slices"
	"strings"

	"switchyard.dev/reconcilers/meshes/istio/names"
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
// Keys that have routes in the object already come first, so that no new one drives them out. A
// new one gets in while the routes of its author take at most half of the room that others leave,
// so that no author takes all of it.
func (m *Mesh) fill(r *Rendering, sources []source) {
	var services []*managed
	for _, s := range sources {
		services = append(services, s.services...)
	}
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
	for _, s := range sources { // Who was there first does not show.
		slices.SortStableFunc(s.derived, func(a, b derived) int { return strings.Compare(a.key, b.key) })
	}
}

// shares are what the routes of each author take of an object.
type shares map[string]share

// share is the size of an author's routes, and whether another one was refused for it.
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

// admit reports whether an author's routes, with further ones of that size, take at most half of
// the room that all others leave in an object. total is the size of everything in it.
func (s shares) admit(author string, bytes, total int) bool {
	of := s[author]
	if author == "" || of.bytes+bytes <= (MaxBytes-(total-of.bytes))/2 {
		return true
	}
	of.full = true
	s[author] = of
	return false
}

// authorOf returns the author of the sandbox that has a key.
func authorOf(services []*managed, key string) string {
	for _, s := range services {
		if sandbox, has := s.sandboxes[key]; has {
			return sandbox.author
		}
	}
	return ""
}

// byPresence returns sorted keys, those first that have a route with one of these stems, and how many
// these are.
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
