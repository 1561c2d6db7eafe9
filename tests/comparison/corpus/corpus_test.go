package corpus_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"testing/fstest"

	"switchyard.dev/tests/comparison/corpus"
	"switchyard.dev/tests/comparison/kinds"
)

func load(t *testing.T, faulty float64) corpus.Corpus {
	t.Helper()
	all, err := corpus.Load(kinds.Files)
	if err != nil {
		t.Fatal(err)
	}
	return corpus.Corpus{Kinds: all, Seed: 7, Services: 40, Endpoints: 40, Faulty: faulty}
}

func TestTheCorpusHasItsShares(t *testing.T) {
	c := load(t, 0.5)
	noise, faults, all, noisy, faulty, hidden := map[string]int{}, map[string]int{}, 0, 0, 0, 0
	for s := range c.Services {
		for e := range c.Endpoints {
			for _, u := range c.Case(s, e).Units {
				all++
				if u.Noise != nil {
					noise[u.Noise.Name]++
					noisy++
				}
				if u.Fault != nil {
					faults[u.Fault.Name]++
					faulty++
					if u.Undetectable {
						hidden++
					}
				}
			}
		}
	}
	t.Logf("%d units, %.3f noisy, %.3f faulty, of these %.3f hidden\n%v\n%v", all, share(noisy, all), share(faulty, all), share(hidden, faulty), noise, faults)
	if got := share(noisy, all); got < 0.27 || got > 0.33 {
		t.Errorf("%.3f of the units are noisy, not 0.30", got)
	}
	for _, n := range c.Noise {
		if got := share(noise[n.Name], noisy) * float64(len(c.Noise)); got < 0.8 || got > 1.2 {
			t.Errorf("noise %s is %.2f times as frequent as the others", n.Name, got)
		}
	}
	if got := share(hidden, faulty); got > 0.1 || faulty < 1000 {
		t.Errorf("%d faults, %.3f of them hidden by noise", faulty, got)
	}
	for _, f := range c.Faults {
		if faults[f.Name] == 0 {
			t.Errorf("no fault %s", f.Name)
		}
	}
}

func share(of, all int) float64 { return float64(of) / float64(max(1, all)) }

func TestACaseIsTheSameAgainAndWithoutFaultsTheForkIsQuietWhereTheBaselineIs(t *testing.T) {
	c := load(t, 0)
	for s := range 5 {
		one := c.Case(s, 3)
		if again := c.Case(s, 3); !reflect.DeepEqual(one.Baseline, again.Baseline) || !reflect.DeepEqual(one.Fork, again.Fork) {
			t.Fatalf("case %s differs when it is made again", one.Name)
		}
		for _, a := range append(one.Baseline, one.Fork...) {
			if !json.Valid(a.Plain) {
				t.Fatalf("no JSON: %s", a.Plain)
			}
			if a.Status != one.Baseline[0].Status {
				t.Errorf("status %d of a fork without faults", a.Status)
			}
		}
	}
}

func TestUnusableKindsAreNamed(t *testing.T) {
	for want, file := range map[string]string{
		"two": "name: two\ncounter: {start: [1, 2], step: [1, 2]}\ntext: [a]\n", "none": "name: none\n", "misspelt": "name: misspelt\ntexts: [a]\n",
	} {
		if _, err := corpus.Load(fstest.MapFS{"noise/x.yaml": {Data: []byte(file)}}); err == nil {
			t.Errorf("kind %s is accepted", want)
		}
	}
}
