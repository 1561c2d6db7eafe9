package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"switchyard.dev/tools/cluster/internal/atomicfile"
	"switchyard.dev/tools/cluster/internal/cleanup"
	"switchyard.dev/tools/cluster/internal/host"
	"switchyard.dev/tools/cluster/internal/kube"
	"switchyard.dev/tools/cluster/internal/layout"
	"switchyard.dev/tools/cluster/internal/lock"
	"switchyard.dev/tools/cluster/internal/netns"
	"switchyard.dev/tools/cluster/internal/node"
	"switchyard.dev/tools/cluster/internal/progress"
	"switchyard.dev/tools/cluster/internal/recipe"
)

// Cluster is a node together with where its programs come from.
type Cluster struct {
	// Node is the layout of the node.
	Node layout.Node
	// Source is the folder with the pinned modules.
	Source string
	// Out receives the progress as text.
	Out io.Writer
}

// steps of Up when the node does not run.
const upSteps = 8

// Up makes the node run and returns when a pod can be started on it.
func (c Cluster) Up(ctx context.Context) error {
	var plan plan
	version, err := c.wellNow(ctx)
	if err != nil {
		if plan, err = c.plan(ctx); err != nil {
			return err
		}
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if version == "" { // another process may have started it while this one waited for the lock
		version, _ = c.wellNow(ctx)
	}
	if version != "" {
		fmt.Fprintf(c.Out, "the node %s runs already (Kubernetes %s)\n", c.Node.Name, version)
		c.tellOtherRecipe()
		return c.reuseVolumes(ctx)
	}
	s := progress.New(c.Out, upSteps, time.Now)
	if err := c.bringUp(ctx, s, plan); err != nil {
		return fmt.Errorf("%w\nRun `cluster up` again; if that fails too, first run `cluster down`, which removes %s and everything else of the node", err, c.Node.Dir())
	}
	if version, err = c.wellNow(ctx); err != nil {
		return fmt.Errorf("the node was ready and is not any more: %w", err)
	}
	fmt.Fprintf(c.Out, "the node %s is ready after %.1f s (Kubernetes %s)\n", c.Node.Name, s.Took().Seconds(), version)
	return nil
}

// plan is what Up finds out before it changes anything.
type plan struct {
	builder *recipe.Builder
	facts   host.Facts
}

// plan checks the machine. The error has one line for each problem.
func (c Cluster) plan(ctx context.Context) (plan, error) {
	builder, err := recipe.Open(c.Source, c.Node.Cache)
	if err != nil {
		return plan{}, err
	}
	facts := host.Look(ctx, len(builder.Missing(builder.Groups)) > 0, c.Node.Cache, c.Node.State)
	if faults := host.Judge(facts); len(faults) > 0 {
		return plan{}, errors.New(strings.Join(faults, "\n"))
	}
	return plan{builder, facts}, c.checkOwner()
}

func (c Cluster) bringUp(ctx context.Context, s *progress.Steps, p plan) error {
	b, facts := p.builder, p.facts
	var st starter
	return inOrder(
		func() error {
			return s.Do("installing Debian packages: "+orNone(facts.Absent), func() error {
				return errors.Join(host.Install(ctx, facts.Absent), host.Prepare(ctx))
			})
		},
		func() error {
			return s.Do("building programs: "+orNone(groupNames(b.Missing(b.Groups))), func() error {
				return b.Build(ctx, b.Groups, s.Note)
			})
		},
		func() error {
			return s.Do("making keys, settings and the network", func() error { return c.prepare(ctx, s) })
		},
		func() error {
			client, err := kube.Connect(c.Node)
			st = starter{cluster: c, client: client, note: s.Note}
			return err
		},
		func() error {
			return s.Do("starting etcd and the container runtime", func() error { return st.wave(ctx, 0) })
		},
		func() error { return s.Do("starting the API server", func() error { return st.wave(ctx, 1) }) },
		func() error {
			return s.Do("adding names, storage and the first image", func() error {
				objects, err := kube.Objects(c.Node)
				if err != nil {
					return err
				}
				return errors.Join(st.client.ApplyAll(ctx, objects), c.loadPause(ctx))
			})
		},
		func() error { return s.Do("starting the other parts", func() error { return st.wave(ctx, 2) }) },
		func() error { return s.Do("waiting until pods can be started", func() error { return st.ready(ctx) }) },
	)
}

// tellOtherRecipe prints a note when the node was started with other programs than this checkout
// would build.
func (c Cluster) tellOtherRecipe() {
	builder, err := recipe.Open(c.Source, c.Node.Cache)
	if err != nil {
		return // without pins beside this program there is nothing to compare with
	}
	for _, p := range node.Parts(c.Node) {
		if process, ok := node.Find(c.Node, p.Name); ok && filepath.Dir(process.Program) != builder.Dir {
			fmt.Fprintf(c.Out, "its %s was built from other pins than this checkout has; `cluster down` and `cluster up` change it\n", p.Name)
			return
		}
	}
}

// inOrder runs functions until one fails.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "nothing to do"
	}
	return strings.Join(names, " ")
}

func groupNames(groups []recipe.Group) []string {
	var names []string
	for _, g := range groups {
		names = append(names, g.Name)
	}
	return names
}

// lock keeps two of our programs from changing the same node at the same time.
func (c Cluster) lock(ctx context.Context) (func(), error) {
	return lock.Take(ctx, filepath.Join(c.Node.Cache, c.Node.Name+".lock"), func(owner string) {
		fmt.Fprintf(c.Out, "another command (process %s) changes this node; waiting for it\n", owner)
	})
}

// wellNow asks everything once: are all parts up and well, and is the node ready.
func (c Cluster) wellNow(ctx context.Context) (version string, err error) {
	client, err := kube.Connect(c.Node)
	if err != nil {
		return "", err
	}
	for _, report := range c.reports(ctx, client) {
		if report.Fault != nil {
			return "", fmt.Errorf("%s: %w", report.Part.Name, report.Fault)
		}
	}
	return client.NodeReady(ctx, c.Node.Name)
}

// prepare creates everything that must exist before the first part starts, and keeps what already
// exists.
func (c Cluster) prepare(ctx context.Context, s *progress.Steps) error {
	if err := c.forgetTorn(ctx, s.Note); err != nil {
		return err
	}
	n := c.Node
	for _, dir := range []string{"", "logs", "logs/pods", "cni", "volumes"} {
		if err := os.MkdirAll(n.Dir(dir), 0o755); err != nil {
			return fmt.Errorf("making the node's directory: %w", err)
		}
	}
	if _, err := os.Stat(n.Dir("before.json")); errors.Is(err, fs.ErrNotExist) {
		if err := cleanup.Observe().Save(n.Dir("before.json")); err != nil {
			return err
		}
	}
	for i := range n.Volumes {
		if err := os.MkdirAll(kube.VolumeDir(n, kube.VolumeName(i)), 0o755); err != nil {
			return fmt.Errorf("making a volume: %w", err)
		}
	}
	return inOrder(
		func() error { return makeKeys(n, time.Now()) },
		func() error { return writeFiles(n) },
		func() error { return cleanup.CreateCgroup(n.Cgroup()) },
		func() error { return netns.Create(n.NetNS()) },
		func() error { return netns.Setup(ctx, n.NetNS(), n.Network, n.Gateway()) },
	)
}

// forgetTorn takes down what cannot be continued: a node from before a restart of
// the machine, and one that has lost its network namespace with all its pods'.
func (c Cluster) forgetTorn(ctx context.Context, note func(string, ...any)) error {
	before, err := cleanup.Load(c.Node.Dir("before.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return c.takeDown(ctx, quiet)
	}
	if err != nil {
		note("%v; starting from scratch", err)
		return c.takeDown(ctx, quiet)
	}
	_, noNetwork := netns.Of(c.Node.NetNS())
	switch {
	case before.Boot != cleanup.Boot():
		note("the machine was restarted since; starting from scratch")
	case noNetwork != nil:
		note("the node's network namespace was deleted; starting from scratch")
	default:
		return nil
	}
	return c.takeDown(ctx, quiet)
}

func writeFiles(n layout.Node) error {
	files, err := node.Files(n)
	if err != nil {
		return err
	}
	for place, content := range files {
		if old, err := os.ReadFile(n.Dir(place)); err == nil && bytes.Equal(old, content) {
			continue // parts watch their files, and some end when one is written
		}
		if err := atomicfile.Write(n.Dir(place), content, 0o644); err != nil {
			return fmt.Errorf("writing the node's settings: %w", err)
		}
	}
	return nil
}
