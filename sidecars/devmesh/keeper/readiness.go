package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/sidecars/devmesh"
)

const (
	// maxProbes bounds the open connections for probes; for more, silent ones are closed.
	maxProbes = 256
	// probeDeadline bounds the attempt to connect to the workload. Probes that
	// allow less time end it earlier, by ending their request.
	probeDeadline = 2 * time.Second
	// maxRefusing is of how many ports it is kept that they refuse.
	maxRefusing = 64
)

// serveReadiness answers probes until life ends. When serving ends the pod is no
// longer ready, though Envoy still serves.
func serveReadiness(life, serving context.Context, c Config, p *proxy) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+devmesh.ReadinessPath, func(w http.ResponseWriter, r *http.Request) {
		err := serving.Err()
		if err == nil {
			err = p.ready(r.Context())
		}
		if err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusOK)
	})
	mux.HandleFunc("GET "+devmesh.AddressPath, address)
	mux.Handle("GET "+devmesh.ProbePath+"{port}", &probe{ip: c.PodIP, logger: c.Logger, refusing: map[uint16]bool{}})
	l, err := callers.Listen(fmt.Sprintf(":%d", devmesh.ReadinessPort), "probes", maxProbes, 0, c.Logger)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 2 * time.Second,
		ReadTimeout:       2 * time.Second,
		WriteTimeout:      5 * time.Second,
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    8 << 10,
	}
	go func() {
		<-life.Done()
		_ = server.Close()
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// address answers with the address of the pod that the client has connected to.
func address(w http.ResponseWriter, r *http.Request) {
	if local, is := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); is {
		_, _ = io.WriteString(w, local.AddrPort().Addr().Unmap().String()) // the client finds out
	}
}

// probe reports whether the workload accepts connections at a port. It connects to the pod's
// own address only, so it reveals no more than the caller could learn by connecting there; and
// not to the sidecar's ports, where it would probe the sidecar itself.
type probe struct {
	ip     netip.Addr
	logger *slog.Logger

	mu sync.Mutex
	// refusing are the ports that did not accept when they were probed last, at most
	// maxRefusing: probing many ports fills neither memory nor log.
	refusing map[uint16]bool
}

// note logs when a probed port begins to refuse and when it accepts again. The kubelet's event
// mentions an HTTP probe, which is not in the user's manifest; the log names the tcpSocket
// probe.
func (p *probe) note(port uint16, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil && p.refusing[port]:
		delete(p.refusing, port)
		p.logger.Info("a tcpSocket probe succeeds again: the application accepts connections", "port", port)
	case err != nil && !p.refusing[port] && len(p.refusing) < maxRefusing:
		p.refusing[port] = true
		p.logger.Warn("a tcpSocket probe fails: the application does not accept connections", "port", port, "error", err)
	}
}

// ServeHTTP is http.Handler.
func (p *probe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	port, err := strconv.ParseUint(r.PathValue("port"), 10, 16)
	if err != nil || port == 0 || port == devmesh.ListenerPort || port == devmesh.ReadinessPort {
		http.Error(w, fmt.Sprintf("%q is not a port of the workload", r.PathValue("port")), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), probeDeadline)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", netip.AddrPortFrom(p.ip, uint16(port)).String())
	if r.Context().Err() == nil { // who hangs up has learned nothing of the port
		p.note(uint16(port), err)
	}
	if err != nil {
		http.Error(w, "the workload does not accept connections: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	_ = c.Close()
	w.WriteHeader(http.StatusOK)
}
