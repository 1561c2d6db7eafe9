package istio

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"switchyard.dev/eventbus/lists"
)

// target is a destination of a route.
type target struct {
	destination map[string]any
	// service is the managed Service that it routes to, or nil.
	service *managed
	// port is the port of the destination; 0 means the port at which the request was received.
	port int32
}

// targets returns the destinations of an entry of spec.http, including mirrors. A destination map is
// shared with the entry.
func (m *Mesh) targets(entry map[string]any, namespace string) []target {
	var all []target
	add := func(holder any) {
		fields, _ := holder.(map[string]any)
		if destination, ok := fields["destination"].(map[string]any); ok {
			all = append(all, m.target(destination, namespace))
		}
	}
	for _, field := range []string{"route", "mirrors"} {
		list, _ := entry[field].([]any)
		for _, holder := range list {
			add(holder)
		}
	}
	add(map[string]any{"destination": entry["mirror"]})
	return all
}

func (m *Mesh) target(destination map[string]any, namespace string) target {
	host, _ := destination["host"].(string)
	t := target{destination: destination, service: m.services[m.resolve(host, namespace)]}
	port, _ := destination["port"].(map[string]any)
	t.port = Number(port["number"])
	if t.port == 0 && t.service != nil && len(t.service.Ports) == 1 {
		t.port = t.service.Ports[0]
	}
	return t
}

// Number returns a JSON number that was decoded as int64 or float64, and 0 for any other value.
func Number(value any) int32 {
	switch n := value.(type) {
	case int64:
		return int32(n)
	case float64:
		return int32(n)
	}
	return 0
}

// ledTo returns the managed Services of targets, sorted by host and without duplicates.
func ledTo(targets []target) []*managed {
	byHost := map[string]*managed{}
	for _, t := range targets {
		if t.service != nil {
			byHost[t.service.host] = t.service
		}
	}
	return lists.Map(slices.Sorted(maps.Keys(byHost)), func(host string) *managed { return byHost[host] })
}

// listeners returns the ports that need a derived route each: the ports at which a request can be
// received, if that port decides which port of a Service it reaches. If there are other destinations,
// the last element is 0, which means any port.
func listeners(targets []target) []int32 {
	var all []int32
	rest := false
	for _, t := range targets {
		if t.service != nil && t.port == 0 {
			all = append(all, t.service.Ports...)
		}
		rest = rest || t.service != nil && t.port != 0
	}
	all = lists.Unique(all)
	if rest {
		all = append(all, 0)
	}
	return all
}

// redirect changes the destination to the Service of the sandbox with the key, for requests received at
// port listener. It returns the port of the new destination, or 0 if the sandbox has none for it.
func (t target) redirect(key string, listener int32) int32 {
	if t.service == nil {
		return 0
	}
	port := cmp.Or(t.port, listener)
	to := t.service.sandboxes[key].to[port]
	if to == "" {
		return 0
	}
	t.destination["host"] = to
	t.destination["port"] = map[string]any{"number": int64(port)}
	// Subsets select pods of the baseline.
	delete(t.destination, "subset")
	return port
}

// misread returns the managed Service that a host names in a form that Istio does not resolve: with the
// namespace but without the full domain. It returns nil for other hosts.
func (m *Mesh) misread(host string) *managed {
	for _, end := range misreadEnds(m.settings.ClusterDomain) {
		if s := m.services[host+end]; s != nil && strings.Contains(host, ".") {
			return s
		}
	}
	return nil
}

// misreadEnds returns the suffixes that such a host can lack.
func misreadEnds(clusterDomain string) []string {
	return []string{".svc." + clusterDomain, "." + clusterDomain}
}
