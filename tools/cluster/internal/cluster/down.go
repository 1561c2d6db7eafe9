package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"switchyard.dev/tools/cluster/internal/cleanup"
	"switchyard.dev/tools/cluster/internal/netns"
	"switchyard.dev/tools/cluster/internal/node"
	"switchyard.dev/tools/cluster/internal/progress"
)

// stepper runs a step of takeDown and reports it.
type stepper func(what string, f func() error) error

// quiet runs steps without telling them.
func quiet(_ string, f func() error) error { return f() }

// downSteps is the number of steps of Down.
const downSteps = 4

// endTime bounds the wait for killed processes.
const endTime = 15 * time.Second

// Down deletes the node with everything that belongs to it: the processes in its network namespace
// and its pods, mounts, cgroups, the namespace and the node's directory. Compiled programs stay. It
// returns nil if there is no node.
func (c Cluster) Down(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("taking a node down needs root: put `sudo` before the command")
	}
	if own, err := netns.Of("/proc/self/ns/net"); err == nil {
		if node, err := netns.Of(c.Node.NetNS()); err == nil && own == node {
			return errors.New("this command runs inside of the node's network and would end itself: run it outside of `exec`")
		}
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	s := progress.New(c.Out, downSteps, time.Now)
	if err := c.takeDown(ctx, s.Do); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "the node %s is down after %.1f s; built programs remain in %s\n", c.Node.Name, s.Took().Seconds(), c.Node.Cache)
	return nil
}

func (c Cluster) takeDown(ctx context.Context, do stepper) error {
	n := c.Node
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	if err := c.checkOwner(); err != nil {
		return err
	}
	before, err := cleanup.Load(n.Dir("before.json"))
	if err != nil { // nothing is known, so nothing outside of the node's directory is put back
		before = cleanup.Before{NamesMounted: true}
	}
	return inOrder(
		func() error {
			return do("ending processes", func() error {
				_, err := cleanup.Kill(ctx, c.owner())
				return err
			})
		},
		func() error {
			return do("unmounting", func() error {
				_, err := cleanup.Unmount(n.Dir())
				return err
			})
		},
		func() error {
			return do("removing cgroups and the network namespace", func() error {
				_, err := cleanup.RemoveCgroups(n.Cgroup())
				return errors.Join(err, netns.Delete(n.NetNS()))
			})
		},
		func() error {
			return do("removing the node's directory", func() error {
				return errors.Join(before.Restore(ctx, n.Dir(), n.Name), cleanup.RemoveAll(n.Dir()), removeIfEmpty(n.State))
			})
		},
	)
}

// checkOwner refuses to touch a network namespace that has the node's name but
// shows no sign of the node: everything in it would be killed.
func (c Cluster) checkOwner() error {
	if _, err := netns.Of(c.Node.NetNS()); err != nil {
		return nil
	}
	if _, err := os.Stat(c.Node.Dir("before.json")); err == nil {
		return nil
	}
	for _, p := range node.Parts(c.Node) {
		if pids, err := c.processes(p.Name); err != nil || len(pids) > 0 {
			return err
		}
	}
	return fmt.Errorf("network namespace %[1]s exists, but nothing shows that this program created it: choose another -name, or remove it with `ip netns del %[1]s`", c.Node.Name)
}

// removeIfEmpty removes the state directory, unless it contains other files.
func removeIfEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) > 0 {
		return nil
	}
	if err == nil {
		err = os.Remove(dir)
	}
	return err
}

// owner returns the Owner that identifies the node's processes.
func (c Cluster) owner() cleanup.Owner {
	n := c.Node
	return cleanup.Owner{NetNS: n.NetNS(), Cgroup: n.Cgroup(), Programs: filepath.Dir(n.Bin()), Dir: n.Dir()}
}

// processes lists the node's processes that run the given program.
func (c Cluster) processes(program string) ([]int, error) {
	all, err := cleanup.Processes(c.owner())
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, p := range all {
		if filepath.Base(p.Program) == program && strings.HasPrefix(p.Program, c.owner().Programs+"/") {
			pids = append(pids, p.PID)
		}
	}
	return pids, nil
}
