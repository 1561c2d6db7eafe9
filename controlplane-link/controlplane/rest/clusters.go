package rest

import (
	"crypto/rand"
	"fmt"
	"net/http"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/encode"
	"switchyard.dev/controlplane-link/identity"
)

// noCluster replaces the text of an error about a cluster that does not exist.
func (r *request) noCluster(err error) error {
	return missing(fmt.Sprintf("cluster %q not found", r.vars["clusterName"]))(err)
}

var noToken = missing("cluster token not found")

func (h *Handler) listClusters(r *request) (any, error) {
	return each(encode.Cluster)(h.Store.Clusters(r.Context(), r.org()))
}

func (h *Handler) getCluster(r *request) (any, error) {
	return one(encode.Cluster, r.noCluster)(h.Store.Cluster(r.Context(), r.org(), r.vars["clusterName"]))
}

func (h *Handler) addCluster(r *request) (any, error) {
	c := model.Cluster{Org: r.org(), Name: r.vars["clusterName"], CreatedAt: r.now}
	if err := identity.Valid("cluster", c.Name); err != nil {
		return nil, fail(http.StatusBadRequest, "%v", err)
	}
	err := h.Store.CreateCluster(r.Context(), c, r.event("cluster.add", tree{"name": c.Name}))
	return one(encode.Cluster, taken("cluster"))(c, err)
}

func (h *Handler) deleteCluster(r *request) (any, error) {
	name := r.vars["clusterName"]
	err := h.Store.DeleteCluster(r.Context(), r.org(), name, r.event("cluster.delete", tree{"name": name}))
	return nil, r.noCluster(err)
}

func (h *Handler) listClusterTokens(r *request) (any, error) {
	name := r.vars["clusterName"]
	if _, err := h.Store.Cluster(r.Context(), r.org(), name); err != nil {
		return nil, r.noCluster(err)
	}
	return each(encode.ClusterToken)(h.Store.ClusterTokens(r.Context(), r.org(), name))
}

func (h *Handler) getClusterToken(r *request) (any, error) {
	return one(encode.ClusterToken, noToken)(h.Store.ClusterToken(r.Context(), r.org(), r.vars["clusterName"], r.vars["tokenId"]))
}

func (h *Handler) createClusterToken(r *request) (any, error) {
	name := r.vars["clusterName"]
	secret := newSecret()
	k := model.ClusterToken{Org: r.org(), Cluster: name, ID: newID("tok"), Masked: masked(secret), Digest: model.DigestOf(secret), CreatedAt: r.now}
	if err := h.Store.CreateClusterToken(r.Context(), k, r.event("clusterToken.create", tree{"cluster": name, "id": k.ID})); err != nil {
		return nil, r.noCluster(err)
	}
	out, err := encode.ClusterToken(k)
	out.Token = &secret
	return out, err
}

func (h *Handler) deleteClusterToken(r *request) (any, error) {
	name, id := r.vars["clusterName"], r.vars["tokenId"]
	err := h.Store.DeleteClusterToken(r.Context(), r.org(), name, id, r.event("clusterToken.delete", tree{"cluster": name, "id": id}))
	return nil, noToken(err)
}

// newSecret returns a secret of 52 letters and digits: 260 random bits.
func newSecret() string { return rand.Text() + rand.Text() }

// masked returns the beginning of a secret, which identifies it for people.
func masked(secret string) string { return secret[:6] }

// newID returns an identifier that is unique in the installation.
func newID(kind string) string { return kind + "-" + rand.Text() }
