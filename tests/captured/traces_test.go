package captured_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// get sends a request with headers to the port of the container, and returns the answer.
func (s *site) get(headers map[string]string) (*http.Response, string) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "http://"+s.port+"/", nil)
	s.Must(err)
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	a, err := client.Do(r)
	s.Must(err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	s.Must(err)
	return a, string(text)
}

// A capture of a Smart Test records the requests of its own traces. All others are counted, whatever their key is.
func TestACaptureOfTraces(t *testing.T) {
	const traces = "0123456789abcdef"
	s := newSampled(t, "traces", ring, 100, func(c *crdv1.TrafficCaptureSpec) { c.Traces = traces })
	s.startContainer(s.Address)
	s.Must(s.Applied(t.Context()))
	for i := range 5 {
		s.get(map[string]string{"traceparent": fmt.Sprintf("00-%s%016x-00000000000000a1-01", traces, i+1), "baggage": "sd-routing-key=group"})
	}
	for _, trace := range []string{"", "00-0123456789abcdee0000000000000001-00000000000000a1-01", "00-" + traces + "-00000000000000a1-01"} {
		s.get(map[string]string{"traceparent": trace, "baggage": "sd-routing-key=key"})
	}
	if counts := s.settled(); counts.GetStored() != 5 || counts.GetSampledOut() != 3 {
		t.Errorf("%v", counts)
	}
}
