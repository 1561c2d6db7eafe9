package keeper_test

import (
	"slices"
	"testing"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/xds/routingkey"
	"switchyard.dev/xds/routingkey/keytest"
)

// The result of routingkey.Check decides whether an object is accepted, so a real Envoy has to
// agree: it reads the key from a form's header exactly when Check has no objection. (Keys with
// control characters: TestControlCharactersAreRefused.)
func TestEnvoyReadsAKeyFromTheFormsThatCarryIt(t *testing.T) {
	r, _ := readers(t)
	names := map[routingkey.Form]string{
		routingkey.FormBaggage: routingkey.Baggage, routingkey.FormTracestate: routingkey.Tracestate, routingkey.FormCustom: keytest.CustomHeaders()[0],
	}
	var forms []keytest.Form
	var carried []bool
	for _, key := range []string{"k1", "a b", "a\tb", "k=1", "é", "\u0085", `"k"`, "%2C", "a;b", ";", "a,b", "a;b,c", " k", "k ", "\tk", "k\t", " "} {
		defects := routingkey.Check(key)
		for _, f := range routingkey.Forms() {
			forms = append(forms, keytest.Form{Lines: [][2]string{{names[f], f.Header(key)}}, Key: key})
			carried = append(carried, !slices.ContainsFunc(defects, func(d routingkey.Defect) bool { return d.Form == f }))
		}
	}
	one, two, err := r.overBoth(forms)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range forms {
		for proto, got := range map[string]reply{"HTTP/1.1": one[i], "HTTP/2": two[i]} {
			if read := got.Header.Get(devmesh.KeyHeader) == f.Key; read != carried[i] {
				t.Errorf("%s, %q: status %d, key %q; Check says that it is carried: %t",
					proto, f.Lines, got.Status, got.Header.Get(devmesh.KeyHeader), carried[i])
			}
		}
	}
}
