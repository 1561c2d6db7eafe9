package configdump

import (
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

// hostWith returns the virtual host of a dump a configuration of its own for a filter.
func hostWith(t *testing.T, filter, config string) string {
	t.Helper()
	const host = `"name": "requests",`
	if !strings.Contains(dump(t), host) {
		t.Fatal("the dump has no virtual host")
	}
	return strings.Replace(dump(t), host, host+` "typed_per_filter_config": {"`+filter+`": `+config+`},`, 1)
}

func TestTheVirtualHostNamesTheKeyHeaders(t *testing.T) {
	const rule = `{"@type": "type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config", "request_rules": [{"header": "x-other",
		"on_header_present": {"metadata_namespace": "signadot.com", "key": "key", "regex_value_rewrite": {"pattern": {"regex": "^(.*)$"}, "substitution": "\\1"}}}]}`
	const filter = "envoy.filters.http.header_to_metadata"
	const given = `"header_name": "x-team-key"`
	switching := strings.ReplaceAll(hostWith(t, filter, rule), given, `"header_name": "x-other"`)
	r, err := Read([]byte(switching))
	if err != nil {
		t.Fatal(err)
	}
	if key := r.Key(with("x-other", "slow")); key != "slow" {
		t.Errorf("the key is %q, want that of x-other, which the virtual host names", key)
	}
	for name, bad := range map[string]string{
		"switches nothing": hostWith(t, filter, rule),
		"another filter":   hostWith(t, "envoy.filters.http.lua", rule),
		"another type":     hostWith(t, filter, strings.Replace(rule, "header_to_metadata.v3", "lua.v3", 1)),
		"put elsewhere":    hostWith(t, filter, strings.Replace(rule, `"key": "key"`, `"key": "other"`, 1)),
		"takes no key":     hostWith(t, filter, `{"@type": "x.header_to_metadata.v3.Config"}`),
		"a rule with more": hostWith(t, filter, strings.Replace(rule, `"header": "x-other"`, `"header": "x-other", "remove": true`, 1)),
	} {
		if _, err := Read([]byte(bad)); err == nil {
			t.Errorf("%s: it is taken for good", name)
		}
	}
}

func TestADumpWithOtherDestinationsIsRejected(t *testing.T) {
	const stateOn = `"envoy.filters.http.set_filter_state": {"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", `
	good := dump(t)
	for name, c := range map[string]struct{ old, new, want string }{
		"a client may set the destination itself": {"OVERWRITE_IF_EXISTS_OR_ADD", "APPEND_IF_EXISTS_OR_ADD", "does not name the destination"},
		"the map looks at something else":         {`"key": "signadot.com/route"`, `"key": "other"`, "is not the filter state"},
		"the filter state is something else":      {`"object_key": "signadot.com/route"`, `"object_key": "other"`, "is not the filter state"},
		"the port does not count":                 {"%DOWNSTREAM_LOCAL_PORT%/", "", "is not the port and the key"},
		"the route is found before the key":       {`"clear_route_cache": true`, `"clear_route_cache": false`, "before the route is found"},
		"a cluster is not one of the two":         {`"cluster": "forks"`, `"cluster": "xds"`, "names a cluster"},
		"only some paths are routed":              {`"prefix": ""`, `"prefix": "/api"`, "every path"},
		"only some hosts are routed":              {`"domains": [`, `"domains": ["shop",`, "does not take every request"},
		"a refusal is a success":                  {`"status": 503`, `"status": 200`, "not 503"},
		"a field that is not known":               {`"timeout": "0s"`, `"host_rewrite_literal": "x"`, "is not understood"},
		"a filter that is not known":              {"header_to_metadata.v3.Config", "lua.v3.Lua", "is not understood"},
		"the routes are not there":                {`"route_config_name": "`, `"route_config_name": "x`, "no routes named"},
		"a header switches nothing on":            {`"header_name": "baggage"`, `"header_name": "other"`, `for the header "baggage"`},
		"only some texts switch it on":            {`{"contains": "sd-routing-key"}`, `{"prefix": "sd-routing-key"}`, `for the header "tracestate"`},
		"a filter stays off":                      {`"envoy.filters.http.set_filter_state": {`, `"other": {`, "prevents later matchers"},
		"a filter is switched off again":          {stateOn + `"config": {}`, stateOn + `"disabled": true`, "prevents later matchers"},
		"what is refused is not":                  {`"http_status": 400`, `"http_status": 400, "grpc_status": 0`, "is not understood"},
		"a match value that nothing has":          {`"8080/slow"`, `"08080/slow"`, "no request has"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.ReplaceAll(good, c.old, c.new)
			if bad == good {
				t.Fatalf("the dump has no %s", c.old)
			}
			if _, err := Read([]byte(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
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
