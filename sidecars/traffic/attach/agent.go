package attach

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/records"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/wake"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/capture"
	"switchyard.dev/sidecars/traffic/override"
	"switchyard.dev/sidecars/traffic/proxy"
	"switchyard.dev/sidecars/traffic/record"
)

const (
	// reportEvery is the pause between reports, and compareEvery that between those that differ.
	reportEvery, compareEvery = 10 * time.Second, time.Second
	// linger is how long a port is served after its last capture: proxies can learn late that Services changed.
	linger = 30 * time.Second
	// atOnce bounds the bytes of a batch, but for a single exchange. gather is the pause behind one that is not half full.
	atOnce, gather = 1 << 20, 20 * time.Millisecond
	// largest bounds an exchange: a message with it and the counts of its capture has at most 4 MiB, which traffic-manager takes.
	largest = 4<<20 - 64<<10
	// retryMin and retryMax bound the pause before traffic-manager is asked again.
	retryMin, retryMax = 200 * time.Millisecond, 5 * time.Second
	// alone is how long a new container waits for traffic-manager before it counts as started.
	alone = 10 * time.Second
	// freeEvery is the least pause between returns of memory while nothing is attached, and enough the memory that stays.
	freeEvery, enough = 2 * time.Second, 8 << 20
	// endWithin bounds the last report.
	endWithin = 2 * time.Second
)

// Config configures an Agent.
type Config struct {
	// Manager is host:port of traffic-manager. Roots verify its certificate.
	Manager string
	Roots   *trust.Roots
	// TokenFile has the pod's token, and StateFile the last attachments.
	TokenFile, StateFile string
	// Callers are those of proxy.Proxy.
	Callers proxy.Callers
	Logger  *slog.Logger
}

// Agent is the container.
type Agent struct {
	cfg      Config
	proxy    *proxy.Proxy
	override *override.Server
	recorder *capture.Recorder
	changed  chan struct{}
	// earlier are the last reports of former processes of this container.
	earlier []*trafficv1.Applied

	mu    sync.Mutex
	state *trafficv1.Attachments
	// problem is why the last attachments are not applied, and deaf why not all ports are served now.
	problem, deaf error
	until         map[proxy.Port]time.Time // when a port is not served any more; zero: it is attached
}

// Roots returns the authorities of a file, or if there is none those of a text, both as PEM.
func Roots(file, text string) (*trust.Roots, error) {
	if file != "" {
		return trust.ReadRoots(file, file)
	}
	roots := trust.NewRoots("the environment of this container")
	return roots, roots.Set([]byte(text))
}

// Run serves the attachments until ctx ends. The error is one of the configuration.
func Run(ctx context.Context, cfg Config) error {
	conn, err := trust.Dial(cfg.Manager, cfg.Manager, cfg.Roots, grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: 2 * time.Second}))
	if err != nil {
		return err
	}
	defer conn.Close()
	a := &Agent{cfg: cfg, changed: make(chan struct{}, 1), until: map[proxy.Port]time.Time{}, state: &trafficv1.Attachments{}}
	out := &delivery{agent: a, client: trafficv1.NewSidecarsClient(conn)}
	running, stop := context.WithCancel(context.WithoutCancel(ctx)) // the queue has time of its own
	defer stop()
	queue := records.New(running, records.Config[capture.Finished]{
		Sink: out, Maximum: math.MaxInt, AtOnce: atOnce, Weight: func(f capture.Finished) int { return f.Size },
		Lost: out.ended, Name: "captured exchanges", Otherwise: "they are counted as lost", Logger: cfg.Logger,
	})
	a.recorder = capture.New(rand.Text(), func(f capture.Finished) {
		if f.Size > largest { // those behind it would wait for it
			a.recorder.Lost(f, record.Refused)
			return
		}
		queue.Add(f)
	})
	a.keepCounters()
	a.override = override.New(a.overrideOf, cfg.Logger)
	a.proxy = &proxy.Proxy{Observer: a.recorder.Observer, Override: a.overridden, Callers: cfg.Callers, Logger: cfg.Logger}
	a.load()
	var all sync.WaitGroup
	all.Go(func() { a.keepAttached(ctx, out.client) })
	all.Go(func() { a.tick(ctx) })
	all.Wait()
	a.proxy.Close()
	a.override.Stop()
	queue.Close()
	a.reportEnd(running, out.client)
	return nil
}

// keepCounters keeps the counters of captures in a file, and reads there what former processes have counted.
func (a *Agent) keepCounters() {
	c, err := openCounters(a.cfg.StateFile+".counters", a.recorder.Incarnation)
	if err != nil {
		a.cfg.Logger.Error("counters are kept in memory: those since the last report are missing if this process is killed", "file", a.cfg.StateFile+".counters", "error", err)
		return
	}
	a.earlier = c.earlier()
	a.recorder.CountIn(c.of)
}

// tick ends ports that have lingered, returns memory while nothing is attached, and lets the container count as started.
func (a *Agent) tick(ctx context.Context) {
	freed := time.Time{}
	for began := time.Now(); wake.Sleep(ctx, time.Second); {
		if a.listen() == nil && a.idle() && time.Since(freed) > freeEvery && resident() > enough {
			if err := release(); err != nil {
				a.cfg.Logger.Debug("the memory of this idle container stays", "error", err)
			}
			freed = time.Now()
		}
		if _, err := os.Stat(a.cfg.StateFile); err != nil && time.Since(began) > alone {
			a.save()
		}
	}
}

// keepAttached keeps a stream to traffic-manager until ctx ends.
func (a *Agent) keepAttached(ctx context.Context, client trafficv1.SidecarsClient) {
	reported := ""
	for wait := retryMin; ; wait = min(2*wait, retryMax) {
		began := time.Now()
		served, err := a.attach(ctx, client)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > retryMax {
			wait = retryMin
		}
		if why := fmt.Sprint(err); served && status.Code(err) != codes.Aborted { // as by another process of the same pod
			reported = "" // the next attempt shows whether anything is wrong
		} else if why != reported { // once for each reason
			a.cfg.Logger.Warn("traffic-manager does not answer; the attachments stay", "address", a.cfg.Manager, "error", err)
			reported = why
		}
		if !wake.Sleep(ctx, wait) {
			return
		}
	}
}

// attach keeps one stream until it ends. served: there were attachments.
func (a *Agent) attach(ctx context.Context, client trafficv1.SidecarsClient) (served bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if ctx, err = a.authorized(ctx); err != nil {
		return false, err
	}
	stream, err := client.Attach(ctx)
	if err != nil {
		return false, err
	}
	for _, report := range a.earlier { // to each replica
		if err := stream.Send(report); err != nil {
			_, err = stream.Recv() // it has the reason
			return false, err
		}
	}
	received := make(chan error, 1)
	var version atomic.Uint64 // of this stream
	go func() {
		for {
			next, err := stream.Recv()
			if err != nil {
				received <- err
				return
			}
			a.apply(next)
			version.Store(next.GetVersion())
			wake.Notify(a.changed)
		}
	}()
	var last *trafficv1.Applied
	var sent time.Time
	for {
		report := &trafficv1.Applied{Version: version.Load(), Problem: a.wrong(), Incarnation: a.recorder.Incarnation, Overrides: true, Restricts: true, Unanswered: a.proxy.Unanswered(), Counts: a.recorder.Counts()}
		if !proto.Equal(report, last) || time.Since(sent) > reportEvery {
			if err := stream.Send(report); err != nil {
				return version.Load() > 0, <-received // which has the reason
			}
			last, sent = report, time.Now()
		}
		select {
		case err := <-received:
			return version.Load() > 0, err
		case <-a.changed:
		case <-time.After(compareEvery):
		}
	}
}

// reportEnd reports the last counters of this process. traffic-manager has endWithin for it.
func (a *Agent) reportEnd(ctx context.Context, client trafficv1.SidecarsClient) {
	ctx, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	ctx, err := a.authorized(ctx)
	if err != nil {
		return // it was never attached
	}
	stream, err := client.Attach(ctx)
	if err == nil {
		err = errors.Join(stream.Send(&trafficv1.Applied{Incarnation: a.recorder.Incarnation, Counts: a.recorder.Counts()}), stream.CloseSend())
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if !errors.Is(err, io.EOF) {
		a.cfg.Logger.Warn("traffic-manager has not received the last counters", "error", err)
	}
}

// authorized adds the pod's token, which the kubelet replaces now and then, to the calls of a context.
func (a *Agent) authorized(ctx context.Context) (context.Context, error) {
	token, err := os.ReadFile(a.cfg.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("read the pod's token: %w", err)
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(token))), nil
}
