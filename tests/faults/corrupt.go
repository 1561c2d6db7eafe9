package faults

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// part is a file of a store.
type part struct {
	name string // within the store
	size int64
}

// parts lists the files of a store.
func parts(store string) ([]part, error) {
	var all []part
	err := filepath.WalkDir(store, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(store, path)
		all = append(all, part{name: name, size: info.Size()})
		return err
	})
	return all, err
}

// A corruption corrupts a store in one place, and returns the place.
type corruption func(store string, random *rand.Rand) (where string, err error)

// flipBit flips one bit, any of all files.
func flipBit(store string, random *rand.Rand) (string, error) {
	all, err := parts(store)
	if err != nil {
		return "", err
	}
	var total int64
	for _, p := range all {
		total += p.size
	}
	at := random.Int64N(total)
	for _, p := range all {
		if at < p.size {
			bit := random.IntN(8)
			where := fmt.Sprintf("bit %d of byte %d of %d in %s", bit, at, p.size, p.name)
			return where, edit(store, p, func(b []byte) []byte { b[at] ^= 1 << bit; return b })
		}
		at -= p.size
	}
	return "", nil
}

// corruptions are the other ways of spoiling a store, by name.
var corruptions = map[string]corruption{
	"torn tail": inSome(func(b []byte, r *rand.Rand) []byte {
		return b[:len(b)-min(len(b), 1+r.IntN(4096))]
	}),
	"zeroed page": inSome(func(b []byte, r *rand.Rand) []byte {
		at := r.IntN(len(b)) &^ 4095
		clear(b[at:min(len(b), at+4096)])
		return b
	}),
	"swapped blocks": inSome(func(b []byte, r *rand.Rand) []byte {
		const size = 512
		if len(b) < 2*size {
			slices.Reverse(b)
			return b
		}
		i, j := r.IntN(len(b)/size)*size, r.IntN(len(b)/size)*size
		one := slices.Clone(b[i : i+size])
		copy(b[i:i+size], b[j:j+size])
		copy(b[j:j+size], one)
		return b
	}),
	"emptied file": inSome(func([]byte, *rand.Rand) []byte { return nil }),
	"trailing rubbish": inSome(func(b []byte, r *rand.Rand) []byte {
		for range 1 + r.IntN(4096) {
			b = append(b, byte(r.Uint32()))
		}
		return b
	}),
	"missing file": func(store string, random *rand.Rand) (string, error) {
		all, err := parts(store)
		if err != nil {
			return "", err
		}
		p := all[random.IntN(len(all))]
		return p.name, os.Remove(filepath.Join(store, p.name))
	},
	"missing directory": func(store string, random *rand.Rand) (string, error) {
		dir := []string{".", "FACTS", "FACTS/streams", "FACTS/streams/ROUTING", "FACTS/streams/ROUTING/msgs"}[random.IntN(5)]
		return dir, os.RemoveAll(filepath.Join(store, "jetstream", dir))
	},
}

// inSome spoils one of the files, any.
func inSome(spoil func([]byte, *rand.Rand) []byte) corruption {
	return func(store string, random *rand.Rand) (string, error) {
		all, err := parts(store)
		if err != nil {
			return "", err
		}
		all = slices.DeleteFunc(all, func(p part) bool { return p.size == 0 })
		p := all[random.IntN(len(all))]
		return fmt.Sprintf("%s of %d bytes", p.name, p.size), edit(store, p, func(b []byte) []byte { return spoil(b, random) })
	}
}

// edit changes the content of a file.
func edit(store string, p part, change func([]byte) []byte) error {
	name := filepath.Join(store, p.name)
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return os.WriteFile(name, change(content), 0o600)
}
