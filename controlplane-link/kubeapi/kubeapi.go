// Package kubeapi forwards requests of the control plane to the cluster's API, with the agent's own
// service account.
//
//   - A user's request passes only if the user has the right to it: the agent sends a SubjectAccessReview
//     about the user and groups. The control plane itself has the rights of the table.
//   - Only requests of the table (controlplane-link/kubeapi/table) pass, in the canonical form of their
//     path. No upgrade passes, and no redirection.
//   - Of the headers only those pass that are listed; the agent's credential is added by its own
//     transport. It impersonates no user.
//   - Objects of the operator's kinds are written with their author (crdv1.AnnotationAuthor), and the
//     webhooks check that user's rights; the agent is one of sandboxes.authors.delegates.
//   - Each write is recorded: user, verb, object and status. No header and no body is.
package kubeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"switchyard.dev/controlplane-link/identity"
	"switchyard.dev/controlplane-link/kubeapi/table"
	crdv1 "switchyard.dev/protos/crd/v1"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
)

// Config configures an API.
type Config struct {
	// Access reaches the API server. Required.
	Access *rest.Config
	// Policy decides which requests pass.
	Policy table.Policy
	// Record receives a record of each write. Required.
	Record *slog.Logger
}

// API forwards requests. It is safe for concurrent use.
type API struct {
	cfg    Config
	target *url.URL
	via    http.RoundTripper
	rights *rights
}

// New returns an API.
func New(cfg Config) (*API, error) {
	if cfg.Access == nil || cfg.Record == nil {
		return nil, errors.New("kubeapi: Access and Record are required")
	}
	via, err := rest.TransportFor(cfg.Access)
	if err != nil {
		return nil, err
	}
	asks, err := authorization.NewForConfig(cfg.Access)
	if err != nil {
		return nil, err
	}
	target, _, err := rest.DefaultServerUrlFor(cfg.Access)
	return &API{cfg, target, via, newRights(asks.SubjectAccessReviews())}, err
}

const (
	headerWithin = 5 * time.Second
	idleWithin   = 2 * time.Minute
	bodyWithin   = 30 * time.Second // of a write
	maxHeader    = 64 << 10
	// maxBody is the API server's own bound.
	maxBody = 3 << 20
)

// Serve answers one connection that the control plane of an organisation requests, and ends with it.
func (a *API) Serve(ctx context.Context, in *carrier.Incoming, open *linkv1.Open, organisation string) {
	user, err := identity.Of(organisation, open.GetCaller())
	if err != nil {
		in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_INVALID, Message: "The control plane's caller is refused: " + err.Error() + "."})
		return
	}
	conn, err := in.Accept()
	if err != nil {
		return
	}
	once := newSingle(conn)
	server := &http.Server{
		Handler:           a.handler(crdv1.Author{User: user.Name, Groups: user.Groups}),
		ReadHeaderTimeout: headerWithin, IdleTimeout: idleWithin, MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	_ = server.Serve(once) // io.EOF once the connection has ended
}

// passed are the headers of requests that pass.
var passed = []string{"Accept", "Accept-Encoding", "Content-Type", "If-Match", "If-None-Match", "User-Agent"}

// handler returns the handler for an author's requests.
func (a *API) handler(author crdv1.Author) http.Handler {
	forward := &httputil.ReverseProxy{
		Transport: a.via, FlushInterval: -1, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = a.target.Scheme, a.target.Host, ""
			p.Out.Trailer = nil // and those that Connection names are removed
			maps.DeleteFunc(p.Out.Header, func(key string, _ []string) bool { return !slices.Contains(passed, key) })
		},
		ModifyResponse: func(r *http.Response) error {
			r.Header.Del("Set-Cookie")
			if r.StatusCode >= 300 && r.StatusCode < 400 && r.StatusCode != http.StatusNotModified || r.StatusCode == http.StatusSwitchingProtocols {
				return errors.New("the API server redirects the request")
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			refuse(w, http.StatusBadGateway, metav1.StatusReasonServiceUnavailable, "The API server did not answer: "+err.Error()+".")
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, err := table.Parse(r.Method, r.URL)
		switch {
		case err != nil:
			refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "The agent does not forward the request: "+err.Error()+".")
		case r.Header.Get("Upgrade") != "" || !a.cfg.Policy.Allows(request):
			refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "The agent does not forward "+request.Verb+" of "+request.Object()+": its rights are listed in controlplane-link/README.md.")
		case !a.allowed(w, r, request, author):
		case !request.Writes():
			forward.ServeHTTP(w, r)
		default:
			a.write(w, r, request, author, forward)
		}
	})
}

// allowed reports whether a user may send a request, and otherwise answers it.
func (a *API) allowed(w http.ResponseWriter, r *http.Request, request table.Request, user crdv1.Author) bool {
	is, err := a.rights.allow(r.Context(), user, request)
	if err == nil && is && applies(r) {
		request.Verb = "create" // if there is no such object
		is, err = a.rights.allow(r.Context(), user, request)
	}
	switch {
	case err != nil:
		refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "The rights of "+user.User+" could not be checked: "+err.Error()+". Try again.")
	case !is:
		a.cfg.Record.Info("a request through the link was refused: the user has no right to it", "user", user.User, "verb", request.Verb, "object", request.Object())
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, user.User+" may not "+request.Verb+" "+request.Object()+" in the cluster. Bind a Role with that right to one of the groups "+strings.Join(user.Groups, ", ")+".")
	}
	return err == nil && is
}

// applies reports whether a request is a server-side apply, which also creates objects.
func applies(r *http.Request) bool {
	return r.Method == http.MethodPatch && strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch")
}

// write forwards a write. It is recorded before its answer is sent; with status 0 if there is none.
func (a *API) write(w http.ResponseWriter, r *http.Request, request table.Request, author crdv1.Author, forward http.Handler) {
	recorded := &status{ResponseWriter: w}
	recorded.record = sync.OnceFunc(func() {
		a.cfg.Record.Info("a write through the link", "user", author.User, "verb", request.Verb, "object", request.Object(), "status", recorded.code)
	})
	defer recorded.record()
	control := http.NewResponseController(w)
	err := control.SetReadDeadline(time.Now().Add(bodyWithin))
	var body []byte
	if err == nil {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	}
	if err == nil {
		err = control.SetReadDeadline(time.Time{})
	}
	if err == nil {
		body, err = authored(request, r.Header.Get("Content-Type"), body, author)
	}
	if err != nil {
		refuse(recorded, http.StatusBadRequest, metav1.StatusReasonBadRequest, "The agent does not forward the request: "+err.Error()+".")
		return
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	forward.ServeHTTP(recorded, r)
}

// status calls record once the status of an answer is known, before it is sent.
type status struct {
	http.ResponseWriter
	code   int
	record func()
}

// WriteHeader implements http.ResponseWriter.
func (s *status) WriteHeader(code int) {
	if code >= http.StatusOK { // others precede the answer
		s.code = code
		s.record()
	}
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap returns the writer below, for http.ResponseController.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// refuse answers as the API server does.
func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}
