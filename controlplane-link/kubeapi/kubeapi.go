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

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"switchyard.dev/controlplane-link/kubeapi/table"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tunnels/access"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/identity"
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
	rights *access.Reviews
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
	return &API{cfg, target, via, access.NewReviews(asks.SubjectAccessReviews(), time.Now)}, err
}

const (
	headerWithin, idleWithin = 5 * time.Second, 2 * time.Minute
	bodyWithin               = 30 * time.Second // of a write
	maxHeader                = 64 << 10
	// maxBody is the API server's own bound.
	maxBody = 3 << 20
)

// Serve answers one connection that the control plane requests for a user (controlplane-link/identity), and ends
// with it.
func (a *API) Serve(ctx context.Context, in *carrier.Incoming, user identity.User) {
	conn, err := in.Accept()
	if err != nil {
		return
	}
	ended := make(chan struct{})
	server := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, user) }),
		ReadHeaderTimeout: headerWithin, IdleTimeout: idleWithin, MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnState: func(_ net.Conn, is http.ConnState) {
			if is == http.StateClosed {
				close(ended)
			}
		},
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	one := make(single, 1)
	one <- conn
	close(one)
	_ = server.Serve(one) // io.EOF: the server goes on with the connection
	<-ended
}

// single is a listener with the connection that it contains. Its end is io.EOF.
type single chan net.Conn

// Accept implements net.Listener.
func (s single) Accept() (net.Conn, error) {
	if conn, is := <-s; is {
		return conn, nil
	}
	return nil, io.EOF
}

// Close implements net.Listener.
func (s single) Close() error { return nil }

// Addr implements net.Listener.
func (s single) Addr() net.Addr { return &net.TCPAddr{} }

// passed are the headers of requests that pass.
var passed = []string{"Accept", "Accept-Encoding", "Content-Type", "If-Match", "If-None-Match", "User-Agent"}

// forward forwards a request. It calls answered with the status, before the answer is sent.
func (a *API) forward(w http.ResponseWriter, r *http.Request, answered func(code int)) {
	(&httputil.ReverseProxy{
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
			answered(r.StatusCode)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			answered(http.StatusBadGateway)
			refuse(w, http.StatusBadGateway, metav1.StatusReasonServiceUnavailable, "The API server did not answer: "+err.Error()+".")
		},
	}).ServeHTTP(w, r)
}

// serve answers a request of a user.
func (a *API) serve(w http.ResponseWriter, r *http.Request, user identity.User) {
	request, err := table.Parse(r.Method, r.URL)
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "The agent does not forward the request: "+err.Error()+".")
	case r.Header.Get("Upgrade") != "" || !a.cfg.Policy.Allows(request):
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "The agent does not forward "+request.Verb+" of "+request.Object()+": its rights are listed in controlplane-link/README.md.")
	case !a.allowed(w, r, request, user):
	case !request.Writes():
		a.forward(w, r, func(int) {})
	default:
		a.write(w, r, request, user)
	}
}

// allowed reports whether a user may send a request, and otherwise answers it.
func (a *API) allowed(w http.ResponseWriter, r *http.Request, request table.Request, user identity.User) bool {
	is, err := a.may(r.Context(), user, request)
	if err == nil && is && r.Method == http.MethodPatch && strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch") {
		request.Verb = "create" // as a server-side apply does if there is no such object
		is, err = a.may(r.Context(), user, request)
	}
	switch {
	case err != nil:
		refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "The rights of "+user.Name+" could not be checked: "+err.Error()+". Try again.")
	case !is:
		a.cfg.Record.Info("a request through the link was refused: the user has no right to it", "user", user.Name, "verb", request.Verb, "object", request.Object())
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, user.Name+" may not "+request.Verb+" "+request.Object()+" in the cluster. Bind a Role with that right to one of the groups "+strings.Join(user.Groups, ", ")+".")
	}
	return err == nil && is
}

// may reports whether a user has the right to a request. The control plane itself has no groups, and the
// rights of the table; discovery is open to all.
func (a *API) may(ctx context.Context, user identity.User, q table.Request) (bool, error) {
	if len(user.Groups) == 0 || q.Discovery {
		return true, nil
	}
	what := authorizationv1.ResourceAttributes{Verb: q.Verb, Group: q.Group, Version: q.Version, Resource: q.Resource, Subresource: q.Subresource, Namespace: q.Namespace, Name: q.Name}
	if q.Group == "" && q.Resource == "namespaces" {
		what.Namespace = q.Name // as the API server authorizes it
	}
	is, _, err := a.rights.Allowed(ctx, user, what)
	return is, err
}

// write forwards a write. It is recorded before its answer is sent; with status 0 if there is none.
func (a *API) write(w http.ResponseWriter, r *http.Request, request table.Request, user identity.User) {
	code := 0
	record := sync.OnceFunc(func() {
		a.cfg.Record.Info("a write through the link", "user", user.Name, "verb", request.Verb, "object", request.Object(), "status", code)
	})
	defer record()
	answered := func(is int) { code = is; record() }
	control := http.NewResponseController(w)
	unbounded := control.SetReadDeadline(time.Now().Add(bodyWithin))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err = errors.Join(unbounded, err); err == nil {
		body, err = authored(request, r.Header.Get("Content-Type"), body, crdv1.Author{User: user.Name, Groups: user.Groups})
	}
	if err == nil { // else nothing is read any more
		err = control.SetReadDeadline(time.Time{})
	}
	if err != nil {
		answered(http.StatusBadRequest)
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "The agent does not forward the request: "+err.Error()+".")
		return
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	a.forward(w, r, answered)
}

// refuse answers as the API server does.
func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}
