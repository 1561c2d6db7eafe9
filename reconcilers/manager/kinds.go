package manager

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// The CRDs come with the chart that this program comes with, so at the first
// start it may be there before them. It waits for them: ending and being
// started again costs more each time.
const (
	kindsWithin = 45 * time.Second
	kindsAgain  = 200 * time.Millisecond
)

// awaitKinds waits until the API server serves every kind that controllers
// watch. The error names those that it does not.
func awaitKinds(ctx context.Context, access *rest.Config, logger *slog.Logger) error {
	client, err := discovery.NewDiscoveryClientForConfig(access)
	if err != nil {
		return fmt.Errorf("ask the API server for its kinds: %w", err)
	}
	deadline := time.Now().Add(kindsWithin)
	for told := false; ; told = true {
		missing, err := missingKinds(client)
		if err == nil && len(missing) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the API server does not serve %s of %s: install the chart's CRDs (%v)",
				strings.Join(missing, ", "), crdv1.GroupVersion(), err)
		}
		if !told {
			logger.Info("waiting for the custom resources", "missing", missing)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(kindsAgain):
		}
	}
}

// missingKinds gives the kinds that controllers watch and the API server does
// not serve, and why it could not be asked.
func missingKinds(client discovery.DiscoveryInterface) ([]string, error) {
	served, err := client.ServerResourcesForGroupVersion(crdv1.GroupVersion().String())
	missing := []string{crdv1.KindSandbox, crdv1.KindForkedWorkload, crdv1.KindRoutingConfig}
	if err != nil {
		return missing, err
	}
	for _, resource := range served.APIResources {
		missing = slices.DeleteFunc(missing, func(kind string) bool { return kind == resource.Kind })
	}
	return missing, nil
}
