package local

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/spf13/pflag"

	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/local/status"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/clusteraccess"
	"switchyard.dev/tunnels/workstation/loopback"
)

// ways are the local ports that are forwarded into the cluster.
type ways struct {
	socks, http string
	maps        []string
	origins     []string
	opened      []opened
	inside      *clusteraccess.Access // nil: without privileges
}

// opened is a port that is listened on.
type opened struct {
	way     workstation.Way
	l       net.Listener
	mapping loopback.Mapping
}

func (y *ways) flags(f *pflag.FlagSet, socks, http string) {
	f.StringVar(&y.socks, "socks5", socks, "`address` of this machine for a SOCKS5 proxy into the cluster; empty for none")
	f.StringVar(&y.http, "http-proxy", http, "`address` of this machine for an HTTP proxy into the cluster; empty for none")
	f.StringArrayVarP(&y.maps, "map", "m", nil, "forward a local port to one of the cluster, `SCHEME://HOST:PORT@ADDRESS`, such as http://cart.shop:80@localhost:8080; schemes are http, https, grpc (which add the routing key) and tcp; repeatable")
	f.StringArrayVar(&y.origins, "allow-origin", nil, "further `origin` with pages that may use these ports, such as http://shop.test:3000; repeatable")
}

// listen opens all of them.
func (y *ways) listen(s *command.Session, given func(flag string) bool) (err error) {
	defer func() {
		if err != nil {
			y.close()
		}
	}()
	for _, text := range y.maps {
		m, err := loopback.ParseMapping(text)
		if err != nil {
			return exit.Usage.Errorf("--map %w", err)
		}
		if err := y.open(m.Scheme, m.Bind, m); err != nil {
			return err
		}
	}
	for flag, address := range map[string]string{"socks5": y.socks, "http-proxy": y.http} {
		if address == "" {
			continue
		}
		err := y.open(flag, address, loopback.Mapping{})
		if err != nil && !given(flag) { // The usual port was not asked for.
			if err = y.open(flag, "127.0.0.1:0", loopback.Mapping{}); err == nil {
				_, _ = fmt.Fprintf(s.Err, "note: %s is in use by another program, such as another connect: --%s listens on %s instead\n", address, flag, y.opened[len(y.opened)-1].l.Addr())
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (y *ways) open(kind, address string, m loopback.Mapping) error {
	l, err := loopback.Listen(address)
	if err != nil {
		return exit.Usage.Errorf("%w", err)
	}
	way := workstation.Way{Kind: kind, Address: l.Addr().String()}
	if m.Host != "" {
		way.To = net.JoinHostPort(m.Host, fmt.Sprint(m.Port))
	}
	y.opened = append(y.opened, opened{way, l, m})
	return nil
}

func (y *ways) close() {
	for _, o := range y.opened {
		_ = o.l.Close()
	}
}

// at returns the address of the way of a kind; empty for none.
func (y *ways) at(kind string) string {
	for _, o := range y.opened {
		if o.way.Kind == kind {
			return o.way.Address
		}
	}
	return ""
}

// serve serves all of them until ctx ends. Refusals that clients cannot show are written to out.
func (y *ways) serve(ctx context.Context, w *workstation.Workstation, key func(http.Header), out io.Writer) {
	web := loopback.Web{Open: w.Open, Keyed: key, Origins: y.origins, Refused: status.Refusals(out)}
	var all sync.WaitGroup
	for _, o := range y.opened {
		w.Leads(o.way)
		all.Go(func() {
			switch o.way.Kind {
			case "socks5":
				_ = loopback.ServeSOCKS(ctx, o.l, web.Open.Refused(web.Refused))
			case "http-proxy":
				_ = loopback.ServeProxy(ctx, o.l, web)
			default:
				_ = loopback.ServeMapping(ctx, o.l, o.mapping, web)
			}
		})
	}
	all.Wait()
}
