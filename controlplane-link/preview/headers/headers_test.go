package headers_test

import (
	"net/textproto"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/controlplane-link/preview/headers"
	"switchyard.dev/xds/routingkey"
	"switchyard.dev/xds/routingkey/keytest"
)

var preview = headers.Preview{Key: "mine", Custom: keytest.CustomHeaders(), Host: "web--pr-1.preview.example.net", Client: "192.0.2.7"}

// read returns the key of a request as each form alone has it.
func read(h textproto.MIMEHeader) map[string]string {
	out := map[string]string{}
	for name := range h {
		only := func(asked string) []string {
			if textproto.CanonicalMIMEHeaderKey(asked) == name {
				return h[name]
			}
			return nil
		}
		out[name] = routingkey.Of(only, preview.Custom)
	}
	return out
}

// Each request of the matrix of the routing key's forms, with and without a key, has the endpoint's key in each form.
func TestTheKeyOfARequestIsReplacedInEveryForm(t *testing.T) {
	for _, c := range slices.Concat(keytest.Matrix(false), keytest.Precedence()) {
		h := textproto.MIMEHeader{"Uberctx-Sd-Routing-Key": {"other"}, "Ot-Baggage-Sd-Sandbox": {"other", "more"}}
		for _, line := range c.Lines {
			h.Add(line[0], line[1])
		}
		preview.Request(h)
		for name, key := range read(h) {
			carries := strings.EqualFold(name, routingkey.Baggage) || strings.EqualFold(name, routingkey.Tracestate) || slices.ContainsFunc(preview.Custom, func(c string) bool { return strings.EqualFold(c, name) })
			if carries && key != "mine" {
				t.Errorf("%s: %s is %q, which is the key %q", c.Name, name, h[name], key)
			}
		}
		for name, values := range h {
			if strings.HasPrefix(name, "Uberctx-") || strings.HasPrefix(name, "Ot-") {
				if !slices.Equal(values, []string{"mine"}) {
					t.Errorf("%s: %s is %q", c.Name, name, values)
				}
			}
		}
	}
}

func TestMembersOfOthersStay(t *testing.T) {
	h := textproto.MIMEHeader{
		"Baggage":    {"a=1;p=2, sd-routing-key=other;p", "b = %20", "sd-sandbox=old,sd-traffic=x"},
		"Tracestate": {"v@x=1;2,sd-routing-key=other", " sd-sandbox =old , w=2"},
	}
	preview.Request(h)
	for name, want := range map[string]string{"Baggage": "a=1;p=2,b = %20,sd-traffic=x,sd-routing-key=mine", "Tracestate": "sd-routing-key=mine,v@x=1;2,w=2"} {
		if got := h[name]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// No text of a client makes a member of another name disappear, or a key appear.
func TestAnyMembersStay(t *testing.T) {
	part := rapid.SampledFrom([]string{"a=1", "sd-routing-key=x", " sd-routing-key\t= y ", "sd-sandbox=z", ";sd-routing-key=k", "sd-routing-key", "=", "", " ", "v=sd-routing-key=x", "\"q,w\"=1", "é=1"})
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOf(part).Draw(t, "members"), ",") }), 0, 3).Draw(t, "lines")
		name := rapid.SampledFrom([]string{"Baggage", "Tracestate"}).Draw(t, "header")
		h := textproto.MIMEHeader{name: slices.Clone(lines)}
		preview.Request(h)
		var want []string
		for member := range strings.SplitSeq(strings.Join(lines, ","), ",") {
			of, _, _ := strings.Cut(member, "=")
			if of = strings.Trim(of, " \t"); strings.Trim(member, " \t") != "" && of != "sd-routing-key" && of != "sd-sandbox" {
				want = append(want, strings.Trim(member, " \t"))
			}
		}
		got := slices.DeleteFunc(strings.Split(h.Get(name), ","), func(m string) bool { return m == "sd-routing-key=mine" })
		if !slices.Equal(got, want) {
			t.Fatalf("%q becomes %q, want the members %q", lines, h[name], want)
		}
		if key := read(h)[name]; key != "mine" {
			t.Fatalf("%q becomes %q, which is the key %q", lines, h[name], key)
		}
	})
}

func TestHeadersOfTheClientAreReplacedOrRemoved(t *testing.T) {
	h := textproto.MIMEHeader{
		"X-Forwarded-For": {"10.0.0.1", "10.0.0.2"}, "X-Forwarded-Host": {"evil"}, "X-Forwarded-Prefix": {"/x"}, "Forwarded": {"for=10.0.0.1"},
		"Authorization": {"Basic eDp5"}, "Origin": {"https://web--pr-1.preview.example.net"}, "X-Real-Ip": {"10.0.0.1"},
		"Cookie": {"a=1; b=\"2;\""}, "X_own": {"1"},
		// Applications behind WSGI and CGI take these for others.
		"X_forwarded_for": {"10.0.0.1"}, "X-Forwarded_host": {"evil"}, "Signadot_api_key": {"key"}, "X_team": {"other"}, "Ot_baggage-Sd_routing_key": {"other"},
	}
	preview.Request(h)
	for name, want := range map[string][]string{
		"X-Forwarded-For": {"192.0.2.7"}, "X-Forwarded-Host": {preview.Host}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Prefix": nil, "Forwarded": nil,
		"Authorization": {"Basic eDp5"}, "Origin": {"https://web--pr-1.preview.example.net"}, "X-Real-Ip": {"10.0.0.1"},
		"Cookie": {"a=1; b=\"2;\""}, "X_own": {"1"},
		"X_forwarded_for": nil, "X-Forwarded_host": nil, "Signadot_api_key": nil, "X_team": nil, "Ot_baggage-Sd_routing_key": nil,
	} {
		if !slices.Equal(h[name], want) {
			t.Errorf("%s is %q, want %q", name, h[name], want)
		}
	}
}

func TestCookiesForOtherHostsAreDropped(t *testing.T) {
	stay := []string{
		"a=1", "a=1; Path=/; HttpOnly", "a=Domain=example.net", "a=1; Domain=", "a=1; domain=WEB--pr-1.preview.example.net", "a=1; Domain=.web--pr-1.preview.example.net; Secure",
		"domain=x", "__Host-app=1; Secure; Path=/",
	}
	drop := []string{
		"a=1; Domain=preview.example.net", "a=1;domain=.example.net", "a=1; DOMAIN = net ;Path=/", "a=1; Domain=web--pr-1.preview.example.net; Domain=preview.example.net",
		"__Host-switchyard-12=s; Secure; Path=/", " __Host-switchyard-x=; Max-Age=0",
	}
	h := textproto.MIMEHeader{"Set-Cookie": slices.Concat(drop[:3], stay, drop[3:]), "X": {"1"}}
	h.Set("NEL", `{"report_to":"evil","max_age":86400,"success_fraction":1}`) // reports URLs of later requests, with codes
	h.Set("Report-To", `{"group":"evil","max_age":86400,"endpoints":[{"url":"https://evil.example/"}]}`)
	headers.Answer(h, "web--pr-1.preview.example.net:8445")
	if !reflect.DeepEqual(h, textproto.MIMEHeader{"Set-Cookie": stay, "X": {"1"}}) {
		t.Errorf("the answer has %q", h)
	}
	h = textproto.MIMEHeader{"Set-Cookie": drop}
	if headers.Answer(h, "web--pr-1.preview.example.net"); len(h) > 0 {
		t.Errorf("the answer has %q", h)
	}
}

func TestAPreflightGetsTheKeyAlone(t *testing.T) {
	h := textproto.MIMEHeader{"Origin": {"https://other"}}
	preview.Route(h)
	for name := range h {
		if name != "Origin" && !slices.Contains([]string{"Baggage", "Tracestate", "X-Team", "X-Other"}, name) && !strings.HasSuffix(name, "-Sd-Routing-Key") && !strings.HasSuffix(name, "-Sd-Sandbox") {
			t.Errorf("header %s is added", name)
		}
	}
}
