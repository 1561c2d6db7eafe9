package interpreter

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/1set/starlet/dataconv/types"
	starhttp "github.com/1set/starlet/lib/http"
	"go.starlark.net/starlark"

	"switchyard.dev/workflows/smarttest"
	"switchyard.dev/workflows/smarttest/reach"
)

// http returns the module http: the functions of starlet, each call with a client of its own.
func (t *run) http() starlark.StringDict {
	all := starhttp.NewModule().StringDict()
	for name := range all {
		if !strings.HasSuffix(name, "_timeout") {
			all[name] = starlark.NewBuiltin("http."+name, t.function(name, all["get_timeout"]))
		}
	}
	return all
}

// function returns a function that makes a call by one of starlet. Starlet refuses the arguments of the connection for a
// client that it is given, and does not know those of captures: they are not passed on.
func (t *run) function(name string, timeout starlark.Value) func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
	return func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		t.calls++
		c := &call{run: t, Call: smarttest.Call{Number: t.calls, SourcePosition: caller(thread)}, redirects: true, verify: true}
		usual, err := starlark.Call(thread, timeout, nil, nil)
		if err != nil {
			return nil, err
		}
		own, rest := []starlark.Tuple{{starlark.String("timeout"), usual}}, []starlark.Tuple(nil)
		for _, kv := range kwargs {
			switch name, _ := starlark.AsString(kv[0]); name {
			case "timeout":
				own[0] = kv
			case "capture", "name", "reqName", "allow_redirects", "verify":
				own = append(own, kv)
			default:
				rest = append(rest, kv)
			}
		}
		if err := starlark.UnpackArgs(b.Name(), nil, own, "timeout", &c.timeout, "capture?", &c.Captured, "name?", &c.Name, "reqName?", &c.Name,
			"allow_redirects?", &c.redirects, "verify?", &c.verify); err != nil {
			return nil, err
		}
		module := starhttp.NewModule()
		module.SetClient(c.client())
		value, err := starlark.Call(thread, module.StringDict()[name], args, rest)
		if err != nil {
			c.Problem = cmp.Or(c.Problem, smarttest.Cut(errors.Unwrap(err).Error()))
		}
		c.capture()
		t.report(smarttest.Event{Call: &c.Call})
		return value, err
	}
}

// call is one call, and the transport of its requests.
type call struct {
	smarttest.Call
	run               *run
	timeout           types.FloatOrInt
	redirects, verify bool
	exchange          *exchange
}

// client returns the client of a call. A timeout of 0, or beyond that of the test, is that of the test.
func (c *call) client() *http.Client {
	out := &http.Client{Transport: c, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		switch {
		case !c.redirects:
			return http.ErrUseLastResponse
		case len(via) > smarttest.MaxRedirects:
			return c.run.end(smarttest.TooManyRedirects, "call %d was redirected more than %d times", c.Number, smarttest.MaxRedirects)
		}
		return nil
	}}
	if seconds := float64(c.timeout); seconds < c.run.Limits.Timeout.Seconds() {
		out.Timeout = time.Duration(seconds * float64(time.Second))
	}
	return out
}

// RoundTrip implements http.RoundTripper: one request of the call, which ends with the test. The response has its whole body.
func (c *call) RoundTrip(req *http.Request) (*http.Response, error) {
	if c.Method == "" {
		c.Method, c.URL = req.Method, smarttest.Cut(req.URL.Redacted())
	}
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	defer context.AfterFunc(c.run.ctx, cancel)()
	req = req.Clone(ctx)
	if c.Captured {
		c.exchange = c.exchange.begin(req, c.run.Traces)
	}
	transport := c.run.verified
	if !c.verify {
		transport = c.run.unverified
	}
	res, err := transport.RoundTrip(req)
	if err == nil {
		c.Status, err = res.StatusCode, c.whole(res)
	}
	var refused *reach.Refused
	if errors.As(err, &refused) {
		err = c.run.end(smarttest.AddressRefused, "call %d: %v", c.Number, refused)
	}
	if err != nil {
		c.Problem = smarttest.Cut(err.Error())
		return nil, err
	}
	return res, nil
}

// whole reads the body of a response.
func (c *call) whole(res *http.Response) error {
	most := c.run.Limits.Answer
	body, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	_ = res.Body.Close() // it was read
	if int64(len(body)) > most {
		return c.run.end(smarttest.AnswerTooLarge, "the response of call %d has more than %d bytes", c.Number, most)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	if c.exchange != nil {
		c.exchange.answered(res, body)
	}
	return err
}
