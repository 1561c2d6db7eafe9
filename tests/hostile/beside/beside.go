// Package beside has a link server on a machine beside the cluster, in a process of its own, and its honest callers:
// agents of clusters that share one address, users with an API key, and another replica.
package beside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"

	"switchyard.dev/controlplane-link/linkserver"
	"switchyard.dev/tests/link/plane"
	"switchyard.dev/tests/process"
)

// Role is the role of the process of the link server. It answers with a Server.
const Role = "link-server"

// Server is the link server, as another process calls it.
type Server struct{}

// Orders name the folder of its files, and the address of its machine.
type Orders struct{ Folder, Address string }

// Serve begins to serve.
func (*Server) Serve(o Orders, _ *struct{}) error {
	// Logs are written, and discarded.
	c, err := plane.Config(o.Folder, o.Address, slog.New(slog.NewJSONHandler(io.Discard, nil)))
	if err != nil {
		return err
	}
	main, err := linkserver.New(c)
	if err != nil {
		return err
	}
	go func() { panic(fmt.Sprint("the link server has ended: ", main.Run(context.Background()))) }()
	return nil
}

// The names of clusters: those of Site.Agents, and those of Site.Connect.
var sharing, calling = names("shared"), names("calling")

func names(beginning string) (all []string) {
	for n := range clusters {
		all = append(all, fmt.Sprint(beginning, "-", n))
	}
	return all
}

// Dial connects from the address of honest callers.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Site is the link server with its honest callers.
type Site struct {
	*plane.Plane
	// Agents are those of the clusters.
	Agents []*Agent

	server *process.Process
	dial   Dial
	end    context.CancelFunc
	turn   atomic.Int64
}

// Open starts the link server and the agents, and waits for their sessions. The caller calls Close, also after an
// error.
func Open(ctx context.Context, dial Dial) (s *Site, err error) {
	s = &Site{dial: dial, end: func() {}}
	if s.Plane, err = plane.New(ctx, slices.Concat(sharing, calling)...); err != nil {
		return s, err
	}
	if s.server, err = process.Start(Role, "ip", "netns", "exec", s.Machine.Name); err != nil {
		return s, err
	}
	if err := s.server.Call("Serve", Orders{s.Folder, s.Machine.Address}, nil); err != nil {
		return s, fmt.Errorf("start the link server: %w", err)
	}
	ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	return s, s.startAgents(ctx, sharing)
}

// Close ends all.
func (s *Site) Close() (err error) {
	s.end()
	if s.server != nil {
		err = s.server.Close()
	}
	return errors.Join(err, s.Remove())
}

// ID is that of the process of the link server.
func (s *Site) ID() int { return s.server.ID() }

// next returns the agents in turn.
func (s *Site) next() *Agent { return s.Agents[int(s.turn.Add(1))%len(s.Agents)] }
