package rest_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http/httptest"
	"testing"

	"google.golang.org/protobuf/proto"

	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
)

func TestAnAnswerIsCompressedWhereTheClientAsks(t *testing.T) {
	var facts []proto.Message
	for i := range 50 {
		facts = append(facts, declare(fmt.Sprintf("k%d", i), "customer", fmt.Sprintf("sb%d", i)))
	}
	full := apply(table.Table{}, append(facts, observe("customer", "sb-customer"), &factv1.Complete{})...)
	plain := ask(t, full, httptest.NewRequest("GET", path, nil))
	if plain.Header().Get("Content-Encoding") != "" || plain.Header().Get("Vary") != "Accept-Encoding" {
		t.Errorf("without asking: %v", plain.Header())
	}
	for accepts, want := range map[string]bool{
		"gzip": true, "br, gzip;q=0.5": true, "GZIP": true, "gzip;q=0": false, "br": false, "identity, x-gzip": false, "gzip; q=0.0": false,
	} {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Accept-Encoding", accepts)
		got := ask(t, full, r)
		if zipped := got.Header().Get("Content-Encoding") == "gzip"; zipped != want {
			t.Errorf("%s: compressed %t", accepts, zipped)
			continue
		}
		if got.Header().Get("ETag") != plain.Header().Get("ETag") {
			t.Errorf("%s: the ETag is not the hash of the rules", accepts)
		}
		if !want {
			continue
		}
		in, err := gzip.NewReader(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(in); err != nil || string(text) != plain.Body.String() {
			t.Errorf("%s: another answer than without: %v", accepts, err)
		}
	}
}
