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
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

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
	if err := replace(p.bootstrap, written); err != nil {
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
		if pause := restartPause - time.Since(began); pause > 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(pause):
			}
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
