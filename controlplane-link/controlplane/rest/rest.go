package rest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"switchyard.dev/controlplane-link/controlplane/captures"
	"switchyard.dev/controlplane-link/controlplane/checks"
	"switchyard.dev/controlplane-link/controlplane/jobs"
	"switchyard.dev/controlplane-link/controlplane/live"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/decode"
	"switchyard.dev/controlplane-link/controlplane/rest/failure"
	"switchyard.dev/controlplane-link/controlplane/rest/work"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/eventbus/callers"
	"switchyard.dev/workflows/jobexec/results"
	"switchyard.dev/workflows/specfile"
)

// Limits of one user: requests at once, requests a second, and requests in a row; of all users: requests at once; of one
// address, for all of its credentials that were not valid lately, and of one that was: checks; and of one address: logins
// that it begins.
const (
	atOnce, perSecond, inARow, allAtOnce = 64, 50, 200, 256
	checksPerSecond, checksInARow        = 100, 500
	loginsPerSecond, loginsInARow        = 0.1, 20
	// answerWithin bounds a request, which may read a cluster.
	answerWithin = time.Minute
)

// Config configures a Handler.
type Config struct {
	// Store has the objects and the credentials.
	Store *store.Store
	// Live reads clusters at the time of a request.
	Live live.Clusters
	// Previews returns the domain of URLs of endpoints in a cluster, as endpoints.Domains.
	Previews func(model.Cluster) (domain, problem string)
	// Streams serves the output of jobs, and Kept has their files; nil: such requests answer 501.
	Streams *jobs.Streams
	Kept    *results.Kept
	// Captures records requests; nil: such requests answer 501.
	Captures *captures.Recorder
	// LoginURL is the page on which a person accepts the login of a device.
	LoginURL string
	// Now is the clock.
	Now func() time.Time
	// Forwards reports the addresses of proxies. Their clients have no share of their own in the limits;
	// it can be nil.
	Forwards callers.Forwards
	// Identified is called with the address and the name of a client that has shown a valid credential; it can be nil.
	Identified func(remote, user string)
	// Refused delays the refusal of a request without a valid credential, as callers.Refused; it can be nil.
	Refused func(ctx context.Context, guess bool)
	Logger  *slog.Logger
}

// Handler serves the API. Make one with New.
type Handler struct {
	Config
	users, senders, logins *callers.Pool
	checks                 *checks.Checks
	bodies                 *semaphore.Weighted
	comparing              *work.Comparing
	// surveys are the clusters of which all workloads are read now.
	surveys sync.Map
}

// New returns a Handler.
func New(c Config) *Handler {
	return &Handler{
		Config:  c,
		users:   callers.NewPool("requests", callers.Bounds{Each: atOnce, Strangers: allAtOnce, Pods: allAtOnce, Rate: perSecond, Burst: inARow}),
		senders: callers.NewPool("checks of credentials", callers.Bounds{Each: allAtOnce, Strangers: callers.AnyNumber, Pods: callers.AnyNumber, Rate: checksPerSecond, Burst: checksInARow}),
		logins:  callers.NewPool("logins", callers.Bounds{Strangers: allAtOnce, Rate: loginsPerSecond, Burst: loginsInARow}),
		checks:  checks.New(c.Store),
		bodies:  semaphore.NewWeighted(maxBodies), comparing: work.NewComparing(),
	}
}

// request is a request of a caller to an operation.
type request struct {
	work.Call
	id string
	op *operation
	// bodies bounds the bodies that are decoded; decoding is the share of this one.
	bodies   *semaphore.Weighted
	decoding int64
	// status is that of the answer.
	status int
	// guesses: it needs a credential, and has none that is valid or was lately.
	guesses bool
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	ctx, cancel := context.WithTimeout(req.Context(), answerWithin)
	defer cancel()
	now := h.Now().UTC().Truncate(time.Microsecond)
	r := &request{Call: work.Call{Request: req.WithContext(ctx), Now: now}, bodies: h.bodies, id: "req-" + rand.Text(), status: http.StatusOK, op: &operation{}}
	secret, _ := r.credential()
	r.guesses = !h.checks.Lately(model.DigestOf(secret), now)
	body, err := h.answer(w, r)
	if err != nil {
		var text string
		if r.status, text = failure.Status(err); r.status >= http.StatusInternalServerError && r.status != http.StatusNotImplemented {
			h.Logger.ErrorContext(req.Context(), "A request has failed.", "request", r.id, "method", req.Method, "operation", r.op.name, "organisation", r.Org(), "error", err)
		}
		body = errorBody(r, text)
	}
	if r.guesses && h.Refused != nil {
		h.Refused(r.Context(), true)
	}
	if serve, is := body.(work.Raw); is {
		if err = serve(req.Context(), w); err == nil {
			return
		}
		var text string
		r.status, text = failure.Status(err)
		body = errorBody(r, text)
	}
	h.write(w, r, body)
}

// answer finds the operation, authenticates and authorises the caller, and calls the operation. The error of a panic has
// its stack.
func (h *Handler) answer(w http.ResponseWriter, r *request) (body any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if r.op, err = route(w, r); err != nil {
		return nil, err
	}
	r.guesses = r.guesses && r.op.access != open
	by := callers.Behind(r.RemoteAddr, h.Forwards) // as the limits know the caller
	if r.op.access != open {
		if r.Caller, err = h.authenticate(r); err != nil {
			return nil, err
		}
		by = callers.Caller{Kind: callers.Pod, Name: r.Caller.Org + "/" + string(r.Caller.Principal.Kind) + "/" + r.Caller.Principal.ID}
		if h.Identified != nil {
			h.Identified(r.RemoteAddr, by.Name)
		}
	}
	leave, err := h.users.Enter(by)
	if err != nil {
		return nil, failure.New(http.StatusTooManyRequests, "%v", err)
	}
	defer leave()
	if err := r.op.access.allows(r); err != nil {
		return nil, err
	}
	if err := decode.Query(r.URL.Query()); err != nil {
		return nil, err
	}
	defer func() { r.bodies.Release(r.decoding) }()
	return r.op.serve(h, r)
}

// write writes an answer; nil is an empty object.
func (h *Handler) write(w http.ResponseWriter, r *request, body any) {
	if body == nil {
		body = struct{}{}
	}
	text, err := json.Marshal(body)
	if err != nil {
		h.Logger.ErrorContext(r.Context(), "An answer cannot be encoded.", "request", r.id, "method", r.Method, "error", err)
		r.status = http.StatusInternalServerError
		text, _ = json.Marshal(errorBody(r, "internal error")) // it has texts and a number
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
		// Else net/http reads the body before it sends the answer, and a slow client waits for its refusal.
		w.Header().Set("Connection", "close")
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(append(text, '\n')) // The client has closed its connection.
}

// Maximum sizes of bodies, in bytes: of one, of one with a specification, and of all that are decoded at
// the same time. A decoded body can take 50 times its size.
const (
	maxBody   = 64 << 10
	maxSpec   = 1 << 20
	maxBodies = 8 << 20
)

// withSpec are the operations with a specification in their body.
var withSpec = []string{"applySandbox", "applyRouteGroup", "applyResourcePlugin", "applyRunnerGroup", "submitJob", "applyTest", "runTest", "runHostedTest"}

// maxBody is the maximum size of the body of an operation.
func (o *operation) maxBody() int {
	if slices.Contains(withSpec, o.name) {
		return maxSpec
	}
	return maxBody
}

// tree is a JSON object.
type tree = decode.Tree

// text returns the body. It waits until it can be decoded beside those of other requests, until the end of
// the request.
func (r *request) text() ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r.Body, int64(r.op.maxBody())+1))
	if err != nil {
		return nil, specfile.Problems{{Text: "the body cannot be read"}}
	}
	if len(text) > r.op.maxBody() {
		return nil, specfile.Problems{{Text: fmt.Sprintf("the body has more than %d bytes", r.op.maxBody())}}
	}
	if err := r.bodies.Acquire(r.Context(), int64(len(text))); err != nil {
		return nil, err
	}
	r.decoding += int64(len(text))
	return text, nil
}

// with serves an operation with its body, as decode.Object decodes it.
func with[T any](serve func(*Handler, *request, T, tree) (any, error)) func(*Handler, *request) (any, error) {
	return func(h *Handler, r *request) (any, error) {
		var in T
		body, err := r.decode(&in)
		if err != nil {
			return nil, err
		}
		return serve(h, r, in, body)
	}
}

// decode decodes the body, as decode.Object.
func (r *request) decode(into any) (tree, error) {
	text, err := r.text()
	if err != nil {
		return nil, err
	}
	body, err := decode.Object(text, into)
	if err == nil && !slices.Contains(withSpec, r.op.name) {
		err = decode.Short(body)
	}
	return body, err
}
