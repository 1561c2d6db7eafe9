package override

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
	"time"

	"switchyard.dev/sidecars/traffic/override/policy"
	"switchyard.dev/xds/routingkey"
)

// Reasons of SkippedHeader.
const (
	reasonUnreachable = "unreachable"
	reasonBody        = "body"
	reasonStream      = "stream"
	reasonSelection   = routingkey.Selection
)

// Override asks an override, and then the application of a fork. It is safe for concurrent use.
type Override struct {
	policy.Policy
	// First sends requests to the override, and Then to the application.
	First, Then http.RoundTripper
	// Keys are those of requests that can select middlewares.
	Keys []string
	// Within bounds the time until the end of an answer that counts by its trailers, and twice Within that until it is known
	// whether an answer counts. Default: AnswerWithin.
	Within time.Duration
	// Stream replaces the time after which a body of unknown length is a stream. Default: half a second.
	Stream time.Duration

	share *share // of the request; an Override with one is for this request alone
}

// AnswerWithin is how long the override has for an answer.
const AnswerWithin = 30 * time.Second

// maxRest is how much of an answer that does not count is read so that its connection can be used again.
const maxRest = 4 << 10

// RoundTrip implements http.RoundTripper. The error is that of Then, or the caller's.
func (o *Override) RoundTrip(r *http.Request) (*http.Response, error) {
	uses, wrong := o.selected(r)
	if !uses {
		return o.then(r, policy.SkippedHeader, reasonSelection)
	}
	a, err := o.answer(r)
	if err == nil && wrong != "" {
		a.Header.Set(policy.IgnoredHeader, wrong)
	}
	return a, err
}

// selected reports whether the request uses the override.
func (o *Override) selected(r *http.Request) (uses bool, wrong string) {
	lines := func(name string) []string { return r.Header.Values(name) }
	if key := routingkey.Of(lines, nil); key == "" || !slices.Contains(o.Keys, key) {
		return true, ""
	}
	return routingkey.Selects(lines, policy.Name, policy.All())
}

func (o *Override) answer(r *http.Request) (*http.Response, error) {
	held, reason, err := o.hold(r)
	if err != nil {
		return nil, err
	}
	if reason != "" {
		return o.then(r, policy.SkippedHeader, reason)
	}
	r.Header.Del("Expect") // the body is here
	first, cancel := detached(r)
	late := time.AfterFunc(2*o.within(), cancel)
	a, err := o.First.RoundTrip(with(first, held))
	if err != nil {
		if r.Context().Err() != nil {
			return nil, r.Context().Err()
		}
		return o.then(with(r, held), policy.SkippedHeader, reasonUnreachable)
	}
	if o.counts(a) && late.Stop() {
		a.Header.Set(policy.Header, "true")
		return a, nil
	}
	if a.ContentLength >= 0 && a.ContentLength <= maxRest {
		_, _ = io.CopyN(io.Discard, a.Body, a.ContentLength) // else the connection is closed
	}
	_ = a.Body.Close()
	return o.then(with(r, held), policy.AskedHeader, "true")
}

// then has the application answer, with a header.
func (o *Override) then(r *http.Request, name, value string) (*http.Response, error) {
	a, err := o.Then.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	a.Header.Del(policy.Header) // it is not the override's answer
	a.Header.Set(name, value)
	return a, nil
}

// counts reports whether an answer counts. It reads those that count by their trailers.
func (o *Override) counts(a *http.Response) bool {
	counts, known := o.Counts(a.StatusCode, a.Header, nil)
	if known {
		return counts
	}
	late := time.AfterFunc(o.within(), func() { _ = a.Body.Close() })
	defer late.Stop()
	text, err := io.ReadAll(io.LimitReader(a.Body, MaxBody+1))
	if err != nil || len(text) > MaxBody {
		return false
	}
	if a.Trailer == nil {
		a.Trailer = http.Header{}
	}
	counts, _ = o.Counts(a.StatusCode, a.Header, a.Trailer)
	a.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(text), a.Body}
	return counts
}

func (o *Override) within() time.Duration { return cmp.Or(o.Within, AnswerWithin) }

// with returns a request with this body.
func with(r *http.Request, held []byte) *http.Request {
	out := r.Clone(r.Context())
	out.Trailer = r.Trailer // with values by now
	if len(held) == 0 && len(r.Trailer) == 0 {
		out.Body, out.GetBody, out.ContentLength = http.NoBody, nil, 0
		return out
	}
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(held)), nil }
	out.Body, _ = out.GetBody()
	if out.ContentLength = int64(len(held)); len(r.Trailer) > 0 {
		out.ContentLength = -1
	}
	return out
}

// detached returns a request that ends as r does or with cancel, and reports nothing of its progress to those that trace r:
// informational answers are the application's alone.
func detached(r *http.Request) (first *http.Request, cancel func()) {
	ctx, cancel := context.WithCancel(context.Background())
	context.AfterFunc(r.Context(), cancel)
	return r.WithContext(ctx), cancel
}
