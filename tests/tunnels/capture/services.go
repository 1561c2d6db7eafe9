package capture

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
)

// clusterIPs is the range of Service addresses that the API server assigns; ServicePort is the port
// of all Services.
const (
	clusterIPs  = "10.0.0.0/24"
	ServicePort = 80
)

// Services does for the Services of the namespace what kube-proxy does on a node: connections to
// their addresses go to a ready endpoint. While the API server is unavailable it uses the last
// state. It notes each connection to a tunnel proxy.
type Services struct {
	services corelisters.ServiceNamespaceLister
	slices   discoverylisters.EndpointSliceNamespaceLister

	mu sync.Mutex
	// forwarded are the connections with bytes from the upstream, as the proxy identifies them.
	forwarded []Forwarded
}

// Forwarded is a connection that a tunnel proxy forwarded: its address in the audit log, and the address
// of the proxy's pod.
type Forwarded struct{ At, Pod string }

// WatchServices begins to forward connections to the Services of a namespace.
func WatchServices(ctx context.Context, kube kubernetes.Interface, namespace string) (*Services, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(namespace))
	s := &Services{
		services: factory.Core().V1().Services().Lister().Services(namespace),
		slices:   factory.Discovery().V1().EndpointSlices().Lister().EndpointSlices(namespace),
	}
	synced := []cache.InformerSynced{factory.Core().V1().Services().Informer().HasSynced, factory.Discovery().V1().EndpointSlices().Informer().HasSynced}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil, fmt.Errorf("the Services are not known: %w", context.Cause(ctx))
	}
	if err := ownRange(clusterIPs); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp4", ":"+strconv.Itoa(ServicePort))
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // the program ends
			}
			go s.forward(conn)
		}
	}()
	return s, nil
}

// Of rtnetlink(7): an address of this machine, and the table of those.
const (
	rtnLocal   = 2
	tableLocal = 255
)

// ownRange makes all addresses of a range this machine's own.
func ownRange(cidr string) error {
	_, addresses, err := net.ParseCIDR(cidr)
	if err != nil {
		return err
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: addresses, Type: rtnLocal, Table: tableLocal, Scope: netlink.SCOPE_HOST})
}

// IP returns the address of a Service.
func (s *Services) IP(name string) (string, error) {
	of, err := s.services.Get(name)
	if err != nil {
		return "", err
	}
	return of.Spec.ClusterIP, nil
}

// endpoint returns where connections to a Service's address go; empty: nowhere.
func (s *Services) endpoint(ip string) string {
	all, _ := s.services.List(labels.Everything()) // it is from memory
	var of *corev1.Service
	for _, one := range all {
		if one.Spec.ClusterIP == ip {
			of = one
		}
	}
	if of == nil {
		return ""
	}
	selector := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: of.Name})
	slices, _ := s.slices.List(selector)
	var ends []string
	for _, slice := range slices {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready == nil || !*e.Conditions.Ready {
				continue
			}
			for _, p := range slice.Ports {
				if len(of.Spec.Ports) == 1 && p.Port != nil {
					ends = append(ends, net.JoinHostPort(e.Addresses[0], fmt.Sprint(*p.Port)))
				}
			}
		}
	}
	if len(ends) == 0 {
		return ""
	}
	return ends[rand.N(len(ends))]
}

// forward forwards one connection.
func (s *Services) forward(in net.Conn) {
	host, _, _ := net.SplitHostPort(in.LocalAddr().String())
	to := s.endpoint(host)
	if to == "" {
		cut(in)
		return
	}
	Join(in, func() (net.Conn, error) {
		out, err := net.Dial("tcp", to)
		if err != nil {
			return nil, err
		}
		pod, _, _ := net.SplitHostPort(to)
		return &noting{Conn: out, note: sync.OnceFunc(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.forwarded = append(s.forwarded, Forwarded{out.LocalAddr().String(), pod})
		})}, nil
	})
}

// Captured returns the connections so far.
func (s *Services) Captured() []Forwarded {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Forwarded(nil), s.forwarded...)
}

// noting takes note when the first byte has come.
type noting struct {
	net.Conn
	note func()
}

// Read implements net.Conn.
func (n *noting) Read(p []byte) (int, error) {
	c, err := n.Conn.Read(p)
	if c > 0 {
		n.note()
	}
	return c, err
}

// CloseWrite closes the sending side.
func (n *noting) CloseWrite() error { return n.Conn.(*net.TCPConn).CloseWrite() }

// cut resets a connection.
func cut(c net.Conn) {
	if t, is := c.(*net.TCPConn); is {
		_ = t.SetLinger(0) // a reset
	}
	_ = c.Close()
}

// Join forwards a connection to another one, half by half; a failure of either is one of both.
func Join(in net.Conn, dial func() (net.Conn, error)) {
	out, err := dial()
	if err != nil {
		cut(in)
		return
	}
	done := make(chan error, 2)
	half := func(to, from net.Conn) {
		_, err := io.Copy(to, onlyReads{from})
		if err == nil {
			err = to.(interface{ CloseWrite() error }).CloseWrite()
		}
		done <- err
	}
	go half(out, in)
	go half(in, out)
	if err := <-done; err == nil {
		err = <-done
		if err == nil {
			_, _ = in.Close(), out.Close()
			return
		}
	}
	cut(in)
	if n, is := out.(*noting); is {
		cut(n.Conn)
		return
	}
	cut(out)
}

// onlyReads hides what else a connection can do, so that each byte passes Read.
type onlyReads struct{ io.Reader }
