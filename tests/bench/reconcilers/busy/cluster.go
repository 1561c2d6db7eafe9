// Package busy is a cluster that does not stand still: the objects of users and their tools,
// their changes, the writes of controllers and kubelets in consequence, and a check whether all
// objects agree with the wanted state.
//
//	population.go  the objects, in the size that they have in practice
//	changes.go     changes of users, and the least number of writes that reconcile them
//	rollout.go     consequences: Deployments are rolled out, pods come and go
//	play.go        so many changes a second, in the order in which they are due
//	oracle.go      the check whether all agree
package busy

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/routeserver/view"
)

// workload is a Deployment as the cluster knows it: one that users made, or a fork.
type workload struct {
	namespace, name string
	// two reports whether it has a second Service.
	two bool
	// fork reports whether the manager made it, made for which ForkedWorkload.
	fork bool
	made string

	// writing is locked while it, or its Service, is written.
	writing sync.Mutex

	mu sync.Mutex
	// version is that of its images, ports how many more ports its Service has.
	version, ports int
	replicas       int32
	// generation is the newest that is rolled out, or being so; form that of the pods
	// of a fork.
	generation int64
	form       [32]byte
	// pods are those that it has, next the number of the next one.
	pods []string
	next int
	// noted counts what tools have written on it.
	noted int
	// begun is the number of sequences started for its pods: only the last continues, and it is in
	// progress until ended is equal.
	begun, ended int
}

// forked is the desired state of one fork of a sandbox.
type forked struct {
	baseline *workload
	version  int
}

// image returns the image that the sandbox sets for its main container.
func (f *forked) image() string {
	return fmt.Sprintf("registry.example/feature/%s:v%d", f.baseline.name, f.version)
}

// sandbox is the desired state of a user's sandbox.
type sandbox struct {
	name  string
	forks []*forked
	// uid and generation are those of the object as the API server answered last.
	uid        types.UID
	generation int64
	noted      int
	// busy reports whether it is being written.
	busy bool
}

// Size is how much there is at the beginning.
type Size struct {
	Objects, Sandboxes, Namespaces int
	// Seed is of what happens.
	Seed uint64
}

// Config is how a cluster is reached.
type Config struct {
	Size
	// Client writes what users and the cluster write.
	Client client.Client
	// Seen is a cache of the Watched objects, and Table the table folded from the log.
	Seen  cache.Cache
	Table *view.View
}

// cluster is what users and the cluster itself have written: what there is to be.
type cluster struct {
	client client.Client
	seen   cache.Cache
	table  *view.View
	// namespaces is how many there are of users.
	namespaces int
	// baselines are the workloads that are forked, others those that are not.
	baselines, others []*workload

	mu        sync.Mutex
	random    *rand.Rand
	sandboxes []*sandbox
	// gone counts the sandboxes that were deleted, made those that ever were.
	gone, made int
	// forks are the Deployments of forks that the cluster has seen, by UID.
	forks map[types.UID]*workload
	// fast reports whether workloads are rolled out in as few writes as possible: while the
	// cluster is filled.
	fast bool
	// forked restricts changes of workloads to those with forks.
	forked bool
}

// newCluster returns the initial state: a third of the workloads that are forked have one fork,
// and so on, at random.
func newCluster(l Config) *cluster {
	c := &cluster{
		client: l.Client, seen: l.Seen, table: l.Table, namespaces: l.Namespaces,
		random: rand.New(rand.NewPCG(l.Seed, 6)), forks: map[types.UID]*workload{}, fast: true,
	}
	for i := range max(1, l.Sandboxes*3/5) {
		c.baselines = append(c.baselines, c.workload("service", i))
	}
	expected := 0
	for _, w := range c.baselines {
		expected += w.objects()
	}
	for range l.Sandboxes {
		s := c.newSandbox()
		c.sandboxes = append(c.sandboxes, s)
		expected += s.objects()
	}
	for i := 0; expected < l.Objects; i++ {
		w := c.workload("other", i)
		c.others = append(c.others, w)
		expected += w.objects()
	}
	return c
}

// workload makes up a workload. Every fourth has two Services, and one, two or three
// pods.
func (c *cluster) workload(kind string, i int) *workload {
	return &workload{
		namespace: fmt.Sprintf("team-%d", i%c.namespaces), name: fmt.Sprintf("%s-%d", kind, i),
		two: i%4 == 0, replicas: int32(1 + i%3), version: 1,
	}
}

// newSandbox makes up a sandbox with one, two or three forks.
func (c *cluster) newSandbox() *sandbox {
	s := &sandbox{name: fmt.Sprintf("feature-%d", c.made)}
	c.made++
	for _, i := range c.random.Perm(len(c.baselines))[:min(1+c.random.IntN(3), len(c.baselines))] {
		s.forks = append(s.forks, &forked{baseline: c.baselines[i], version: 1})
	}
	return s
}

// objects is how many objects a workload is: itself, its Services, its pods.
func (w *workload) objects() int { return 1 + len(w.services()) + int(w.replicas) }

// objects is how many objects a sandbox is: itself, its RoutingConfig, and for each
// fork a ForkedWorkload, a Deployment, its Services and a pod.
func (s *sandbox) objects() int {
	n := 2
	for _, f := range s.forks {
		n += 3 + len(f.baseline.services())
	}
	return n
}

// forksOf is how many forks a workload has.
func (c *cluster) forksOf(w *workload) (n int) {
	for _, s := range c.sandboxes {
		for _, f := range s.forks {
			if f.baseline == w {
				n++
			}
		}
	}
	return n
}

// forkCount is how many forks are to be there.
func (c *cluster) forkCount() (forks, services int) {
	for _, s := range c.sandboxes {
		for _, f := range s.forks {
			forks++
			services += len(f.baseline.services())
		}
	}
	return forks, services
}
