package routingkey_test

import (
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"
	"pgregory.net/rapid"

	"switchyard.dev/xds/routingkey"
)

// carried asks the reader itself whether a form carries a key: HTTP allows the header,
// and Of reads the key back from it.
func carried(f routingkey.Form, key string) bool {
	name := map[routingkey.Form]string{
		routingkey.FormBaggage: routingkey.Baggage, routingkey.FormTracestate: routingkey.Tracestate, routingkey.FormCustom: "x-team",
	}[f]
	h := headers{name: {f.Header(key)}}
	return key != "" && httpguts.ValidHeaderFieldValue(f.Header(key)) && routingkey.Of(h.lines, []string{"x-team"}) == key
}

// disagreement returns a form about which Check and the reader disagree, or "".
func disagreement(key string) routingkey.Form {
	unfit := map[routingkey.Form]bool{}
	for _, d := range routingkey.Check(key) {
		unfit[d.Form] = true
	}
	for _, f := range routingkey.Forms() {
		if carried(f, key) == unfit[f] {
			return f
		}
	}
	return ""
}

func TestAFormCarriesAKeyExactlyWhenItIsReadBack(t *testing.T) {
	for b := range 256 {
		c := string([]byte{byte(b)})
		for _, key := range []string{c, c + "k", "k" + c, "k" + c + "k", " " + c, c + "\t"} {
			if f := disagreement(key); f != "" {
				t.Errorf("%q in %s: Check says %v", key, f, routingkey.Check(key))
			}
		}
	}
	for _, n := range []int{routingkey.MaxLength - 1, routingkey.MaxLength, routingkey.MaxLength + 1} {
		if f := disagreement(strings.Repeat("k", n)); f != "" {
			t.Errorf("%d bytes in %s", n, f)
		}
	}
	piece := rapid.OneOf(rapid.SampledFrom([]string{"sd-routing-key=", "=", ",", ";", " ", "\t", "\n", "\x7f", "k", "%2C", "é", "\u0085", "\u00a0", `"`}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		key := strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(t, "pieces"), "")
		if f := disagreement(key); f != "" {
			t.Fatalf("%q in %s: Check says %v", key, f, routingkey.Check(key))
		}
	})
}

func TestFormsThatCannotCarryAKey(t *testing.T) {
	all := []routingkey.Form{routingkey.FormBaggage, routingkey.FormTracestate, routingkey.FormCustom}
	for key, want := range map[string]struct {
		forms []routingkey.Form
		why   string
	}{
		"k":      {nil, ""},
		"a b\tc": {nil, ""},
		"é=%2C":  {nil, ""},
		"a,b":    {all, `contains ",", which ends a value`},
		"a;b":    {all[:1], `contains ";", which ends a value`},
		"a;b,c":  {all, `contains ",", which ends a value`},
		" a":     {all, `begins with " ", which is no part of a value`},
		"a\t":    {all, `ends with "\t", which is no part of a value`},
		" ":      {all, `begins with " ", which is no part of a value`},
		"a\nb":   {all, `contains the control character "\n", which HTTP allows in no header`},
		"":       {all, "is empty"},
	} {
		got := routingkey.Check(key)
		if len(got) != len(want.forms) {
			t.Errorf("%q: %v", key, got)
			continue
		}
		for i, d := range got {
			if d.Form != want.forms[i] || d.Why != want.why {
				t.Errorf("%q: %+v, want %s: %s", key, d, want.forms[i], want.why)
			}
		}
	}
}
