package demo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Cluster is a Kubernetes that the demo can install into.
type Cluster interface {
	// Check returns one error with everything that is missing on this machine, and the remedy,
	// before any change.
	Check(ctx context.Context) error
	// Up makes the cluster, or finds it.
	Up(ctx context.Context) error
	// Load brings image archives onto the node.
	Load(ctx context.Context, archives []string) error
	// Tool is the command that runs kubectl or helm against the cluster, with
	// the repository's files in reach.
	Tool(ctx context.Context, argv ...string) *exec.Cmd
	// Inside is the command that runs a program of this machine where the
	// cluster's addresses can be reached; kubectl is in its PATH.
	Inside(ctx context.Context, program string, args ...string) (*exec.Cmd, error)
	// Enter and Leave return the commands for the user to explore the cluster and to delete it.
	Enter() string
	Leave() string
}

// NewCluster returns the cluster of that kind: "node", the one-node Kubernetes of
// tools/cluster, or "kind".
func NewCluster(kind, root string) (Cluster, error) {
	switch kind {
	case "", "node":
		program, err := filepath.Abs(filepath.Join(root, "tools", "cluster", "cluster"))
		return &node{program: program}, err
	case "kind":
		return &kindCluster{}, nil
	}
	return nil, fmt.Errorf("CLUSTER=%s: there are two kinds, node and kind", kind)
}

// node is the one-node Kubernetes of tools/cluster.
type node struct {
	// program is the path of tools/cluster/cluster.
	program string
}

func (n *node) Check(context.Context) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("the one-node cluster needs root: run as root, or use a Docker engine with `make demo CLUSTER=kind`")
	}
	return checkPrograms("go", "python3")
}

func (n *node) Up(ctx context.Context) error {
	return run(exec.CommandContext(ctx, n.program, "up"))
}

func (n *node) Load(ctx context.Context, archives []string) error {
	return run(exec.CommandContext(ctx, n.program, append([]string{"load"}, archives...)...))
}

func (n *node) Tool(ctx context.Context, argv ...string) *exec.Cmd {
	return exec.CommandContext(ctx, n.program, append([]string{"exec", "--"}, argv...)...)
}

func (n *node) Inside(ctx context.Context, program string, args ...string) (*exec.Cmd, error) {
	return n.Tool(ctx, append([]string{program}, args...)...), nil
}

func (n *node) Enter() string { return "tools/cluster/cluster exec -- bash" }

func (n *node) Leave() string { return "make down" }

func checkPrograms(names ...string) error {
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%s is not in PATH: install it and run again", name)
		}
	}
	return nil
}

// run runs a command with its output shown.
func run(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
