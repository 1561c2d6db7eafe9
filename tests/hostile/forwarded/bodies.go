package forwarded

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/hostile/listeners"
	"switchyard.dev/tests/hostile/slowbody"
	"switchyard.dev/tests/process"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/iocontext"
)

// unitsListener is the listener that pods of units attack.
const unitsListener = "io-context-server-api-8443"

const (
	// slowUnits is how many pods send and request slow bodies: each may have two of the server's
	// eight places.
	slowUnits = 20
	// settled is how long they have done so when users are measured: more than one body lasts.
	settled = 8 * time.Second
)

// units measures units that read their inputs and write an output while others send and request slow
// bodies: on an idle port of another pod, and on the IO context server.
func units(ctx context.Context, out io.Writer, w *listeners.World) (err error) {
	other := listeners.Find(idle)
	s := &site{world: w, l: listeners.Find(unitsListener), answer: byUnit}
	fmt.Fprintf(out, "%s starting %d pods of units\n", time.Now().Format(time.TimeOnly), slowUnits+users)
	started, err := startUnits(ctx, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, started.remove(context.WithoutCancel(ctx))) }()
	for _, u := range started.honest {
		s.users = append(s.users, user{unit: u})
	}
	fmt.Fprintf(out, "%s slow bodies of %d pods of units, on %s and on %s\n", time.Now().Format(time.TimeOnly), slowUnits, other, s.l)
	alone, _, err := s.duringBodies(ctx, &w.Pods(other.Program)[0], other.Port, started.slow)
	if err != nil {
		return err
	}
	besieged, counts, err := s.duringBodies(ctx, s.pod(), s.l.Port, started.slow)
	if err != nil {
		return err
	}
	s.compare(out, "BODIES", alone, besieged)
	figures.Text(out, s.name()+"_BODIES_ATTACK", counts.Outputs+counts.Assignments, "slow_bodies",
		fmt.Sprintf("some of each; %d outputs, %d assignments, %d requests refused", counts.Outputs, counts.Assignments, counts.Refused), counts.Outputs > 0 && counts.Assignments > 0)
	return nil
}

// duringBodies measures users while units send and request slow bodies at a port of a pod.
func (s *site) duringBodies(ctx context.Context, pod *corev1.Pod, port int, slow []slowbody.Unit) (m measured, counts listeners.SlowCounts, err error) {
	crowd, err := process.Start(listeners.Role)
	if err != nil {
		return m, counts, err
	}
	defer func() { err = errors.Join(err, crowd.Close()) }()
	if err := crowd.Call("Slow", listeners.SlowOrders{Address: fmt.Sprintf("%s:%d", pod.Status.PodIP, port), Units: slow}, nil); err != nil {
		return m, counts, err
	}
	if err := wait.For(ctx, settled); err != nil {
		return m, counts, err
	}
	m = s.measure(ctx, func(ctx context.Context, _ int) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address(s.world, s.l, 0))
	})
	if err := crowd.Call("Count", struct{}{}, &m.attackers); err != nil {
		return m, counts, err
	}
	if m.attackers.Opened == 0 {
		return m, counts, fmt.Errorf("no unit could connect to port %d of pod %s", port, pod.Name)
	}
	return m, counts, crowd.Call("SlowCount", struct{}{}, &counts)
}

// byUnit reads the assignment of a unit and writes its output. A request that is answered TryAgain is
// sent again, as units do.
func byUnit(ctx context.Context, u user, c net.Conn) error {
	secure := tls.Client(c, insecure)
	defer secure.Close()
	answers := bufio.NewReader(secure)
	for _, request := range []struct{ method, path, body string }{
		{http.MethodGet, u.unit.Assignment(), ""}, {http.MethodPut, u.unit.OutputPath(), "value"},
	} {
		for {
			why, err := ask(ctx, secure, answers, request.method, request.path, u.unit.Token, request.body)
			if err != nil {
				return err
			}
			if why.Reason == "" {
				break
			}
			if why.Reason != iocontext.TryAgain {
				return fmt.Errorf("%s %s: %s: %s", request.method, request.path, why.Reason, why.Message)
			}
			if err := wait.For(ctx, unitAgain); err != nil {
				return fmt.Errorf("%w: %s", err, why.Message)
			}
		}
	}
	return nil
}

// unitAgain is how long a unit waits before it sends a request again.
const unitAgain = 100 * time.Millisecond

// ask sends a request over a connection and returns why it is refused; no reason if it is not.
func ask(ctx context.Context, conn io.Writer, answers *bufio.Reader, method, path, token, body string) (why iocontext.Refusal, err error) {
	r, err := http.NewRequestWithContext(ctx, method, "https://a"+path, strings.NewReader(body))
	if err != nil {
		return why, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if err := r.Write(conn); err != nil {
		return why, err
	}
	answer, err := http.ReadResponse(answers, r)
	if err != nil {
		return why, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = json.Unmarshal(text, &why)
	}
	return why, err
}
