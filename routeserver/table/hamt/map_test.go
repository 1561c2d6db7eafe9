package hamt

import (
	stdcmp "cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// thing is a value of the tests: a number that finds it, and whose hash the test
// chooses, and what it says.
type thing struct {
	n, value int
	hash     func(int) uint64
}

func (t *thing) ID() int        { return t.n }
func (t *thing) Is(n int) bool  { return t.n == n }
func (t *thing) Hash() uint64   { return t.hash(t.n) }
func (t *thing) String() string { return fmt.Sprintf("%d=%d", t.n, t.value) }

// hashes are the real one and bad ones: a map must be right with any.
var hashes = map[string]func(int) uint64{
	"the real hash":              func(n int) uint64 { return Text(fmt.Sprint("key", n)).Hash() },
	"near one of seven owners":   func(n int) uint64 { return Near(owner(n), WordsOf(fmt.Sprint(n)).Hash(0)) },
	"all collide":                func(int) uint64 { return 1<<64 - 1 },
	"collide by the hundred":     func(n int) uint64 { return uint64(n/100) << 40 },
	"collide by three":           func(n int) uint64 { return uint64(n/3) << 13 },
	"differ in the lowest bits":  func(n int) uint64 { return uint64(n) },
	"differ in the highest bits": func(n int) uint64 { return uint64(n) << 53 },
}

func owner(n int) uint64 { return Text(fmt.Sprint("owner", n%7)).Hash() }

// known is how many identities the tests use: enough for branches over leaves.
const known = leafMax + 200

// world is a map and what it should have.
type world struct {
	hash func(int) uint64
	m    Map[int, *thing]
	want map[int]*thing
}

func begin(hash func(int) uint64) world { return world{hash: hash, want: map[int]*thing{}} }

// remembered returns the same function, quick for the identities of the tests.
func remembered(hash func(int) uint64) func(int) uint64 {
	all := make([]uint64, known)
	for n := range all {
		all[n] = hash(n)
	}
	return func(n int) uint64 { return all[n] }
}

// changed makes random changes, most of them to few identities or to all.
func (w world) changed(t *rapid.T, edit *Edit) world {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	steps := rapid.SampledFrom([]int{0, 1, 3, 40, 300, 3000}).Draw(t, "steps")
	among := rapid.SampledFrom([]int{3, 40, known}).Draw(t, "among")
	removes := rapid.SampledFrom([]int{0, 3, 5, 9}).Draw(t, "removes of ten")
	w.want = maps.Clone(w.want)
	for range steps {
		n := rng.IntN(among)
		if rng.IntN(10) < removes {
			w.m = w.m.Without(edit, w.hash(n), n)
			delete(w.want, n)
			continue
		}
		v := &thing{n, rng.IntN(4), w.hash}
		w.m, w.want[n] = w.m.With(edit, v), v
	}
	return w
}

func (w world) check(t *rapid.T) {
	t.Helper()
	got := map[int]*thing{}
	for v := range w.m.All() {
		if got[v.n] != nil {
			t.Fatalf("All gives %v twice", v)
		}
		got[v.n] = v
	}
	if d := difference(w.want, got); d != "" {
		t.Fatalf("All: %s", d)
	}
	if w.m.Len() != len(w.want) {
		t.Fatalf("Len is %d, want %d", w.m.Len(), len(w.want))
	}
	for n := range known {
		got, ok := w.m.Get(w.hash(n), n)
		want, wantOK := w.want[n]
		if got != want || ok != wantOK {
			t.Fatalf("Get(%d) is %v, %v, want %v, %v", n, got, ok, want, wantOK)
		}
	}
}

// difference returns where the first one is, and nothing when there is none.
func difference[V comparable](want, got map[int]V) string {
	for n := range known {
		is, ok := got[n]
		if should, wanted := want[n]; is != should || ok != wanted {
			return fmt.Sprintf("%d is %v, %v, want %v, %v (%d values, want %d)", n, is, ok, should, wanted, len(got), len(want))
		}
	}
	return ""
}

// Runs of changes, each with an Edit of its own or none: what is made in a run
// must be right at its end, and what was there before it must stay.
func TestEveryVersionAgreesWithAGoMap(t *testing.T) {
	for name, hash := range hashes {
		hash := remembered(hash)
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				versions := []world{begin(hash)}
				for range rapid.IntRange(1, 6).Draw(t, "runs") {
					from := rapid.SampledFrom(versions).Draw(t, "from")
					edit := rapid.SampledFrom([]*Edit{nil, new(Edit), new(Edit)}).Draw(t, "edit")
					versions = append(versions, from.changed(t, edit))
				}
				for _, v := range versions {
					v.check(t)
				}
			})
		})
	}
}

func TestTheShapeFollowsFromTheKeysAlone(t *testing.T) {
	for name, hash := range hashes {
		hash := remembered(hash)
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w := begin(hash).changed(t, new(Edit)).changed(t, nil)
				var direct Map[int, *thing]
				for _, v := range w.want {
					direct = direct.With(nil, v)
				}
				if diff := cmp.Diff(shape(t, &direct.root, 0), shape(t, &w.m.root, 0)); diff != "" {
					t.Fatalf("(-directly +after detours):\n%s", diff)
				}
			})
		})
	}
}

// shape returns how many values each node has, and holds each against its rules.
func shape(t *rapid.T, n *node[int, *thing], level int) []int {
	if n.below == nil {
		if n.size > leafMax && level < bottom {
			t.Fatalf("a leaf of %d at level %d", n.size, level)
		}
		if n.size > 0 && n.size >= len(n.slots) {
			t.Fatalf("a leaf of %d has %d slots, and none is free", n.size, len(n.slots))
		}
		return []int{n.size}
	}
	out := []int{-n.size}
	for i := range n.below {
		out = append(out, shape(t, &n.below[i], level+1)...)
	}
	return out
}

func TestDiffAgreesWithComparingEverything(t *testing.T) {
	for name, hash := range hashes {
		hash := remembered(hash)
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				older := begin(hash).changed(t, new(Edit))
				from := older
				if rapid.Bool().Draw(t, "unrelated") {
					from = begin(hash)
				}
				newer := from.changed(t, rapid.SampledFrom([]*Edit{nil, {}}).Draw(t, "edit"))
				want := bruteDiff(older.want, newer.want)
				if d := difference(want, byNumber(t, Diff(older.m, newer.m, sameValue))); d != "" {
					t.Fatal(d)
				}
			})
		})
	}
}

func sameValue(a, b *thing) bool { return a.value == b.value }

func byNumber(t *rapid.T, changes []Change[*thing]) map[int]Change[*thing] {
	out := map[int]Change[*thing]{}
	for _, c := range changes {
		either := stdcmp.Or(c.Old, c.New)
		if _, twice := out[either.n]; twice {
			t.Fatalf("%v is reported twice", either)
		}
		out[either.n] = c
	}
	return out
}

func bruteDiff(a, b map[int]*thing) map[int]Change[*thing] {
	out := map[int]Change[*thing]{}
	for n := range known {
		was, is := a[n], b[n]
		if was == is || was != nil && is != nil && was.value == is.value {
			continue
		}
		out[n] = Change[*thing]{Old: was, New: is}
	}
	return out
}

func TestNearReturnsAllValuesOfAnOwner(t *testing.T) {
	hash := remembered(hashes["near one of seven owners"])
	rapid.Check(t, func(t *rapid.T) {
		older := begin(hash).changed(t, new(Edit))
		newer := older.changed(t, nil)
		n := rapid.IntRange(0, 6).Draw(t, "owner")
		others := func(m int, _ *thing) bool { return m%7 != n }
		got, want := map[int]*thing{}, maps.Clone(older.want)
		for v := range older.m.Near(owner(n)) {
			got[v.n] = v
		}
		maps.DeleteFunc(got, others)
		maps.DeleteFunc(want, others)
		if d := difference(want, got); d != "" {
			t.Fatalf("Near: %s", d)
		}
		changes := byNumber(t, DiffNear(older.m, newer.m, owner(n), sameValue))
		wantChanges := bruteDiff(older.want, newer.want)
		maps.DeleteFunc(changes, func(m int, _ Change[*thing]) bool { return others(m, nil) })
		maps.DeleteFunc(wantChanges, func(m int, _ Change[*thing]) bool { return others(m, nil) })
		if d := difference(wantChanges, changes); d != "" {
			t.Fatalf("DiffNear: %s", d)
		}
	})
}

// Of many owners only a few values lie near one.
func TestNearDoesNotVisitAllValues(t *testing.T) {
	var m Map[int, *thing]
	var edit Edit
	hash := func(n int) uint64 { return Near(Text(fmt.Sprint(n/50)).Hash(), WordsOf(fmt.Sprint(n)).Hash(0)) }
	for n := range 100_000 {
		m = m.With(&edit, &thing{n, 0, hash})
	}
	looked := 0
	for range m.Near(Text("777").Hash()) {
		looked++
	}
	if looked < 50 || looked > 2*leafMax {
		t.Errorf("looked at %d values of 100,000 to find 50", looked)
	}
}

// line is a value that is found by its text.
type line struct{ text string }

func (l *line) ID() Text { return Text(l.text) }

func lines(n int) Index[Text, *line] {
	var m Index[Text, *line]
	var edit Edit
	for i := range n {
		m = m.With(&edit, &line{fmt.Sprint("line ", i)})
	}
	return m
}

func TestDiffVisitsOnlyChanges(t *testing.T) {
	m := lines(20_000)
	newer := m.With(nil, &line{"line 777"}).Without(nil, "line 778")
	looked := 0
	changes := Diff(m.values, newer.values, func(_, _ hashed[Text, *line]) bool { looked++; return false })
	if len(changes) != 2 {
		t.Fatalf("%d changes, want 2: %v", len(changes), changes)
	}
	if looked != 1 {
		t.Errorf("Diff compared %d values for two changes among 20,000, of which one is a replacement", looked)
	}
}

func TestAChangeCopiesLittle(t *testing.T) {
	m := lines(100_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		m.With(nil, &line{"line 777"})
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / 100; got > 64<<10 {
		t.Errorf("one change among 100,000 values takes %d bytes, want at most 64 KB", got)
	}
}

func TestGetDoesNotAllocate(t *testing.T) {
	m := lines(1000)
	long := Text("a text that is longer than a key has room for")
	if n := testing.AllocsPerRun(100, func() { m.Get("line 500"); m.Get(long) }); n != 0 {
		t.Errorf("Get allocates %v times", n)
	}
}

func TestRemovingAMissingValueReturnsTheSameMap(t *testing.T) {
	m := lines(2)
	if got := m.Without(nil, "c"); !shared(got.values.root.slots, m.values.root.slots) {
		t.Error("Without of an absent identity made a new map")
	}
	if got := (Index[Text, *line]{}).Without(nil, "c"); got.Len() != 0 {
		t.Errorf("Without on an empty map: %d values", got.Len())
	}
	if got := m.Without(nil, "line 0").Without(nil, "line 1"); got.Len() != 0 || got.values.root.slots != nil {
		t.Error("a map with no value left is not an empty one")
	}
}
