package header

import (
	"net/http"
	"testing"

	"switchyard.dev/xds/routingkey"
)

func TestARequestGetsTheKeyAndKeepsOtherHeaders(t *testing.T) {
	add, err := Keyed("mine", []string{"X-Key"})
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{"Baggage": {"a=1;p, sd-routing-key=other", "b=2"}, "Tracestate": {"v=1,sd-routing-key=other"}, "X-Key": {"other"}}
	add(h)
	for name, want := range map[string]string{"Baggage": "a=1;p,b=2,sd-routing-key=mine", "Tracestate": "sd-routing-key=mine,v=1", "X-Key": "mine"} {
		if got := h.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	// Each form alone is read as the key.
	for _, only := range []string{"Baggage", "Tracestate", "X-Key"} {
		if got := routingkey.Of(http.Header{only: h.Values(only)}.Values, []string{"x-key"}); got != "mine" {
			t.Errorf("in %s the key is read as %q", only, got)
		}
	}
	if _, err := Keyed("a,b", nil); err == nil {
		t.Error("a key that no header can carry was taken")
	}
	if add, err := Keyed("", nil); add != nil || err != nil {
		t.Error("without a key something is added")
	}
}
