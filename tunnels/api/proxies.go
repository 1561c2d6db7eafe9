package api

import (
	"net/netip"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
)

// proxyService is the Service of the tunnel proxies, through which workstations call.
const proxyService = "tunnel-proxy"

// Proxies are the addresses of the tunnel proxies: they forward the calls of many users, and so
// identify no caller. It is safe for concurrent use.
type Proxies struct {
	mu     sync.Mutex
	slices map[types.NamespacedName][]netip.Addr
}

// Has implements callers.Forwards.
func (p *Proxies) Has(a netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, all := range p.slices {
		for _, one := range all {
			if one == a {
				return true
			}
		}
	}
	return false
}

// handler returns the event handler that keeps the addresses current.
func (p *Proxies) handler() toolscache.ResourceEventHandlerFuncs {
	set := func(o any, deleted bool) {
		if last, is := o.(toolscache.DeletedFinalStateUnknown); is {
			o = last.Obj
		}
		if s, is := o.(*discoveryv1.EndpointSlice); is {
			p.set(s, deleted)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: func(o any) { set(o, false) },
		UpdateFunc: func(_, o any) { set(o, false) }, DeleteFunc: func(o any) { set(o, true) }}
}

// set records the addresses of an EndpointSlice, or that it was deleted.
func (p *Proxies) set(s *discoveryv1.EndpointSlice, deleted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slices == nil {
		p.slices = map[types.NamespacedName][]netip.Addr{}
	}
	name := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
	delete(p.slices, name)
	if deleted || s.Labels[discoveryv1.LabelServiceName] != proxyService {
		return
	}
	for _, e := range s.Endpoints {
		for _, text := range e.Addresses {
			if a, err := netip.ParseAddr(text); err == nil {
				p.slices[name] = append(p.slices[name], a.Unmap())
			}
		}
	}
}
