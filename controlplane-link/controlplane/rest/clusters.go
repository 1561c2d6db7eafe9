package rest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/encode"
	"switchyard.dev/controlplane-link/controlplane/rest/failure"
	"switchyard.dev/controlplane-link/identity"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/sidecars/coverage"
)

// noCluster replaces the text of an error about a cluster that does not exist.
func (r *request) noCluster(err error) error {
	return failure.Missing(fmt.Sprintf("cluster %q not found", r.Vars["clusterName"]))(err)
}

var noToken = failure.Missing("cluster token not found")

func (h *Handler) listClusters(r *request) (any, error) {
	return encode.List(encode.Cluster)(h.Store.Clusters(r.Context(), r.Org()))
}

func (h *Handler) getCluster(r *request) (any, error) {
	return one(encode.Cluster, r.noCluster)(h.Store.Cluster(r.Context(), r.Org(), r.Vars["clusterName"]))
}

func (h *Handler) addCluster(r *request) (any, error) {
	c := model.Cluster{Org: r.Org(), Name: r.Vars["clusterName"], CreatedAt: r.Now}
	if err := identity.Valid("cluster", c.Name); err != nil {
		return nil, failure.New(http.StatusBadRequest, "%v", err)
	}
	err := h.Store.CreateCluster(r.Context(), c, r.Event("cluster.add", tree{"name": c.Name}))
	return one(encode.Cluster, failure.Taken("cluster"))(c, err)
}

func (h *Handler) deleteCluster(r *request) (any, error) {
	name := r.Vars["clusterName"]
	err := h.Store.DeleteCluster(r.Context(), r.Org(), name, r.Event("cluster.delete", tree{"name": name}))
	return nil, r.noCluster(err)
}

func (h *Handler) listClusterTokens(r *request) (any, error) {
	name := r.Vars["clusterName"]
	if _, err := h.Store.Cluster(r.Context(), r.Org(), name); err != nil {
		return nil, r.noCluster(err)
	}
	return encode.List(encode.ClusterToken)(h.Store.ClusterTokens(r.Context(), r.Org(), name))
}

func (h *Handler) getClusterToken(r *request) (any, error) {
	return one(encode.ClusterToken, noToken)(h.Store.ClusterToken(r.Context(), r.Org(), r.Vars["clusterName"], r.Vars["tokenId"]))
}

func (h *Handler) createClusterToken(r *request) (any, error) {
	name := r.Vars["clusterName"]
	secret := newSecret()
	k := model.ClusterToken{Org: r.Org(), Cluster: name, ID: newID("tok"), Masked: masked(secret), Digest: model.DigestOf(secret), CreatedAt: r.Now}
	if err := h.Store.CreateClusterToken(r.Context(), k, r.Event("clusterToken.create", tree{"cluster": name, "id": k.ID})); err != nil {
		return nil, r.noCluster(err)
	}
	out, err := encode.ClusterToken(k)
	out.Token = &secret
	return out, err
}

func (h *Handler) deleteClusterToken(r *request) (any, error) {
	name, id := r.Vars["clusterName"], r.Vars["tokenId"]
	err := h.Store.DeleteClusterToken(r.Context(), r.Org(), name, id, r.Event("clusterToken.delete", tree{"cluster": name, "id": id}))
	return nil, noToken(err)
}

// newSecret returns a secret of 52 letters and digits: 260 random bits.
func newSecret() string { return rand.Text() + rand.Text() }

// masked returns the beginning of a secret, which identifies it for people.
func masked(secret string) string { return secret[:6] }

// newID returns an identifier that is unique in the installation.
func newID(kind string) string { return kind + "-" + rand.Text() }

// meshStatuses are the statuses of pods in the API.
var meshStatuses = []string{string(v2.ClustersDevMeshWorkloadStatusOk), string(v2.ClustersDevMeshWorkloadStatusMissing), string(v2.ClustersDevMeshWorkloadStatusNeedsUpdate)}

// unreadable is the failure of a read of a cluster. The text of an error of its connection is in the log only.
func (h *Handler) unreadable(r *request, cluster string, err error) error {
	switch {
	case errors.Is(err, model.ErrUnreachable):
		return failure.New(http.StatusBadGateway, "cluster %q cannot be read: its agent %v", cluster, model.ErrUnreachable)
	case errors.Is(err, model.ErrRefused):
		return failure.New(http.StatusBadGateway, "cluster %q cannot be read: %v", cluster, err)
	case isMissing(err), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	h.Logger.WarnContext(r.Context(), "A cluster cannot be read.", "request", r.id, "organisation", r.Org(), "cluster", cluster, "error", err)
	return failure.New(http.StatusBadGateway, "cluster %q cannot be read; the log of the control plane has the error of request %s", cluster, r.id)
}

func (h *Handler) analyzeDevMesh(r *request) (any, error) {
	name := r.Vars["clusterName"]
	if _, err := h.Store.Cluster(r.Context(), r.Org(), name); err != nil {
		return nil, r.noCluster(err)
	}
	statuses := listed(r.URL.Query().Get("status"))
	for _, s := range statuses {
		if !slices.Contains(meshStatuses, s) {
			return nil, failure.New(http.StatusBadRequest, "status has %q; use %s", s, strings.Join(meshStatuses, ", "))
		}
	}
	namespaces := listed(r.URL.Query().Get("namespace"))
	if len(namespaces) == 0 {
		namespaces = []string{""} // all
	}
	of := r.Org() + "/" + name
	if _, busy := h.surveys.LoadOrStore(of, true); busy {
		return nil, failure.New(http.StatusTooManyRequests, "another request reads the workloads of cluster %q now; send this one again", name)
	}
	defer h.surveys.Delete(of)
	var reports []coverage.Report
	for _, namespace := range namespaces {
		found, err := h.Live.Sidecars(r.Context(), r.Org(), name, namespace, r.Caller.Author())
		if err != nil {
			return nil, h.unreadable(r, name, err)
		}
		reports = append(reports, found...)
	}
	return encode.DevMesh(reports, statuses), nil
}

// explainSandboxStatus explains the status of a sandbox by what its operator reports now.
func (h *Handler) explainSandboxStatus(r *request) (any, error) {
	mode := r.URL.Query().Get("mode")
	switch {
	case mode == string(v2.SandboxesExplainModeContext):
		return nil, failure.New(http.StatusNotImplemented, "mode context is not served by this control plane; use explain")
	case mode != "" && mode != string(v2.SandboxesExplainModeExplain):
		return nil, failure.New(http.StatusBadRequest, "mode is %q; use explain", mode)
	}
	s, err := h.Store.Sandbox(r.Context(), r.Org(), r.Vars["sandboxName"])
	if err != nil {
		return nil, failure.Missing(sandboxNotFound)(err)
	}
	report, err := h.Live.Report(r.Context(), r.Org(), s.Cluster, s.Name, r.Caller.Author())
	if err != nil && !isMissing(err) {
		return nil, h.unreadable(r, s.Cluster, err)
	}
	of := &report
	if err != nil {
		of = nil
	}
	out, err := encode.Single(h.sandboxes(r, s))
	return encode.Explanation(s.Cluster, out, of), err
}

// listed returns the items of a list with commas, each once; none for the empty one.
func listed(text string) []string {
	return slices.Compact(slices.Sorted(strings.FieldsFuncSeq(text, func(c rune) bool { return c == ',' })))
}
