package command

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command/exit"
)

// Client returns a client of a cluster with the rights of the user.
func Client(access *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubernetesscheme.AddToScheme, crdv1.AddToScheme, gatewayv1.Install} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	// Without a logger the library prints a warning with a stack after half a minute.
	c, err := client.NewWithWatch(access, client.Options{Scheme: scheme, Log: logr.FromSlogHandler(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	return c, nil
}

// Reader returns a client of the cluster that the user means, for what a command shows besides its
// answer. Warnings of the API server are not shown.
func (s *Session) Reader() (client.WithWatch, error) {
	access, err := s.Cluster.Rest()
	if err != nil {
		return nil, err
	}
	return Client(access)
}

// Writer returns a client of the cluster that the user means, for a command that needs one. Warnings
// of the API server are shown.
func (s *Session) Writer() (client.WithWatch, error) {
	access, err := s.Cluster.Rest()
	if err != nil {
		return nil, exit.Unavailable.Errorf("a cluster is needed: %w", err)
	}
	access.WarningHandler = rest.NewWarningWriter(s.Err, rest.WarningWriterOptions{Deduplicate: true})
	c, err := Client(access)
	if err != nil {
		return nil, exit.Unavailable.Errorf("%w", err)
	}
	return c, nil
}

// Within calls a function with a client of the cluster, in the time for an answer.
func (s *Session) Within(ctx context.Context, do func(context.Context, client.WithWatch) error) error {
	cluster, err := s.Writer()
	if err != nil {
		return err
	}
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	return do(ctx, cluster)
}

// InCluster returns the action of a command that needs a client of the cluster. It calls do by
// Within.
func (s *Session) InCluster(do func(ctx context.Context, cluster client.WithWatch, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		return s.Within(c.Context(), func(ctx context.Context, cluster client.WithWatch) error { return do(ctx, cluster, args) })
	}
}
