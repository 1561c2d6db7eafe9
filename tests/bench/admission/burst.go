package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/inject"
)

// owners is how many ReplicaSets the pods of a burst belong to.
const owners = 20

// burst is what creating many pods took.
type burst struct {
	// took is how long each pod's creation took, ascending.
	took     []time.Duration
	lasted   time.Duration
	injected int
}

// creators are clients, each with a separate connection, and the ReplicaSets that own their pods.
type creators struct {
	clients []*kubernetes.Clientset
	sets    []*appsv1.ReplicaSet
}

func (r *rig) creators(ctx context.Context, n int) (*creators, error) {
	c := &creators{}
	for range n {
		client, err := kubernetes.NewForConfig(r.access())
		if err != nil {
			return nil, err
		}
		c.clients = append(c.clients, client)
	}
	for i := range owners {
		labels := map[string]string{"app": "app-" + strconv.Itoa(i), "pod-template-hash": "7d9f"}
		set := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("app-%d-7d9f", i), Labels: labels},
			Spec: appsv1.ReplicaSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec()},
			},
		}
		made, err := r.client.AppsV1().ReplicaSets(shop).Create(ctx, set, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		c.sets = append(c.sets, made)
	}
	return c, nil
}

// podSpec is an ordinary pod's: some environment, probes and two containers.
func podSpec() corev1.PodSpec {
	app := corev1.Container{Name: "app", Image: "app:1", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}}}}
	for i := range 30 {
		app.Env = append(app.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", i), Value: "a value of ordinary length"})
	}
	return corev1.PodSpec{ServiceAccountName: "default", Containers: []corev1.Container{app, {Name: "log", Image: "log:1"}}}
}

// pod is number i of a burst.
func (c *creators) pod(i int, asks bool) *corev1.Pod {
	set := c.sets[i%len(c.sets)]
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		GenerateName: set.Name + "-", Labels: set.Labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
	}, Spec: podSpec()}
	if asks {
		pod.Annotations = map[string]string{inject.AnnotationInject: "true"}
	}
	return pod
}

// create creates n pods as fast as it can, and takes them away again.
func (c *creators) create(ctx context.Context, n int, asks bool) (burst, error) {
	var b burst
	var mu sync.Mutex
	var all sync.WaitGroup
	var errs []error
	numbers := make(chan int, n)
	for i := range n {
		numbers <- i
	}
	close(numbers)
	began := time.Now()
	for _, client := range c.clients {
		all.Go(func() {
			for i := range numbers {
				began := time.Now()
				pod, err := client.CoreV1().Pods(shop).Create(ctx, c.pod(i, asks), metav1.CreateOptions{})
				took := time.Since(began)
				mu.Lock()
				if err != nil {
					errs = append(errs, err)
				} else if b.took = append(b.took, took); hasSidecar(pod) {
					b.injected++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	b.lasted = time.Since(began)
	slices.Sort(b.took)
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	cleared := c.clients[0].CoreV1().Pods(shop).DeleteCollection(ctx, now, metav1.ListOptions{})
	if len(errs) > 0 {
		return b, errors.Join(fmt.Errorf("%d of %d pods were not created; the first: %w", len(errs), n, errs[0]), cleared)
	}
	return b, cleared
}

func hasSidecar(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == devmesh.ContainerName })
}
