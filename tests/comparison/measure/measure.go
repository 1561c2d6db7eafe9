// Package measure runs comparisons over the corpus, and counts.
package measure

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"switchyard.dev/tests/comparison/corpus"
	"switchyard.dev/tests/comparison/peers"
	"switchyard.dev/tests/comparison/score"
	"switchyard.dev/workflows/comparison"
	"switchyard.dev/workflows/comparison/exchange"
	"switchyard.dev/workflows/comparison/noise"
)

// Runs returns an endpoint's answers as exchanges, a run each.
func Runs(c corpus.Case, answers []corpus.Answer) (runs []exchange.Run) {
	for i, a := range answers {
		e := exchange.Exchange{ID: fmt.Sprint(c.Name, "-", i), Test: c.Name, Call: 1, Method: c.Method, Path: c.Path}
		e.Response = exchange.Message{Status: a.Status, Body: a.Body}
		for name, value := range a.Header {
			e.Response.Header = append(e.Response.Header, exchange.Field{Name: name, Value: value})
		}
		runs = append(runs, exchange.Run{e})
	}
	return runs
}

// Findings are those of workflows/comparison.
func Findings(c corpus.Case, k int) (all []noise.Finding) {
	for _, call := range comparison.Compare(Runs(c, c.Baseline[:k]), Runs(c, c.Fork[:k]), comparison.Options{}).Calls {
		all = append(all, call.Response...)
	}
	return all
}

// Learnt is workflows/comparison.
func Learnt(c corpus.Case, k int) (red []string) {
	for _, f := range Findings(c, k) {
		if f.Colour == noise.Red && !slices.Contains(red, f.Path) {
			red = append(red, f.Path)
		}
	}
	return red
}

// Count is what one comparison did over a corpus.
type Count struct {
	// All units, without flapping and undetectable ones; Flapping ones; HeldOut: units with noise or a fault of kinds that are held out.
	All, Flapping, HeldOut score.Tally
	// Cases and RedCases count endpoints, those with red units.
	Cases, RedCases int
	Undetectable    int
	// Noise and Faults are by kind; quiet units are of kind "quiet".
	Noise, Faults map[string]*score.Tally
}

// Case counts one endpoint.
func (t *Count) Case(c corpus.Case, red []string) {
	units, strays := score.Units(c, red)
	t.All.WrongRed += strays
	t.Cases++
	if len(red) > 0 {
		t.RedCases++
	}
	for i, u := range c.Units {
		faulty, kind := u.Fault != nil, "quiet"
		if u.Noise != nil {
			kind = u.Noise.Name
		}
		switch {
		case u.Undetectable:
			t.Undetectable++
			continue
		case u.Noise != nil && u.Noise.Flapping:
			t.Flapping.Record(faulty, units[i])
			continue
		}
		t.All.Record(faulty, units[i])
		of(&t.Noise, kind).Record(faulty, units[i])
		if faulty {
			of(&t.Faults, u.Fault.Name).Record(true, units[i])
		}
		if u.Noise != nil && u.Noise.HeldOut || faulty && u.Fault.HeldOut {
			t.HeldOut.Record(faulty, units[i])
		}
	}
}

func of(all *map[string]*score.Tally, kind string) *score.Tally {
	if *all == nil {
		*all = map[string]*score.Tally{}
	}
	if (*all)[kind] == nil {
		(*all)[kind] = &score.Tally{}
	}
	return (*all)[kind]
}

// Way is a comparison with a number of runs.
type Way struct {
	Name  string
	K     int
	Judge peers.Judge
}

// Over counts ways over all endpoints of a corpus, with all processors. each sees every case, one at a time.
func Over(c corpus.Corpus, ways []Way, each func(corpus.Case)) []Count {
	counts := make([]Count, len(ways))
	var lock sync.Mutex
	var workers sync.WaitGroup
	services := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for s := range services {
				for e := range c.Endpoints {
					one := c.Case(s, e)
					red := make([][]string, len(ways))
					for i, w := range ways {
						red[i] = w.Judge(one, w.K)
					}
					lock.Lock()
					for i := range ways {
						counts[i].Case(one, red[i])
					}
					if each != nil {
						each(one)
					}
					lock.Unlock()
				}
			}
		})
	}
	for s := range c.Services {
		services <- s
	}
	close(services)
	workers.Wait()
	return counts
}
