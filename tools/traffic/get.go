package traffic

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// Answer is what a URL was answered with.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Get fetches a URL with these headers, each a name and its value, and returns the whole
// answer, whatever its status.
func Get(ctx context.Context, client *http.Client, url string, headers ...[2]string) (a Answer, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return a, err
	}
	for _, h := range headers {
		request.Header.Set(h[0], h[1])
	}
	response, err := client.Do(request)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	a.Status, a.Header = response.StatusCode, response.Header
	a.Body, err = io.ReadAll(response.Body)
	return a, err
}

// Fetch returns the body of a URL. Any status but 200 is an error that quotes it.
func Fetch(ctx context.Context, client *http.Client, url string, headers ...[2]string) ([]byte, error) {
	a, err := Get(ctx, client, url, headers...)
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("status %d: %.200s", a.Status, a.Body)
	}
	return a.Body, err
}

// Protocols returns one version of HTTP without TLS, or both.
func Protocols(one, two bool) *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(one)
	p.SetUnencryptedHTTP2(two)
	return &p
}
