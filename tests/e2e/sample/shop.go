package sample

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/traffic"
	"switchyard.dev/tools/wait"
)

// Shop is what samples work on, as a test sees it.
type Shop struct {
	testing.TB
	// Podinfo is the base URL of podinfo, by cluster address.
	Podinfo string

	client *http.Client
}

// Open finds podinfo.
func Open(t testing.TB) *Shop {
	t.Helper()
	s := &Shop{TB: t, client: traffic.NewClient()}
	s.Podinfo = s.URL("podinfo", 9898)
	return s
}

// MakeRoom takes the pods of the shop away when the test ends: on a small node they are in the
// way of others. To prepare the cluster again brings them back.
func (s *Shop) MakeRoom() {
	s.Cleanup(func() { // Its own context has ended by now.
		if _, err := demo.Kubectl(context.Background(), "", "scale", "deployment", "-n", "shop", "--all", "--replicas=0"); err != nil {
			s.Error(err)
		}
	})
}

// In returns the shop as another test sees it.
func (s *Shop) In(t testing.TB) *Shop {
	other := *s
	other.TB = t
	return &other
}

// Must fails the test when there is an error.
func (s *Shop) Must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// Kubectl runs kubectl and fails the test when it does.
func (s *Shop) Kubectl(stdin string, args ...string) string {
	s.Helper()
	out, err := demo.Kubectl(s.Context(), stdin, args...)
	s.Must(err)
	return out
}

// URL returns where a Service of the shop is reached.
func (s *Shop) URL(service string, port int) string {
	s.Helper()
	url, err := demo.ServiceURL(s.Context(), "shop", service, port)
	s.Must(err)
	return url
}

// Answers waits until a URL is answered so, with a routing key unless that is empty. A status
// other than 200 stands before the answer.
func (s *Shop) Answers(url, key, want string) {
	s.Helper()
	var headers [][2]string
	if key != "" {
		headers = append(headers, [2]string{"Baggage", "sd-routing-key=" + key})
	}
	wait.Eventually(s, 30*time.Second, fmt.Sprintf("%s with key %q", url, key), func() error {
		a, err := traffic.Get(s.Context(), s.client, url, headers...)
		if err != nil {
			return err
		}
		got := strings.TrimSpace(string(a.Body))
		if a.Status != http.StatusOK {
			got = strings.TrimSpace(fmt.Sprintf("%d %s", a.Status, got))
		}
		if !strings.Contains(got, want) {
			return fmt.Errorf("%q, not %q", got, want)
		}
		return nil
	})
}

// Caches writes into podinfo's cache with the key, and reads it with and without.
func (s *Shop) Caches(key string) {
	s.Helper()
	url := s.Podinfo + "/cache/order-" + key
	request, err := http.NewRequestWithContext(s.Context(), http.MethodPost, url, strings.NewReader("of the sandbox"))
	s.Must(err)
	request.Header.Set("Baggage", "sd-routing-key="+key)
	response, err := s.client.Do(request)
	s.Must(err)
	s.Must(response.Body.Close())
	if response.StatusCode != http.StatusAccepted {
		s.Fatalf("podinfo answers %d to a write", response.StatusCode)
	}
	s.Answers(url, key, "of the sandbox")
	s.Answers(url, "", "404")
}
