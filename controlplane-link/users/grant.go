package users

import (
	"context"
	"encoding/json"
	"net/http"

	"switchyard.dev/eventbus/callers"
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
