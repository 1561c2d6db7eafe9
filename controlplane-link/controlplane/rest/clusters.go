package rest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/identity"
	v2 "switchyard.dev/protos/controlplane/v2"
)

// maxTokens is how many tokens a cluster may have. One is enough, and a second one to replace it.
const maxTokens = 16

// noCluster replaces the text of an error about a cluster that does not exist.
func noCluster(r *request, err error) error {
	return as(err, model.ErrNotFound, http.StatusNotFound, fmt.Sprintf("cluster %q not found", r.vars["clusterName"]))
}

// clusterOf returns a cluster as the API has it.
func clusterOf(c model.Cluster) (v2.Cluster, error) {
	out := v2.Cluster{Name: c.Name, CreatedAt: stamp(c.CreatedAt), Operator: v2.ClusterOperator{Version: c.OperatorVersion}}
	if c.Config == nil {
		return out, nil
	}
	out.ClusterConfig = &v2.ConfigClusterConfig{}
	if err := json.Unmarshal(c.Config, out.ClusterConfig); err != nil {
		return out, fmt.Errorf("read the configuration of cluster %s: %w", c.Name, err)
	}
	return out, nil
}

func (h *Handler) listClusters(r *request) (any, error) {
	all, err := h.Stores.Clusters.Clusters(r.Context(), r.org())
	if err != nil {
		return nil, err
	}
	return each(all, clusterOf)
}

func (h *Handler) getCluster(r *request) (any, error) {
	c, err := h.Stores.Clusters.Cluster(r.Context(), r.org(), r.vars["clusterName"])
	if err != nil {
		return nil, noCluster(r, err)
	}
	return clusterOf(c)
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
	return clusterOf(c)
}

func (h *Handler) deleteCluster(r *request) (any, error) {
	name := r.vars["clusterName"]
	err := h.Stores.Clusters.DeleteCluster(r.Context(), r.org(), name, r.event("cluster.delete", tree{"name": name}))
	err = as(err, model.ErrInUse, http.StatusConflict, fmt.Sprintf("cluster %q has sandboxes or route groups; delete them first", name))
	return nil, noCluster(r, err)
}

// tokenOf returns a token of a cluster as the API has it.
func tokenOf(k model.ClusterToken) (v2.ClusterToken, error) {
	return v2.ClusterToken{
		ID: k.ID, MaskedValue: k.Masked, CreatedAt: stamp(k.CreatedAt),
		Status: v2.ClusterTokenStatus{LastConnectedAt: when(k.LastConnectedAt), LastConnectedIP: given(k.LastConnectedIP)},
	}, nil
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
	return each(all, tokenOf)
}

func (h *Handler) getClusterToken(r *request) (any, error) {
	k, err := h.Stores.Clusters.ClusterToken(r.Context(), r.org(), r.vars["clusterName"], r.vars["tokenId"])
	if err != nil {
		return nil, as(err, model.ErrNotFound, http.StatusNotFound, "cluster token not found")
	}
	return tokenOf(k)
}

func (h *Handler) createClusterToken(r *request) (any, error) {
	name := r.vars["clusterName"]
	has, err := h.Stores.Clusters.ClusterTokens(r.Context(), r.org(), name)
	if err != nil {
		return nil, err
	}
	if len(has) >= maxTokens {
		return nil, fail(http.StatusBadRequest, "too many tokens: cluster %q has %d; delete one first", name, len(has))
	}
	secret := newSecret()
	k := model.ClusterToken{Org: r.org(), Cluster: name, ID: newID("tok"), Masked: masked(secret), Digest: model.DigestOf(secret), CreatedAt: r.now}
	if err := h.Stores.Clusters.CreateClusterToken(r.Context(), k, r.event("clusterToken.create", tree{"cluster": name, "id": k.ID})); err != nil {
		return nil, noCluster(r, err)
	}
	out, err := tokenOf(k)
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

// each returns all values as the API has them; an empty list if there are none.
func each[M, V any](all []M, of func(M) (V, error)) ([]V, error) {
	out := make([]V, 0, len(all))
	for _, m := range all {
		v, err := of(m)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}
