package configdump

import (
	"errors"
	"regexp"
	"strings"
)

// extraction is one place that the key may be taken from.
type extraction struct {
	header       string
	pattern      string
	substitution string
}

// filters are what an HTTP connection manager does to a request to find its route.
type filters struct {
	routes, state string
	keys          []extraction
	// keyFilter is the name of the filter that takes the keys, written where it
	// puts them.
	keyFilter, written string
	// stateFilter is the name of the one that sets the state.
	stateFilter string
	// destinationFilter is the name of the one that copies the destination of the matched route
	// into the filter state. The virtual host configures it.
	destinationFilter string
	// off are the names of filters that are disabled unless a route enables them.
	off map[string]bool
}

// filtersOf reads a manager's filters: first the key goes into the metadata, then port and key
// into the filter state, then the destination of the route that was found by these; later
// filters must not touch any.
func filtersOf(manager node) (f filters, err error) {
	f.routes = manager.at("rds", "route_config_name").text()
	if f.routes == "" {
		return f, manager.wrong("does not get its routes from the server")
	}
	written := ""
	f.off = map[string]bool{}
	for _, filter := range manager.at("http_filters").list() {
		config := filter.at("typed_config")
		if filter.at("disabled").yes() {
			f.off[filter.at("name").text()] = true
		}
		switch {
		case config.is("header_to_metadata.v3.Config") && f.state == "":
			if f.keys, written, err = keysOf(config); err != nil {
				return f, err
			}
			f.keyFilter, f.written = filter.at("name").text(), written
		case config.is("set_filter_state.v3.Config") && written != "" && f.state == "":
			if f.state, err = stateOf(config, written); err != nil {
				return f, err
			}
			f.stateFilter = filter.at("name").text()
		case config.is("set_filter_state.v3.Config") && f.state != "" && f.destinationFilter == "" && config.only() == nil:
			f.destinationFilter = filter.at("name").text()
		case config.is("router.v3.Router") || changesAnswers(config):
		case refuses(config) && filter.at("disabled").yes():
		default:
			return f, filter.wrong("is a filter that is not understood, or not here")
		}
	}
	if f.state == "" {
		return f, manager.wrong("puts nothing into the filter state that a route could be found by")
	}
	if f.destinationFilter == "" {
		return f, manager.wrong("has no filter that could copy the destination of a route")
	}
	return f, nil
}

// filtersOfHost reads what the virtual host changes of the filters: from where the key and the
// destination are taken, and nothing else.
func (r *Reading) filtersOfHost(changes node) (err error) {
	for name, config := range changes.fields() {
		switch {
		case name == r.keyFilter && config.is("header_to_metadata.v3.Config"):
			written := ""
			if r.keys, written, err = keysOf(config); err == nil && written != r.written {
				err = config.wrong("puts the key elsewhere than the filter does")
			}
		case name == r.destinationFilter && config.is("set_filter_state.v3.Config"):
			r.destination, err = destinationOf(config)
		default:
			err = config.wrong("changes a filter that it should not")
		}
		if err != nil {
			return err
		}
		delete(r.off, name)
	}
	if r.destination == nil {
		return changes.wrong("does not configure the filter %q, which is to copy the destination of a route", r.destinationFilter)
	}
	return nil
}

// keysOf reads the extractions, in their order, and where the key is written, as a
// format names it.
func keysOf(config node) (all []extraction, written string, err error) {
	for _, rule := range config.at("request_rules").list() {
		present := rule.at("on_header_present")
		to := "%DYNAMIC_METADATA(" + present.at("metadata_namespace").text() + ":" + present.at("key").text() + ")%"
		rewrite := present.at("regex_value_rewrite")
		if err := rule.only("header", "on_header_present"); err != nil {
			return nil, "", err
		}
		if written != "" && to != written || rewrite.absent() {
			return nil, "", rule.wrong("does not take a key, or puts it elsewhere")
		}
		written = to
		all = append(all, extraction{
			strings.ToLower(rule.at("header").text()), rewrite.at("pattern", "regex").text(), rewrite.at("substitution").text(),
		})
	}
	if len(all) == 0 {
		return nil, "", config.wrong("takes no key from anywhere")
	}
	return all, written, nil
}

// stateOf reads which filter state is set, and checks that it is the port and the
// key.
func stateOf(config node, written string) (string, error) {
	values := config.at("on_request_headers").list()
	if len(values) != 1 || !config.at("clear_route_cache").yes() {
		return "", config.wrong("does not set one value before the route is found")
	}
	format := values[0].at("format_string")
	text := format.at("text_format_source", "inline_string").text()
	if text != "%DOWNSTREAM_LOCAL_PORT%/"+written || !format.at("omit_empty_values").yes() {
		return "", format.wrong("is not the port and the key")
	}
	return values[0].at("object_key").text(), nil
}

// clusterState is the filter state from which Envoy's clusters of type ORIGINAL_DST take the
// address, before anything else.
const clusterState = "envoy.network.transport_socket.original_dst_address"

var ofRoute = regexp.MustCompile(`^%METADATA\(ROUTE:([^:()%]+):([^:()%]+)\)%$`)

// destinationOf returns where in a route's metadata the destination is that is copied to where
// clusters find it.
func destinationOf(config node) ([]string, error) {
	values := config.at("on_request_headers").list()
	if err := config.only("on_request_headers"); err != nil || len(values) != 1 {
		return nil, config.wrong("does more than set one value")
	}
	value, format := values[0], values[0].at("format_string")
	if err := errors.Join(value.only("object_key", "format_string", "skip_if_empty"), format.only("text_format_source", "omit_empty_values")); err != nil {
		return nil, err
	}
	path := ofRoute.FindStringSubmatch(format.at("text_format_source", "inline_string").text())
	if path == nil || value.at("object_key").text() != clusterState {
		return nil, value.wrong("is not the destination in the route's metadata, or not where clusters find it")
	}
	return path[1:], nil
}

func changesAnswers(does node) bool {
	return does.is("HeaderMutation") && len(does.fields()) == 2 && does.at("mutations").only("response_mutations") == nil
}

// refuses reports whether a filter answers every request itself.
func refuses(does node) bool {
	return does.is("HTTPFault") && does.only("@type", "abort") == nil && does.at("abort").only("http_status", "percentage") == nil &&
		does.at("abort", "percentage", "numerator").number() == 100
}

// Key returns which key the proxy takes out of a request, "" for none. Each place
// that has one replaces what an earlier one had.
func (r Reading) Key(lines func(name string) []string) (key string) {
	if !r.passes(lines) {
		return ""
	}
	for _, e := range r.keys {
		all := lines(e.header)
		if len(all) == 0 {
			continue
		}
		// \C is any byte to the proxy, which matches bytes. Here it is any character, which is
		// the same for values that are text.
		pattern, err := regexp.Compile(strings.ReplaceAll(e.pattern, `\C`, `(?s:.)`))
		if err != nil {
			return "the pattern for " + e.header + " cannot be read: " + err.Error()
		}
		joined := strings.Join(all, ",")
		substitution := strings.ReplaceAll(e.substitution, `\1`, "${1}")
		if found := pattern.ReplaceAllString(joined, substitution); found != "" {
			key = found
		}
	}
	return key
}
