package label_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/controlplane-link/preview/label"
)

const domain = "preview.example.net"

var web = label.Label{Endpoint: "web", Owner: "sb"}

func TestHosts(t *testing.T) {
	long := strings.Repeat("e", 61)
	for host, want := range map[string]label.Label{
		"web--sb.preview.example.net":                web,
		"web--sb.preview.example.net.":               web,
		"web--sb.preview.example.net:8445":           web,
		"WEB--Sb.Preview.EXAMPLE.net.:8445":          web,
		"1--2.preview.example.net":                   {Endpoint: "1", Owner: "2"},
		"ui--my-sandbox.preview.example.net":         {Endpoint: "ui", Owner: "my-sandbox"}, // a label with two hyphens at its third byte
		"xn-a--sb.preview.example.net":               {Endpoint: "xn-a", Owner: "sb"},
		"a--xn.preview.example.net":                  {Endpoint: "a", Owner: "xn"},
		long[:59] + "--ab.preview.example.net":       {Endpoint: long[:59], Owner: "ab"}, // 63 bytes
		"":                                           {},
		".":                                          {},
		":":                                          {},
		"preview.example.net":                        {},
		".preview.example.net":                       {},
		"--.preview.example.net":                     {},
		"web--.preview.example.net":                  {},
		"--sb.preview.example.net":                   {},
		"web-sb.preview.example.net":                 {},
		"web.preview.example.net":                    {},
		"web--sb.preview.example.net..":              {},
		"web--sb..preview.example.net":               {},
		"web--sb.preview.example.org":                {},
		"web--sbpreview.example.net":                 {},
		"x.web--sb.preview.example.net":              {},
		"web--sb.x.preview.example.net":              {},
		"web---sb.preview.example.net":               {},
		"web--a--sb.preview.example.net":             {},
		"-web--sb.preview.example.net":               {},
		"web--sb-.preview.example.net":               {},
		"xn--sb.preview.example.net":                 {},
		"XN--SB.preview.example.net":                 {},
		"xn--web--sb.preview.example.net":            {},
		"web_--sb.preview.example.net":               {},
		"web--sb.preview.example.net:":               {},
		"web--sb.preview.example.net:http":           {},
		"web--sb.preview.example.net:80:80":          {},
		"web--sb.preview.example.net:-80":            {},
		"web--sb.preview.example.net:٨٠":             {}, // digits, but not of ASCII
		"web--sb.preview.example.net/":               {},
		"user@web--sb.preview.example.net":           {},
		"web--sb%2epreview.example.net":              {},
		"web--sb.preview.example.net\x00":            {},
		" web--sb.preview.example.net":               {}, //nolint:gocritic // the space is the case
		"web--sb.preview.example.net\n":              {},
		"[web--sb.preview.example.net]":              {},
		"[::1]:443":                                  {},
		"web--s\u0131.preview.example.net":           {}, // a dotless i
		"web--s\u212a.preview.example.net":           {}, // the sign of the unit kelvin, a k in lower case
		"web--sb\u3002preview.example.net":           {}, // a full stop that IDNA takes for a dot
		"we\u00adb--sb.preview.example.net":          {}, // a soft hyphen, which IDNA removes
		"ｗeb--sb.preview.example.net":                {},
		"web--sb.preview.example.net\xff":            {},
		long + "--ab.preview.example.net":            {}, // 65 bytes
		strings.Repeat("a", 1<<20) + "--b." + domain: {},
	} {
		got, err := label.Parse(host, domain)
		if got != want || (err == nil) != (want != label.Label{}) {
			t.Errorf("%.80q: %+v, %v; want %+v", host, got, err, want)
		}
	}
	if got, err := label.Parse("web--sb.", ""); err == nil {
		t.Errorf("without a domain: %+v", got)
	}
}

func TestErrorsNameTheRemedy(t *testing.T) {
	long := strings.Repeat("e", 40)
	for _, tt := range []struct{ endpoint, owner, want string }{
		{"web", "sb", ""},
		{"Web", "sb", ""},
		{"web-2", "s-b", ""},
		{long, long[:21], ""},
		{"", "sb", `is ""; a name in the host of a preview has letters, digits and single hyphens between them`},
		{"we--b", "sb", `is "we--b"; a name in the host`},
		{"web_2", "sb", `is "web_2"; a name in the host`},
		{"-web", "sb", `is "-web"; a name in the host`},
		{"xn--80ak", "sb", `is "xn--80ak"; a name in the host`},
		{"xn", "sb", `is "xn"; hosts that begin with xn-- are those of international names: use another name`},
		{"web", "s--b", `is that of an endpoint of "s--b"; a name in the host of a preview has letters, digits and single hyphens between them: give the owner`},
		{long, long[:22], "in the host of a preview has 64 characters, the limit is 63: use a shorter name"},
	} {
		err := label.Check(tt.endpoint, tt.owner)
		if tt.want == "" && err == nil {
			continue
		}
		if tt.want == "" || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q of %q: %v, want %q", tt.endpoint, tt.owner, err, tt.want)
		}
	}
}

func TestDomains(t *testing.T) {
	for text, want := range map[string]string{
		"preview.example.net": domain, "Preview.Example.NET.": domain, "a.b": "a.b", strings.Repeat("a.", 94) + "a": strings.Repeat("a.", 94) + "a",
		"": "", "net": "", ".example.net": "", "*.example.net": "", "a..b": "", "https://example.net": "", "example.net:443": "", "example.net..": "", "-a.net": "", "a_b.net": "", "é.net": "",
		strings.Repeat("a", 64) + ".net": "", strings.Repeat("a.", 95) + "a": "",
	} {
		got, err := label.Domain(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

// TestFormatAndParseAreInverse: the host of each label that Check accepts is that of no other label, has a valid length, and
// each host that is parsed is that of its label.
func TestFormatAndParseAreInverse(t *testing.T) {
	name := rapid.StringMatching(`[a-zA-Z0-9-]{1,40}`)
	rapid.Check(t, func(t *rapid.T) {
		l := label.Label{Endpoint: name.Draw(t, "endpoint"), Owner: name.Draw(t, "owner")}
		domain, err := label.Domain(rapid.StringMatching(`([a-z0-9]{1,63}\.){1,3}[a-z]{2,8}`).Draw(t, "domain"))
		if err != nil || label.Check(l.Endpoint, l.Owner) != nil {
			t.Skip("no host")
		}
		host := l.Host(domain)
		if first, _, _ := strings.Cut(host, "."); host != strings.ToLower(host) || len(first) > 63 || len(host) > 253 || strings.HasPrefix(first, "xn--") {
			t.Fatalf("%+v has host %s", l, host)
		}
		lower := label.Label{Endpoint: strings.ToLower(l.Endpoint), Owner: strings.ToLower(l.Owner)}
		suffix := rapid.SampledFrom([]string{"", ".", ":443", ".:65535"}).Draw(t, "suffix")
		for _, form := range []string{host, strings.ToUpper(host)} {
			if got, err := label.Parse(form+suffix, domain); err != nil || got != lower {
				t.Fatalf("%s: %+v, %v; want %+v", form+suffix, got, err, lower)
			}
		}
	})
}

// FuzzParse: a host that is parsed is that of its label, but for its case, a port and a final dot.
func FuzzParse(f *testing.F) {
	for _, host := range []string{
		"web--sb." + domain, "WEB--sb." + domain + ".:443", "xn--sb." + domain, "a----b." + domain, "web--sb." + domain + "..", "web--s\u212a." + domain, "web--sb\u3002" + domain,
		"a--b--c." + domain, "--." + domain, "[::1]:80", strings.Repeat("a", 63) + "." + domain, "x.web--sb." + domain,
	} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		l, err := label.Parse(host, domain)
		if err != nil {
			return
		}
		if err := label.Check(l.Endpoint, l.Owner); err != nil {
			t.Fatalf("%q has label %+v, which %v", host, l, err)
		}
		name, _, _ := strings.Cut(host, ":")
		if name = strings.TrimSuffix(name, "."); len(name) != len(l.Host(domain)) || !strings.EqualFold(name, l.Host(domain)) {
			t.Fatalf("%q has label %+v", host, l)
		}
	})
}
