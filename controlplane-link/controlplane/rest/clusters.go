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
func noCluster(r *request, err error) error {
	return as(err, model.ErrNotFound, http.StatusNotFound, fmt.Sprintf("cluster %q not found", r.vars["clusterName"]))
}

func (h *Handler) listClusters(r *request) (any, error) {
	all, err := h.Stores.Clusters.Clusters(r.Context(), r.org())
	if err != nil {
		return nil, err
	}
	return encode.Each(all, encode.Cluster)
}

func (h *Handler) getCluster(r *request) (any, error) {
	c, err := h.Stores.Clusters.Cluster(r.Context(), r.org(), r.vars["clusterName"])
	if err != nil {
		return nil, noCluster(r, err)
	}
	return encode.Cluster(c)
}

func (h *Handler) addCluster(r *request) (any, error) {
	c := model.Cluster{Org: r.org(), Name: r.vars["clusterName"], CreatedAt: r.now}
	if err := identity.Valid("cluster", c.Name); err != nil {
		return nil, fail(http.StatusBadRequest, "name: %v", err)
	}
	err := h.Stores.Clusters.CreateCluster(r.Context(), c, r.event("cluster.add", tree{"name": c.Name}))
	if err != nil {
		return nil, as(err, model.ErrExists, http.StatusConflict, "cluster already exists")
	}
	return encode.Cluster(c)
}

func (h *Handler) deleteCluster(r *request) (any, error) {
	name := r.vars["clusterName"]
	err := h.Stores.Clusters.DeleteCluster(r.Context(), r.org(), name, r.event("cluster.delete", tree{"name": name}))
	err = as(err, model.ErrInUse, http.StatusConflict, fmt.Sprintf("cluster %q has sandboxes or route groups; delete them first", name))
	return nil, noCluster(r, err)
}

func (h *Handler) listClusterTokens(r *request) (any, error) {
	name := r.vars["clusterName"]
	if _, err := h.Stores.Clusters.Cluster(r.Context(), r.org(), name); err != nil {
		return nil, noCluster(r, err)
	}
	all, err := h.Stores.Clusters.ClusterTokens(r.Context(), r.org(), name)
	if err != nil {
		return nil, err
	}
	return encode.Each(all, encode.ClusterToken)
}

func (h *Handler) getClusterToken(r *request) (any, error) {
	k, err := h.Stores.Clusters.ClusterToken(r.Context(), r.org(), r.vars["clusterName"], r.vars["tokenId"])
	if err != nil {
		return nil, as(err, model.ErrNotFound, http.StatusNotFound, "cluster token not found")
	}
	return encode.ClusterToken(k)
}

func (h *Handler) createClusterToken(r *request) (any, error) {
	name := r.vars["clusterName"]
	secret := newSecret()
	k := model.ClusterToken{Org: r.org(), Cluster: name, ID: newID("tok"), Masked: masked(secret), Digest: model.DigestOf(secret), CreatedAt: r.now}
	if err := h.Stores.Clusters.CreateClusterToken(r.Context(), k, r.event("clusterToken.create", tree{"cluster": name, "id": k.ID})); err != nil {
		return nil, noCluster(r, err)
	}
	out, err := encode.ClusterToken(k)
	out.Token = &secret
	return out, err
}

func (h *Handler) deleteClusterToken(r *request) (any, error) {
	name, id := r.vars["clusterName"], r.vars["tokenId"]
	err := h.Stores.Clusters.DeleteClusterToken(r.Context(), r.org(), name, id, r.event("clusterToken.delete", tree{"cluster": name, "id": id}))
	return nil, as(err, model.ErrNotFound, http.StatusNotFound, "cluster token not found")
}

// newSecret returns a secret of 52 letters and digits: 260 random bits.
func newSecret() string { return rand.Text() + rand.Text() }

// masked returns the beginning of a secret, which identifies it for people.
func masked(secret string) string { return secret[:6] }

// newID returns an identifier that is unique in the installation.
func newID(kind string) string { return kind + "-" + rand.Text() }
