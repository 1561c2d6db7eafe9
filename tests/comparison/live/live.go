// Package live records answers of HotROD and podinfo, unmodified, which run as processes: a baseline and a fork.
package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"switchyard.dev/tests/comparison/changes"
	"switchyard.dev/tests/port"
	"switchyard.dev/tests/program"
	"switchyard.dev/tools/apps"
	"switchyard.dev/tools/pinned"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/comparison/exchange"
)

// patience is how long an application can take to start.
const patience = 2 * time.Minute

// Side is one side: all applications, each with its address.
type Side struct {
	// Host is the name of its host, as that of a pod.
	Host     string
	programs []*program.Program
	address  map[string]string
}

// Programs are the applications on this machine.
type Programs struct{ podinfo, hotrod, logs string }

// Find prepares the applications. root is the directory of this repository, logs the one for their logs.
func Find(ctx context.Context, root, logs string) (Programs, error) {
	a, err := apps.Find(ctx, root)
	if err != nil {
		return Programs{}, err
	}
	hotrod, err := pinned.Module{Name: "HotROD", Folder: filepath.Join(root, "tools", "image", "hotrod"), Cache: "apps/hotrod"}.Programs(ctx)
	return Programs{filepath.Join(a.Compiled, "podinfo"), filepath.Join(hotrod, "hotrod"), logs}, err
}

// Start starts podinfo with more flags, and HotROD if all is true, on a host with this name.
func (p Programs) Start(ctx context.Context, host string, all bool, args ...string) (s *Side, err error) {
	s = &Side{Host: host, address: map[string]string{}}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	ports := map[string]string{}
	for _, name := range []string{"podinfo", "frontend", "customer", "driver", "route"} {
		free, err := port.Free()
		if err != nil {
			return s, err
		}
		ports[name] = strconv.Itoa(free)
		s.address[name] = "http://127.0.0.1:" + ports[name]
	}
	if err := s.start(p, append([]string{p.podinfo, "--host=127.0.0.1", "--level=error", "--port=" + ports["podinfo"]}, args...)...); err != nil {
		return s, err
	}
	waits := []string{s.address["podinfo"] + "/healthz"}
	if all {
		flags := []string{p.hotrod, "all", "--otel-exporter=stdout", "--fix-db-query-delay=1ms", "--fix-disable-db-conn-mutex", "--fix-route-worker-pool-size=100"}
		for _, name := range []string{"frontend", "customer", "driver", "route"} {
			flags = append(flags, "--"+name+"-service-hostname=127.0.0.1", "--"+name+"-service-port="+ports[name])
		}
		if err := s.start(p, flags...); err != nil {
			return s, err
		}
		waits = append(waits, s.address["frontend"]+"/dispatch?customer=123", s.address["customer"]+"/customer?customer=123")
	}
	for _, url := range waits {
		if err := wait.Until(ctx, patience, url, func() error { return answers(ctx, url) }); err != nil {
			return s, err
		}
	}
	return s, nil
}

// start starts a program on a host with the name of the side.
func (s *Side) start(p Programs, command ...string) error {
	cmd := exec.Command("unshare", append([]string{"--uts", "sh", "-c", `hostname "$0" && exec "$@"`, s.Host}, command...)...)
	cmd.Env = append(os.Environ(), "OTEL_TRACES_SAMPLER=always_on")
	started, err := program.Start(p.logs, filepath.Base(command[0])+"-"+s.Host, cmd, nil)
	if err != nil {
		return fmt.Errorf("start %s as root on a host of another name: %w", command[0], err)
	}
	s.programs = append(s.programs, started)
	return nil
}

func answers(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil || response.StatusCode == http.StatusOK || response.StatusCode == http.StatusServiceUnavailable {
		return err
	}
	return fmt.Errorf("%s answers %d", url, response.StatusCode)
}

// Close ends the applications.
func (s *Side) Close() {
	for _, p := range s.programs {
		p.Kill()
	}
}

// client opens a connection for each request, as the first request of a test does.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Record makes n runs of all requests on each side. The sides take turns, so that what only the clock changes is not the same in all
// runs of a side and another in those of the other.
func Record(ctx context.Context, requests []changes.Request, n int, baseline, fork *Side) (base, forked []exchange.Run, err error) {
	for range n {
		of, err := baseline.run(ctx, requests)
		if err != nil {
			return nil, nil, err
		}
		to, err := fork.run(ctx, requests)
		if err != nil {
			return nil, nil, err
		}
		base, forked = append(base, of), append(forked, to)
	}
	return base, forked, nil
}

func (s *Side) run(ctx context.Context, requests []changes.Request) (run exchange.Run, err error) {
	for _, r := range requests {
		e, err := s.call(ctx, r)
		if err != nil {
			return nil, err
		}
		run = append(run, e)
	}
	return run, nil
}

func (s *Side) call(ctx context.Context, r changes.Request) (exchange.Exchange, error) {
	if r.Method == "" {
		r.Method = http.MethodGet
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, s.address[r.App]+r.Path, bytes.NewReader([]byte(r.Body)))
	if err != nil {
		return exchange.Exchange{}, err
	}
	response, err := client.Do(request)
	if err != nil {
		return exchange.Exchange{}, fmt.Errorf("request %s: %w", r.Name, err)
	}
	body, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return exchange.Exchange{}, fmt.Errorf("request %s: %w", r.Name, err)
	}
	e := exchange.Exchange{Test: "live", Name: r.Name, Method: r.Method, Path: r.Path}
	e.Request.Body, e.Response.Body, e.Response.Status = []byte(r.Body), body, response.StatusCode
	for name, values := range response.Header {
		for _, value := range values {
			e.Response.Header = append(e.Response.Header, exchange.Field{Name: name, Value: value})
		}
	}
	return e, nil
}
