package hamt

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// hashes are the real one and three bad ones: a map must be right with any.
var hashes = map[string]func(int) uint64{
	"the real hash":                       hashOf[int],
	"all keys collide":                    func(int) uint64 { return 1<<64 - 1 },
	"keys collide in threes":              func(k int) uint64 { return uint64(k/3) << 40 },
	"keys differ only in the last 4 bits": func(k int) uint64 { return uint64(k) << 60 },
}

func TestMapAgreesWithAGoMap(t *testing.T) {
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				var m Map[int, int]
				want := map[int]int{}
				for i, n := 0, rapid.IntRange(0, 200).Draw(t, "steps"); i < n; i++ {
					before, wantBefore := m, maps.Clone(want)
					m = step(t, m, want, hash, nil)
					check(t, before, wantBefore, hash)
				}
				check(t, m, want, hash)
			})
		})
	}
}

// step makes one random change to both maps.
func step(t *rapid.T, m Map[int, int], want map[int]int, hash func(int) uint64, edit *Edit) Map[int, int] {
	key := rapid.IntRange(0, 40).Draw(t, "key")
	if rapid.Bool().Draw(t, "remove") {
		delete(want, key)
		return m.without(edit, hash, key)
	}
	value := rapid.IntRange(0, 3).Draw(t, "value")
	want[key] = value
	return m.with(edit, hash, key, value)
}

// Runs of changes, each with an Edit of its own or none: what is made in a run
// must be right at its end, and what was there before it must stay.
func TestAnEditChangesOnlyWhatItMade(t *testing.T) {
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				type version struct {
					m    Map[int, int]
					want map[int]int
				}
				versions := []version{{want: map[int]int{}}}
				for range rapid.IntRange(1, 6).Draw(t, "runs") {
					from := rapid.SampledFrom(versions).Draw(t, "from")
					m, want := from.m, maps.Clone(from.want)
					edit := rapid.SampledFrom([]*Edit{nil, new(Edit), new(Edit)}).Draw(t, "edit")
					for range rapid.IntRange(0, 60).Draw(t, "steps") {
						m = step(t, m, want, hash, edit)
					}
					versions = append(versions, version{m, want})
				}
				for _, v := range versions {
					check(t, v.m, v.want, hash)
				}
			})
		})
	}
}

func check(t *rapid.T, m Map[int, int], want map[int]int, hash func(int) uint64) {
	t.Helper()
	if diff := cmp.Diff(want, maps.Collect(m.All())); diff != "" {
		t.Fatalf("All (-want +got):\n%s", diff)
	}
	if m.Len() != len(want) {
		t.Fatalf("Len is %d, want %d", m.Len(), len(want))
	}
	for key := range 41 {
		var got int
		var ok bool
		if m.root != nil {
			got, ok = m.root.get(hash(key), key)
		}
		wantValue, wantOK := want[key]
		if got != wantValue || ok != wantOK {
			t.Fatalf("Get(%d) is %d, %v, want %d, %v", key, got, ok, wantValue, wantOK)
		}
	}
}

func TestTheShapeFollowsFromTheKeysAlone(t *testing.T) {
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				var m Map[int, int]
				var edit Edit
				want := map[int]int{}
				for range rapid.IntRange(0, 100).Draw(t, "steps") {
					m = step(t, m, want, hash, &edit)
				}
				var direct Map[int, int]
				for k, v := range want {
					direct = direct.with(nil, hash, k, v)
				}
				if a, b := shape(m.root), shape(direct.root); a != b {
					t.Fatalf("after detours:\n%s\ndirectly:\n%s", a, b)
				}
			})
		})
	}
}

// shape draws the tree without the order inside a list of colliding keys.
func shape(n *node[int, int]) string {
	if n == nil {
		return "-"
	}
	s := fmt.Sprintf("[%x %x %d", n.pairMap, n.nodeMap, len(n.pairs))
	for i := range n.nodes {
		s += shape(&n.nodes[i])
	}
	return s + "]"
}

func TestDiffAgreesWithComparingEverything(t *testing.T) {
	same := func(a, b int) bool { return a == b }
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				var older, newer Map[int, int]
				var before Edit
				between := rapid.SampledFrom([]*Edit{nil, {}}).Draw(t, "edit")
				a := map[int]int{}
				for range rapid.IntRange(0, 60).Draw(t, "steps before") {
					older = step(t, older, a, hash, &before)
				}
				b := map[int]int{}
				if rapid.Bool().Draw(t, "related") {
					newer, b = older, maps.Clone(a)
				}
				for range rapid.IntRange(0, 60).Draw(t, "steps between") {
					newer = step(t, newer, b, hash, between)
				}
				got := map[int]Change[int, int]{}
				for _, c := range Diff(older, newer, same) {
					if _, twice := got[c.Key]; twice {
						t.Fatalf("key %d is reported twice", c.Key)
					}
					got[c.Key] = c
				}
				if diff := cmp.Diff(bruteDiff(a, b), got); diff != "" {
					t.Fatalf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func bruteDiff(a, b map[int]int) map[int]Change[int, int] {
	out := map[int]Change[int, int]{}
	for k := range 41 {
		was, wasIn := a[k]
		is, isIn := b[k]
		if wasIn != isIn || was != is {
			out[k] = Change[int, int]{Key: k, Old: was, New: is, WasIn: wasIn, IsInNow: isIn}
		}
	}
	return out
}

func TestDiffLooksOnlyAtWhatChanged(t *testing.T) {
	var m Map[string, int]
	for i := range 20_000 {
		m = m.With(nil, fmt.Sprint(i), i)
	}
	looked := 0
	changes := Diff(m, m.With(nil, "777", -1).Without(nil, "778"), func(a, b int) bool { looked++; return a == b })
	if len(changes) != 2 {
		t.Fatalf("%d changes, want 2: %v", len(changes), changes)
	}
	// At most the pairs of the nodes on the two ways down.
	if looked > 2*4*32 {
		t.Errorf("Diff compared %d values for two changes among 20,000", looked)
	}
}

func TestGetDoesNotAllocate(t *testing.T) {
	var m Map[string, int]
	for i := range 1000 {
		m = m.With(nil, fmt.Sprint(i), i)
	}
	if n := testing.AllocsPerRun(100, func() { m.Get("500") }); n != 0 {
		t.Errorf("Get allocates %v times", n)
	}
}

func TestTakingAwayAnAbsentKeyGivesTheSameMap(t *testing.T) {
	m := Map[string, int]{}.With(nil, "a", 1).With(nil, "b", 2)
	if got := m.Without(nil, "c"); got != m {
		t.Error("Without of an absent key made a new map")
	}
	if got := (Map[string, int]{}).Without(nil, "c"); got.Len() != 0 {
		t.Errorf("Without on an empty map: %d keys", got.Len())
	}
	if got := m.Without(nil, "a").Without(nil, "b"); got != (Map[string, int]{}) {
		t.Error("a map with no key left is not the zero value")
	}
}
