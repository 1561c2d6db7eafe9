package users

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"switchyard.dev/controlplane-link/credentials"
	"switchyard.dev/controlplane-link/identity"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/eventbus/callers"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/reconcilers/clusterconfig"
	"switchyard.dev/tunnels/credential/signed"
)

// refusal is the answer to a request that is not forwarded.
type refusal struct {
	status  int
	message string
}

func refuse(status int, format string, values ...any) *refusal {
	return &refusal{status, fmt.Sprintf(format, values...)}
}

// target is what a request asks for. It has a key once the request is authenticated.
type target struct {
	key     *credentials.Key
	cluster registry.Cluster
	open    *linkv1.Open // for a Service, never for the Kubernetes API
	guessed bool         // a key was sent
}

// bearer returns the token of an Authorization header.
func bearer(h http.Header) string {
	if scheme, token, _ := strings.Cut(h.Get("Authorization"), " "); strings.EqualFold(scheme, "bearer") {
		return token
	}
	return ""
}

// take returns the API key and the cluster of a request, and removes the headers that have them:
// those of the published client, or Proxy-Authorization (the cluster is the user, the key the
// password), or a bearer token in Authorization. Authorization stays where the key is in another header:
// it is for the Service then.
func take(h http.Header) (key, cluster string) {
	proxy := &http.Request{Header: http.Header{"Authorization": h["Proxy-Authorization"]}}
	user, password, _ := proxy.BasicAuth()
	key, cluster = cmp.Or(h.Get("Signadot-Api-Key"), password, bearer(proxy.Header), bearer(h)), cmp.Or(h.Get("Signadot-Cluster"), user)
	if bearer(h) == key {
		h.Del("Authorization")
	}
	for _, name := range []string{"Signadot-Api-Key", "Signadot-Cluster", "Proxy-Authorization"} {
		h.Del(name)
	}
	return key, cluster
}

// authenticate returns what a request asks for, and removes the key from it, or returns why it is refused.
func authenticate(r *http.Request, known Keys) (t target, no *refusal) {
	status := http.StatusUnauthorized
	if r.Method == http.MethodConnect || r.URL.IsAbs() {
		status = http.StatusProxyAuthRequired
	}
	sent, cluster := take(r.Header)
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil && r.Method != http.MethodConnect {
		host, port = r.Host, "80"
	}
	number, err := strconv.ParseUint(port, 10, 16)
	var unknown error
	t.guessed = sent != ""
	switch t.key, unknown = known.Find(r.Context(), sent, r.RemoteAddr); {
	case unknown != nil:
		return t, refuse(http.StatusServiceUnavailable, "The API key cannot be checked now. Try again.")
	case sent == "":
		return t, refuse(status, "The request has no API key. Send it in header signadot-api-key, or as password of the proxy, with the cluster as user.")
	case t.key == nil:
		return t, refuse(status, "The API key is not known or was revoked. Create a new one.")
	case cluster == "":
		return t, refuse(http.StatusBadRequest, "The request names no cluster. Send its name in header signadot-cluster.")
	case identity.Valid("cluster", cluster) != nil:
		return t, refuse(http.StatusBadRequest, "The name of the cluster is not valid. Send the name that the key has in header signadot-cluster.")
	case !t.key.Reaches(cluster):
		return t, refuse(http.StatusForbidden, "The API key of %s does not reach cluster %.128q, only %s. Add the cluster to the key.", t.key.User, cluster, strings.Join(t.key.Clusters, ", "))
	case r.URL.Scheme != "" && r.URL.Scheme != "http":
		return t, refuse(http.StatusBadRequest, "Requests with scheme %.16q are not forwarded. Use CONNECT, and TLS through it.", r.URL.Scheme)
	case err != nil || number == 0 || host == "":
		return t, refuse(http.StatusBadRequest, "%.253q is not the address of a Service. Write NAME.NAMESPACE.svc:PORT.", r.Host)
	}
	to := &tunnelv1.Address{Host: strings.Trim(host, "[]"), Port: uint32(number)}
	t.cluster, t.open = registry.Cluster{Organisation: t.key.Organisation, Name: cluster}, &linkv1.Open{Caller: t.key.Caller(), To: &linkv1.Open_Service{Service: to}, Bulk: r.Method == http.MethodConnect}
	return t, nil
}

// asksForGrant reports whether a request is for a credential, and not for a Service.
func asksForGrant(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Path == signed.GrantPath && !r.URL.IsAbs()
}

// grant answers with a credential for the cluster of the request. The control plane itself reads the
// operator's authority from the cluster's API for it; nothing of the request is forwarded.
func (h *Handler) grant(w http.ResponseWriter, r *http.Request) {
	if h.issuer == nil {
		h.answer(w, r, refuse(http.StatusNotImplemented, "This server issues no credentials: it has no signing key. Connect with a kubeconfig."))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), openWithin)
	defer cancel()
	t := targetOf(ctx)
	leave, err := h.grants.Enter(callers.Caller{Kind: callers.Pod, Name: t.key.Organisation + "/" + t.key.User})
	if err != nil {
		h.answer(w, r, refuse(http.StatusTooManyRequests, "User %s requests credentials too often. Wait a second.", t.key.User))
		return
	}
	defer leave()
	kube := h.server.Transport(t.cluster, &linkv1.Caller{})
	defer kube.CloseIdleConnections()
	granted, err := h.issuer.Grant(ctx, kube, clusterconfig.OperatorNamespace, t.cluster, t.key.Caller())
	log := h.logger.With("organisation", t.cluster.Organisation, "user", t.key.User, "cluster", t.cluster.Name)
	if err != nil {
		log.Warn("no credential was issued", "error", err)
		no := because(ctx, err)
		if no.status == http.StatusBadGateway {
			no = refuse(no.status, "No credential is issued: the authority of the operator cannot be read from cluster %q. Check ConfigMap signadot-authority there.", t.cluster.Name)
		}
		h.answer(w, r, no)
		return
	}
	log.Info("a credential was issued", "expires", granted.Expires)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(granted) // the client has closed the connection
}
