package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"switchyard.dev/tools/cluster/internal/kube"
	"switchyard.dev/tools/cluster/internal/netns"
	"switchyard.dev/tools/cluster/internal/node"
)

// Report is how one part is.
type Report struct {
	// Part is the part and Process its process, when it has one.
	Part    node.Part
	Process node.Process
	// Fault is why it is not well, or nil.
	Fault error
}

var errNotRunning = errors.New("does not run")

// errNoNode is the error of commands that need a running node.
var errNoNode = errors.New("no node is running: run `cluster up`")

// reports asks all parts at the same time.
func (c Cluster) reports(ctx context.Context, client *kube.Client) []Report {
	parts := node.Parts(c.Node)
	reports := make([]Report, len(parts))
	var all sync.WaitGroup
	for i, p := range parts {
		all.Go(func() {
			reports[i].Part = p
			process, ok := node.Find(c.Node, p.Name)
			if !ok {
				reports[i].Fault = errNotRunning
				return
			}
			reports[i].Process = process
			reports[i].Fault = node.Probe(ctx, c.Node, client.HTTP, p)
		})
	}
	all.Wait()
	return reports
}

// Status writes how each part is and where to look inside. The error is nil only
// when every part is well and the node is ready.
func (c Cluster) Status(ctx context.Context) error {
	client, err := c.running()
	if err != nil {
		return err
	}
	var bad []string
	table := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PART\tPID\tSINCE\tHEALTH\tLOOK INSIDE")
	for _, r := range c.reports(ctx, client) {
		pid, since, health := "-", "-", "well"
		if r.Process.PID != 0 {
			pid, since = fmt.Sprint(r.Process.PID), time.Since(r.Process.Since).Round(time.Second).String()
		}
		if r.Fault != nil {
			bad = append(bad, r.Part.Name)
			health = r.Fault.Error()
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\ttail -f %s\n", r.Part.Name, pid, since, health, c.Node.Log(r.Part.Name))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	version, err := client.NodeReady(ctx, c.Node.Name)
	if err != nil {
		return fmt.Errorf("the node is not ready: %w: run `cluster up` to repair it", err)
	}
	if len(bad) > 0 {
		return fmt.Errorf("unhealthy: %s: run `cluster up` to repair them", strings.Join(bad, ", "))
	}
	fmt.Fprintf(c.Out, "\nThe node %s is ready (Kubernetes %s). Look around with\n", c.Node.Name, version)
	fmt.Fprintf(c.Out, "  cluster exec -- kubectl get pods -A\n  cluster exec -- bash    (a shell in the cluster's network, with its names)\n")
	return nil
}

// running returns a client, or an error if there is no node.
func (c Cluster) running() (*kube.Client, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a node can only be reached by root: put `sudo` before the command")
	}
	_, keys := os.Stat(c.Node.Kubeconfig())
	_, network := netns.Of(c.Node.NetNS())
	if errors.Is(keys, fs.ErrNotExist) || network != nil {
		return nil, errNoNode
	}
	return kube.Connect(c.Node)
}
