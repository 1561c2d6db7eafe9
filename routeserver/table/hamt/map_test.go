package hamt

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// id is an identity whose key the test chooses.
type id struct {
	n     int
	keyOf func(int) Key
}

// thing is a value of the tests.
type thing struct {
	id    *id
	value int
}

func (i *id) Key() Key          { return i.keyOf(i.n) }
func (t *thing) ID() *id        { return t.id }
func (t *thing) String() string { return fmt.Sprintf("%d=%d", t.id.n, t.value) }

// keyings are ways to give identities keys. A map must be right with any.
var keyings = map[string]func(int) Key{
	"texts":                     func(n int) Key { return Text(fmt.Sprint("key", n)).Key() },
	"texts of many lengths":     func(n int) Key { return Text(fmt.Sprintf("%0*d", 3+n%16, n)).Key() },
	"all keys collide":          func(int) Key { return Key{7, hashed << 56} },
	"keys collide in hundreds":  func(n int) Key { return Key{uint64(n / 100), hashed << 56} },
	"keys collide in threes":    func(n int) Key { return Key{uint64(n / 3), hashed << 56} },
	"three texts":               func(n int) Key { return Hashed("Deployment", fmt.Sprint("ns", n%7), fmt.Sprint("name", n)) },
	"hashes differ in few bits": func(n int) Key { return Key{seedA ^ uint64(n+1), hashed<<56 | uint64(n&1)} },
}

// known are the identities that the tests use: enough for branches over leaves.
const known = 700

func identities(keyOf func(int) Key) []*id {
	out := make([]*id, known)
	for i := range out {
		out[i] = &id{i, keyOf}
	}
	return out
}

// world is a map and what it should have.
type world struct {
	ids  []*id
	m    Map[*id, *thing]
	want map[int]*thing
}

func begin(keyOf func(int) Key) world { return world{ids: identities(keyOf), want: map[int]*thing{}} }

// changed makes random changes, most of them to few identities or to all.
func (w world) changed(t *rapid.T, edit *Edit) world {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	steps := rapid.SampledFrom([]int{0, 1, 3, 40, 300, 1500}).Draw(t, "steps")
	among := rapid.SampledFrom([]int{3, 40, known}).Draw(t, "among")
	removes := rapid.SampledFrom([]int{0, 3, 5, 9}).Draw(t, "removes of ten")
	w.want = maps.Clone(w.want)
	for range steps {
		id := w.ids[rng.IntN(among)]
		if rng.IntN(10) < removes {
			w.m = w.m.Without(edit, id)
			delete(w.want, id.n)
			continue
		}
		v := &thing{id, rng.IntN(4)}
		w.m, w.want[id.n] = w.m.With(edit, v), v
	}
	return w
}

func (w world) check(t *rapid.T) {
	t.Helper()
	got := map[int]*thing{}
	for v := range w.m.All() {
		if got[v.id.n] != nil {
			t.Fatalf("All gives %v twice", v)
		}
		got[v.id.n] = v
	}
	if !maps.Equal(w.want, got) {
		t.Fatalf("All gives %v, want %v", got, w.want)
	}
	if w.m.Len() != len(w.want) {
		t.Fatalf("Len is %d, want %d", w.m.Len(), len(w.want))
	}
	for _, id := range w.ids {
		got, ok := w.m.Get(id)
		want, wantOK := w.want[id.n]
		if got != want || ok != wantOK {
			t.Fatalf("Get(%d) is %v, %v, want %v, %v", id.n, got, ok, want, wantOK)
		}
	}
}

// Runs of changes, each with an Edit of its own or none: what is made in a run
// must be right at its end, and what was there before it must stay.
func TestEveryVersionAgreesWithAGoMap(t *testing.T) {
	for name, keyOf := range keyings {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				versions := []world{begin(keyOf)}
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
	for name, keyOf := range keyings {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w := begin(keyOf).changed(t, new(Edit)).changed(t, nil)
				var direct Map[*id, *thing]
				for _, v := range w.want {
					direct = direct.With(nil, v)
				}
				if diff := cmp.Diff(shape(direct.root, 0), shape(w.m.root, 0)); diff != "" {
					t.Fatalf("(-directly +after detours):\n%s", diff)
				}
			})
		})
	}
}

// shape says how many values each node has, and holds each node against its rules.
func shape(n *node[*id, *thing], level int) []int {
	if n == nil {
		return nil
	}
	if n.below == nil {
		if n.size > leafMax && level < bottom {
			panic(fmt.Sprintf("a leaf of %d at level %d", n.size, level))
		}
		return []int{n.size}
	}
	out := []int{-n.size}
	for i := range n.below {
		out = append(out, shape(&n.below[i], level+1)...)
	}
	return out
}

func TestDiffAgreesWithComparingEverything(t *testing.T) {
	for name, keyOf := range keyings {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				older := begin(keyOf).changed(t, new(Edit))
				from := older
				if rapid.Bool().Draw(t, "unrelated") {
					from = world{ids: older.ids, want: map[int]*thing{}}
				}
				newer := from.changed(t, rapid.SampledFrom([]*Edit{nil, {}}).Draw(t, "edit"))
				got := map[int]Change[*thing]{}
				for _, c := range Diff(older.m, newer.m, func(a, b *thing) bool { return a.value == b.value }) {
					either := c.Old
					if either == nil {
						either = c.New
					}
					if _, twice := got[either.id.n]; twice {
						t.Fatalf("%v is reported twice", either)
					}
					got[either.id.n] = c
				}
				if want := bruteDiff(older.want, newer.want); !maps.Equal(want, got) {
					t.Fatalf("got %v, want %v", got, want)
				}
			})
		})
	}
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

// line is a value that is found by its text.
type line struct{ text string }

func (l *line) ID() Text { return Text(l.text) }

func lines(n int) Map[Text, *line] {
	var m Map[Text, *line]
	var edit Edit
	for i := range n {
		m = m.With(&edit, &line{fmt.Sprint("line ", i)})
	}
	return m
}

func TestDiffLooksOnlyAtWhatChanged(t *testing.T) {
	m := lines(20_000)
	newer := m.With(nil, &line{"line 777"}).Without(nil, "line 778")
	looked := 0
	changes := Diff(m, newer, func(a, b *line) bool { looked++; return false })
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
	if got := (after.TotalAlloc - before.TotalAlloc) / 100; got > 16<<10 {
		t.Errorf("one change among 100,000 values takes %d bytes, want at most 16 KB", got)
	}
}

func TestGetDoesNotAllocate(t *testing.T) {
	m := lines(1000)
	long := Text("a text that is longer than a key has room for")
	if n := testing.AllocsPerRun(100, func() { m.Get("line 500"); m.Get(long) }); n != 0 {
		t.Errorf("Get allocates %v times", n)
	}
}

func TestTakingAwayWhatIsNotThereGivesTheSameMap(t *testing.T) {
	m := lines(2)
	if got := m.Without(nil, "c"); got != m {
		t.Error("Without of an absent identity made a new map")
	}
	if got := (Map[Text, *line]{}).Without(nil, "c"); got.Len() != 0 {
		t.Errorf("Without on an empty map: %d values", got.Len())
	}
	if got := m.Without(nil, "line 0").Without(nil, "line 1"); got != (Map[Text, *line]{}) {
		t.Error("a map with no value left is not the zero value")
	}
}
