package reach

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
)

// forwarder makes what forwards a local port to a pod, until stop is closed; it
// closes ready once the port is open.
type forwarder func(stop <-chan struct{}, ready chan struct{}) (*portforward.PortForwarder, error)

// open forwards a port of the loopback address until ctx ends, and gives it.
func (f forwarder) open(ctx context.Context, pod *corev1.Pod) (string, error) {
	stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	fw, err := f(stop, ready)
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
