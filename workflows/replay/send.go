package replay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"switchyard.dev/workflows/comparison/exchange"
	"switchyard.dev/xds/routingkey"
)

// answerWithin bounds the time of an answer, and maxBody the bytes of its body that are compared by structure.
const (
	answerWithin = 30 * time.Second
	maxBody      = 1 << 20
)

// Headers of the operator's proxies. A request with explainHeader gets routedHeader, which begins with routedBaseline where the
// baseline served it; reasonHeader is on answers of the proxy itself.
const (
	explainHeader, routedHeader, reasonHeader = "Sd-Explain", "Sd-Routed", "Sd-Reason"
	routedBaseline                            = "baseline"
	ownHeaders                                = "Sd-"
)

// sender sends requests into a cluster.
type sender struct {
	cfg       Config
	one, grpc *http.Transport
}

func newSender(cfg Config) *sender {
	// A connection for each request: net/http sends requests again that fail on a connection that was used before.
	of := func() *http.Transport {
		return &http.Transport{DialContext: cfg.Dial, DisableCompression: true, DisableKeepAlives: true}
	}
	s := &sender{cfg, of(), of()}
	s.grpc.Protocols = new(http.Protocols)
	s.grpc.Protocols.SetUnencryptedHTTP2(true)
	return s
}

// send sends a request to the fork, with the routing key, or to the baseline, without one. It returns the answer as an exchange. The
// error is why the application has not answered.
func (s *sender) send(ctx context.Context, r Request, t Target, fork bool) (*exchange.Exchange, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	q := s.request(r, t, fork).WithContext(ctx)
	transport := s.one
	if r.Protocol == "HTTP/2" || r.Protocol == "grpc" {
		transport = s.grpc
	}
	answer, err := transport.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	m, err := message(answer)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return nil, fmt.Errorf("the answer is not whole: %w", err)
	}
	m.Trailer = fields(answer.Trailer)
	if reason := answer.Header.Get(reasonHeader); reason != "" {
		return nil, fmt.Errorf("the proxy answers %d: %s", answer.StatusCode, reason)
	}
	if to := answer.Header.Get(routedHeader); to != "" && fork == strings.HasPrefix(to, routedBaseline) {
		return nil, fmt.Errorf("the request was routed to %s", to)
	}
	return &exchange.Exchange{ID: r.ID, Test: "replay", Name: r.ID, Call: 1, Method: r.Method, Path: r.Target, Response: m}, nil
}

// request returns a request as it is sent to a side.
func (s *sender) request(r Request, t Target, fork bool) *http.Request {
	h := http.Header{}
	for name, values := range r.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
	for name, values := range s.cfg.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
	h.Del("Content-Length")
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", "") // otherwise net/http adds its own
	}
	routingkey.Remove(textproto.MIMEHeader(h), s.cfg.Custom)
	if fork {
		routingkey.Set(textproto.MIMEHeader(h), t.Key, s.cfg.Custom)
	}
	h.Set(explainHeader, "1")
	q := &http.Request{Method: r.Method, URL: &url.URL{Scheme: "http", Host: t.Address, Opaque: r.Target}, Host: r.Host, Header: h, Body: http.NoBody}
	if len(r.Body) > 0 {
		q.Body, q.ContentLength = io.NopCloser(bytes.NewReader(r.Body)), int64(len(r.Body))
	}
	return q
}

// message returns an answer without its trailers. It reads the body to its end.
func message(answer *http.Response) (m exchange.Message, err error) {
	m = exchange.Message{Status: answer.StatusCode, Header: fields(answer.Header)}
	sum := sha256.New()
	from := io.TeeReader(answer.Body, sum)
	if m.Body, err = io.ReadAll(io.LimitReader(from, maxBody)); err != nil {
		return m, err
	}
	rest, err := io.Copy(io.Discard, from)
	m.Size, m.SHA256 = int64(len(m.Body))+rest, hex.EncodeToString(sum.Sum(nil))
	return m, err
}

// fields returns headers or trailers without those of the operator's proxies, and without the time of the answer, which changes
// once in a second.
func fields(h http.Header) (all []exchange.Field) {
	for name, values := range h {
		for _, value := range values {
			if !strings.HasPrefix(name, ownHeaders) && name != "Date" {
				all = append(all, exchange.Field{Name: name, Value: value})
			}
		}
	}
	return all
}
