package sandboxes

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Caveats returns the caveats of a sandbox; none when it does not exist.
func Caveats(ctx context.Context, reader client.Reader, name string) ([]string, error) {
	var s crdv1.SignadotSandbox
	err := reader.Get(ctx, client.ObjectKey{Name: name}, &s)
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("SignadotSandbox %s cannot be read, ask for the right: %w", name, err)
	}
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return caveatsOf(&s), nil
}

// caveatsOf returns the caveats of the present form of an object.
func caveatsOf(o crdv1.Object) []string {
	c := crdv1.FindCondition(*o.StatusConditions(), crdv1.ConditionCaveats)
	if c == nil || c.ObservedGeneration < o.GetGeneration() {
		return nil
	}
	return strings.Split(c.Message, "\n")
}
