package configdump

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

// Match is what decides where a request goes.
type Match struct {
	Port uint32
	Key  string
}

// Decision is the decision on a request. Exactly one of the three is set: Baseline, a Fork's
// address, or a Refusal.
type Decision struct {
	Baseline bool
	// Fork is the address that the request is sent to, as host:port.
	Fork string
	// Refusal is the reason with which the proxy itself answers 503.
	Refusal string
	// Name is what answers call the route.
	Name string
}

// routesOf reads a route configuration: one virtual host for everything, with a
// map from what the filters put into the filter state, or with none.
func (r *Reading) routesOf(config node) error {
	if err := config.only("name", "virtual_hosts", "validate_clusters", "ignore_port_in_host_matching",
		"request_headers_to_add", "request_headers_to_remove", "most_specific_header_mutations_wins"); err != nil {
		return err
	}
	if err := aboutForwardedProto(config, ""); err != nil {
		return err
	}
	hosts := config.at("virtual_hosts").list()
	if len(hosts) != 1 {
		return config.wrong("%d virtual hosts", len(hosts))
	}
	host := hosts[0]
	domains := host.at("domains").list()
	if len(domains) != 1 || domains[0].text() != "*" {
		return host.at("domains").wrong("does not take every request")
	}
	if err := host.only("name", "domains", "matcher", "metadata", "typed_per_filter_config", "request_headers_to_remove", "request_body_buffer_limit"); err != nil {
		return err
	}
	if err := aboutForwardedProto(host, r.header()); err != nil {
		return err
	}
	if err := r.filtersOfHost(host.at("typed_per_filter_config")); err != nil {
		return err
	}
	return r.matcher(host.at("matcher"))
}

// header returns the header that has the destination of a request without one in its filter state.
func (r *Reading) header() (name string) {
	for _, header := range r.clusters {
		name = max(name, header)
	}
	return name
}

// aboutForwardedProto complains of a header that is changed for all requests and is not the
// client's x-forwarded-proto, where the proxy keeps it, or that of requests which come back after they
// were recorded: none decides where a request goes. The header removed, if any, must be removed, or a
// client could set it.
func aboutForwardedProto(all node, removed string) error {
	var wrong []error
	check := func(header node) {
		if name := header.text(); name != "x-forwarded-proto" && name != "x-sd-forwarded-proto" && name != "sd-return" {
			wrong = append(wrong, header.wrong("is changed for all requests"))
		}
	}
	for _, header := range all.at("request_headers_to_remove").list() {
		if removed != "" && strings.EqualFold(header.text(), removed) {
			removed = ""
			continue
		}
		check(header)
	}
	if removed != "" {
		wrong = append(wrong, all.wrong("lets a client set the header %q", removed))
	}
	for _, header := range all.at("request_headers_to_add").list() {
		check(header.at("header", "key"))
	}
	return errors.Join(wrong...)
}

func (r *Reading) matcher(matcher node) (err error) {
	if err := matcher.only("matcher_tree", "on_no_match"); err != nil {
		return err
	}
	if r.Otherwise, err = r.otherwise(matcher.at("on_no_match")); err != nil {
		return err
	}
	tree := matcher.at("matcher_tree")
	if tree.absent() {
		return nil
	}
	input := tree.at("input", "typed_config")
	if !input.is("FilterStateInput") || input.at("key").text() != r.state {
		return tree.at("input").wrong("is not the filter state %q that the filters set", r.state)
	}
	if err := errors.Join(tree.only("input", "exact_match_map"), tree.at("exact_match_map").only("map")); err != nil {
		return err
	}
	for value, on := range tree.at("exact_match_map", "map").fields() {
		match, err := r.matchOf(value)
		if err != nil {
			return on.wrong("%v", err)
		}
		if r.Decisions[match], err = r.decision(on); err != nil {
			return err
		}
	}
	return nil
}

// matchOf reads a match value, which the filters write as port, slash, key.
func (r *Reading) matchOf(value string) (Match, error) {
	port, key, ok := strings.Cut(value, "/")
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || !ok || strconv.FormatUint(number, 10) != port {
		return Match{}, errors.New("no request has the match value " + strconv.Quote(value))
	}
	return Match{uint32(number), key}, nil
}

// decision reads the decision of a match.
func (r *Reading) decision(on node) (Decision, error) {
	route := on.at("action", "typed_config")
	if err := errors.Join(on.only("action"), route.only("name", "match", "route", "direct_response", "metadata",
		"request_headers_to_remove", "response_headers_to_add", "typed_per_filter_config")); err != nil {
		return Decision{}, err
	}
	if prefix := route.at("match", "prefix"); !route.is("Route") || prefix.absent() || prefix.text() != "" || len(route.at("match").fields()) != 1 {
		return Decision{}, route.wrong("is not a route for every path")
	}
	d := Decision{Name: route.at("name").text()}
	if direct := route.at("direct_response"); !direct.absent() {
		return r.refusal(d, route, direct)
	}
	action := route.at("route")
	if err := action.only("cluster", "timeout"); err != nil {
		return d, err
	}
	header, known := r.clusters[action.at("cluster").text()]
	if !known {
		return d, action.wrong("names a cluster that is not an original-destination cluster")
	}
	to := route.at("metadata", "filter_metadata").at(r.destination...)
	if header == "" {
		if !to.absent() { // Envoy would use it for this cluster too.
			return d, to.wrong("is a destination for requests to the application")
		}
		d.Baseline = true
		return d, nil
	}
	d.Fork = to.text()
	return d, r.toFork(route, to)
}

// toFork checks that a route sends requests to its destination: Envoy passes over one that is not
// an address, and takes the header.
func (r *Reading) toFork(route, to node) error {
	if _, err := netip.ParseAddrPort(to.text()); err != nil || !route.at("typed_per_filter_config", r.destinationFilter).absent() {
		return route.wrong("does not name the destination: its metadata have no address at %q, or it changes the filter %q", r.destination, r.destinationFilter)
	}
	return nil
}

func (r *Reading) refusal(d Decision, route, direct node) (Decision, error) {
	if direct.at("status").number() != 503 {
		return d, direct.wrong("is an answer that is not 503")
	}
	for _, add := range route.at("response_headers_to_add").list() {
		if strings.EqualFold(add.at("header", "key").text(), "sd-reason") {
			d.Refusal = literal(add.at("header", "value").text())
		}
	}
	if d.Refusal == "" {
		return d, route.wrong("is a refusal without a reason")
	}
	return d, nil
}

// literal reads a header value that is a format: a doubled per cent sign is one.
func literal(format string) string { return strings.ReplaceAll(format, "%%", "%") }
