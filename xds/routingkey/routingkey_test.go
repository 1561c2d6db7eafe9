package routingkey_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/xds/routingkey"
	"switchyard.dev/xds/routingkey/keytest"
)

type headers map[string][]string

func (h headers) lines(name string) []string { return h[name] }

func TestTheRoutingKeyOfARequest(t *testing.T) {
	custom := keytest.CustomHeaders()
	for name, c := range keytest.Forms() {
		t.Run(name, func(t *testing.T) {
			h := headers{}
			for _, line := range c.Lines {
				h[strings.ToLower(line[0])] = append(h[strings.ToLower(line[0])], line[1])
			}
			if got := routingkey.Of(h.lines, custom); got != c.Key {
				t.Errorf("got %q, want %q", got, c.Key)
			}
			for form, pattern := range patterns() {
				if got := extracted(h, custom, pattern); got != c.Key {
					t.Errorf("the %s extractions give %q, want %q", form, got, c.Key)
				}
			}
		})
	}
}

func TestTheHeaderOfAKeyIsNamed(t *testing.T) {
	custom := keytest.CustomHeaders()
	for name, c := range keytest.Forms() {
		lines := func(name string) (of []string) {
			for _, line := range c.Lines {
				if strings.EqualFold(line[0], name) {
					of = append(of, line[1])
				}
			}
			return of
		}
		key, header := routingkey.Find(lines, custom)
		if want := routingkey.Of(lines, custom); key != want {
			t.Errorf("%s: the key is %q, want %q", name, key, want)
		}
		if (key == "") != (header == "") || key != "" && len(lines(header)) == 0 {
			t.Errorf("%s: the key %q comes from the header %q", name, key, header)
		}
	}
}

func TestHeadersThatCannotCarryAKeyAreRefused(t *testing.T) {
	for _, name := range []string{"Baggage", "tracestate", ":path", "a b", "x-a,x-b", "", "Cookie", "x-é"} {
		if routingkey.CheckHeader(name) == nil {
			t.Errorf("%q is accepted", name)
		}
		lines := func(string) []string { return []string{"k1"} }
		if key := routingkey.Of(lines, []string{name}); key != "" {
			t.Errorf("%q carries the key %q", name, key)
		}
		if n := len(routingkey.Extractions([]string{name})); n != 2 {
			t.Errorf("%q has an extraction", name)
		}
	}
	for _, name := range []string{"X-Team", "x-other", "authorization-team", "x_key!"} {
		if err := routingkey.CheckHeader(name); err != nil {
			t.Error(err)
		}
	}
}

// goSyntax turns an extraction's pattern into Go's dialect: there is no \C, but
// "." matches bytes that are not UTF-8.
var goSyntax = strings.NewReplacer(`\C`, `(?s:.)`)

// patterns returns the two that an extraction has.
func patterns() map[string]func(routingkey.Extraction) string {
	return map[string]func(routingkey.Extraction) string{
		"quick": func(e routingkey.Extraction) string { return e.Pattern },
		"short": func(e routingkey.Extraction) string { return e.Short },
	}
}

// extracted does what a proxy does with the extractions.
func extracted(h headers, custom []string, of func(routingkey.Extraction) string) string {
	for _, e := range routingkey.Extractions(custom) {
		lines := h[e.Header]
		if len(lines) == 0 {
			continue
		}
		if !strings.Contains(strings.Join(lines, ","), e.Holds) {
			continue
		}
		pattern := regexp.MustCompile(goSyntax.Replace(of(e)))
		key := pattern.ReplaceAllString(strings.Join(lines, ","), strings.ReplaceAll(e.Substitution, `\1`, `${1}`))
		if key != "" && len(key) < routingkey.MaxLength {
			return key
		}
	}
	return ""
}

func TestParserAndExpressionsAgreeOnAnyHeaders(t *testing.T) {
	piece := rapid.SampledFrom([]string{"sd-routing-key", "sd-routing-key=", "=", ",", ";", " ", "\t", "k", "K1", "x-", "%31", "é", `"`, "a=b", "s", "sd-rout", "sd-routing-key-"})
	value := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		h := headers{}
		for _, name := range []string{routingkey.Baggage, routingkey.Tracestate, "x-team"} {
			if lines := rapid.SliceOfN(value, 0, 3).Draw(t, name); len(lines) > 0 {
				h[name] = lines
			}
		}
		custom := []string{"x-team"}
		for form, pattern := range patterns() {
			if want, got := routingkey.Of(h.lines, custom), extracted(h, custom, pattern); got != want {
				t.Fatalf("%q: the parser says %q, the %s expressions %q", h, want, form, got)
			}
		}
	})
}

func TestTheParserGivesTheWholeMatrixItsAnswers(t *testing.T) {
	custom, wrong := keytest.CustomHeaders(), 0
	cases := keytest.Matrix(true)
	for _, c := range cases {
		h := headers{}
		for _, line := range c.Lines {
			h[strings.ToLower(line[0])] = append(h[strings.ToLower(line[0])], line[1])
		}
		if got := routingkey.Of(h.lines, custom); got != c.Key {
			if wrong++; wrong < 10 {
				t.Errorf("%s: %.100q: got %.100q, want %.100q", c.Name, c.Lines, got, c.Key)
			}
		}
	}
	t.Logf("%d requests, %d disagreements", len(cases), wrong)
}
