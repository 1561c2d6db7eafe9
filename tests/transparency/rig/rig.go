package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/program"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tests/transparency/suite"
	"switchyard.dev/xds/serve"
	"switchyard.dev/xds/xdstest"
)

// Rig is the pods with their applications.
type Rig struct {
	dir              string
	bare, pod, stock *podnet.Pod
	programs         []*program.Program
	listeners        []net.Listener
	facts            *xdstest.Facts
	xds              *serve.Server
	stopRoutes       func()
}

// service is the cluster address of every fork's Service.
var service = netip.AddrFrom4([4]byte{10, 96, 0, 1})

// New stands the applications up and waits until all their ways are open. Close it.
func New(ctx context.Context, all ...App) (r *Rig, err error) {
	r = &Rig{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
			r = nil
		}
	}()
	if r.dir, err = os.MkdirTemp("/tmp", "see"); err != nil { // short: a socket's path has 108 bytes at most
		return r, err
	}
	if err := r.makePods(); err != nil {
		return r, err
	}
	if err := podnet.ServeAddress(service.AsSlice()); err != nil {
		return r, err
	}
	for _, a := range all {
		if err := r.start(ctx, a); err != nil {
			return r, err
		}
	}
	if err := r.startRoutes(ctx, all); err != nil {
		return r, err
	}
	if err := r.startStock(ctx, all); err != nil {
		return r, err
	}
	return r, r.startSidecar(ctx)
}

func (r *Rig) makePods() (err error) {
	for i, pod := range []**podnet.Pod{&r.bare, &r.pod, &r.stock} {
		if *pod, err = podnet.NewPod(byte(i + 1)); err != nil {
			return err
		}
	}
	return sidecar.Redirect(r.pod)
}

// Ways returns the ways to an application.
func (r *Rig) Ways(a App) Ways {
	at := func(pod *podnet.Pod, port uint16, key string) suite.Target {
		return suite.Target{Address: net.JoinHostPort(pod.IP.String(), fmt.Sprint(port)), Key: key}
	}
	return Ways{
		Bare: at(r.bare, a.Port, ""), BareKeyed: at(r.bare, a.Port, a.Key()), Through: at(r.pod, a.Port, ""), Keyed: at(r.pod, a.Port, a.Key()),
		Stock: at(r.stock, a.stockPort(), ""),
	}
}

// InBare calls a function in the pod of the bare applications.
func (r *Rig) InBare(f func() error) error { return r.bare.Do(f) }

// Close takes everything away.
func (r *Rig) Close() error {
	for _, p := range r.programs {
		p.Kill()
	}
	if r.stopRoutes != nil {
		r.stopRoutes()
	}
	var wrong []error
	for _, l := range r.listeners {
		wrong = append(wrong, l.Close())
	}
	if r.facts != nil {
		wrong = append(wrong, r.facts.Close())
	}
	for _, pod := range []*podnet.Pod{r.bare, r.pod, r.stock} {
		if pod != nil {
			wrong = append(wrong, pod.Close())
		}
	}
	return errors.Join(append(wrong, os.RemoveAll(r.dir))...)
}
