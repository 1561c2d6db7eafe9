package forwarded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/hostile/listeners"
	"switchyard.dev/tests/process"
	"switchyard.dev/tools/switchyard/command/reach"
	"switchyard.dev/tools/wait"
)

const (
	// attackers come by forwards, and so many users by one each.
	attackers, forwards, users = 500, 10, 20
	// times is how often each user connects while he is measured.
	times = 10
	// slower is how many times as long a user may take.
	slower = 3
	// idle is the listener of another pod that is attacked for comparison.
	idle = "routeserver-metrics-9090"
)

// Run makes all measurements of listeners with only in their names, and prints a line for each
// figure. The error states that something could not be measured.
func Run(ctx context.Context, out io.Writer, only string) (err error) {
	undo, err := listeners.Addresses()
	if err != nil {
		return err
	}
	defer undo()
	w, err := listeners.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if strings.Contains(unitsListener, only) {
		if err := units(ctx, out, w); err != nil {
			return fmt.Errorf("%s: %w", unitsListener, err)
		}
	}
	var all []user
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		if !strings.Contains(name, only) {
			continue
		}
		if all == nil {
			if all, err = newUsers(ctx, w, users); err != nil {
				return err
			}
		}
		s := &site{w, listeners.Find(name), answers[name], all}
		if err := errors.Join(s.beside(ctx, out), s.far(ctx, out)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if name == "tunnel-proxy-ssh-2222" {
			if err := s.unread(ctx, out); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if strings.Contains("opaque", only) {
		return opaque(ctx, out)
	}
	return nil
}

// site is a listener and its users.
type site struct {
	world  *listeners.World
	l      *listeners.Listener
	answer first
	users  []user
}

func (s *site) name() string { return strings.ToUpper(strings.ReplaceAll(s.l.String(), "-", "_")) }

// pod is the one with the attacked listener.
func (s *site) pod() *corev1.Pod { return &s.world.Pods(s.l.Program)[0] }

// beside measures users while attackers come by port-forwards: to an idle port of another pod, and to
// the listener.
func (s *site) beside(ctx context.Context, out io.Writer) error {
	other := listeners.Find(idle)
	fmt.Fprintf(out, "%s %d attackers by %d port-forwards, on %s and on %s\n", time.Now().Format(time.TimeOnly), attackers, forwards, other, s.l)
	alone, err := s.during(ctx, &s.world.Pods(other.Program)[0], other.Port)
	if err != nil {
		return err
	}
	besieged, err := s.during(ctx, s.pod(), s.l.Port)
	if err != nil {
		return err
	}
	for where, m := range map[*listeners.Listener]measured{other: alone, s.l: besieged} {
		fmt.Fprintf(out, "%s: attackers opened %d connections by %d port-forwards, %d of them are open\n", where, m.attackers.Opened, m.forwards, m.attackers.There)
	}
	s.compare(out, "FORWARDED", alone, besieged)
	return nil
}

// compare prints the figures of users during an attack on the listener, and during the same attack on
// an idle port.
func (s *site) compare(out io.Writer, attack string, alone, besieged measured) {
	for when, m := range map[string]measured{"beside the idle port": alone, "beside the listener": besieged} {
		if m.why != nil {
			fmt.Fprintf(out, "%s, attackers %s: a user: %v\n", s.l, when, m.why)
		}
	}
	fmt.Fprintf(out, "%s: p50 %s, p99 %s; with the same attack on an idle port p50 %s, p99 %s\n", s.l,
		besieged.quantile(0.5), besieged.quantile(0.99), alone.quantile(0.5), alone.quantile(0.99))
	ratio := float64(besieged.quantile(0.99)) / float64(max(1, alone.quantile(0.99)))
	figures.Text(out, s.name()+"_"+attack+"_SERVED", besieged.served(), "users", fmt.Sprintf("%d of %d, each %d times; %d attempts failed", users, users, times, besieged.failed),
		besieged.failed == 0)
	figures.Text(out, s.name()+"_"+attack+"_P99", fmt.Sprintf("%.2f", ratio), "times_as_long_as_beside_an_idle_port", fmt.Sprintf("at most %d", slower), ratio <= slower)
}

// during measures users while attackers come by port-forwards to a port of a pod.
func (s *site) during(ctx context.Context, pod *corev1.Pod, port int) (m measured, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var own []string
	for range s.users {
		at, err := s.forward(ctx, s.pod(), s.l.Port)
		if err != nil {
			return m, err
		}
		own = append(own, at)
	}
	crowd, err := process.Start(listeners.Role)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, crowd.Close()) }()
	var theirs []*persistent
	for range forwards {
		at, err := s.persist(ctx, pod, port)
		if err != nil {
			return m, err
		}
		theirs = append(theirs, at)
		if err := crowd.Call("Begin", listeners.Orders{Attackers: attackers / forwards, Listener: s.l.String(), Address: at.address, Attacks: s.l.Attacks()}, nil); err != nil {
			return m, err
		}
	}
	if err := wait.For(ctx, 5*time.Second); err != nil { // until all have come
		return m, err
	}
	m = s.measure(ctx, func(ctx context.Context, i int) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", own[i])
	})
	for _, p := range theirs {
		m.forwards += p.times.Load()
	}
	err = crowd.Call("Count", struct{}{}, &m.attackers)
	if err == nil && m.attackers.Opened < attackers {
		err = fmt.Errorf("%d attackers opened only %d connections to port %d of pod %s", attackers, m.attackers.Opened, port, pod.Name)
	}
	return m, err
}

func (s *site) forward(ctx context.Context, pod *corev1.Pod, port int) (string, error) {
	return reach.Forward(ctx, s.world.Client(), s.world.Config(), pod, port)
}

// measured is what became of users.
type measured struct {
	took   []time.Duration
	failed int
	why    error
	// unserved are the users with a failed handshake.
	unserved map[int]bool
	// attackers counts the connections of attackers, and forwards how often their port-forwards were
	// established.
	attackers listeners.Counts
	forwards  int64
}

func (m measured) served() int { return users - len(m.unserved) }

func (m measured) quantile(q float64) time.Duration {
	return figures.Quantile(m.took, q).Round(10 * time.Microsecond)
}

// measure has each user connect again and again, and returns how long it took from the handshake to
// the first answer.
func (s *site) measure(ctx context.Context, dial func(ctx context.Context, user int) (net.Conn, error)) measured {
	m := measured{unserved: map[int]bool{}}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, u := range s.users {
		all.Go(func() {
			for range times {
				took, err := s.once(ctx, u, func(ctx context.Context) (net.Conn, error) { return dial(ctx, i) })
				mu.Lock()
				if err != nil {
					m.failed++
					m.why, m.unserved[i] = err, true
				} else {
					m.took = append(m.took, took)
				}
				mu.Unlock()
				_ = wait.For(ctx, time.Second)
			}
		})
	}
	all.Wait()
	return m
}

// once connects and returns how long it took from then on until the first answer.
func (s *site) once(ctx context.Context, u user, dial func(context.Context) (net.Conn, error)) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := dial(ctx)
	if err != nil {
		return 0, err
	}
	_ = c.SetDeadline(time.Now().Add(patience)) // the connection is a new one
	begun := time.Now()
	err = s.answer(ctx, u, c)
	return time.Since(begun), err
}
