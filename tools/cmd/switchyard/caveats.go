package main

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/dryrun"
)

// caveatsOf returns the caveats of a sandbox; none when there is no such sandbox.
func caveatsOf(ctx context.Context, access *rest.Config, sandbox string) ([]string, error) {
	scheme, err := dryrun.Scheme()
	if err != nil {
		return nil, err
	}
	reader, err := client.New(access, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	var s crdv1.SignadotSandbox
	if err := reader.Get(ctx, client.ObjectKey{Name: sandbox}, &s); err != nil {
		return nil, client.IgnoreNotFound(mayNotRead(sandbox, err))
	}
	c := crdv1.FindCondition(s.Status.Conditions, crdv1.ConditionCaveats)
	if c == nil || c.ObservedGeneration < s.Generation {
		return nil, nil
	}
	return strings.Split(c.Message, "\n"), nil
}

// mayNotRead explains an error about a sandbox.
func mayNotRead(sandbox string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("SignadotSandbox %s cannot be read, ask for the right: %w", sandbox, err)
	}
	return err
}
