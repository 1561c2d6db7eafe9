package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/tools/wait"
)

// namespace is where all pods run.
const namespace = "bench"

// cluster is the cluster to measure.
type cluster struct {
	client.WithWatch
	kube kubernetes.Interface
	raw  rest.Interface
}

func open() (*cluster, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	config.QPS = -1
	c := &cluster{}
	if c.WithWatch, err = client.NewWithWatch(config, client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
		return nil, err
	}
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	c.raw = c.kube.CoreV1().RESTClient()
	return c, nil
}

// follow watches objects like o from now on, until see returns true.
func (c *cluster) follow(ctx context.Context, o *unstructured.Unstructured, see func(o *unstructured.Unstructured) (bool, error), options ...client.ListOption) (<-chan error, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(o.GroupVersionKind())
	w, err := c.Watch(ctx, list, append(options, client.InNamespace(o.GetNamespace()))...)
	if err != nil {
		return nil, err
	}
	seen := make(chan error, 1)
	go func() {
		defer w.Stop()
		for event := range w.ResultChan() {
			now, is := event.Object.(*unstructured.Unstructured)
			if !is {
				seen <- fmt.Errorf("a watch of %s failed: %v", o.GetKind(), event.Object)
				return
			}
			if enough, err := see(now); enough || err != nil {
				seen <- err
				return
			}
		}
		seen <- errors.Join(ctx.Err(), fmt.Errorf("a watch of %s ended", o.GetKind()))
	}()
	return seen, nil
}

// remove deletes an object, and waits until neither it nor a pod is left.
func (c *cluster) remove(ctx context.Context, o *unstructured.Unstructured) error {
	if err := c.Delete(ctx, o, client.PropagationPolicy("Background")); err != nil {
		return err
	}
	return wait.Until(ctx, 2*time.Minute, o.GetKind()+" "+o.GetName()+" goes", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopy()); client.IgnoreNotFound(err) != nil || err == nil {
			return errors.Join(err, errors.New("it is there"))
		}
		return c.empty(ctx)
	})
}

// empty returns nil when no pod is left.
func (c *cluster) empty(ctx context.Context) error {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return err
	}
	if len(pods.Items) > 0 {
		return fmt.Errorf("there are %d pods", len(pods.Items))
	}
	return nil
}
