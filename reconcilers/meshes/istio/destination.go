package istio

import (
	"maps"
	"slices"
	"strings"
)

// target is a destination of a route, as it is in the object.
type target struct {
	destination map[string]any
	// service is the managed one that it leads to, or nil.
	service *managed
	// port is what the destination leads to; 0 stands for the port at which the request came.
	port int32
}

// targets returns the destinations of an entry of spec.http, those of mirrors too: what is
// sent to the baseline as a copy is sent to the sandbox as a copy.
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

// Number returns a JSON number, in any of the types that decoders make of one.
func Number(value any) int32 {
	switch n := value.(type) {
	case int64:
		return int32(n)
	case float64:
		return int32(n)
	}
	return 0
}

// ledTo returns the managed Services among targets, each once.
func ledTo(targets []target) []*managed {
	byHost := map[string]*managed{}
	for _, t := range targets {
		if t.service != nil {
			byHost[t.service.host] = t.service
		}
	}
	var all []*managed
	for _, host := range slices.Sorted(maps.Keys(byHost)) {
		all = append(all, byHost[host])
	}
	return all
}

// listeners returns the ports for which a route of ours is needed each: those at which a
// request may come, where the port decides which port of a Service it reaches. Last comes 0,
// which stands for any port, if there are other destinations.
func listeners(targets []target) []int32 {
	var all []int32
	rest := false
	for _, t := range targets {
		if t.service != nil && t.port == 0 {
			all = append(all, t.service.Ports...)
		}
		rest = rest || t.service != nil && t.port != 0
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if rest {
		all = append(all, 0)
	}
	return all
}

// lead sends a target to the sandbox with the key, if there is one for its port: a request
// that came at listener reaches it. It returns the port, or 0.
func (t target) lead(key string, listener int32) int32 {
	if t.service == nil {
		return 0
	}
	port := t.port
	if port == 0 {
		port = listener
	}
	to := t.service.sandboxes[key].to[port]
	if to == "" {
		return 0
	}
	t.destination["host"] = to
	t.destination["port"] = map[string]any{"number": int64(port)}
	// Subsets are of the baseline's pods.
	delete(t.destination, "subset")
	return port
}

// misread returns a managed Service that a host names in a form which Istio does not know:
// with its namespace and without the domain.
func (m *Mesh) misread(host string) *managed {
	for _, end := range misreadEnds(m.settings.ClusterDomain) {
		if s := m.services[host+end]; s != nil && strings.Contains(host, ".") {
			return s
		}
	}
	return nil
}

// misreadEnds are what such a host lacks.
func misreadEnds(clusterDomain string) []string {
	return []string{".svc." + clusterDomain, "." + clusterDomain}
}
