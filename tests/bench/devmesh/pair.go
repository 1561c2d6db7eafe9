package main

import (
	"bytes"
	"fmt"
	"time"

	"switchyard.dev/tests/bench/devmesh/lean"
	"switchyard.dev/tests/figures"
)

// kind is how a request refers to sandboxes.
type kind string

const (
	// plain requests have no header that could hold a routing key.
	plain kind = "plain"
	// other requests have the key of a sandbox without a rule for the workload: requests of users
	// who test another service.
	other kind = "other"
	// known requests have the key of one of the workload's sandboxes.
	known kind = "known"
)

func baggage(key string) string { return "userId=alice,sd-routing-key=" + key + ",region=eu" }

// requests returns one for each connection. Those to a place without sandboxes are
// of the same length.
func requests(k kind, sandboxes int) [][]byte {
	var all [][]byte
	for c := range connections {
		text := "GET /orders/1234?expand=items HTTP/1.1\r\nHost: customer.shop:8080\r\nUser-Agent: bench\r\nAccept: */*\r\n"
		switch k {
		case other:
			text += "baggage: " + baggage(key(sandboxes, 9_000_000+c)) + "\r\n"
		case known:
			keys := used(max(sandboxes, 1))
			text += "baggage: " + baggage(key(sandboxes, keys[c%len(keys)])) + "\r\n"
		}
		all = append(all, []byte(text+"\r\n"))
	}
	return all
}

// What the two sides answer: of one length, so that they cost the same.
var (
	baselineBody = bytes.Repeat([]byte("baseline"), 16)
	forkBody     = bytes.Repeat([]byte("the fork"), 16)
)

// answer returns the body with which requests of a kind must be answered.
func (s shape) answer(k kind) []byte {
	if s.away || k == known {
		return forkBody
	}
	return baselineBody
}

// spot is a place asked in one way.
type spot struct {
	*place
	kind kind
	load *lean.Load
}

func (p *place) spot(k kind) (*spot, error) {
	l, err := lean.Dial(p.address(), requests(k, p.sandboxes), p.answer(k))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	return &spot{place: p, kind: k, load: l}, nil
}

// flooded is what one slice of a flood gave: Envoy's time for each request in
// microseconds, and requests for each second.
type flooded struct{ cpu, rate float64 }

// settle is how long a place is loaded before it is measured: connections behind it are opened
// again, and the processor's caches are filled again. Then how long it is left alone, so that all
// its threads have stopped.
const (
	settle = 40 * time.Millisecond
	calm   = 2 * time.Millisecond
)

func (s *spot) flood(during time.Duration) (f flooded, err error) {
	if _, _, err := s.load.Flood(settle); err != nil {
		return f, s.failed(err)
	}
	time.Sleep(calm)
	before, err := s.computed()
	if err != nil {
		return f, err
	}
	answered, took, err := s.load.Flood(during)
	if err != nil {
		return f, s.failed(err)
	}
	time.Sleep(calm)
	after, err := s.computed()
	if err != nil {
		return f, err
	}
	return flooded{
		cpu:  float64((after - before).Nanoseconds()) / 1e3 / float64(answered),
		rate: float64(answered) / took.Seconds(),
	}, nil
}

// computed is 0 where there is no Envoy.
func (s *spot) computed() (time.Duration, error) {
	if s.envoy == 0 {
		return 0, nil
	}
	return computed(s.envoy)
}

// pace sends 1,000 requests for each second, and returns how long each took.
func (s *spot) pace(during time.Duration) ([]time.Duration, error) {
	const interval = time.Millisecond
	if _, err := s.load.Pace(interval, settle, nil); err != nil {
		return nil, s.failed(err)
	}
	took, err := s.load.Pace(interval, during, make([]time.Duration, 0, during/interval))
	if err != nil {
		return nil, s.failed(err)
	}
	return took, nil
}

func (s *spot) failed(err error) error { return fmt.Errorf("%s, %s requests: %w", s.name, s.kind, err) }

// pair is a spot beside the floor for the same requests. Values at one index of its lists belong
// together, and to one round of all pairs.
type pair struct {
	spot, floor *spot

	floods, floorFloods []flooded
	// p50 in milliseconds, and all latencies, of every round.
	p50, floorP50 []float64
	took          []time.Duration
}

// beside measures the two one after the other, in turn one and the other first.
func beside[T any](turn int, own, floor *spot, f func(*spot) (T, error)) (a, b T, err error) {
	if turn%2 == 1 {
		b, a, err = beside(0, floor, own, f)
		return a, b, err
	}
	if a, err = f(own); err != nil {
		return a, b, err
	}
	b, err = f(floor)
	return a, b, err
}

func (p *pair) flood(turn int, during time.Duration) error {
	own, floor, err := beside(turn, p.spot, p.floor, func(s *spot) (flooded, error) { return s.flood(during) })
	if err == nil {
		p.floods, p.floorFloods = append(p.floods, own), append(p.floorFloods, floor)
	}
	return err
}

func (p *pair) pace(turn int, during time.Duration) error {
	own, floor, err := beside(turn, p.spot, p.floor, func(s *spot) ([]time.Duration, error) { return s.pace(during) })
	if err == nil {
		p.p50, p.floorP50 = append(p.p50, figures.Millis(own, 0.5)), append(p.floorP50, figures.Millis(floor, 0.5))
		p.took = append(p.took, own...)
	}
	return err
}

// each returns one number for each round.
func each[T any](of []T, f func(i int, v T) float64) []float64 {
	all := make([]float64, len(of))
	for i, v := range of {
		all[i] = f(i, v)
	}
	return all
}

// cpu and rate are how many times the floor's they are, in each round.
func (p *pair) cpu() []float64 {
	return each(p.floods, func(i int, f flooded) float64 { return f.cpu / p.floorFloods[i].cpu })
}

// atRest is how many times the floor's CPU it is where others disturbed least: the
// ratio of the tenth lowest of a hundred slices of each.
func (p *pair) atRest() float64 {
	low := func(of []flooded) float64 {
		return figures.Quantile(each(of, func(_ int, f flooded) float64 { return f.cpu }), 0.1)
	}
	return low(p.floods) / low(p.floorFloods)
}

func (p *pair) rate() []float64 {
	return each(p.floods, func(i int, f flooded) float64 { return f.rate / p.floorFloods[i].rate })
}

// added is how much later than the floor half of the requests are answered, in
// each round, in milliseconds.
func (p *pair) added() []float64 {
	return each(p.p50, func(i int, v float64) float64 { return v - p.floorP50[i] })
}
