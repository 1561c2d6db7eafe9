package preview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/preview/endpoints"
	"switchyard.dev/controlplane-link/preview/headers"
	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/routeserver/page"
)

// find sets the destination of a request to a preview, or returns why it is refused.
func (h *Handler) find(ctx context.Context, at place, r *http.Request, t *target) *refusal {
	e, err := h.cfg.Endpoints.Find(ctx, at.Organisation, at.label)
	if err == nil && !at.has(e.Cluster.Name) {
		err = model.ErrNotFound
	}
	settings, unrouted := h.cfg.Sites.settings(e.Cluster), e.Unrouted()
	switch {
	case errors.Is(err, model.ErrNotFound):
		return &refusal{status: http.StatusNotFound, title: "There is no such preview", text: fmt.Sprintf("No sandbox or route group %q has an endpoint %q with a target that begins with http:// or grpc://. It may have been deleted, or have expired.", at.label.Owner, at.label.Endpoint)}
	case err != nil:
		return &refusal{status: http.StatusServiceUnavailable, title: "The preview is not available", text: "The control plane cannot read its store at present.", again: true}
	case settings.Disabled:
		return &refusal{status: http.StatusForbidden, title: "Previews are disabled", text: fmt.Sprintf("Cluster %s has previewServer.enabled: false in the values of its operator. Ask an administrator of the cluster.", e.Cluster.Name)}
	case unrouted != "":
		return &refusal{status: http.StatusServiceUnavailable, title: "The preview is not ready", text: unrouted, again: true}
	}
	client, _, _ := net.SplitHostPort(r.RemoteAddr) // it has a port
	t.Endpoint, t.headers = e, headers.Preview{Key: e.RoutingKey, Custom: settings.Headers, Host: r.Host, Client: client}
	return nil
}

// authority returns the header Host for an endpoint: its target, by which meshes choose routes.
func authority(e endpoints.Endpoint) string {
	if e.Port == 80 {
		return e.Host
	}
	return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
}

// refusal is the answer to a request that is not forwarded.
type refusal struct {
	status      int
	title, text string
	// again: the same request can succeed later.
	again bool
}

// statusClosed is in metrics where the client did not wait for the answer, as with nginx.
const statusClosed = 499

// againAfter is the pause of browsers before a request is repeated, in seconds.
const againAfter = "5"

// codes are those of gRPC by the status of HTTP; others are unknown.
var codes = map[int]int{
	http.StatusUnauthorized: 16, http.StatusForbidden: 7, http.StatusNotFound: 5, http.StatusTooManyRequests: 8,
	http.StatusBadGateway: 14, http.StatusServiceUnavailable: 14, http.StatusGatewayTimeout: 4,
}

const unknown = 2

// ServeHTTP implements http.Handler. A browser repeats a request that can succeed later.
func (n refusal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if n.again {
		w.Header().Set("Retry-After", againAfter)
	}
	if n.again && r.Method == http.MethodGet && page.AcceptsHTML(r) {
		w.Header().Set("Refresh", againAfter)
		n.text += " This page reloads every " + againAfter + " seconds."
	}
	if isGRPC(r) && n.status != http.StatusMisdirectedRequest { // clients show no other text
		h := w.Header()
		h.Set("Content-Type", "application/grpc")
		h.Set("Grpc-Status", strconv.Itoa(cmp.Or(codes[n.status], unknown)))
		h.Set("Grpc-Message", url.PathEscape(n.title+". "+n.text))
		return
	}
	page.Message{Status: n.status, Title: n.title, Text: []string{n.text}}.ServeHTTP(w, r)
}

// tooMany returns the refusal of a request above a limit.
func tooMany(err error) refusal {
	return refusal{status: http.StatusTooManyRequests, title: "There are too many requests", text: fmt.Sprintf("%s.", err), again: true}
}

// because returns the answer to a request for which there is no connection, or that its Service did not answer.
func because(ctx context.Context, err error) refusal {
	t := targetOf(ctx)
	status, text := server.Failure(t.Cluster, err)
	switch {
	case errors.Is(context.Cause(ctx), errInvalid):
		return refusal{status: http.StatusUnauthorized, title: "The session has ended", text: "Log in again."}
	case errors.Is(ctx.Err(), context.Canceled):
		return refusal{status: statusClosed, title: "The client has closed the connection"}
	case status == http.StatusForbidden:
		return refusal{status: http.StatusBadGateway, title: "The cluster refuses the target of this preview", text: text}
	case status == http.StatusServiceUnavailable:
		return refusal{status: status, title: "The cluster is not connected", text: text, again: true}
	case status != 0:
		return refusal{status: status, title: "The target of this preview is not reached", text: text + " Check the target of the endpoint, and the pods behind it."}
	}
	return refusal{status: http.StatusBadGateway, title: "The target of this preview does not answer", text: fmt.Sprintf("%s has ended the connection, or has answered in another protocol. Check the port of the endpoint's target, and the workload behind it.", t.Target)}
}
