package reach

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// connectWithin bounds a connection, and maxHeaders the response of a proxy, in bytes.
const connectWithin, maxHeaders = 10 * time.Second, 16 << 10

// Dialer connects to addresses that pass Check. It is safe for concurrent use.
type Dialer struct {
	// Proxy is an HTTP proxy, host:port, through which all connections go. Default: none.
	Proxy string
	// Allowed are addresses that are never refused.
	Allowed []netip.AddrPort
	// Resolver resolves names. Default: net.DefaultResolver.
	Resolver *net.Resolver
}

// DialContext connects to host:port. The error is a Refused if one of the host's addresses cannot be connected to, also if
// others can.
func (d *Dialer) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	to, err := d.resolve(ctx, address)
	errs := []error{err}
	for _, address := range to {
		conn, err := d.connect(ctx, address.String())
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// resolve returns the addresses of host:port, all of which were checked.
func (d *Dialer) resolve(ctx context.Context, address string) (to []netip.AddrPort, err error) {
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return nil, err
	}
	found, err := d.Resolver.LookupNetIP(ctx, "ip", host) // nil is the default one
	if err != nil {
		return nil, err
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range found {
		one := netip.AddrPortFrom(a.Unmap(), uint16(port))
		why := Check(a, func(a netip.Addr) bool {
			return slices.ContainsFunc(own, func(o net.Addr) bool { n, is := o.(*net.IPNet); return is && n.IP.Equal(a.AsSlice()) })
		})
		if why != "" && !slices.Contains(d.Allowed, one) {
			return nil, &Refused{Host: host, Address: one.Addr(), Reason: why}
		}
		to = append(to, one)
	}
	return to, nil
}

// connect connects to an address, through the proxy if there is one.
func (d *Dialer) connect(ctx context.Context, address string) (net.Conn, error) {
	direct := &net.Dialer{}
	if d.Proxy == "" {
		return direct.DialContext(ctx, "tcp", address)
	}
	conn, err := direct.DialContext(ctx, "tcp", d.Proxy)
	if err != nil {
		return nil, fmt.Errorf("the proxy that adds the routing key is not reached: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	if err = open(conn, address); !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("the proxy that adds the routing key does not connect to %s: %w", address, err)
	}
	return conn, nil
}

// open sends CONNECT. The client of HTTP sends the next bytes, so none of the server follow the response.
func open(conn net.Conn, address string) error {
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if err := request.Write(conn); err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReader(io.LimitReader(conn, maxHeaders)), request) //nolint:bodyclose // its body is the connection
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	return err
}
