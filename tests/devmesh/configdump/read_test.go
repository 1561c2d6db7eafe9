package configdump

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// dump is what a real Envoy 1.40 said, without its bootstrap.
func dump(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/dump.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func with(headers ...string) func(string) []string {
	return func(name string) (lines []string) {
		for i := 0; i < len(headers); i += 2 {
			if strings.EqualFold(headers[i], name) {
				lines = append(lines, headers[i+1])
			}
		}
		return lines
	}
}

func TestADumpIsReadAsTheProxysDecisions(t *testing.T) {
	r, err := Read([]byte(dump(t)))
	if err != nil {
		t.Fatal(err)
	}
	want := map[Match]Decision{
		{8080, "feature"}: {Fork: "10.96.7.3:80", Name: "sandbox=feature"},
		{8080, "slow"}:    {Refusal: "sandbox-not-ready", Name: "sandbox=slow"},
	}
	if diff := cmp.Diff(want, r.Decisions, cmpopts.EquateComparable()); diff != "" {
		t.Error(diff)
	}
	if !r.Otherwise.Baseline || r.Routes == "" || r.Version == "" {
		t.Errorf("%+v", r)
	}
	for name, c := range map[string]struct {
		headers []string
		port    uint32
		want    Decision
	}{
		"the key in baggage":                     {[]string{"Baggage", "a=1,sd-routing-key=feature;ttl=3"}, 8080, want[Match{8080, "feature"}]},
		"the last member in baggage":             {[]string{"baggage", "sd-routing-key=slow", "baggage", "sd-routing-key=feature"}, 8080, want[Match{8080, "feature"}]},
		"the first in tracestate":                {[]string{"tracestate", "sd-routing-key=slow,sd-routing-key=feature"}, 8080, want[Match{8080, "slow"}]},
		"baggage before the header of a team":    {[]string{"x-team-key", "slow", "baggage", "sd-routing-key=feature"}, 8080, want[Match{8080, "feature"}]},
		"the header of a team":                   {[]string{"x-team-key", " slow "}, 8080, want[Match{8080, "slow"}]},
		"another port":                           {[]string{"x-team-key", "slow"}, 8081, r.Otherwise},
		"a header that holds no key":             {[]string{"baggage", "slow"}, 8080, r.Otherwise},
		"a key that is another in upper case":    {[]string{"x-team-key", "SLOW"}, 8080, r.Otherwise},
		"no headers, and so no key at all to be": {nil, 8080, r.Otherwise},
	} {
		t.Run(name, func(t *testing.T) {
			if got := r.Of(c.port, with(c.headers...)); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// hostWith returns a dump in which the virtual host configures a filter in place of the one that takes keys.
func hostWith(t *testing.T, text, filter, config string) string {
	t.Helper()
	var whole, with any
	if err := errors.Join(json.Unmarshal([]byte(text), &whole), json.Unmarshal([]byte(config), &with)); err != nil {
		t.Fatal(err)
	}
	routes, ok := whole.(map[string]any)["configs"].([]any)[2].(map[string]any)["dynamic_route_configs"].([]any)[0].(map[string]any)["route_config"]
	if !ok {
		t.Fatal("the dump has no routes in third place")
	}
	filters := routes.(map[string]any)["virtual_hosts"].([]any)[0].(map[string]any)["typed_per_filter_config"].(map[string]any)
	delete(filters, "envoy.filters.http.header_to_metadata")
	filters[filter] = with
	out, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestTheVirtualHostNamesTheKeyHeaders(t *testing.T) {
	const rule = `{"@type": "type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config", "request_rules": [{"header": "x-other",
		"on_header_present": {"metadata_namespace": "signadot.com", "key": "key", "regex_value_rewrite": {"pattern": {"regex": "^(.*)$"}, "substitution": "\\1"}}}]}`
	const filter = "envoy.filters.http.header_to_metadata"
	switching := strings.ReplaceAll(dump(t), `"header_name": "x-team-key"`, `"header_name": "x-other"`)
	r, err := Read([]byte(hostWith(t, switching, filter, rule)))
	if err != nil {
		t.Fatal(err)
	}
	if key := r.Key(with("x-other", "slow")); key != "slow" {
		t.Errorf("the key is %q, want that of x-other, which the virtual host names", key)
	}
	for name, c := range map[string]struct{ text, filter, config, want string }{
		"switches nothing": {dump(t), filter, rule, `for the header "x-other"`},
		"another filter":   {switching, "envoy.filters.http.lua", rule, "changes a filter that it should not"},
		"another type":     {switching, filter, strings.Replace(rule, "header_to_metadata.v3", "lua.v3", 1), "changes a filter that it should not"},
		"put elsewhere":    {switching, filter, strings.Replace(rule, `"key": "key"`, `"key": "other"`, 1), "puts the key elsewhere"},
		"takes no key":     {switching, filter, `{"@type": "x.header_to_metadata.v3.Config"}`, "takes no key"},
		"a rule with more": {switching, filter, strings.Replace(rule, `"header": "x-other"`, `"header": "x-other", "remove": true`, 1), "is not understood"},
	} {
		if _, err := Read([]byte(hostWith(t, c.text, c.filter, c.config))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}

// rejected fails the test unless a dump in which the old text is replaced is rejected with a reason.
func rejected(t *testing.T, old, instead, want string) {
	t.Helper()
	good := dump(t)
	bad := strings.ReplaceAll(good, old, instead)
	if bad == good {
		t.Fatalf("the dump has no %s", old)
	}
	if _, err := Read([]byte(bad)); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an error with %q", err, want)
	}
}

func TestADumpWithOtherDestinationsIsRejected(t *testing.T) {
	const stateOn = `"envoy.filters.http.set_filter_state": {"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", `
	for name, c := range map[string]struct{ old, new, want string }{
		"the map has another input":          {`"key": "signadot.com/route"`, `"key": "other"`, "is not the filter state"},
		"the filter state is something else": {`"object_key": "signadot.com/route"`, `"object_key": "other"`, "is not the filter state"},
		"the port does not count":            {"%DOWNSTREAM_LOCAL_PORT%/", "", "is not the port and the key"},
		"the route is found before the key":  {`"clear_route_cache": true`, `"clear_route_cache": false`, "before the route is found"},
		"a cluster is not one of the two":    {`"cluster": "forks"`, `"cluster": "xds"`, "names a cluster"},
		"only some paths are routed":         {`"prefix": ""`, `"prefix": "/api"`, "every path"},
		"only some hosts are routed":         {`"domains": [`, `"domains": ["shop",`, "does not take every request"},
		"a refusal is a success":             {`"status": 503`, `"status": 200`, "not 503"},
		"a field that is not known":          {`"timeout": "0s"`, `"host_rewrite_literal": "x"`, "is not understood"},
		"a filter that is not known":         {"header_to_metadata.v3.Config", "lua.v3.Lua", "is not understood"},
		"the routes are not there":           {`"route_config_name": "`, `"route_config_name": "x`, "no routes named"},
		"a header switches nothing on":       {`"header_name": "baggage"`, `"header_name": "other"`, `for the header "baggage"`},
		"only some texts switch it on":       {`{"contains": "sd-routing-key"}`, `{"prefix": "sd-routing-key"}`, `for the header "tracestate"`},
		"a filter stays off":                 {`"envoy.filters.http.set_filter_state": {`, `"other": {`, "prevents later matchers"},
		"a filter is switched off again":     {stateOn + `"config": {}`, stateOn + `"disabled": true`, "prevents later matchers"},
		"the refusal has a gRPC status":      {`"http_status": 400`, `"http_status": 400, "grpc_status": 0`, "is not understood"},
		"a match value that nothing has":     {`"8080/slow"`, `"08080/slow"`, "no request has"},
	} {
		t.Run(name, func(t *testing.T) {
			rejected(t, c.old, c.new, c.want)
		})
	}
}

// A request for a sandbox without an address in its filter state would go to the baseline, or to where
// its client wants it.
func TestADumpThatLosesDestinationsIsRejected(t *testing.T) {
	const (
		set      = `{"@type": "type.googleapis.com/envoy.extensions.filters.http.set_filter_state.v3.Config"`
		filter   = `{"name": "signadot.com/destination", "typed_config": ` + set + `}, "disabled": true}, `
		host     = `"signadot.com/destination": ` + set + `, "on_request_headers": [`
		state    = `"object_key": "envoy.network.transport_socket.original_dst_address"`
		stateOn  = `"envoy.filters.http.set_filter_state": {"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "config": {}}`
		off      = `"signadot.com/destination": {"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": true}`
		named    = `"metadata": {"filter_metadata": {"sd": {"to": "10.96.7.3:80"}}}`
		app      = `"route": {"cluster": "app", "timeout": "0s"}`
		byHeader = `"use_http_header": true`
	)
	for name, c := range map[string]struct{ old, new, want string }{
		"the filter is missing":                 {filter, "", "has no filter that could copy the destination"},
		"the filter comes before the key's":     {`"http_filters": [`, `"http_filters": [` + filter, "is not understood, or not here"},
		"there are two such filters":            {filter, filter + filter, "is not understood, or not here"},
		"the filter sets something else":        {filter, strings.Replace(filter, set, set+`, "on_request_headers": []`, 1), "is not understood, or not here"},
		"the host does not configure it":        {host, `"other": ` + set + `, "on_request_headers": [`, "changes a filter that it should not"},
		"the host configures none":              {`"typed_per_filter_config": {` + host, `"unknown": {` + host, "is not understood"},
		"the host sets two values":              {host, host + "{}, ", "does more than set one value"},
		"the host finds the route again":        {host, strings.Replace(host, `, "on`, `, "clear_route_cache": true, "on`, 1), "does more than set one value"},
		"no cluster reads it":                   {state, `"object_key": "other"`, "or not where clusters find it"},
		"another factory makes it":              {state, state + `, "factory_key": "envoy.string"`, "is not understood"},
		"a client may name it":                  {"%METADATA(ROUTE:sd:to)%", "%REQ(x-sd-destination)%", "is not the destination in the route's metadata"},
		"it is that of the cluster":             {"%METADATA(ROUTE:", "%METADATA(CLUSTER:", "is not the destination in the route's metadata"},
		"it has another name in the host":       {"(ROUTE:sd:to)", "(ROUTE:sd:other)", "does not name the destination"},
		"it has another name in the route":      {`{"to": `, `{"other": `, "does not name the destination"},
		"it is no address":                      {"10.96.7.3:80", "fork:80", "does not name the destination"},
		"a form for keys switches it off":       {stateOn, stateOn + ", " + off, "prevents later matchers"},
		"its route replaces it":                 {named, named + `, "typed_per_filter_config": {` + off + `}`, "or it changes the filter"},
		"its route adds the header":             {named, named + `, "request_headers_to_add": []`, "is not understood"},
		"the client's header stays":             {`, "x-sd-destination"], "typed_per_filter_config"`, `], "typed_per_filter_config"`, "lets a client set the header"},
		"requests to the application have one":  {app, app + ", " + named, "for requests to the application"},
		"a request's metadata have it":          {byHeader, byHeader + `, "metadata_key": {}`, "is not understood"},
		"filters are on the way to the cluster": {`"use_downstream_protocol_config": {`, `"http_filters": [{}], "use_downstream_protocol_config": {`, "is not understood"},
		"its route has none":                    {named + `, "name": "sandbox=feature"`, `"name": "sandbox=feature"`, "does not name the destination"},
	} {
		t.Run(name, func(t *testing.T) { rejected(t, c.old, c.new, c.want) })
	}
}

func TestARuleThatIsMissingOrElsewhereShows(t *testing.T) {
	good, err := Read([]byte(dump(t)))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, new string }{
		"missing":            {`"8080/slow"`, `"8080/slower"`},
		"on another port":    {`"8080/slow"`, `"8081/slow"`},
		"to another address": {"10.96.7.3:80", "10.96.7.4:80"},
		"another sandbox's":  {`"name": "sandbox=slow"`, `"name": "sandbox=feature"`},
	} {
		t.Run(name, func(t *testing.T) {
			bad, err := Read([]byte(strings.ReplaceAll(dump(t), c.old, c.new)))
			if err != nil {
				t.Fatal(err)
			}
			if cmp.Equal(good.Decisions, bad.Decisions) {
				t.Error("it reads the same")
			}
		})
	}
}
