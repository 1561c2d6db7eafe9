package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/tests/captured"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/program"
	"switchyard.dev/tests/selfsigned"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tools/wait"
)

// container is the program of the traffic container.
const container = "sidecars/cmd/traffic-sidecar"

// place is a way to the application.
type place struct {
	name string
	// address is where clients connect, and processes are those in the path.
	address   string
	processes []int
	// captured returns how many exchanges the capture has; nil: there is none.
	captured func() (int64, error)
	// rate is in place of the others'; 0: none.
	rate int
	load *load
}

const (
	types    = "type.googleapis.com/envoy.extensions."
	patience = 2 * time.Minute
	// kept is how much of each body is captured.
	kept = 64 << 10
)

func serverTLS(pair selfsigned.Pair) (*tls.Config, error) {
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	return &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}}, err
}

// bench has the places.
type bench struct {
	dir      string
	app      netip.AddrPort
	served   *application
	places   []*place
	programs []*program.Program
	closers  []func() error
}

func (b *bench) start(name string, cmd *exec.Cmd) (*program.Program, error) {
	p, err := program.Start(b.dir, name, cmd, nil)
	if err == nil {
		b.programs = append(b.programs, p)
	}
	return p, err
}

func (b *bench) close() {
	for _, p := range b.programs {
		p.Kill()
	}
	for _, c := range b.closers {
		_ = c() // the results are there
	}
	_ = os.RemoveAll(b.dir)
}

// free returns an address where nothing listens.
func free() (netip.AddrPort, error) {
	at, err := captured.Free()
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.ParseAddrPort(at)
}

// envoy adds an Envoy with one worker and a filter before its one route; more are clusters of the filter.
func (b *bench) envoy(name string, filter sidecar.Object, captured func() (int64, error), more ...sidecar.Object) error {
	dir := filepath.Join(b.dir, name)
	at, err := free()
	if err := errors.Join(err, os.Mkdir(dir, 0o700)); err != nil {
		return err
	}
	filters := []sidecar.Object{{"name": "router", "typed_config": sidecar.Object{"@type": types + "filters.http.router.v3.Router", "suppress_envoy_headers": true}}}
	if filter != nil {
		filters = append([]sidecar.Object{filter}, filters...)
	}
	way := sidecar.Way{
		Name: "in", Listen: at, Routes: []sidecar.Object{sidecar.Plain("app", nil)},
		Manager: sidecar.Object{"generate_request_id": false, "http_filters": filters},
	}
	bootstrap, err := sidecar.Bootstrap(dir, []sidecar.Way{way}, append(more, sidecar.Cluster("app", b.app, nil)))
	if err != nil {
		return err
	}
	p, err := b.start(name, sidecar.Envoy(bootstrap, "--concurrency", "1", "--log-level", "error"))
	if err != nil {
		return err
	}
	b.places = append(b.places, &place{name: name, address: at.String(), processes: []int{p.PID()}, captured: captured})
	return nil
}

// tap is a filter that writes each exchange into a file.
func (b *bench) tap() error {
	folder := filepath.Join(b.dir, "taps")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	return b.envoy("envoy-tap", sidecar.Object{"name": "tap", "typed_config": sidecar.Object{
		"@type": types + "filters.http.tap.v3.Tap",
		"common_config": sidecar.Object{"static_config": sidecar.Object{
			"match": sidecar.Object{"any_match": true},
			"output_config": sidecar.Object{
				"max_buffered_rx_bytes": kept, "max_buffered_tx_bytes": kept,
				"sinks": []sidecar.Object{{"format": "PROTO_BINARY", "file_per_tap": sidecar.Object{"path_prefix": filepath.Join(folder, "tap")}}},
			},
		}},
	}}, func() (int64, error) {
		files, err := os.ReadDir(folder)
		return int64(len(files)), err
	})
}

// extProc is a filter that sends a copy to a processor and does not wait for it.
func (b *bench) extProc() error {
	processor, err := process.Start("processor")
	if err != nil {
		return err
	}
	b.closers = append(b.closers, func() error { processor.Kill(); return nil })
	var address string
	if err := processor.Call("Begin", 0, &address); err != nil {
		return err
	}
	two := sidecar.Object{"typed_extension_protocol_options": sidecar.Object{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": sidecar.Object{
		"@type": types + "upstreams.http.v3.HttpProtocolOptions", "explicit_http_config": sidecar.Object{"http2_protocol_options": sidecar.Object{}},
	}}}
	err = b.envoy("envoy-ext-proc", sidecar.Object{"name": "ext_proc", "typed_config": sidecar.Object{
		"@type":              types + "filters.http.ext_proc.v3.ExternalProcessor",
		"grpc_service":       sidecar.Object{"envoy_grpc": sidecar.Object{"cluster_name": "processor"}},
		"observability_mode": true, "failure_mode_allow": true,
		"processing_mode": sidecar.Object{
			"request_header_mode": "SEND", "response_header_mode": "SEND", "request_body_mode": "STREAMED", "response_body_mode": "STREAMED",
			"request_trailer_mode": "SKIP", "response_trailer_mode": "SKIP",
		},
	}}, func() (n int64, err error) {
		err = processor.Call("Complete", 0, &n)
		return n, err
	}, sidecar.Cluster("processor", netip.MustParseAddrPort(address), two))
	if err == nil {
		last := b.places[len(b.places)-1]
		last.processes = append(last.processes, processor.ID())
	}
	return err
}

// traffic is the traffic container with a capture of everything.
func (b *bench) traffic(ctx context.Context) error {
	at, err := free()
	if err != nil {
		return err
	}
	m := newManager(&trafficv1.Capture{
		Uid: "bench", Name: "bench", Sample: 1, BodyBytes: kept, Ports: []*trafficv1.Port{{Application: uint32(b.app.Port()), Listening: uint32(at.Port())}},
	})
	p, err := b.container(ctx, "traffic", m)
	if err != nil {
		return err
	}
	b.places = append(b.places, &place{name: "traffic", address: at.String(), processes: []int{p.PID()}, captured: func() (int64, error) { return m.stored.Load(), nil }})
	return nil
}

// container starts a traffic container, and waits until it applies what m attaches.
func (b *bench) container(ctx context.Context, name string, m *manager) (*program.Program, error) {
	dir, err := os.MkdirTemp(b.dir, name)
	if err != nil {
		return nil, err
	}
	address, err := m.serve(ctx, dir)
	if err != nil {
		return nil, err
	}
	p, err := b.start(name, attached(address, dir))
	if err != nil {
		return nil, err
	}
	select {
	case <-m.applied:
		return p, nil
	case <-p.Ended():
		return nil, p.Running()
	case <-time.After(patience):
		return nil, errors.New("the traffic container has not applied its attachments")
	}
}

// attached is the program of a traffic container that has its token and authorities in a folder.
func attached(manager, dir string) *exec.Cmd {
	file := func(name string) string { return filepath.Join(dir, name) }
	cmd := exec.Command(sidecar.Built(container), "-manager", manager, "-token", file("token"), "-ca", file("ca"), "-state", file("state")) //nolint:gosec // built by Isolate
	cmd.Env = append(os.Environ(), "GOGC=100")
	return cmd
}

// counting is an addon of mitmproxy that counts responses.
const counting = `
class Count:
    n = 0
    def response(self, flow):
        Count.n += 1
        with open(%q, "w") as f:
            f.write(str(Count.n))
addons = [Count()]
`

// mitmproxy is installed from the Python package index into a folder of the cache.
func (b *bench) mitmproxy(ctx context.Context, cache string, rate int) error {
	venv := environment(cache)
	program := filepath.Join(venv, "bin", "mitmdump")
	if _, err := os.Stat(program); err != nil {
		return err
	}
	at, err := free()
	if err != nil {
		return err
	}
	script, count := filepath.Join(b.dir, "count.py"), filepath.Join(b.dir, "count")
	if err := os.WriteFile(script, fmt.Appendf(nil, counting, count), 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "--mode", "reverse:http://"+b.app.String(), "--listen-host", "127.0.0.1", "-p", fmt.Sprint(at.Port()), "-q", "-s", script, "--set", "confdir="+b.dir, "-w", filepath.Join(b.dir, "flows")) //nolint:gosec // from the cache
	p, err := b.start("mitmproxy", cmd)
	if err != nil {
		return err
	}
	b.places = append(b.places, &place{name: "mitmproxy", address: at.String(), rate: rate, processes: []int{p.PID()}, captured: func() (int64, error) {
		text, err := os.ReadFile(count)
		if errors.Is(err, os.ErrNotExist) || len(text) == 0 {
			return 0, nil
		}
		n, also := strconv.ParseInt(string(text), 10, 64)
		return n, errors.Join(err, also)
	}})
	return nil
}

// await connects to a place.
func (p *place) await(ctx context.Context) error {
	return wait.Until(ctx, patience, p.name+" answers", func() (err error) {
		if p.load, err = dial(p.address); err == nil {
			_, err = p.load.run(kinds[0], clients, time.Second/2)
		}
		return err
	})
}
