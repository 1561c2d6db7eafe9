package reach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

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
