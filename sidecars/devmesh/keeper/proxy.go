package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/wake"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/devmesh/sniff"
)

// mostSilent is how many connections may be open without a byte from either side, and half of
// all at most. Each takes some 20 KiB here and 32 KiB in Envoy, and costs its client nothing.
const mostSilent = 4096

// proxy runs Envoy as a child process.
type proxy struct {
	Config
	bootstrap string
	admin     *http.Client
	sniffer   *sniff.Sniffer
	// ending is closed when the pod ends.
	ending  chan struct{}
	endOnce sync.Once
	// envoy is the process that was started last; left means that leave ended it.
	envoy atomic.Pointer[os.Process]
	left  atomic.Bool
}

// end marks the pod as ending. Calling it again does nothing.
func (p *proxy) end() { p.endOnce.Do(func() { close(p.ending) }) }

// newProxy writes the bootstrap, for as many connections as there are files for.
func newProxy(c Config) (*proxy, error) {
	files, err := mostFiles()
	if err != nil {
		return nil, err
	}
	c.Proxy.Connections = min(c.Proxy.Connections, connections(files))
	bootstrap, err := devmesh.Bootstrap(c.Proxy)
	if err != nil {
		return nil, err
	}
	written, err := protojson.Marshal(bootstrap)
	if err != nil {
		return nil, fmt.Errorf("write the bootstrap: %w", err)
	}
	p := &proxy{
		Config: c, bootstrap: filepath.Join(c.Proxy.RunPath, "bootstrap.json"),
		sniffer: &sniff.Sniffer{HTTPSocket: c.Proxy.LateHTTPSocket(), OwnPort: devmesh.ListenerPort, Logger: c.Logger,
			MostSilent: max(1, min(mostSilent, int(c.Proxy.Connections/2)))},
		ending: make(chan struct{}),
	}
	if err := program.Replace(p.bootstrap, written); err != nil {
		return nil, fmt.Errorf("write the bootstrap: %w", err)
	}
	p.admin = &http.Client{Timeout: time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", c.Proxy.AdminSocket())
		},
	}}
	return p, nil
}

// drainSeconds is how long an idle connection is kept once the pod ends: then a client of
// HTTP/2 gets GOAWAY, and an idle connection of HTTP/1, which has no such message, is closed.
// All others are notified with their next response. One second is the least.
const drainSeconds = 1

// Envoy is started again at once, and after a second when it ended within one.
const restartPause = time.Second

// run keeps Envoy running until ctx ends; then Envoy is terminated.
func (p *proxy) run(ctx context.Context) error {
	for {
		began := time.Now()
		err := p.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if p.left.Swap(false) {
			p.awaitApplication(ctx)
			continue
		}
		p.Logger.Error("Envoy ended; starting it again", "error", err)
		if !wake.Sleep(ctx, restartPause-time.Since(began)) {
			return nil
		}
	}
}

// once runs Envoy until it ends.
func (p *proxy) once(ctx context.Context) error {
	// The kernel ends the child with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, p.Envoy, "-c", p.bootstrap, "--concurrency", strconv.Itoa(p.Workers),
		"--log-level", envoyLevel(p.Level), "--component-log-level", quieter(p.Level), "--disable-hot-restart",
		"--drain-strategy", "immediate", "--drain-time-s", strconv.Itoa(drainSeconds))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	p.envoy.Store(cmd.Process)
	return cmd.Wait()
}

// quieter keeps a warning out of the log that Envoy gives six times at each start: that
// allow_custom_methods is new. With debug it is there.
func quieter(l slog.Level) string {
	if l <= slog.LevelDebug {
		return "misc:debug"
	}
	return "misc:error"
}

// envoyLevel is Envoy's word for a level. What Envoy calls information is noise
// for all but those who debug it.
func envoyLevel(l slog.Level) string {
	switch {
	case l <= slog.LevelDebug:
		return "debug"
	case l <= slog.LevelWarn:
		return "warning"
	}
	return "error"
}

// ready returns nil when Envoy takes connections.
func (p *proxy) ready(ctx context.Context) error {
	_, err := p.ask(ctx, http.MethodGet, "/ready")
	return err
}

// ask sends a request to Envoy's administration interface and returns the answer's
// text. Anything but 200 is an error.
func (p *proxy) ask(ctx context.Context, method, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://envoy"+path, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := p.admin.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New("Envoy answered: " + string(text))
	}
	return string(text), err
}

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

// news logs that routes were received: the first time, and again after the route server was
// unavailable, but not for each change.
type news struct {
	mu sync.Mutex
	// ever is whether routes were received at all, and logged whether that was logged since the
	// route server was unavailable.
	ever, logged bool
}

// away takes note that the stream to the route server ended.
func (n *news) away() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.logged = false
}

// received takes note of routes that Envoy accepted.
func (n *news) received(logger *slog.Logger, version string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.logged {
		logger.Info("routes received", "version", version)
	}
	n.ever, n.logged = true, true
}

// reached records that a stream has begun. A route server that is back sends nothing when the
// sidecar has the newest routes, so a stream that has lasted for a while shows that it is back.
// has returns the version in use. Call end when the stream ends.
func (n *news) reached(logger *slog.Logger, has func() string, lasted time.Duration) (end func()) {
	ended := false
	timer := time.AfterFunc(lasted, func() {
		version := has()
		n.mu.Lock()
		defer n.mu.Unlock()
		// Without routes from it so far there is nothing to log.
		if ended || n.logged || !n.ever {
			return
		}
		logger.Info("the route server is back and has sent no other routes", "version", version)
		n.logged = true
	})
	return func() {
		timer.Stop()
		n.mu.Lock()
		defer n.mu.Unlock()
		ended = true
	}
}
