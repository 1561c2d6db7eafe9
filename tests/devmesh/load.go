package devmesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/tools/traffic"
)

// load sends requests to baselines over connections that are kept, and judges
// every answer by the book.
type load struct {
	book      *book
	balancers map[table.Workload]*balancer
	// rate is how many requests are sent each second.
	rate int
	// next returns the next request.
	next func() decision

	mu    sync.Mutex
	count counted
	// direct are clients of one pod each.
	direct map[*pod]*http.Client
}

// newLoad returns a load on all baselines.
func (w *world) newLoad(rate int) *load {
	l := &load{book: newBook(), balancers: map[table.Workload]*balancer{}, rate: rate, direct: map[*pod]*http.Client{}}
	for _, p := range w.pods {
		l.balancers[p.workload] = newBalancer(w.of(p.workload))
		l.direct[p] = newClient(newBalancer([]*pod{p}), false)
	}
	return l
}

// everywhere sends a request to each pod of the baseline at once: whatever holds
// from now on must hold in all of them.
func (l *load) everywhere(d decision) {
	var all sync.WaitGroup
	for _, p := range l.balancers[d.workload].pods {
		all.Go(func() { l.one(l.direct[p], d, false) })
	}
	all.Wait()
}

// counted is what became of the requests of a load.
type counted struct {
	// Sent are those that were answered or failed; over HTTP/2 of them Multiplexed.
	Sent, Multiplexed int
	// Refused are those that were rightly answered by a sidecar itself.
	Refused int
	// Failed had no usable answer, Wrong one that was not right.
	Failed, Wrong int
	// Cut were on a connection to a sidecar that was just killed, or were not let
	// in by one; Lost of them failed again on other connections.
	Cut, Lost int
	// Notes quotes the first of those that failed or were wrong.
	Notes []string
}

// The number of lanes to each baseline. A lane over HTTP/1.1 has a separate connection; over
// HTTP/2, four lanes share one.
const (
	plainLanes    = 10
	sharedLanes   = 4
	sharedClients = 2
	maxNotes      = 20
)

// errNoAnswer: the response is neither an application's answer nor a refusal.
var errNoAnswer = errors.New("no answer")

// during sends requests while f runs.
func (l *load) during(ctx context.Context, f func() error) (counted, error) {
	loading, stop := context.WithCancel(ctx)
	loaded := make(chan counted, 1)
	go func() { loaded <- l.run(loading) }()
	err := f()
	stop()
	return <-loaded, err
}

// run sends requests until ctx ends, and returns when all are judged.
func (l *load) run(ctx context.Context) counted {
	var all sync.WaitGroup
	jobs := map[table.Workload]chan decision{}
	for workload, b := range l.balancers {
		queue := make(chan decision)
		jobs[workload] = queue
		all.Go(func() { b.probe(ctx) })
		for range plainLanes {
			all.Go(func() { l.lane(newClient(b, false), queue, false) })
		}
		for range sharedClients {
			client := newClient(b, true)
			for range sharedLanes {
				all.Go(func() { l.lane(client, queue, true) })
			}
		}
	}
	began := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		if early := time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(l.rate))); early > 0 {
			time.Sleep(early)
		}
		d := l.next()
		jobs[d.workload] <- d
	}
	for _, queue := range jobs {
		close(queue)
	}
	all.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// newClient returns a client that connects through the balancer.
func newClient(b *balancer, multiplexed bool) *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		Protocols: traffic.Protocols(!multiplexed, multiplexed), MaxConnsPerHost: 1, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return b.dial(ctx) },
	}}
}

// lane sends requests, one after the other, and takes a new connection now and then.
func (l *load) lane(client *http.Client, queue <-chan decision, multiplexed bool) {
	defer client.CloseIdleConnections()
	for n := 0; ; n++ {
		d, more := <-queue
		if !more {
			return
		}
		l.one(client, d, multiplexed)
		if !multiplexed && rand.IntN(200) == 0 {
			client.CloseIdleConnections()
		}
	}
}

// one sends one request and judges the answer. One that a killed sidecar cut off is sent again,
// as its client would.
func (l *load) one(client *http.Client, d decision, multiplexed bool) {
	const attempts = 10
	cut := 0
	for ; cut < attempts; cut++ {
		judge := l.book.ask(d)
		began := time.Now()
		answer, at, err := ask(client, d)
		if err != nil && !errors.Is(err, errNoAnswer) && at.wasDown(began, time.Now()) {
			time.Sleep(probePeriod)
			continue
		}
		if err == nil {
			err = judge(answer)
		}
		l.note(answer, err, cut, multiplexed)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count.Sent++
	l.count.Cut++
	l.count.Lost++
}

func (l *load) note(answer string, err error, cut int, multiplexed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count.Sent++
	if multiplexed {
		l.count.Multiplexed++
	}
	if cut > 0 {
		l.count.Cut++
	}
	if strings.HasPrefix(answer, "refused") {
		l.count.Refused++
	}
	switch {
	case err == nil:
		return
	case answer == "":
		l.count.Failed++
	default:
		l.count.Wrong++
	}
	if len(l.count.Notes) < maxNotes {
		l.count.Notes = append(l.count.Notes, fmt.Sprintf("%s %v", time.Now().Format("15:04:05.000"), err))
	}
}

// ask sends a request and returns the workload that responded, and the pod of its connection, if
// there was one.
func ask(client *http.Client, d decision) (answer string, at *pod, err error) {
	nonce := fmt.Sprintf("%016x", rand.Uint64())
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if conn, ok := info.Conn.(*balanced); ok {
			at = conn.pod
		}
	}}
	// With a body, so that the client does not retry when a connection breaks: every failure must
	// be visible.
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), trace),
		http.MethodPost, "http://"+d.workload.Name+"."+d.workload.Namespace+".svc/", strings.NewReader(nonce))
	if err != nil {
		return "", nil, err
	}
	if d.key != "" {
		request.Header.Set("Baggage", "userId=alice,sd-routing-key="+d.key)
	}
	response, err := client.Do(request)
	if err != nil {
		if refused, ok := errors.AsType[*dialError](err); ok {
			at = refused.pod
		}
		return "", at, fmt.Errorf("%s, key %q: %w", d.workload.Name, d.key, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if err != nil {
		return "", at, fmt.Errorf("%s, key %q: %w", d.workload.Name, d.key, err)
	}
	answer, err = answerOf(response, string(body), nonce)
	if err != nil {
		err = fmt.Errorf("%s, key %q, at %s: %w", d.workload.Name, d.key, at.name, err)
	}
	return answer, at, err
}

// answerOf returns the workload that responded.
func answerOf(response *http.Response, body, nonce string) (string, error) {
	reason := response.Header.Get("Sd-Reason")
	sandbox, isSandbox := strings.CutPrefix(response.Header.Get("Sd-Routed"), "sandbox=")
	switch {
	case response.StatusCode == http.StatusServiceUnavailable && isSandbox && strings.HasPrefix(reason, "sandbox-"):
		return refusedBy(sandbox, reason), nil
	case response.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%w: status %d, %s: %.200s", errNoAnswer, response.StatusCode, reason, body)
	}
	name, echoed, _ := strings.Cut(body, "\n")
	if echoed != nonce {
		return "", fmt.Errorf("%w: it is that of another request: %.200q", errNoAnswer, body)
	}
	return name, nil
}
