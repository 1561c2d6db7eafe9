package routingkey_test

import (
	"maps"
	"net/textproto"
	"reflect"
	"testing"

	"switchyard.dev/xds/routingkey"
	"switchyard.dev/xds/routingkey/keytest"
)

// A key that a request has stays, byte for byte; each request without one gets it, in each form that is read.
func TestAKeyIsAddedWhereThereIsNone(t *testing.T) {
	custom := keytest.CustomHeaders()
	for name, form := range keytest.Forms() {
		h := textproto.MIMEHeader{}
		for _, line := range form.Lines {
			h.Add(line[0], line[1])
		}
		before := textproto.MIMEHeader{}
		for header, values := range h {
			before[header] = append([]string(nil), values...)
		}
		got := routingkey.Add(h, "mine", custom)
		if form.Key != "" {
			if got != form.Key || !reflect.DeepEqual(h, before) {
				t.Errorf("%s: Add returned %q, and changed %q to %q", name, got, before, h)
			}
			continue
		}
		for _, header := range append([]string{routingkey.Baggage, routingkey.Tracestate}, custom...) {
			only := textproto.MIMEHeader{}
			maps.Copy(only, h)
			maps.DeleteFunc(only, func(other string, _ []string) bool { return other != textproto.CanonicalMIMEHeaderKey(header) })
			if key := routingkey.Of(only.Values, custom); got != "mine" || key != "mine" {
				t.Errorf("%s: Add returned %q, and %s has the key %q", name, got, header, key)
			}
		}
		for _, header := range routingkey.Copies() {
			if h.Get(header) != "mine" {
				t.Errorf("%s: %s is %q", name, header, h.Get(header))
			}
		}
	}
}

// A request without its key is read as one that has none, and keeps what others have set.
func TestAKeyIsRemovedInEachForm(t *testing.T) {
	custom := keytest.CustomHeaders()
	for name, form := range keytest.Forms() {
		h := textproto.MIMEHeader{"Accept": {"stays"}}
		for _, line := range form.Lines {
			h.Add(line[0], line[1])
		}
		routingkey.Set(h, "mine", custom)
		h.Add(routingkey.Baggage, "user=ada")
		routingkey.Remove(h, custom)
		if key := routingkey.Of(h.Values, append(routingkey.Copies(), custom...)); key != "" {
			t.Errorf("%s: the key is %q in %q", name, key, h)
		}
		if others := routingkey.Without(h.Values(routingkey.Baggage)); others[len(others)-1] != "user=ada" || h.Get("Accept") != "stays" {
			t.Errorf("%s: other values are lost: %q", name, h)
		}
	}
	h := textproto.MIMEHeader{}
	routingkey.Set(h, "mine", custom)
	if routingkey.Remove(h, custom); len(h) > 0 {
		t.Errorf("%q remains of a key alone", h)
	}
}

func TestAKeyThatOnlyACopyHasIsKept(t *testing.T) {
	h := textproto.MIMEHeader{"Ot-Baggage-Sd-Routing-Key": {"other"}}
	if key := routingkey.Add(h, "mine", nil); key != "other" || h.Get("Baggage") != "sd-routing-key=other" || h.Get("Uberctx-Sd-Sandbox") != "other" {
		t.Errorf("Add returned %q: %q", key, h)
	}
	h = textproto.MIMEHeader{"A": {"b"}}
	if key := routingkey.Add(h, "", nil); key != "" || len(h) != 1 {
		t.Errorf("without a key, Add returned %q: %q", key, h)
	}
}
