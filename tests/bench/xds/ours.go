package main

import (
	"context"
	"net"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/routeserver/view"
	"switchyard.dev/xds/serve"
	"switchyard.dev/xds/translate"
)

// switchyard is the xDS server of the route server, as it is, apart from who may
// come: tokens say it themselves.
type switchyard struct {
	server *serve.Server
	load   Load
}

func newOurs(v *view.View, r *receipt) (*switchyard, error) {
	sessions, err := serve.FromView(serve.ViewConfig{View: v, Identify: identify})
	if err != nil {
		return nil, err
	}
	server, err := serve.New(serve.Config{Sessions: receipted{sessions, r}})
	return &switchyard{server, r.load}, err
}

func identify(_ context.Context, token string) (serve.Peer, error) {
	pod, i, err := identified(token)
	if err != nil {
		return serve.Peer{}, status.Error(codes.Unauthenticated, err.Error())
	}
	name := strconv.Itoa(pod)
	return serve.Peer{Workload: workload(i), Namespace: namespace, Pod: "pod-" + name, UID: "uid-" + name}, nil
}

func (s *switchyard) serve(l net.Listener) error { return s.server.Run(context.Background(), l) }

func (s *switchyard) due(_ context.Context, t table.Table) (map[string]string, error) {
	due := map[string]string{}
	for i := range s.load.Workloads {
		resources, err := translate.Resources(t, workload(i))
		if err != nil {
			return nil, err
		}
		for _, r := range resources {
			due[r.Name] = r.Version
		}
	}
	return due, nil
}

// receipted hands the server's own convergence receipt on, as each stream
// acknowledges.
type receipted struct {
	serve.Sessions
	receipt *receipt
}

// Open is serve.Sessions'.
func (o receipted) Open(ctx context.Context, token string) (serve.Session, error) {
	session, err := o.Sessions.Open(ctx, token)
	if err != nil {
		return session, err
	}
	_, i, err := identified(token)
	if err != nil {
		return session, err
	}
	mine := &progress{workload: i}
	session.Settled = func(_ serve.Peer, statuses []serve.Status) {
		if at, ok := reached(session, statuses); ok {
			o.receipt.acknowledged(mine, at)
		}
	}
	return session, nil
}

// reached gives the place in the log up to which a client has the routes.
func reached(session serve.Session, statuses []serve.Status) (uint64, bool) {
	name := translate.RouteName(session.Peer.Workload)
	for _, st := range statuses {
		if st.Name == name && st.Acked != "" {
			_, pos := session.Reached(st.Acked)
			return pos.Seq, pos.Seq > 0
		}
	}
	return 0, false
}
