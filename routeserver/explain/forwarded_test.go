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
		want    string
	}{
		"no header":             {nil, ""},
		"plain":                 {baggage(key), ""},
		"second line":           {baggage("user=alice", key), ""},
		"blanks around =":       {baggage("sd-routing-key = k"), ""},
		"a property":            {baggage(key + ";ttl=60;note"), ""},
		"71st entry":            {baggage(many.String() + key), ""},
		"key last of two":       {baggage("sd-routing-key=other," + key), ""},
		"an empty value":        {baggage("a=," + key), ""},
		"no key":                {baggage("broken"), ""},
		"bad entry before":      {baggage("broken," + key), `"broken"`},
		"bad entry after":       {baggage(key + ",=x"), `"=x"`},
		"blank in a value":      {baggage("city=New York," + key), `"city=New York"`},
		"quoted value":          {baggage(`q="a,b",` + key), `"q=\"a"`},
		"not ASCII":             {baggage("town=Köln," + key), `"town=Köln"`},
		"blank in a name":       {baggage("a b=c," + key), `"a b=c"`},
		"after 8 KiB":           {baggage("w="+strings.Repeat("x", 8200), key), "8219 bytes"},
		"tracestate alone":      {[]explain.Header{{Name: "tracestate", Value: key}}, "only together with traceparent"},
		"with traceparent":      {[]explain.Header{{Name: "tracestate", Value: key}, {Name: "traceparent", Value: "00-1-2-01"}}, ""},
		"tracestate beside one": {append(baggage(key), explain.Header{Name: "tracestate", Value: key}), ""},
	} {
		if got := explain.NotForwarded(c.headers); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
