package keymatch_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"switchyard.dev/reconcilers/meshes/keymatch"
	"switchyard.dev/xds/routingkey"
	"switchyard.dev/xds/routingkey/keytest"
)

func TestTheMatchesOfAKey(t *testing.T) {
	got, err := keymatch.Of("k7.x", []string{"X-Team", "cookie", "x-team", "x-other"}, keymatch.Istio)
	if err != nil {
		t.Fatal(err)
	}
	want := []keymatch.Match{
		{Header: "baggage", Regex: true, Value: `(?:.*,)?[ \t]*sd-routing-key[ \t]*=[ \t]*k7\.x[ \t]*(?:[;,].*)?`},
		{Header: "tracestate", Regex: true, Value: `(?:.*,)?[ \t]*sd-routing-key[ \t]*=[ \t]*k7\.x[ \t]*(?:,.*)?`},
		{Header: "x-team", Value: "k7.x"},
		{Header: "x-other", Value: "k7.x"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, err = keymatch.Of("a;b", nil, keymatch.Istio); err != nil || len(got) != 1 || got[0].Header != "tracestate" {
		t.Errorf("baggage cannot carry %q: %v, %v", "a;b", got, err)
	}
}

func TestKeysThatCannotBeMatchedAreErrors(t *testing.T) {
	// before and after take 62 bytes in baggage.
	frame := len(`(?:.*,)?[ \t]*sd-routing-key[ \t]*=[ \t]*` + `[ \t]*(?:[;,].*)?`)
	for name, c := range map[string]struct {
		key    string
		limit  keymatch.Limit
		header string
	}{
		"the longest for Istio":           {strings.Repeat("k", 1024-frame), keymatch.Istio, "-"},
		"too long for Istio":              {strings.Repeat("k", 1024-frame+1), keymatch.Istio, "baggage"},
		"too long for Istio once quoted":  {strings.Repeat(".", (1024-frame)/2+1), keymatch.Istio, "baggage"},
		"the longest for the Gateway API": {strings.Repeat("k", 4096-frame), keymatch.GatewayAPI, "-"},
		"too long for the Gateway API":    {strings.Repeat("k", 4096-frame+1), keymatch.GatewayAPI, "baggage"},
		"no regular expression":           {"k\xff", keymatch.Istio, "baggage"},
		"in no header":                    {"a,b", keymatch.Istio, ""},
		"empty":                           {"", keymatch.Istio, ""},
	} {
		matches, err := keymatch.Of(c.key, []string{"x-team"}, c.limit)
		var e *keymatch.Error
		switch {
		case c.header == "-" && (err != nil || len(matches) != 3):
			t.Errorf("%s: %d matches, %v", name, len(matches), err)
		case c.header != "-" && (!errors.As(err, &e) || e.Header != c.header || len(matches) > 0):
			t.Errorf("%s: %d matches, %v", name, len(matches), err)
		case err != nil && len(err.Error()) > 300:
			t.Errorf("%s: %s", name, err)
		}
	}
}

func TestAnExpressionHoldsForAWholeValue(t *testing.T) {
	for expression, whole := range map[string]bool{"a": true, "a|ab": true, "b": false, "a)|(?:ab": false, "((": false} {
		re, err := keymatch.Compile(expression)
		if got := err == nil && (re.MatchString("a") || re.MatchString("ab")) && !re.MatchString("xab"); got != whole {
			t.Errorf("%q: %v, %v", expression, re, err)
		}
	}
}

// request is the header lines of a request by lower-case name.
type request map[string][]string

func (r request) lines(name string) []string { return r[name] }

// expressions caches compiled expressions.
var expressions = map[string]*regexp.Regexp{}

func compiled(t interface{ Fatal(...any) }, expression string) *regexp.Regexp {
	if re, ok := expressions[expression]; ok {
		return re
	}
	re, err := keymatch.Compile(expression)
	if err != nil {
		t.Fatal(err)
	}
	expressions[expression] = re
	return re
}

// matched reports whether a request meets any of the matches of a key.
func matched(t interface{ Fatal(...any) }, r request, matches []keymatch.Match) bool {
	return slices.ContainsFunc(matches, func(m keymatch.Match) bool {
		if len(r[m.Header]) == 0 {
			return false
		}
		value := strings.Join(r[m.Header], ",")
		if m.Regex {
			return compiled(t, m.Value).MatchString(value)
		}
		return value == m.Value
	})
}

// said returns the different keys of the members of each header, with each member parsed separately, by
// header.
func said(r request, custom []string) map[string][]string {
	all := map[string][]string{}
	for _, e := range routingkey.Extractions(custom) {
		pieces := []string{strings.Join(r[e.Header], ",")}
		if e.Header == routingkey.Baggage || e.Header == routingkey.Tracestate {
			pieces = strings.Split(pieces[0], ",")
		}
		for _, piece := range pieces {
			alone := request{e.Header: {piece}}
			key := routingkey.Of(alone.lines, custom)
			if key == "" && len(piece) >= routingkey.MaxLength {
				key = "too long, and hides the others"
			}
			if key != "" && !slices.Contains(all[e.Header], key) {
				all[e.Header] = append(all[e.Header], key)
			}
		}
	}
	return all
}

// deviation returns the deviation that applies to a request, zero if none does.
func deviation(r request, custom []string) keymatch.Deviation {
	keys := map[string]bool{}
	of := said(r, custom)
	for _, header := range of {
		if len(header) > 1 {
			return keymatch.SeveralMembers
		}
		keys[header[0]] = true
	}
	if len(keys) > 1 {
		return keymatch.SeveralHeaders
	}
	for _, e := range routingkey.Extractions(custom)[2:] {
		if value := strings.Join(r[e.Header], ","); value != strings.Trim(value, " \t") {
			return keymatch.WhiteSpace
		}
	}
	return keymatch.Deviation{}
}

// disagrees returns a key for which a mesh and routingkey.Of have different results, or "".
func disagrees(t interface{ Fatal(...any) }, r request, custom []string) string {
	want := routingkey.Of(r.lines, custom)
	keys := []string{"k1", "k", "1", want}
	for _, header := range said(r, custom) {
		keys = append(keys, header...)
	}
	for _, key := range keys {
		matches, known := ofKey[key]
		if !known {
			matches, _ = keymatch.Of(key, custom, keymatch.GatewayAPI)
			ofKey[key] = matches
		}
		if len(matches) > 0 && matched(t, r, matches) != (key == want) {
			return key
		}
	}
	return ""
}

// ofKey caches the matches of keys; none for keys that cannot be matched.
var ofKey = map[string][]keymatch.Match{}

func requestOf(lines [][2]string) request {
	r := request{}
	for _, line := range lines {
		name := strings.ToLower(line[0])
		r[name] = append(r[name], line[1])
	}
	return r
}

// TestAMeshDeviatesAsListedOnly compares a mesh with routingkey.Of for all test keys and for random
// headers: they only differ in the listed deviations, and each of those occurs.
func TestAMeshDeviatesAsListedOnly(t *testing.T) {
	found := map[string]int{}
	custom := keytest.CustomHeaders()
	look := func(t interface{ Fatal(...any) }, name string, r request) {
		if key := disagrees(t, r, custom); key != "" {
			d := deviation(r, custom)
			if d.Name == "" {
				t.Fatal(fmt.Sprintf("%s: %.200q: a mesh and routingkey.Of disagree about the key %.50q, which no deviation allows", name, r, key))
			}
			found[d.Name]++
		}
	}
	for name, c := range keytest.Forms() {
		look(t, name, requestOf(c.Lines))
	}
	for _, c := range keytest.Matrix(false) {
		look(t, c.Name, requestOf(c.Lines))
	}
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"sd-routing-key", "sd-routing-key=", "=", ",", ";", " ", "\t", "k", "k1", "K1", "x-", "%31", "é", `"`, "a=b", "sd-rout", ".", "*", "(", `\`, "$", "^"}),
		rapid.StringMatching(`[ -~]{0,5}`))
	value := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		r := request{}
		for _, name := range []string{routingkey.Baggage, routingkey.Tracestate, "x-team", "x-other"} {
			if lines := rapid.SliceOfN(value, 0, 3).Draw(t, name); len(lines) > 0 {
				r[name] = lines
			}
		}
		look(t, "random headers", r)
	})
	for _, d := range keymatch.Deviations() {
		if found[d.Name] == 0 {
			t.Errorf("no request shows the deviation %s", d.Name)
		}
	}
	t.Logf("requests of which a mesh says something else: %v", found)
}
