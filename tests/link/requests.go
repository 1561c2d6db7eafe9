package link

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// user is a person of the organisation acme, with role dev.
var user = &linkv1.Caller{Name: "jo", Roles: []string{"dev"}}

// kubernetes sends a request of the user to the cluster's API, through the link, and returns the
// status and the body.
func (s *story) kubernetes(ctx context.Context, method, path, form, body string) (int, string, error) {
	transport := s.at.Link.Transport(linked, user)
	defer transport.CloseIdleConnections()
	return send(ctx, transport, method, "http://kubernetes"+path, "Content-Type", form, body)
}

// service sends a request of the user to a Service by its name, through the link.
func (s *story) service(ctx context.Context, url, key string) (int, string, error) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, err
		}
		return s.at.Link.Open(ctx, linked, &linkv1.Open{Caller: user, To: &linkv1.Open_Service{Service: &tunnelv1.Address{Host: host, Port: uint32(number)}}})
	}}
	if key != "" {
		key = "sd-routing-key=" + key
	}
	return send(ctx, transport, http.MethodGet, url, "Baggage", key, "")
}

func send(ctx context.Context, by http.RoundTripper, method, url, header, value, body string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if value != "" {
		r.Header.Set(header, value)
	}
	answer, err := by.RoundTrip(r)
	if err != nil {
		return 0, "", fmt.Errorf("%s %s: %w", method, url, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	return answer.StatusCode, strings.TrimSpace(string(text)), err
}
