package corpus

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"sigs.k8s.io/yaml"

	"switchyard.dev/eventbus/lists"
)

// Noise is a kind of noise; kinds/README.md describes its members.
type Noise struct {
	Name     string   `json:"name"`
	HeldOut  bool     `json:"heldOut"`
	Flapping bool     `json:"flapping"`
	Text     []string `json:"text"`
	PerRun   bool     `json:"perRun"`
	AsNumber bool     `json:"number-text"`
	Number   *Number  `json:"number"`
	Counter  *Counter `json:"counter"`
	Choose   *Choose  `json:"choose"`
	Flap     *Flap    `json:"flap"`
	List     *List    `json:"list"`
	Map      *Map     `json:"map"`
}

// Number varies around a center.
type Number struct {
	Shapes   []string   `json:"shapes"`
	Center   [2]float64 `json:"center"`
	Spread   [2]float64 `json:"spread"`
	Decimals [2]int     `json:"decimals"`
}

// Counter grows from answer to answer.
type Counter struct {
	Start [2]int64 `json:"start"`
	Step  [2]int64 `json:"step"`
}

// Choose is one of a few values.
type Choose struct {
	Count [2]int `json:"count"`
	Of    []any  `json:"of"`
}

// Flap is a value that is seldom another.
type Flap struct {
	Chance float64  `json:"chance"`
	To     []string `json:"to"`
}

// List varies the elements of a list.
type List struct {
	Shuffle bool   `json:"shuffle"`
	Lengths [2]int `json:"lengths"`
}

// Map varies the members of an object.
type Map struct {
	Shuffle bool   `json:"shuffle"`
	Keys    string `json:"keys"`
	Entries [2]int `json:"entries"`
}

// Fault is a kind of fault; kinds/README.md describes its members.
type Fault struct {
	Name      string    `json:"name"`
	HeldOut   bool      `json:"heldOut"`
	On        []string  `json:"types"`
	Remove    bool      `json:"remove"`
	Null      bool      `json:"null"`
	Retype    bool      `json:"retype"`
	Empty     bool      `json:"empty"`
	Text      []string  `json:"text"`
	Edit      []string  `json:"edit"`
	Add       []float64 `json:"add"`
	Multiply  []float64 `json:"multiply"`
	Negate    bool      `json:"negate"`
	Round     *int      `json:"round"`
	Invert    bool      `json:"invert"`
	Swap      bool      `json:"swap"`
	Drop      string    `json:"drop"`
	Duplicate bool      `json:"duplicate"`
	Reverse   bool      `json:"reverse"`
}

// Kinds are all kinds of a folder, by name.
type Kinds struct {
	Noise  []Noise
	Faults []Fault
}

// Load reads the folders noise and faults. Errors name the file.
func Load(folder fs.FS) (k Kinds, err error) {
	if k.Noise, err = load(folder, "noise", Noise.check); err != nil {
		return Kinds{}, err
	}
	if k.Faults, err = load(folder, "faults", Fault.check); err != nil {
		return Kinds{}, err
	}
	return k, nil
}

func load[T any](folder fs.FS, name string, check func(T) error) ([]T, error) {
	files, err := fs.Glob(folder, path.Join(name, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, fmt.Errorf("no kinds in folder %s: write *.yaml files there", name))
	}
	slices.Sort(files)
	var kinds []T
	for _, file := range files {
		content, err := fs.ReadFile(folder, file)
		if err != nil {
			return nil, fmt.Errorf("read the kinds of the corpus: %w", err)
		}
		var kind T
		if err := errors.Join(yaml.UnmarshalStrict(content, &kind), check(kind)); err != nil {
			return nil, fmt.Errorf("%s is no kind: %w", file, err)
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}

func (n Noise) check() error {
	count := trues(len(n.Text) > 0, n.Number != nil, n.Counter != nil, n.Choose != nil, n.Flap != nil, n.List != nil, n.Map != nil)
	if n.Name == "" || count != 1 {
		return fmt.Errorf("kind %q has %d descriptions of its values; give it a name and exactly one", n.Name, count)
	}
	for _, t := range n.Text {
		if _, err := pattern(t); err != nil {
			return err
		}
	}
	return nil
}

func (f Fault) check() error {
	count := trues(f.Remove, f.Null, f.Retype, f.Empty, len(f.Text) > 0, len(f.Edit) > 0, len(f.Add) > 0, len(f.Multiply) > 0,
		f.Negate, f.Round != nil, f.Invert, f.Swap, f.Drop != "", f.Duplicate, f.Reverse)
	if f.Name == "" || count != 1 || len(f.On) == 0 {
		return fmt.Errorf("fault %q has %d effects on %d types; give it a name, types and exactly one effect", f.Name, count, len(f.On))
	}
	return nil
}

// trues returns how many of the conditions hold.
func trues(all ...bool) int {
	return len(lists.Filter(all, func(is bool) bool { return is }))
}
