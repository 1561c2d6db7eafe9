package forwarded

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"switchyard.dev/tools/wait"
)

// persistent is a port-forward that is established again whenever it ends: a client ends one, with all
// its connections, when the pod resets the first of them.
type persistent struct {
	address string
	times   atomic.Int64
}

// persist forwards a port of the loopback address to a port of a pod until ctx ends.
func (s *site) persist(ctx context.Context, pod *corev1.Pod, port int) (*persistent, error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &persistent{address: free.Addr().String()}
	if err := free.Close(); err != nil {
		return nil, err
	}
	_, local, err := net.SplitHostPort(p.address)
	if err != nil {
		return nil, err
	}
	url := s.world.Client().CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(s.world.Config())
	if err != nil {
		return nil, err
	}
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	go func() {
		for ctx.Err() == nil {
			forward, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{local + ":" + strconv.Itoa(port)}, ctx.Done(), make(chan struct{}), io.Discard, io.Discard)
			if err == nil {
				p.times.Add(1)
				_ = forward.ForwardPorts() // the next attempt replaces it
			}
			_ = wait.For(ctx, 10*time.Millisecond)
		}
	}()
	err = wait.Until(ctx, patience, fmt.Sprintf("port %d of pod %s is forwarded", port, pod.Name), func() error {
		c, err := net.Dial("tcp", p.address)
		if err == nil {
			err = c.Close()
		}
		return err
	})
	return p, err
}
