package tunnelholders

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/wake"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/tunnelholders/holders"
)

// Tunnel proxies, as the chart has them.
const (
	// Label and Name are the label of the pods of tunnel proxies. Name is also the name of their
	// Service, which is in their certificate.
	Label, Name = "app", "tunnel-proxy"
	// ControlPort is the port on which they report their tunnels.
	ControlPort = 7780
	// TokenFile is where the chart mounts the token that is shown to them.
	TokenFile = "/var/run/secrets/tunnel-proxy/token"
)

// Config has the dependencies and settings of Tunnels.
type Config struct {
	// Client has the pods of the operator's Namespace. Both are required.
	Client    client.Reader
	Namespace string
	// TokenFile holds the token that is shown to proxies. Required.
	TokenFile string
	// Roots are the authorities that proxies must be vouched for by. Required: none is
	// asked plain.
	Roots *trust.Roots
	// Again receives the external workloads with a changed holder. The caller must drain it. Required.
	Again publish.Again
	// Report reports a tunnel that was taken; it is called for one after the other. Default:
	// none is reported.
	Report func(context.Context, Takeover)
	// Dial reaches the control port of a proxy, at host:port. Default: over TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Logger logs proxies that do not answer. Default: none.
	Logger *slog.Logger
	// Metrics gets the metrics of tunnels. Default: none.
	Metrics prometheus.Registerer
}

// Tunnels keeps the holder of each tunnel. Create one with New, and call Run. It is safe for concurrent
// use.
type Tunnels struct {
	config  Config
	pods    wake.Signal
	changes *changes
	// turn fires when a proxy may have become lost.
	turn *time.Timer

	mu sync.Mutex
	// listed is true after the proxies have been listed once.
	listed  bool
	proxies map[types.UID]*proxy
	judged  holders.Judgement
	// held are the tunnels that are reported to other proxies.
	held []heldTunnel
	// takeovers are those that have yet to be reported.
	takeovers chan Takeover
}

// proxy is one that is asked.
type proxy struct {
	holders.Proxy
	stop context.CancelFunc
	// taken is the list to send to the proxy; told is sent when it changes.
	taken []*tunnelv1.Taken
	told  wake.Signal
	// trouble is why the last stream ended. gone is true if the proxy was logged as lost.
	trouble error
	gone    bool
}

// New returns Tunnels, or an error if the Config is invalid.
func New(c Config) (*Tunnels, error) {
	if c.Client == nil || c.Namespace == "" || c.TokenFile == "" || c.Roots == nil || c.Again == nil {
		return nil, errors.New("tunnels: Client, Namespace, TokenFile, Roots and Again are all required")
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	t := &Tunnels{config: c, changes: newChanges(c.Again), turn: time.NewTimer(time.Hour), proxies: map[types.UID]*proxy{},
		takeovers: make(chan Takeover, maxTakeovers)}
	return t, t.register(c.Metrics)
}

// Watch calls Wake after each event of a proxy's pod.
func (t *Tunnels) Watch(ctx context.Context, c crcache.Cache) error {
	pods, err := c.GetInformer(ctx, &corev1.Pod{}, crcache.BlockUntilSynced(false))
	if err == nil {
		wake := func(o any) {
			if pod, ok := o.(*corev1.Pod); !ok || pod.Namespace == t.config.Namespace && pod.Labels[Label] == Name {
				t.Wake()
			}
		}
		_, err = pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: wake, UpdateFunc: func(_, o any) { wake(o) }, DeleteFunc: wake})
	}
	if err != nil {
		return fmt.Errorf("watch for tunnel proxies: %w", err)
	}
	return nil
}

// Wake reports that the pod of a proxy was created, changed or deleted.
func (t *Tunnels) Wake() { t.pods.Send() }

// relist is the interval at which the pods are listed without an event, relistFailed the one after an
// error.
const relist, relistFailed = 30 * time.Second, time.Second

// Run asks the proxies until ctx ends. Call it once.
func (t *Tunnels) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	defer parts.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parts.Go(func() { t.changes.run(ctx) })
	parts.Go(func() { t.reportAll(ctx) })
	for {
		changed, again := t.pods.Next(), relist
		if err := t.list(ctx, &parts); err != nil {
			t.config.Logger.Error("the tunnel proxies cannot be listed", "error", err)
			again = relistFailed
		}
		for waiting, listing := true, time.After(again); waiting; {
			select {
			case <-ctx.Done():
				return nil
			case <-t.turn.C:
				t.judge()
			case <-changed:
				waiting = false
			case <-listing:
				waiting = false
			}
		}
	}
}

// list reads which proxies there are, has those that came followed, and forgets those that
// went.
func (t *Tunnels) list(ctx context.Context, parts *sync.WaitGroup) error {
	var pods corev1.PodList
	err := t.config.Client.List(ctx, &pods, client.InNamespace(t.config.Namespace), client.MatchingLabels{Label: Name})
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	there := map[types.UID]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase != corev1.PodRunning || len(pod.Status.PodIPs) == 0 {
			continue
		}
		there[pod.UID] = true
		if t.proxies[pod.UID] != nil {
			continue
		}
		following, stop := context.WithCancel(ctx)
		p := &proxy{stop: stop, Proxy: holders.Proxy{Pod: pod.Name, IP: pod.Status.PodIPs[0].IP, Life: holders.Life{Begun: time.Now()}}}
		t.proxies[pod.UID] = p
		parts.Go(func() { t.follow(following, p) })
	}
	for uid, p := range t.proxies {
		if !there[uid] {
			p.stop()
			delete(t.proxies, uid)
		}
	}
	t.listed = true
	t.judgeLocked()
	return nil
}

// heard processes the report of a proxy.
func (t *Tunnels) heard(p *proxy, m *tunnelv1.TunnelsResponse) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	same := !p.Life.Heard.IsZero() && !p.Life.Gone(now) && slices.EqualFunc(p.Tunnels, m.GetTunnels(), holders.SameTunnel)
	p.Life.Heard, p.Life.Broken, p.Tunnels = now, time.Time{}, m.GetTunnels()
	if !same || p.gone {
		t.judgeLocked()
	}
}

// broke records that the stream to a proxy ended.
func (t *Tunnels) broke(p *proxy, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.Life.Broken.IsZero() {
		p.Life.Broken = time.Now()
	}
	p.trouble = err
	t.judgeLocked()
}

func (t *Tunnels) judge() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.judgeLocked()
}

// judgeLocked computes the holders again, requeues the external workloads with another holder, and
// notifies the proxies of changes.
func (t *Tunnels) judgeLocked() {
	now, before := time.Now(), t.judged
	all := make([]holders.Proxy, 0, len(t.proxies))
	for _, p := range t.proxies {
		all = append(all, p.Proxy)
		if gone := p.Life.Gone(now); gone != p.gone {
			p.gone = gone
			t.logTurn(p)
		}
	}
	t.judged = holders.Judge(all, before, now)
	for w, h := range t.judged.Held {
		was, ok := before.Held[w]
		if !ok || !was.Same(h) {
			t.changes.add(w)
		}
		if ok && h.Tunnel.GetTake() && was.Tunnel.GetUser() != h.Tunnel.GetUser() {
			t.report(Takeover{Workload: w, From: was.Tunnel.GetUser(), By: h.Tunnel.GetUser()})
		}
	}
	for w := range before.Held {
		if _, ok := t.judged.Held[w]; !ok {
			t.changes.add(w)
		}
	}
	held := heldAt(t.judged)
	moved := !slices.EqualFunc(t.held, held, func(a, b heldTunnel) bool { return a.pod == b.pod && proto.Equal(a.Held, b.Held) })
	t.held = held
	for _, p := range t.proxies {
		if taken := t.judged.Taken[p.Pod]; moved || !slices.EqualFunc(p.taken, taken, sameTaken) {
			p.taken = taken
			p.told.Send()
		}
	}
	if !t.judged.Turns.IsZero() {
		t.turn.Reset(max(t.judged.Turns.Sub(now), time.Millisecond))
	}
}

// logTurn logs that a proxy is lost, or answers again.
func (t *Tunnels) logTurn(p *proxy) {
	if p.gone {
		t.config.Logger.Warn("a tunnel proxy does not answer on its control port: requests to workstations that are connected to it fail", "pod", p.Pod, "address", p.IP, "error", p.trouble)
	} else {
		t.config.Logger.Info("a tunnel proxy answers again", "pod", p.Pod)
	}
}

func sameTaken(a, b *tunnelv1.Taken) bool {
	return a.GetNamespace() == b.GetNamespace() && a.GetName() == b.GetName() &&
		a.GetSession() == b.GetSession() && a.GetEpoch() == b.GetEpoch() && a.GetBy() == b.GetBy() && a.GetSameSession() == b.GetSameSession()
}

// Look returns the holder of the tunnel of an external workload; false if no proxy has reported it.
func (t *Tunnels) Look(w holders.Workload) (holders.Holder, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, ok := t.judged.Held[w]
	return h, ok
}

// Awaited reports whether the tunnels of the proxy in this pod are still unknown.
func (t *Tunnels) Awaited(pod string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.listed {
		return true
	}
	for _, p := range t.proxies {
		if p.Pod == pod {
			return p.Life.Awaited(time.Now())
		}
	}
	return false
}

// register registers the metrics.
func (t *Tunnels) register(registry prometheus.Registerer) error {
	if registry == nil {
		return nil
	}
	var errs []error
	for name, of := range map[string]struct {
		help  string
		value func() int
	}{
		"held":      {"Tunnels of external workloads that a tunnel proxy holds.", func() int { return len(t.judged.Held) }},
		"connected": {"Tunnels whose workstation can be reached.", func() int { return countIf(maps.Values(t.judged.Held), holders.Holder.Connected) }},
		"proxies":   {"Tunnel proxies that are asked what they hold.", func() int { return len(t.proxies) }},
		"proxies_gone": {"Tunnel proxies that do not answer.", func() int {
			return countIf(maps.Values(t.proxies), func(p *proxy) bool { return p.Life.Gone(time.Now()) })
		}},
	} {
		errs = append(errs, registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "switchyard_tunnels", Name: name, Help: of.help,
		}, func() float64 {
			t.mu.Lock()
			defer t.mu.Unlock()
			return float64(of.value())
		})))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("tunnels: register metrics: %w", err)
	}
	return nil
}

// host returns the host name in the certificate of proxies.
func (c Config) host() string { return strings.Join([]string{Name, c.Namespace, "svc"}, ".") }
