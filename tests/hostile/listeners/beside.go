package listeners

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"switchyard.dev/controlplane-link/linkserver"
	"switchyard.dev/tests/link/plane"
	"switchyard.dev/tests/process"
)

// LinkRole is the role of the process of the link server. It answers with a LinkServer.
const LinkRole = "link-server"

// LinkServer is the link server, as another process calls it.
type LinkServer struct{}

// LinkOrders name the folder of its files, and the address of its machine.
type LinkOrders struct{ Folder, Address string }

// Serve begins to serve and returns the addresses of the listeners by their names.
func (*LinkServer) Serve(o LinkOrders, addresses *map[string]string) error {
	// Logs are written, and discarded.
	c, err := plane.Config(o.Folder, o.Address, slog.New(slog.NewJSONHandler(io.Discard, nil)))
	if err != nil {
		return err
	}
	main, err := linkserver.New(c)
	if err != nil {
		return err
	}
	*addresses = map[string]string{}
	for name, l := range main.Listeners {
		(*addresses)[name] = l.Addr().String()
	}
	go func() { panic(fmt.Sprint("the link server has ended: ", main.Run(context.Background()))) }()
	return nil
}

// linkMemory is what the link server may hold, in MiB: half of what the agent's container may.
const linkMemory = 1024

// beside is the link server on its machine beside the cluster, with the agents of clusters that share one address.
type beside struct {
	plane  *plane.Plane
	server *process.Process
	agents []*honestAgent
	end    context.CancelFunc
}

// attacksLink reports whether a listener of the link server has this in its name.
func attacksLink(only string) bool {
	for _, l := range All() {
		if l.Program == linkServer && strings.Contains(l.String(), only) {
			return true
		}
	}
	return false
}

// besideCluster starts the link server and the agents, and waits for their sessions. The caller calls undo, also after an
// error.
func (w *World) besideCluster(ctx context.Context) (undo func() error, err error) {
	b := &beside{end: func() {}}
	w.beside = b
	undo = func() error {
		b.end()
		var ended error
		if b.server != nil {
			ended = b.server.Close()
		}
		return errors.Join(ended, b.plane.Remove())
	}
	var names []string
	for n := range honestAgents {
		names = append(names, fmt.Sprint("shared-", n))
	}
	if b.plane, err = plane.New(ctx, names...); err != nil {
		return undo, err
	}
	if b.server, err = process.Start(LinkRole, "ip", "netns", "exec", b.plane.Machine.Name); err != nil {
		return undo, err
	}
	var addresses map[string]string
	if err := b.server.Call("Serve", LinkOrders{b.plane.Folder, b.plane.Machine.Address}, &addresses); err != nil {
		return undo, fmt.Errorf("start the link server: %w", err)
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	b.end = end
	b.agents, err = startAgents(running, b.plane, names)
	return undo, err
}

// look reads the memory of the link server.
func (b *beside) look() (state, error) {
	held, _, err := process.Memory(b.server.ID())
	if err != nil {
		err = fmt.Errorf("the link server has ended: %w", err)
	}
	return state{memory: held, limit: linkMemory}, err
}

// connectProxy is a proxy for CONNECT that connects from the address of honest callers: the agents
// of many clusters have one address, as behind a proxy or a gateway.
func connectProxy(w http.ResponseWriter, r *http.Request) {
	far, err := from(honestAddress, patience).DialContext(r.Context(), "tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer far.Close()
	near, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer near.Close()
	if _, err := io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(far, near)
		_ = far.Close()
	}()
	_, _ = io.Copy(near, far) // until either has closed it
}
