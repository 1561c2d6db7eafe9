// Package live reads clusters at the time of a request, for the API of the control plane.
package live

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/model"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/survey"
	"switchyard.dev/sidecars/coverage"
	"switchyard.dev/workflows/sandboxes"
)

// Clusters reads clusters.
type Clusters struct {
	// Reader returns a reader of a cluster with the rights of a user; model.ErrUnreachable: its agent is not connected.
	Reader func(ctx context.Context, org, cluster string, by model.Author) (client.Reader, error)
	// Operator is the namespace of the operator in each cluster.
	Operator string
}

// Sidecars returns the reports of the workloads of a namespace that request sidecars, have some or
// have a fork; empty: of all namespaces. model.ErrNotFound: there is no such namespace. model.ErrRefused: the user
// lacks the rights to read them.
func (c Clusters) Sidecars(ctx context.Context, org, cluster, namespace string, by model.Author) ([]coverage.Report, error) {
	reader, err := c.Reader(ctx, org, cluster, by)
	if err != nil {
		return nil, err
	}
	found, err := survey.Look(ctx, reader, survey.Question{Namespace: namespace, Operator: c.Operator})
	return found.Reports, known(cluster, err)
}

// Report returns the report of a sandbox; model.ErrNotFound: the cluster has no such object. model.ErrRefused: the
// user lacks the right to read it.
func (c Clusters) Report(ctx context.Context, org, cluster, name string, by model.Author) (sandboxes.Sandbox, error) {
	reader, err := c.Reader(ctx, org, cluster, by)
	if err != nil {
		return sandboxes.Sandbox{}, err
	}
	return reportOf(ctx, reader, cluster, name)
}

// reportOf reads the report of a sandbox.
func reportOf(ctx context.Context, reader client.Reader, cluster, name string) (sandboxes.Sandbox, error) {
	o := &crdv1.SignadotSandbox{}
	err := reader.Get(ctx, client.ObjectKey{Name: name}, o)
	if apierrors.IsNotFound(err) {
		err = fmt.Errorf("sandbox %q in cluster %q: %w", name, cluster, model.ErrNotFound)
	}
	return sandboxes.SandboxOf(o), known(cluster, err)
}

// known wraps the error of package model that an error of a cluster is.
func known(cluster string, err error) error {
	var missing survey.NoNamespace
	switch {
	case errors.As(err, &missing):
		return fmt.Errorf("namespace %q in cluster %q: %w", string(missing), cluster, model.ErrNotFound)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w: %w", model.ErrRefused, err)
	}
	return err
}
