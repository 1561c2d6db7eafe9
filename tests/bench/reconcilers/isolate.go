package main

import (
	"net"
	"strconv"

	"github.com/vishvananda/netlink"

	"switchyard.dev/tests/podnet"
)

// clusterIPs are the addresses of Services: more than there are Services.
const clusterIPs = "10.0.0.0/16"

// isolate runs this program again in a separate network namespace, in which Services respond: the
// manager probes those of a fork before it reports it as available, and there is no kube-proxy
// here. This process responds at every address of a Service and every port of a fork.
func isolate() error {
	if err := podnet.Isolate(); err != nil {
		return err
	}
	_, addresses, err := net.ParseCIDR(clusterIPs)
	if err != nil {
		return err
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: addresses, Type: rtnLocal, Table: tableLocal, Scope: netlink.SCOPE_HOST}); err != nil {
		return err
	}
	for _, port := range []int{80, 81, 82, 9100} {
		listener, err := net.Listen("tcp", ":"+strconv.Itoa(port))
		if err != nil {
			return err
		}
		go answer(listener)
	}
	return nil
}

// Of rtnetlink(7): an address of this machine, and the table of those.
const (
	rtnLocal   = 2
	tableLocal = 255
)

// answer takes every connection and ends it.
func answer(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // The process ends.
		}
		_ = conn.Close() // It was there to be taken.
	}
}
