package configdump

import (
	"errors"
	"fmt"
	"strings"
)

// Reading is what a proxy does, in plain words.
type Reading struct {
	// Routes names the route configuration in force, Version is the one that Envoy
	// has of it.
	Routes, Version string
	// Decisions are those for requests that the routes know, Otherwise is that for
	// all others.
	Decisions map[Match]Decision
	Otherwise Decision

	filters
	// always: requests pass the filters that read keys without any header that enables these.
	always bool
	// enabling are the headers that enable the filters that read keys, with the text that they must
	// contain for that.
	enabling map[string]string
	// destination is where routes have it in their metadata.
	destination []string
	// clusters are those with an original destination: "" for the connection's own, or the header
	// that has it for requests without one in their filter state.
	clusters map[string]string
}

// Read reads the answer of /config_dump. The error is for parts that this package does not
// understand, or that could not route requests as they should.
func Read(dump []byte) (Reading, error) {
	r := Reading{Decisions: map[Match]Decision{}, clusters: map[string]string{}}
	root, err := parse(dump)
	if err != nil {
		return r, err
	}
	parts := map[string]node{}
	for _, part := range root.at("configs").list() {
		for _, name := range []string{"ListenersConfigDump", "ClustersConfigDump", "RoutesConfigDump"} {
			if part.is(name) {
				parts[name] = part
			}
		}
	}
	if len(parts) != 3 {
		return r, fmt.Errorf("the dump has not its listeners, clusters and routes: %d of them", len(parts))
	}
	if err := r.clustersOf(parts["ClustersConfigDump"]); err != nil {
		return r, err
	}
	managers := managersIn(parts["ListenersConfigDump"])
	if len(managers) == 0 {
		return r, errors.New("no listener speaks HTTP")
	}
	for i, manager := range managers {
		of, err := filtersOf(manager)
		if err != nil {
			return r, err
		}
		if i > 0 && fmt.Sprint(of) != fmt.Sprint(r.filters) {
			return r, manager.wrong("takes the key, or its routes, from elsewhere than another listener")
		}
		r.filters, r.Routes = of, of.routes
	}
	found := 0
	for _, dynamic := range parts["RoutesConfigDump"].at("dynamic_route_configs").list() {
		if config := dynamic.at("route_config"); config.at("name").text() == r.Routes {
			found++
			r.Version = dynamic.at("version_info").text()
			if err := r.routesOf(config); err != nil {
				return r, err
			}
		}
	}
	if found == 0 {
		return r, fmt.Errorf("the dump has no routes named %q", r.Routes)
	}
	return r, nil
}

// clustersOf finds the clusters with an original destination. They have no HTTP filters, which could
// change it.
func (r *Reading) clustersOf(part node) error {
	for _, static := range part.at("static_clusters").list() {
		cluster := static.at("cluster")
		if cluster.at("type").text() != "ORIGINAL_DST" || cluster.at("lb_policy").text() != "CLUSTER_PROVIDED" {
			continue
		}
		header, config := "", cluster.at("original_dst_lb_config")
		options := cluster.at("typed_extension_protocol_options", "envoy.extensions.upstreams.http.v3.HttpProtocolOptions")
		if err := errors.Join(config.only("use_http_header", "http_header_name"),
			options.only("common_http_protocol_options", "use_downstream_protocol_config", "retry_policy")); err != nil {
			return err
		}
		if config.at("use_http_header").yes() {
			header = strings.ToLower(config.at("http_header_name").text())
		}
		r.clusters[cluster.at("name").text()] = header
	}
	return nil
}

// managersIn finds the HTTP connection managers, wherever they are.
func managersIn(n node) (all []node) {
	if n.is("HttpConnectionManager") {
		return []node{n}
	}
	for _, field := range n.fields() {
		all = append(all, managersIn(field)...)
	}
	for _, element := range n.list() {
		all = append(all, managersIn(element)...)
	}
	return all
}

// Of returns the decision on a request to a port. lines returns the values of its header lines of
// a name.
func (r Reading) Of(port uint32, lines func(name string) []string) Decision {
	if d, ok := r.Decisions[Match{port, r.Key(lines)}]; ok {
		return d
	}
	return r.Otherwise
}
