// Package served waits until the API server serves the kinds of the operator.
package served

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// The CRDs are installed by the same chart as this program, so at the first start they may be missing.
// It waits for them, since restarts cost more time each.
const (
	kindsWithin = 45 * time.Second
	kindsAgain  = 200 * time.Millisecond
)

// Await waits until the API server serves every kind that controllers
// watch. The error names those that it does not.
func Await(ctx context.Context, access *rest.Config, logger *slog.Logger) error {
	client, err := discovery.NewDiscoveryClientForConfig(access)
	if err != nil {
		return fmt.Errorf("ask the API server for its kinds: %w", err)
	}
	deadline := time.Now().Add(kindsWithin)
	for told := false; ; told = true {
		err := servesKinds(client)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		if !told {
			logger.Info("waiting for the custom resources", "reason", err)
		}
		if !wake.Sleep(ctx, kindsAgain) {
			return ctx.Err()
		}
	}
}

// servesKinds returns an error that names the watched kinds that the API server does not serve, or the
// error of asking it; nil if it serves all.
func servesKinds(client discovery.DiscoveryInterface) error {
	served, err := client.ServerResourcesForGroupVersion(crdv1.GroupVersion().String())
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("ask the API server for its kinds: %w", err)
	}
	missing := lists.Map(crdv1.Kinds(), func(kind crdv1.Kind) string { return kind.Name })
	slices.Sort(missing)
	if err == nil {
		for _, resource := range served.APIResources {
			missing = slices.DeleteFunc(missing, func(kind string) bool { return kind == resource.Kind })
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the API server does not serve %s of %s: install the chart's CRDs",
			strings.Join(missing, ", "), crdv1.GroupVersion())
	}
	return nil
}
