package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"switchyard.dev/sidecars/devmesh"
)

// The control socket is how this program, run by the pod's preStop hook, notifies the instance
// that runs Envoy that the pod ends. It is in a folder that only the sidecar mounts, so no
// other container of the pod can call it, and no client outside.
const (
	drainPath = "/drain"
	// controlPatience bounds how long either side may take.
	controlPatience = 5 * time.Second
)

// serveControl answers on the control socket until life ends.
func serveControl(life context.Context, l net.Listener, p *proxy) error {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+drainPath, func(http.ResponseWriter, *http.Request) { p.end() })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: controlPatience, MaxHeaderBytes: 4 << 10}
	defer context.AfterFunc(life, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the control socket: %w", err)
	}
	return nil
}

// Drain notifies the sidecar with this configuration that its pod is ending, and returns once
// the sidecar has acknowledged that. It returns an error if the sidecar could not be notified.
func Drain(ctx context.Context, c Config) error {
	socket := c.withDefaults().Proxy.ControlSocket()
	client := &http.Client{Timeout: controlPatience, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sidecar"+drainPath, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("notify the sidecar at %s that the pod ends: %w", socket, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		return fmt.Errorf("the sidecar at %s does not accept the notice that the pod ends: %s %s", socket, answer.Status, text)
	}
	return nil
}

// Command runs the command in the program's arguments: the sidecar without any, else Drain. The
// error names an unknown command.
func Command(ctx context.Context, c Config, args []string) error {
	switch {
	case len(args) == 0:
		return Run(ctx, c)
	case slices.Equal(args, []string{devmesh.DrainCommand}):
		return Drain(ctx, c)
	}
	return fmt.Errorf("%q is no command: use none, or %s", args, devmesh.DrainCommand)
}
