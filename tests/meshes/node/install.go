package node

import (
	"context"
	_ "embed"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/istio"
)

// settings are values of istiod's chart.
//
//go:embed istiod.yaml
var settings string

// class makes the gateways that istiod creates for the Gateway API reachable by the address of a
// Service: there is no load balancer here.
const class = `{apiVersion: v1, kind: ConfigMap, metadata: {name: istio-class-defaults, namespace: istio-system,
labels: {gateway.istio.io/defaults-for-class: istio}}, data: {service: "spec: {type: ClusterIP}"}}`

// Install installs Istio, the definitions of the Gateway API, and the operator with further
// values, each as name=value. It brings up to date what an earlier run has left. root is the
// folder of this repository.
func Install(ctx context.Context, root string, values ...string) error {
	mesh, err := istio.FindNode(ctx, root)
	if err != nil {
		return err
	}
	if _, err := demo.Kubectl(ctx, "", "apply", "--server-side", "--force-conflicts", "-f", mesh.GatewayAPI); err != nil {
		return err
	}
	for _, release := range [][]string{
		{"istio-base", filepath.Join(mesh.Charts, "base")},
		{"istiod", filepath.Join(mesh.Charts, "istio-control", "istio-discovery"), "--values=-", "--set=global.hub=" + istio.Hub, "--set=global.tag=" + istio.Tag},
	} {
		if err := Helm(ctx, "istio-system", settings, release...); err != nil {
			return err
		}
	}
	if _, err := demo.Kubectl(ctx, class, "apply", "-f", "-"); err != nil {
		return err
	}
	ours, err := demo.ChartValues()
	if err != nil {
		return err
	}
	release := slices.Concat([]string{"switchyard", filepath.Join(root, "charts", "operator")}, ours)
	for _, v := range values {
		release = append(release, "--set="+v)
	}
	return Helm(ctx, "signadot", "", release...)
}

// Helm installs a chart, or brings it up to date, and waits until its pods are ready. release is
// its name, its chart and further arguments.
func Helm(ctx context.Context, namespace, stdin string, release ...string) error {
	cmd := exec.CommandContext(ctx, "helm", append([]string{"upgrade", "--install", "--wait", "--create-namespace", "--timeout=300s", "--namespace=" + namespace}, release...)...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("helm upgrade %s: %w\n%s", release[0], err, out)
	}
	return nil
}
