package users

import (
	"context"
	"net"
	"net/http"

	"switchyard.dev/controlplane-link/registry"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/reconcilers/clusterconfig"
	"switchyard.dev/tunnels/credential/signed"
)

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
	cluster := registry.Cluster{Organisation: t.key.Organisation, Name: t.cluster}
	kube := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return h.server.Open(ctx, cluster, &linkv1.Open{Caller: &linkv1.Caller{}, To: &linkv1.Open_KubernetesApi{KubernetesApi: &linkv1.KubernetesAPI{}}})
	}}
	h.issuer.ServeGrant(w, r.WithContext(ctx), kube, clusterconfig.OperatorNamespace, cluster, t.key.Caller())
}
