package busy

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Action is one thing that users, or their tools, do.
type Action struct {
	Kind string
	// share is how many of a hundred are of this kind.
	share int
	// begin returns the writes, and none where there is no object for them.
	begin func(c *cluster) sequence
}

// Mix returns what users do. Of what concerns a workload each has the same chance, whether
// it is forked or not.
func Mix() []Action {
	return []Action{
		{"sandbox: another image", 22, (*cluster).pushes},
		{"sandbox: comes", 9, (*cluster).comes},
		{"sandbox: goes", 9, (*cluster).goes},
		{"sandbox: annotated", 10, (*cluster).notesSandbox},
		{"workload: rolled out", 10, (*cluster).rollsOut},
		{"workload: scaled", 10, (*cluster).scales},
		{"workload: annotated", 10, (*cluster).notesWorkload},
		{"workload: a pod evicted", 10, (*cluster).evicts},
		{"Service: another port", 5, (*cluster).ports},
		{"Service: annotated", 5, (*cluster).notesService},
	}
}

// any reserves a sandbox that is not being written; nil when there is none. The caller releases it
// by done.
func (c *cluster) any() *sandbox {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range 20 {
		if len(c.sandboxes) == 0 {
			return nil
		}
		if s := c.sandboxes[c.random.IntN(len(c.sandboxes))]; !s.busy {
			s.busy = true
			return s
		}
	}
	return nil
}

// done releases a sandbox with its current state in the API server.
func (c *cluster) done(s *sandbox, o *crdv1.SignadotSandbox) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.busy = false
	if o.UID != "" {
		s.uid, s.generation = o.UID, o.Generation
	}
}

// one is a sequence of one change, for which the manager has to write so often.
func one(least int, do func(context.Context) error) sequence {
	return sequence{steps: []step{{do: do}}, least: least}
}

// The least numbers of writes that reconcile the parts of one fork. Where it ceases to be ready
// and is so again, ForkedWorkload and sandbox have to report both.
const (
	leastTurns = 2 + 2
	// Its ForkedWorkload and its Deployment.
	leastOfAnImage = 1 + 1 + leastTurns
	// Its Deployment; and the generation of the baseline, in the ForkedWorkload (together with
	// that it is not ready) and in the RoutingConfig.
	leastOfARollOut = 1 + 1 + leastTurns
	// That generation, in both. An annotation of a Deployment counts it, too.
	leastOfAScale = 1 + 1
	// Its Service; and the ports, in the ForkedWorkload and in the RoutingConfig.
	leastOfAPort = 1 + 1 + 1
)

// leastToCome is the least number of writes to create a sandbox: its finalizer, its RoutingConfig
// (itself, finalizer, status), the initial status of the sandbox, and for each fork the
// ForkedWorkload, two updates of its status, Deployment and Services, and the number of ready
// forks in the status of the sandbox.
func (s *sandbox) leastToCome() int {
	n := 1 + 3 + 1
	for _, f := range s.forks {
		n += 1 + 2 + 1 + len(f.baseline.services()) + 1
	}
	return n
}

// leastToGo is the least number of writes to delete a sandbox: the status of its deletion, its
// finalizer, the RoutingConfig and its finalizer, and all objects of each fork.
func (s *sandbox) leastToGo() int {
	n := 2 + 2
	for _, f := range s.forks {
		n += 1 + 1 + len(f.baseline.services())
	}
	return n
}

// pushes: a developer has built another image for one of the forks.
func (c *cluster) pushes() sequence {
	s := c.any()
	if s == nil {
		return sequence{}
	}
	c.mu.Lock()
	f := s.forks[c.random.IntN(len(s.forks))]
	f.version++
	spec := s.object().Spec
	c.mu.Unlock()
	return one(leastOfAnImage, func(ctx context.Context) error {
		o := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
		defer c.done(s, o)
		return c.client.Patch(ctx, o, merge(map[string]any{"spec": map[string]any{"customization": spec.Customization}}))
	})
}

// comes: a sandbox is made.
func (c *cluster) comes() sequence {
	c.mu.Lock()
	s := c.newSandbox()
	s.busy = true
	c.mu.Unlock()
	return one(s.leastToCome(), func(ctx context.Context) error { return c.createSandbox(ctx, s) })
}

func (c *cluster) createSandbox(ctx context.Context, s *sandbox) error {
	o := s.object()
	if err := c.client.Create(ctx, o); err != nil {
		return err
	}
	c.done(s, o)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sandboxes = append(c.sandboxes, s)
	return nil
}

// goes: a sandbox is deleted.
func (c *cluster) goes() sequence {
	s := c.any()
	if s == nil {
		return sequence{}
	}
	c.mu.Lock()
	for i := range c.sandboxes {
		if c.sandboxes[i] == s {
			c.sandboxes = append(c.sandboxes[:i], c.sandboxes[i+1:]...)
			break
		}
	}
	c.gone++
	c.mu.Unlock()
	return one(s.leastToGo(), func(ctx context.Context) error {
		return c.client.Delete(ctx, &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: s.name}})
	})
}

// notesSandbox: a tool leaves a note on a sandbox.
func (c *cluster) notesSandbox() sequence {
	s := c.any()
	if s == nil {
		return sequence{}
	}
	s.noted++
	return one(0, func(ctx context.Context) error {
		o := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
		defer c.done(s, o)
		return c.client.Patch(ctx, o, note(s.noted))
	})
}

// note is what a tool writes on an object.
func note(n int) client.Patch {
	return merge(map[string]any{"metadata": map[string]any{"annotations": map[string]string{"example.com/last-seen": fmt.Sprint(n)}}})
}

// some returns any workload of users, and how many forks it has.
func (c *cluster) some() (w *workload, forks int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		i := c.random.IntN(len(c.baselines) + len(c.others))
		if i < len(c.baselines) {
			w = c.baselines[i]
		} else {
			w = c.others[i-len(c.baselines)]
		}
		if forks = c.forksOf(w); forks > 0 || !c.forked {
			return w, forks
		}
	}
}

func (w *workload) object() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: w.name, Namespace: w.namespace}}
}

// rollsOut: a workload gets another version of both its images.
func (c *cluster) rollsOut() sequence {
	w, forks := c.some()
	return c.change(w, leastOfARollOut*forks, func() client.Patch {
		w.version++
		images := []map[string]string{
			{"name": mainContainer, "image": w.image(mainContainer)}, {"name": besideContainer, "image": w.image(besideContainer)}}
		return strategic(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": images}}}})
	}, c.rollOut)
}

// scales: an autoscaler wants one pod more or less.
func (c *cluster) scales() sequence {
	w, forks := c.some()
	return c.change(w, leastOfAScale*forks, func() client.Patch {
		if w.replicas++; w.replicas > 4 {
			w.replicas = 1
		}
		return merge(map[string]any{"spec": map[string]any{"replicas": w.replicas}})
	}, c.scale)
}

// strategic is a patch that changes items of lists by their names.
func strategic(content map[string]any) client.Patch {
	b, _ := json.Marshal(content) // Texts and numbers: that cannot fail.
	return client.RawPatch(types.StrategicMergePatchType, b)
}

// change changes a Deployment of users; the consequences are queued. patch returns the change
// when its turn comes, and may change w.
func (c *cluster) change(w *workload, least int, patch func() client.Patch, follows func(*workload, int64) sequence) sequence {
	var after sequence
	s := one(least, func(ctx context.Context) error {
		o := w.object()
		err := w.write(ctx, c, o, patch)
		if err == nil {
			after = follows(w, o.Generation)
		}
		return err
	})
	s.follow = func() sequence { return after }
	return s
}

// write writes an object of a workload. Concurrent changes of the same workload wait: the last
// write is the wanted state.
func (w *workload) write(ctx context.Context, c *cluster, o client.Object, patch func() client.Patch) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	w.mu.Lock()
	p := patch()
	w.mu.Unlock()
	return c.client.Patch(ctx, o, p)
}

// notes returns a patch that leaves another note on a workload, or its Service.
func (w *workload) notes() client.Patch {
	w.noted++
	return note(w.noted)
}

// notesWorkload: a tool leaves a note on a workload. Its controller sees that, too.
func (c *cluster) notesWorkload() sequence {
	w, forks := c.some()
	return c.change(w, leastOfAScale*forks, w.notes, c.observe)
}

// evicts: a pod of any workload, also of a fork, has to go from its node.
func (c *cluster) evicts() sequence {
	w, _ := c.some()
	least := 0
	c.mu.Lock()
	if c.forked || c.random.IntN(2) == 0 {
		for _, f := range c.forks { // Any; Go has its own chance.
			w, least = f, leastTurns
			break
		}
	}
	c.mu.Unlock()
	s := c.replace(w)
	s.least = least
	return s
}

// ports: a Service gets another port, or loses those that it got.
func (c *cluster) ports() sequence {
	w, forks := c.some()
	return one(leastOfAPort*forks, func(ctx context.Context) error {
		return w.write(ctx, c, w.firstService(), func() client.Patch {
			w.ports = (w.ports + 1) % 3
			return merge(map[string]any{"spec": map[string]any{"ports": w.services()[0].Spec.Ports}})
		})
	})
}

// morePorts are the ports that users have added.
func (w *workload) morePorts() (out []corev1.ServicePort) {
	for i := range w.ports {
		out = append(out, corev1.ServicePort{Name: fmt.Sprintf("more-%d", i), Protocol: corev1.ProtocolTCP, Port: int32(81 + i), TargetPort: intstr.FromInt32(8080)})
	}
	return out
}

func (w *workload) firstService() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: w.name, Namespace: w.namespace}}
}

// notesService: a tool leaves a note on a Service.
func (c *cluster) notesService() sequence {
	w, _ := c.some()
	return one(0, func(ctx context.Context) error { return w.write(ctx, c, w.firstService(), w.notes) })
}
