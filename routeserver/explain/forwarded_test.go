package explain_test

import (
	"fmt"
	"strings"
	"testing"

	"switchyard.dev/routeserver/explain"
)

// The lists of clients that an application with OpenTelemetry for Go forwarded, or did not.
func TestHeadersThatApplicationsDoNotForward(t *testing.T) {
	const key = "sd-routing-key=k"
	baggage := func(lines ...string) (out []explain.Header) {
		for _, l := range lines {
			out = append(out, explain.Header{Name: "Baggage", Value: l})
		}
		return out
	}
	var many strings.Builder
	for n := range 70 {
		fmt.Fprintf(&many, "m%02d=x,", n)
	}
	for name, c := range map[string]struct {
		headers []explain.Header
		from    string
		want    string
	}{
		"no header":             {nil, "", ""},
		"plain":                 {baggage(key), "baggage", ""},
		"second line":           {baggage("user=alice", key), "baggage", ""},
		"blanks around =":       {baggage("sd-routing-key = k"), "baggage", ""},
		"a property":            {baggage(key + ";ttl=60;note"), "baggage", ""},
		"71st entry":            {baggage(many.String() + key), "baggage", ""},
		"key last of two":       {baggage("sd-routing-key=other," + key), "baggage", ""},
		"an empty value":        {baggage("a=," + key), "baggage", ""},
		"no key":                {baggage("broken"), "", ""},
		"bad entry before":      {baggage("broken," + key), "baggage", `"broken"`},
		"bad entry after":       {baggage(key + ",=x"), "baggage", `"=x"`},
		"blank in a value":      {baggage("city=New York," + key), "baggage", `"city=New York"`},
		"quoted value":          {baggage(`q="a,b",` + key), "baggage", `"q=\"a"`},
		"not ASCII":             {baggage("town=Köln," + key), "baggage", `"town=Köln"`},
		"blank in a name":       {baggage("a b=c," + key), "baggage", `"a b=c"`},
		"after 8 KiB":           {baggage("w="+strings.Repeat("x", 8200), key), "baggage", "8219 bytes"},
		"tracestate alone":      {[]explain.Header{{Name: "tracestate", Value: key}}, "tracestate", "only together with traceparent"},
		"with traceparent":      {[]explain.Header{{Name: "tracestate", Value: key}, {Name: "traceparent", Value: "00-1-2-01"}}, "tracestate", ""},
		"a custom header":       {baggage("broken," + key), "x-preview", ""},
		"tracestate beside one": {append(baggage(key), explain.Header{Name: "tracestate", Value: key}), "baggage", ""},
	} {
		if got := explain.NotForwarded(c.headers, c.from); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
