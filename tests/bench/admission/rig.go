package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-logr/logr"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/port"
)

const (
	operator = "signadot"
	shop     = "shop"
	// patience is how long something may take to come about.
	patience = 2 * time.Minute
)

// rig is an API server with the chart's webhook, and places for it to be at.
type rig struct {
	server                   *apiserver.Server
	client                   *kubernetes.Clientset
	webhook, health, metrics string
	hooks                    *registrationv1.MutatingWebhookConfiguration
}

// start starts the API server, without the webhook's configuration. The caller
// stops it.
func start(ctx context.Context) (r *rig, err error) {
	ctrllog.SetLogger(logr.Discard())
	r = &rig{hooks: &registrationv1.MutatingWebhookConfiguration{}}
	if err := apiserver.FromChart("default", "MutatingWebhookConfiguration", r.hooks); err != nil {
		return nil, err
	}
	for _, place := range []*string{&r.webhook, &r.health, &r.metrics} {
		free, err := port.Free()
		if err != nil {
			return nil, err
		}
		*place = fmt.Sprint("127.0.0.1:", free)
	}
	if r.server, err = apiserver.Start(); err != nil {
		return nil, err
	}
	if err := r.furnish(ctx); err != nil {
		return nil, errors.Join(err, r.server.Stop())
	}
	return r, nil
}

// furnish makes the namespaces and the Service that resolves to this machine.
func (r *rig) furnish(ctx context.Context) (err error) {
	if r.client, err = kubernetes.NewForConfig(r.server.Config); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(r.webhook)
	if err != nil {
		return err
	}
	number, err := net.LookupPort("tcp", port)
	if err != nil {
		return err
	}
	for i := range r.hooks.Webhooks {
		r.hooks.Webhooks[i].ClientConfig.Service.Port = new(int32(number))
	}
	return r.server.Create(ctx, apiserver.Namespace(operator), apiserver.Namespace(shop), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: operator, Name: r.hooks.Webhooks[0].ClientConfig.Service.Name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	})
}

// register creates the chart's webhook configuration in the API server, or deletes it.
func (r *rig) register(ctx context.Context, there bool) error {
	hooks := r.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if !there {
		return hooks.Delete(ctx, r.hooks.Name, metav1.DeleteOptions{})
	}
	_, err := hooks.Create(ctx, r.hooks, metav1.CreateOptions{})
	return err
}

// orders are those of a manager at the rig's places.
func (r *rig) orders() Orders {
	return Orders{Access: r.server.Access(), Webhook: r.webhook, Health: r.health, Metrics: r.metrics}
}

// access returns a configuration with a separate connection.
func (r *rig) access() *rest.Config {
	c := rest.CopyConfig(r.server.Config)
	c.Dial = new(net.Dialer).DialContext
	return c
}
