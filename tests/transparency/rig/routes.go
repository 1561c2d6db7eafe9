package rig

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/xds/serve"
	"switchyard.dev/xds/translate"
	"switchyard.dev/xds/xdstest"
)

const xdsPort = "7779"

// workload is the workload of the pod with the sidecar.
var workload = table.Workload{Kind: "Deployment", Namespace: "shop", Name: "apps"}

// startRoutes states the forks of all applications and serves the routes.
func (r *Rig) startRoutes(ctx context.Context, all []App) (err error) {
	if r.facts, err = xdstest.OpenFacts(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	for _, a := range all {
		if err := r.declare(ctx, a); err != nil {
			return err
		}
	}
	if err := r.facts.Complete(ctx); err != nil {
		return err
	}
	r.xds, r.stopRoutes, err = sidecar.ServeView(r.facts.View, identify, net.JoinHostPort(r.pod.Host.String(), xdsPort))
	return err
}

// identify takes the pod's one token.
func identify(_ context.Context, token string) (serve.Peer, error) {
	if strings.TrimSpace(token) != podToken {
		return serve.Peer{}, status.Error(codes.Unauthenticated, "unknown token")
	}
	return serve.Peer{Workload: workload, Namespace: workload.Namespace, Pod: podName, UID: podName}, nil
}

func (r *Rig) declare(ctx context.Context, a App) error {
	return r.facts.Declare(ctx, xdstest.Fork{
		Baseline: workload, Key: a.Key(), Sandbox: a.Name, Port: uint32(a.Port),
		Destination: netip.AddrPortFrom(service, a.Port),
	})
}

// Open declares the application's fork, and returns when the sidecar has its route.
func (r *Rig) Open(ctx context.Context, a App) error {
	if err := r.declare(ctx, a); err != nil {
		return err
	}
	return r.acknowledged(ctx)
}

// Shut withdraws the key of the application's fork, and returns when the sidecar has no
// route for it any more.
func (r *Rig) Shut(ctx context.Context, a App) error {
	if err := r.facts.Withdraw(ctx, a.Key()); err != nil {
		return err
	}
	return r.acknowledged(ctx)
}

// acknowledged waits until the sidecar has acknowledged the newest routes.
func (r *Rig) acknowledged(ctx context.Context) error {
	newest, _ := r.facts.View.Current()
	resources, err := translate.Resources(newest, workload)
	if err != nil {
		return err
	}
	return until(ctx, "the sidecar has acknowledged its routes", func() error {
		acks := r.xds.Acks()
		if len(acks) != 1 || acks[0].Acked != resources[0].Version {
			return fmt.Errorf("%+v, want %s", acks, resources[0].Version)
		}
		return nil
	})
}
