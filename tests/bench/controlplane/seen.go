package main

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// seen is what the clusters have received: each write of a sandbox has a mark of its own, its description.
type seen struct {
	mu     sync.Mutex
	at     map[string]time.Time // by mark
	writes map[string]int       // by mark
	last   map[string]string    // the mark of each sandbox
}

func newSeen() *seen {
	return &seen{at: map[string]time.Time{}, writes: map[string]int{}, last: map[string]string{}}
}

// note records a write of an object.
func (s *seen) note(o *unstructured.Unstructured) {
	mark := o.GetAnnotations()[crdv1.AnnotationDescription]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at[mark].IsZero() {
		s.at[mark] = time.Now()
	}
	s.writes[mark]++
	s.last[o.GetName()] = mark
}

// when returns when the clusters received a mark; zero: not yet.
func (s *seen) when(mark string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at[mark]
}

// doubled returns how many writes of a specification were received again.
func (s *seen) doubled() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, writes := range s.writes {
		n += writes - 1
	}
	return n
}

// watch notes the writes in a real API server until ctx ends.
func (s *seen) watch(ctx context.Context, access *rest.Config) error {
	c, err := dynamic.NewForConfig(access)
	if err != nil {
		return err
	}
	w, err := c.Resource(schema.GroupVersionResource{Group: crdv1.Group, Version: "v1", Resource: "signadotsandboxes"}).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	go func() {
		defer w.Stop()
		for e := range w.ResultChan() {
			if o, is := e.Object.(*unstructured.Unstructured); is {
				s.note(o)
			}
		}
	}()
	return nil
}

// ready is the status of a sandbox that is ready.
func ready(o *unstructured.Unstructured) map[string]any {
	return map[string]any{
		"conditions": []any{map[string]any{
			"type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": o.GetGeneration(), "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}},
	}
}
