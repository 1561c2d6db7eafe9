// Package kubelet acts as the node of the pods of units: it really runs their containers, each in a
// separate file system, with the token that the API server issues for the pod, and reports their
// state in the status. Their pods can be killed (die.go).
//
// It supports only the features of pods that units use, and starts nothing twice.
package kubelet

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/wait"
)

// Image is what a container runs that names it.
type Image struct {
	// Root is the folder with its file system.
	Root string
	// Entrypoint is what runs where the container has no command.
	Entrypoint string
}

// Config is what a Kubelet needs.
type Config struct {
	// Access is the kubelet's own, Others that of those who delete pods and make tokens.
	Access, Others *rest.Config
	// Dir is an empty folder, for volumes and logs.
	Dir string
	// Images are all that there are, by name.
	Images map[string]Image
	// Logger logs errors.
	Logger *slog.Logger
}

// node is the name of the node.
const node = "sweep"

// How often pods are listed, and how long a container may take to end after SIGTERM.
const (
	lookPause = 20 * time.Millisecond
	grace     = time.Second
)

// Kubelet runs pods. Make one with New.
type Kubelet struct {
	config       Config
	kube, others kubernetes.Interface

	mu   sync.Mutex
	pods map[string]*pod
	// all are those that there were, oldest first.
	all     []*pod
	running sync.WaitGroup
}

// New returns a Kubelet.
func New(c Config) (*Kubelet, error) {
	k := &Kubelet{config: c, pods: map[string]*pod{}}
	var err error
	if k.kube, err = kubernetes.NewForConfig(c.Access); err != nil {
		return nil, err
	}
	k.others, err = kubernetes.NewForConfig(c.Others)
	return k, err
}

// Run runs pods until ctx ends, and then ends all containers.
func (k *Kubelet) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := k.look(ctx); err != nil && ctx.Err() == nil {
			k.config.Logger.Warn("the kubelet tries again", "error", err)
		}
		_ = wait.For(ctx, lookPause)
	}
	k.mu.Lock()
	for _, p := range k.all {
		p.kill()
	}
	k.mu.Unlock()
	k.running.Wait()
}

// look sees to pods that have come, and to those that are to go.
func (k *Kubelet) look(ctx context.Context) error {
	list, err := k.others.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: crdv1.LabelLifecycle})
	if err != nil {
		return err
	}
	for i := range list.Items {
		o := &list.Items[i]
		k.mu.Lock()
		p, known := k.pods[string(o.UID)]
		if !known && o.DeletionTimestamp == nil {
			p = newPod(k, o, filepath.Join(k.config.Dir, string(o.UID)))
			k.pods[string(o.UID)] = p
			k.all = append(k.all, p)
			k.running.Go(func() { p.live(ctx) })
		}
		k.mu.Unlock()
		if known && o.DeletionTimestamp != nil {
			p.terminate()
			p.let(ctx, o)
		}
	}
	return nil
}

// Attempt is what became of the pod of an attempt.
type Attempt struct {
	// Unit and Number identify the attempt, and Pod is the UID of the pod.
	Unit, Number, Pod string
	// Way is how the pod died; empty when it was let live.
	Way Way
	// Code is the exit code of the main container; -1 when it was not seen to end.
	Code int
	// Kept is set when the container that submits outputs has succeeded.
	Kept bool
}

// Attempts returns all that there were, oldest first.
func (k *Kubelet) Attempts() []Attempt {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []Attempt
	for _, p := range k.all {
		out = append(out, p.attempt())
	}
	return out
}

// Alive reports whether a pod lives.
func (k *Kubelet) Alive() bool { return len(k.alive()) > 0 }

// alive returns the pods that have not ended.
func (k *Kubelet) alive() []*pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []*pod
	for _, p := range k.all {
		if p.lives() {
			out = append(out, p)
		}
	}
	return out
}

// env returns the environment of a container.
func env(p *corev1.Pod, c corev1.Container) []string {
	out := []string{}
	for _, v := range c.Env {
		if v.ValueFrom != nil && v.ValueFrom.FieldRef != nil && v.ValueFrom.FieldRef.FieldPath == "metadata.uid" {
			v.Value = string(p.UID)
		}
		out = append(out, v.Name+"="+v.Value)
	}
	return out
}
