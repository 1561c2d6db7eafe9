// Package reach connects a workstation to a route server, or another program of the operator:
// through the address that the user names, or through the API server of a cluster in the user's
// kubeconfig, by forwarding a port to a pod, as kubectl port-forward does.
//
// Through a kubeconfig it needs permission to list pods and to create pods/portforward in the
// operator's namespace; and to get Deployments there, to explain a missing pod.
package reach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// Target is a program of the operator, as the chart installs it.
type Target struct {
	// Name is the name of the program in messages, without an article: route server.
	Name string
	// Deployment is the name of its Deployment, and Pods the labels of its pods.
	Deployment, Pods string
	// Port is the port that is meant.
	Port int
	// Otherwise is the remedy for a missing program, besides naming the namespace.
	Otherwise string
}

// RouteServer is the gRPC port of route servers.
var RouteServer = Target{Name: "route server", Deployment: "routeserver", Pods: "app=routeserver", Port: 7777, Otherwise: "install the operator"}

// Cluster selects the cluster, and the namespace of the operator in it.
type Cluster struct {
	// Kubeconfig is the file to read; empty for what KUBECONFIG names, or
	// ~/.kube/config.
	Kubeconfig string
	// Context is the context of the kubeconfig; empty for the current one.
	Context string
	// Namespace is the operator's. Required.
	Namespace string
}

// userAgent is the User-Agent, and so the field manager, of the command line. Field manager
// switchyard is the operator's.
const userAgent = "switchyard-cli"

// Rest returns the client configuration for the cluster. The error names the sources that were
// tried.
func (c Cluster) Rest() (*rest.Config, error) {
	config, _, err := c.read()
	return config, err
}

// read is Rest, and returns the current context too, both of one reading of the files.
func (c Cluster) read() (config *rest.Config, current string, err error) {
	rules := c.rules()
	loader := c.loader()
	if config, err = loader.ClientConfig(); clientcmd.IsEmptyConfig(err) {
		return nil, "", fmt.Errorf("there is no kubeconfig with a cluster in it (searched: %s)", strings.Join(rules.GetLoadingPrecedence(), ", "))
	}
	if err != nil {
		return nil, "", fmt.Errorf("the kubeconfig cannot be used: %w", err)
	}
	if raw, err := loader.RawConfig(); err == nil {
		current = raw.CurrentContext
	}
	config.UserAgent = userAgent
	return config, current, nil
}

// Forward forwards a local port to a ready pod of a program, and returns its local address. The
// port stays open until ctx ends. The error names the missing Deployment, pods or rights.
func (c Cluster) Forward(ctx context.Context, to Target) (string, error) {
	config, err := c.Rest()
	if err != nil {
		return "", err
	}
	return c.forward(ctx, config, to)
}

func (c Cluster) forward(ctx context.Context, config *rest.Config, to Target) (string, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", fmt.Errorf("the kubeconfig cannot be used: %w", err)
	}
	pods, err := c.Ready(ctx, client, config.Host, to)
	if err != nil {
		return "", err
	}
	return Forward(ctx, client, config, &pods[0], to.Port)
}

// Ready returns the pods of a program that are ready, at least one. host is the address of the API server. The error
// names the missing Deployment, pods or rights.
func (c Cluster) Ready(ctx context.Context, client kubernetes.Interface, host string, to Target) (ready []corev1.Pod, err error) {
	pods, err := Again(func() (*corev1.PodList, error) {
		return client.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: to.Pods})
	})
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("the pods in namespace %s may not be listed; ask for the rights to list pods and to create pods/portforward there: %w", c.Namespace, err)
	case apierrors.IsUnauthorized(err):
		return nil, Explained(fmt.Errorf("list the pods in namespace %s of the cluster at %s: %w", c.Namespace, host, err))
	case err != nil:
		return nil, fmt.Errorf("the cluster at %s does not answer: %w", host, err)
	case len(pods.Items) == 0:
		return nil, c.absent(ctx, client, host, to)
	}
	var phases []string
	for _, p := range pods.Items {
		if isReady(&p) {
			ready = append(ready, p)
		}
		phases = append(phases, fmt.Sprintf("%s is %s", p.Name, p.Status.Phase))
	}
	if len(ready) > 0 {
		return ready, nil
	}
	return nil, fmt.Errorf("no %s in namespace %s is ready (%s); see: kubectl describe pods -n %s -l %s",
		to.Name, c.Namespace, strings.Join(phases, ", "), c.Namespace, to.Pods)
}

// absent returns why there is no pod of a program: it is not installed, or has
// none at the moment. Without the right to see its Deployment it may be either.
func (c Cluster) absent(ctx context.Context, client kubernetes.Interface, host string, to Target) error {
	_, err := client.AppsV1().Deployments(c.Namespace).Get(ctx, to.Deployment, metav1.GetOptions{})
	switch {
	case err == nil:
		return fmt.Errorf("the %s is installed in namespace %s of the cluster at %s, but has no pod: it may be scaled to 0, or its pods be refused; see: kubectl describe deployment/%s replicasets -n %s",
			to.Name, c.Namespace, host, to.Deployment, c.Namespace)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no %s in namespace %s of the cluster at %s: %s, or name its namespace with --namespace-of-operator", to.Name, c.Namespace, host, to.Otherwise)
	}
	return fmt.Errorf("there is no pod of a %s in namespace %s of the cluster at %s, and whether the operator is installed there could not be read: name its namespace with --namespace-of-operator, or see: kubectl get deployment/%s -n %s: %w",
		to.Name, c.Namespace, host, to.Deployment, c.Namespace, err)
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil
		}
	}
	return false
}

// Forward forwards a port of the loopback address to a port of a pod until ctx ends, and
// returns its address.
func Forward(ctx context.Context, client kubernetes.Interface, config *rest.Config, pod *corev1.Pod, port int) (string, error) {
	dialer, err := dialerTo(client, config, pod)
	if err != nil {
		return "", fmt.Errorf("forward a port: %w", err)
	}
	stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	fw, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return "", fmt.Errorf("forward a port to pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	go func() { ended <- fw.ForwardPorts() }()
	context.AfterFunc(ctx, func() { close(stop) })
	select {
	case <-ready:
	case err := <-ended:
		if err == nil {
			err = errors.New("the connection ended")
		}
		return "", fmt.Errorf("forward a port to pod %s/%s (it takes the right to create pods/portforward): %w", pod.Namespace, pod.Name, err)
	case <-ctx.Done():
		return "", ctx.Err()
	}
	ports, err := fw.GetPorts()
	if err != nil {
		return "", fmt.Errorf("forward a port to pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local), nil
}

// dialerTo returns what connects to the ports of a pod. WebSockets pass more proxies; API
// servers before 1.30 speak SPDY only.
func dialerTo(client kubernetes.Interface, config *rest.Config, pod *corev1.Pod) (httpstream.Dialer, error) {
	url := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	tunnel, err := portforward.NewSPDYOverWebsocketDialer(url, config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	return portforward.NewFallbackDialer(tunnel, old, func(err error) bool { return err != nil }), nil
}

// Stranger is the message for an API server that does not accept the user's credentials, and Login
// the remedy.
const (
	Stranger = "the cluster does not know who you are: it does not take the token or the credentials of the kubeconfig"
	Login    = "log in to it again"
)

// StrangerError is the error of an API server that does not accept the user's credentials.
type StrangerError struct{ err error }

// Error implements error.
func (s *StrangerError) Error() string { return fmt.Sprintf("%s; %s (%v)", Stranger, Login, s.err) }

// Unwrap returns the error of the API server.
func (s *StrangerError) Unwrap() error { return s.err }

// Again sends a request to an API server, and retries once if the credentials were not accepted: a
// plugin of the kubeconfig requests a new token after a rejection.
func Again[T any](ask func() (T, error)) (T, error) {
	answer, err := ask()
	if apierrors.IsUnauthorized(err) {
		return ask()
	}
	return answer, err
}

// Explained wraps an Unauthorized error of an API server into a StrangerError, once; it returns
// other errors unchanged.
func Explained(err error) error {
	var said *StrangerError
	if !apierrors.IsUnauthorized(err) || errors.As(err, &said) {
		return err
	}
	return &StrangerError{err}
}
