package suites

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	"switchyard.dev/tests/transparency/suite"
)

// Bodies are sent up and got back, of many sizes, with and without a length.
type Bodies struct {
	// Echo is a path that answers a POST with its body, Protocols the ones that the
	// application speaks of h1 and h2.
	Echo      string
	Protocols []string
	// Down are paths to get. What the headers of the answers are is one case for each
	// protocol.
	Down []string
	// Largest is the most bytes of a body.
	Largest int
}

// Name is suite.Suite.
func (Bodies) Name() string { return "bodies" }

// Run is suite.Suite.
func (s Bodies) Run(ctx context.Context, to suite.Target) (suite.Seen, error) {
	seen := suite.Seen{}
	content := Noise(s.Largest)
	for _, protocol := range s.Protocols {
		c := newClient(protocol, to)
		defer c.close()
		var all []string
		c.hear = func(r *http.Response) { all = append(all, headers(r)) }
		for _, path := range s.Down {
			seen[protocol+"/get "+path] = c.exchange(ctx, http.MethodGet, path, nil, nil)
		}
		seen[protocol+"/headers"] = strings.Join(all, "; ")
		c.hear = nil
		if s.Echo == "" {
			continue
		}
		for _, size := range []int{0, 1, 1 << 10, 1<<16 - 1, 1 << 16, 1<<16 + 1, 1 << 20, s.Largest} {
			body := content[:min(size, s.Largest)]
			seen[fmt.Sprintf("%s/post %d", protocol, size)] = c.exchange(ctx, http.MethodPost, s.Echo, bytes.NewReader(body), nil)
			// The type hides the length: chunks in HTTP/1.1.
			seen[fmt.Sprintf("%s/stream %d", protocol, size)] = c.exchange(ctx, http.MethodPost, s.Echo, struct{ io.Reader }{bytes.NewReader(body)}, nil)
		}
		seen[protocol+"/expect continue"] = c.exchange(ctx, http.MethodPost, s.Echo, bytes.NewReader(content[:1<<10]), func(r *http.Request) {
			r.Header.Set("Expect", "100-continue")
		})
		seen[protocol+"/trailers"] = c.exchange(ctx, http.MethodPost, s.Echo, struct{ io.Reader }{bytes.NewReader(content[:1<<10])}, func(r *http.Request) {
			r.Trailer = http.Header{"X-Sum": {"1"}}
		})
	}
	return seen, ctx.Err()
}

// exchange returns the response as text.
func (c client) exchange(ctx context.Context, method, path string, body io.Reader, change func(*http.Request)) string {
	answer, err := c.ask(ctx, method, path, body, change)
	if err != nil {
		return failure(err, c.to)
	}
	defer answer.Body.Close()
	if c.hear != nil {
		c.hear(answer)
	}
	if answer.StatusCode == http.StatusSwitchingProtocols { // its body is a connection without end
		return head(answer)
	}
	sum := sha256.New()
	n, err := io.Copy(sum, answer.Body)
	said := fmt.Sprintf("%s, %d bytes %x", head(answer), n, sum.Sum(nil)[:8])
	if err != nil {
		said += ", then " + failure(err, c.to)
	}
	return said + fmt.Sprintf(", trailers %d", len(answer.Trailer))
}

// Noise returns so many bytes, the same each time.
func Noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte(slices.Repeat([]byte{7}, 32))).Read(b)
	return b
}
