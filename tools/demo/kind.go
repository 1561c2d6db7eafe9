package demo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// kindName is the name of the kind cluster, and with it of its one node's
// container.
const (
	kindName = "switchyard"
	kindNode = kindName + "-control-plane"
)

// kindCluster is a cluster in a Docker container, for machines with an engine.
type kindCluster struct{}

func (k *kindCluster) Check(ctx context.Context) error {
	if err := checkPrograms("go", "python3", "docker", "kind", "kubectl", "helm"); err != nil {
		return err
	}
	if err := exec.CommandContext(ctx, "docker", "info").Run(); err != nil {
		return fmt.Errorf("no Docker engine answers: start it, or leave CLUSTER=kind out to run without Docker")
	}
	return nil
}

func (k *kindCluster) Up(ctx context.Context) error {
	known, err := exec.CommandContext(ctx, "kind", "get", "clusters").Output()
	if err != nil {
		return fmt.Errorf("kind get clusters: %w", err)
	}
	if slices.Contains(strings.Fields(string(known)), kindName) {
		return nil
	}
	return run(exec.CommandContext(ctx, "kind", "create", "cluster", "--name", kindName, "--wait", "120s"))
}

func (k *kindCluster) Load(ctx context.Context, archives []string) error {
	for _, archive := range archives {
		if err := run(exec.CommandContext(ctx, "kind", "load", "image-archive", archive, "--name", kindName)); err != nil {
			return fmt.Errorf("load %s: %w", filepath.Base(archive), err)
		}
	}
	return nil
}

func (k *kindCluster) Tool(ctx context.Context, argv ...string) *exec.Cmd {
	flag := "--context"
	if argv[0] == "helm" {
		flag = "--kube-context"
	}
	return exec.CommandContext(ctx, argv[0], slices.Insert(slices.Clone(argv[1:]), 0, flag, "kind-"+kindName)...)
}

// Inside copies the program into the node's container: from there, and not from
// the host, the cluster's addresses can be reached.
func (k *kindCluster) Inside(ctx context.Context, program string, args ...string) (*exec.Cmd, error) {
	target := path.Join("/usr/local/bin", filepath.Base(program))
	if err := run(exec.CommandContext(ctx, "docker", "cp", program, kindNode+":"+target)); err != nil {
		return nil, fmt.Errorf("copy %s to the node: %w", program, err)
	}
	argv := []string{"exec", "-e", "KUBECONFIG=/etc/kubernetes/admin.conf"}
	for _, name := range []string{"NO_COLOR", "TERM"} {
		if value, set := os.LookupEnv(name); set {
			argv = append(argv, "-e", name+"="+value)
		}
	}
	return exec.CommandContext(ctx, "docker", append(append(argv, kindNode, target), args...)...), nil
}

func (k *kindCluster) Enter() string { return "kubectl --context kind-" + kindName + " get pods -A" }

func (k *kindCluster) Leave() string { return "kind delete cluster --name " + kindName }
