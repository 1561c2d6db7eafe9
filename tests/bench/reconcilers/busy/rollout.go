package busy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/sidecars/devmesh"
)

// kindPodEnded is the step that is done also when the sequence has been stopped in between:
// nothing else ends that pod.
const kindPodEnded = "pod ended"

// node is where all pods are.
const node = "node-1"

// step is one change, which becomes due some time after the one before.
type step struct {
	kind  string
	after time.Duration
	do    func(context.Context) error
}

// sequence is changes that follow from one another.
type sequence struct {
	steps []step
	// live reports whether there is still a reason for them.
	live func() bool
	// follow returns the consequences of the last of them, after it was made; nil for none.
	follow func() sequence
	// least is the least number of writes of the manager that reconcile them.
	least int
}

// The time that a cluster takes for its own steps: controllers react, and a kubelet starts
// containers.
const (
	acts   = 50 * time.Millisecond
	starts = 200 * time.Millisecond
)

// rollOut returns the steps after a Deployment has a new form: its status, and one pod after the
// other in the new form instead of an old one.
func (c *cluster) rollOut(w *workload, generation int64) sequence {
	w.mu.Lock()
	replicas, old := int(w.replicas), slices.Clone(w.pods)
	w.mu.Unlock()
	// Pods that were there stay available until the last new one is.
	total := len(old)
	steps := []step{c.deploymentStatus(w, generation, total, 0, min(total, replicas))}
	for i := range replicas {
		var gone []step
		if i < len(old) {
			gone = c.podGoes(w, old[i])
		} else {
			total++
		}
		if i == replicas-1 {
			for _, name := range old[min(len(old), replicas):] {
				gone, total = append(gone, c.podGoes(w, name)...), total-1
			}
		}
		steps = append(steps, c.podComes(w)...)
		steps = append(steps, gone...)
		steps = append(steps, c.deploymentStatus(w, generation, total, i+1, max(i+1, min(total, replicas))))
	}
	if c.fast {
		steps = steps[:0]
		for range replicas {
			steps = append(steps, c.podComes(w)...)
		}
		steps = append(steps, c.deploymentStatus(w, generation, replicas, replicas, replicas))
	}
	return w.begin(generation, steps)
}

// begin makes a sequence of steps for the pods of a workload. Any other sequence under way for
// them stops.
func (w *workload) begin(generation int64, steps []step) sequence {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun++
	w.generation = generation
	begun := w.begun
	last := &steps[len(steps)-1]
	do := last.do
	last.do = func(ctx context.Context) error {
		err := do(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended = begun
		return err
	}
	return sequence{steps: steps, live: func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.begun == begun
	}}
}

// observe returns the steps after a Deployment has changed and its pods stay as they are: its
// controller updates observedGeneration.
func (c *cluster) observe(w *workload, generation int64) sequence {
	w.mu.Lock()
	n, busy := int(w.replicas), w.begun != w.ended
	w.mu.Unlock()
	if busy {
		return c.rollOut(w, generation) // It has to begin again, for this generation.
	}
	return w.begin(generation, []step{c.deploymentStatus(w, generation, n, n, n)})
}

// scale returns the steps after a Deployment has another number of replicas.
func (c *cluster) scale(w *workload, generation int64) sequence {
	w.mu.Lock()
	replicas, have, busy := int(w.replicas), slices.Clone(w.pods), w.begun != w.ended
	w.mu.Unlock()
	if busy {
		return c.rollOut(w, generation) // It has to begin again, with this number.
	}
	var steps []step
	if len(have) < replicas {
		steps = append(steps, c.deploymentStatus(w, generation, replicas, replicas, len(have)))
		for range replicas - len(have) {
			steps = append(steps, c.podComes(w)...)
		}
	}
	for _, name := range have[min(replicas, len(have)):] {
		steps = append(steps, c.podGoes(w, name)...)
	}
	return w.begin(generation, append(steps, c.deploymentStatus(w, generation, replicas, replicas, replicas)))
}

// replace returns the steps after a pod is evicted: another one replaces it. There are no
// evictions while more is under way.
func (c *cluster) replace(w *workload) sequence {
	w.mu.Lock()
	n, generation, pods, busy := int(w.replicas), w.generation, slices.Clone(w.pods), w.begun != w.ended
	w.mu.Unlock()
	if busy || len(pods) == 0 {
		return sequence{}
	}
	steps := append(c.podGoes(w, pods[0]), c.deploymentStatus(w, generation, n, n, n-1))
	steps = append(steps, c.podComes(w)...)
	return w.begin(generation, append(steps, c.deploymentStatus(w, generation, n, n, n)))
}

// deploymentStatus is what the Deployment controller writes.
func (c *cluster) deploymentStatus(w *workload, generation int64, total, updated, available int) step {
	return step{"Deployment status", acts, func(ctx context.Context) error {
		now := metav1.Now()
		status := map[string]any{
			"observedGeneration": generation, "replicas": total, "updatedReplicas": updated,
			"readyReplicas": available, "availableReplicas": available, "unavailableReplicas": max(0, total-available),
			"conditions": []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "ReplicaSetUpdated",
					Message: fmt.Sprintf("ReplicaSet %q has %d updated.", w.name+"-"+podHash, updated), LastUpdateTime: now, LastTransitionTime: now},
				{Type: appsv1.DeploymentAvailable, Status: truth(available > 0 || total == 0), Reason: "MinimumReplicas",
					LastUpdateTime: now, LastTransitionTime: now},
			},
		}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: w.name, Namespace: w.namespace}}
		return c.client.Status().Patch(ctx, d, merge(map[string]any{"status": status}))
	}}
}

func truth(yes bool) corev1.ConditionStatus {
	if yes {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

// podComes is a pod from when a ReplicaSet makes it until its kubelet calls it ready.
func (c *cluster) podComes(w *workload) []step {
	w.mu.Lock()
	name := fmt.Sprintf("%s-%s-%d", w.name, podHash, w.next)
	w.next++
	w.mu.Unlock()
	fast := c.fast
	comes := step{"pod made", acts, func(ctx context.Context) error {
		pod := w.newPod(name)
		if fast {
			pod.Spec.NodeName = node
		}
		if err := c.client.Create(ctx, pod); err != nil {
			return err
		}
		w.mu.Lock()
		w.pods = append(w.pods, name)
		w.mu.Unlock()
		return nil
	}}
	bound := step{"pod bound", acts, func(ctx context.Context) error {
		return c.client.SubResource("binding").Create(ctx, named(w.namespace, name),
			&corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}})
	}}
	ready := c.podStatus(w, name, starts, corev1.PodRunning, true, true)
	if fast {
		return []step{comes, ready}
	}
	return []step{comes, bound,
		c.podStatus(w, name, acts, corev1.PodPending, false, false),
		c.podStatus(w, name, starts, corev1.PodPending, true, false),
		c.podStatus(w, name, starts, corev1.PodRunning, true, false), ready}
}

// podStatus writes the status of a pod as a kubelet does: whether its sidecar is ready, and its
// own containers.
func (c *cluster) podStatus(w *workload, name string, after time.Duration, phase corev1.PodPhase, sidecar, own bool) step {
	return step{"pod status", after, func(ctx context.Context) error {
		status := corev1.PodStatus{
			Phase: phase, PodIP: "10.244.1.17", HostIP: "10.1.1.1", StartTime: new(metav1.Now()),
			InitContainerStatuses: []corev1.ContainerStatus{container(devmesh.ContainerName, sidecar, sidecar)},
			ContainerStatuses: []corev1.ContainerStatus{
				container(mainContainer, phase == corev1.PodRunning, own), container(besideContainer, phase == corev1.PodRunning, own)},
		}
		for _, t := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady, corev1.PodScheduled} {
			status.Conditions = append(status.Conditions, corev1.PodCondition{Type: t, Status: truth(own), LastTransitionTime: metav1.Now()})
		}
		return c.client.Status().Patch(ctx, named(w.namespace, name), merge(map[string]any{"status": status}))
	}}
}

// container is the state of a container.
func container(name string, running, ready bool) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: name, Ready: ready, Image: "registry.example/" + name, ImageID: "registry.example/" + name + "@sha256:0123456789abcdef"}
	if running {
		s.State.Running, s.Started = &corev1.ContainerStateRunning{StartedAt: metav1.Now()}, &ready
	} else {
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
	}
	return s
}

// podGoes is a pod from when it is deleted until its kubelet has stopped it. One that
// no node has goes at once.
func (c *cluster) podGoes(w *workload, name string) []step {
	forget := func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.pods = slices.DeleteFunc(w.pods, func(p string) bool { return p == name })
	}
	return []step{
		{"pod deleted", acts, func(ctx context.Context) error {
			forget()
			return c.client.Delete(ctx, named(w.namespace, name))
		}},
		{kindPodEnded, starts, func(ctx context.Context) error {
			return c.client.Delete(ctx, named(w.namespace, name), client.GracePeriodSeconds(0))
		}},
	}
}

// leave returns the steps after the Deployment of a fork is deleted: its pods are deleted.
func (c *cluster) leave(w *workload) sequence {
	w.mu.Lock()
	w.begun++
	pods := slices.Clone(w.pods)
	w.mu.Unlock()
	var steps []step
	for _, name := range pods {
		steps = append(steps, c.podGoes(w, name)...)
	}
	return sequence{steps: steps}
}

func named(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// merge is a patch that changes the named fields.
func merge(content map[string]any) client.Patch {
	b, _ := json.Marshal(content) // Texts and numbers: that cannot fail.
	return client.RawPatch(types.MergePatchType, b)
}

// overtaken reports whether a change failed because its object was deleted: the manager deletes
// Deployments of forks at any time.
func overtaken(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }
