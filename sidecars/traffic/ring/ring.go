// Package ring is a ring of records on disk, of a fixed size: the oldest segment makes room for new records, and its records
// are counted as evicted, for each capture.
//
// # Offsets
//
// The offset of a record is the number of records of its capture before it, since the store began. So what a reader missed is
// exact: the stored ones of a capture are those from its evicted ones to its end, without gaps. A store has an epoch, a random name:
// offsets of another epoch mean nothing here.
//
// # Crashes
//
// Append returns once records are written. They survive the end of the process; Sync, once a second, makes them survive that of
// the node, most of the time. A torn record at the end is cut by Open. Before a segment is deleted, the numbers of its records
// are on disk. If anything else is wrong (a damaged record, a missing file), the store begins again, empty, with a new epoch.
package ring

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/wake"
)

// Record is one record.
type Record struct {
	// Capture has the record, and Source has given it this Number.
	Capture, Source string
	Number          uint64
	Data            []byte
}

// Config configures a Ring. Dir and Bytes are required.
type Config struct {
	// Dir is a folder of the ring's own.
	Dir string
	// Bytes bounds all segments, and Segment one, except one with a single large batch. Default: a 32nd, at least 64 KiB.
	Bytes, Segment int64
	// Loaded is called by Open with each record that is stored. Its data is valid during the call.
	Loaded func(Record)
	// BeforeEviction is called before records are deleted. If it returns an error, none are, and Append returns it.
	BeforeEviction func() error
	Logger         *slog.Logger
}

// Ring is a ring on disk. It is safe for concurrent use.
type Ring struct {
	cfg     Config
	changed wake.Signal

	mu       sync.Mutex
	epoch    string
	bytes    int64
	segments []*segment // the oldest first
	captures map[string]*extent
	file     *os.File // of the last segment; nil: the next Append begins one
	dirty    bool
}

// extent is the offsets of a capture's records: from is the first one in the ring, or in a segment, and to follows the last.
type extent struct {
	from, to  uint64
	forgotten bool
}

// segment is one file.
type segment struct {
	number, size int64
	captures     map[string]*extent
}

// state is the file beside the segments. Evicted is by capture.
type state struct {
	Epoch   string            `json:"epoch"`
	First   int64             `json:"first"`
	Evicted map[string]uint64 `json:"evicted"`
}

// MaxBatch returns how many bytes one Append may have, with 64 bytes for each record beside its own.
func (c Config) MaxBatch() int64 { return c.Bytes / 4 }

// Open opens the store in a folder, or begins one.
func Open(cfg Config) (*Ring, error) {
	cfg.Segment = cmp.Or(cfg.Segment, max(cfg.Bytes/32, 64<<10))
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Dir == "" || cfg.Bytes < 4*cfg.Segment {
		return nil, fmt.Errorf("ring: %d bytes in folder %q: a folder is needed, and at least four segments of %d bytes", cfg.Bytes, cfg.Dir, cfg.Segment)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("ring: %w", err)
	}
	r := &Ring{cfg: cfg, captures: map[string]*extent{}}
	switch err := r.load(); {
	case err == nil:
		return r, nil
	case !errors.Is(err, fs.ErrNotExist):
		cfg.Logger.Error("the stored exchanges cannot be used; the store begins again without them, and they count as lost", "folder", cfg.Dir, "error", err)
	}
	if err := r.begin(); err != nil {
		return nil, fmt.Errorf("ring: %w", err)
	}
	return r, nil
}

// begin begins an empty store.
func (r *Ring) begin() error {
	all, err := numbers(r.cfg.Dir)
	if err != nil {
		return err
	}
	if r.file != nil {
		_ = r.file.Close() // it is removed
	}
	r.epoch, r.segments, r.bytes, r.captures, r.file = rand.Text(), nil, 0, map[string]*extent{}, nil
	// Until the state is there, the next Open begins again, too.
	if err := os.Remove(r.state()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, n := range all {
		err = errors.Join(err, os.Remove(r.path(n)))
	}
	return errors.Join(err, r.save(1))
}

func (r *Ring) state() string       { return filepath.Join(r.cfg.Dir, "state.json") }
func (r *Ring) path(n int64) string { return filepath.Join(r.cfg.Dir, fmt.Sprintf("%016d.segment", n)) }

// save writes the state, with the number of the first segment that counts.
func (r *Ring) save(first int64) error {
	s := state{Epoch: r.epoch, First: first, Evicted: map[string]uint64{}}
	for capture, e := range r.captures {
		s.Evicted[capture] = e.from
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return program.Replace(r.state(), text)
}

// Epoch returns the name of the store.
func (r *Ring) Epoch() string { return r.epoch }

// Next returns a channel that is closed by the next Append. Take it before reading.
func (r *Ring) Next() <-chan struct{} { return r.changed.Next() }

// Bytes returns the size of all segments.
func (r *Ring) Bytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}

// Extent returns how many records of a capture were evicted, and how many the store ever had.
func (r *Ring) Extent(capture string) (evicted, all uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.captures[capture]; e != nil {
		return e.from, e.to
	}
	return 0, 0
}

// Captures returns the captures of which records are or were stored.
func (r *Ring) Captures() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.captures))
}

// Forget releases the counters of a capture, once none of its records is stored.
func (r *Ring) Forget(capture string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.captures[capture]; e != nil {
		e.forgotten = true
		r.release(capture)
	}
}

func (r *Ring) release(capture string) {
	if e := r.captures[capture]; e.forgotten && e.from == e.to {
		delete(r.captures, capture)
	}
}

// Append writes records, all or none. After an error the caller may append them again.
func (r *Ring) Append(records ...Record) error {
	var text []byte
	for _, one := range records {
		text = encode(text, one)
	}
	size := int64(len(text))
	if size > r.cfg.MaxBatch() {
		return fmt.Errorf("ring: a batch has %d bytes: at most %d are taken", size, r.cfg.MaxBatch())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last, err := r.space(size)
	if err != nil {
		return fmt.Errorf("ring: %w", err)
	}
	if _, err := r.file.WriteAt(text, last.size); err != nil {
		// A part may be there. The next one is written over it, or Open cuts it.
		return fmt.Errorf("ring: %w", errors.Join(err, r.file.Truncate(last.size)))
	}
	last.size, r.bytes, r.dirty = last.size+size, r.bytes+size, true
	for _, one := range records {
		r.count(last, one.Capture)
	}
	r.changed.Send()
	return nil
}

// count adds a record to the extents of its capture.
func (r *Ring) count(in *segment, capture string) {
	e := r.captures[capture]
	if e == nil {
		e = &extent{}
		r.captures[capture] = e
	}
	if in.captures[capture] == nil {
		in.captures[capture] = &extent{from: e.to, to: e.to}
	}
	e.to++
	in.captures[capture].to++
}

// space returns the last segment, with room for more bytes in it and in all.
func (r *Ring) space(size int64) (*segment, error) {
	var last *segment
	if n := len(r.segments); n > 0 {
		last = r.segments[n-1]
	}
	if r.file != nil && last.size > 0 && last.size+size > r.cfg.Segment {
		if err := errors.Join(r.file.Sync(), r.file.Close()); err != nil {
			r.file = nil
			return nil, err
		}
		r.file = nil
	}
	if r.file == nil {
		next := &segment{number: 1, captures: map[string]*extent{}}
		if last != nil {
			next.number = last.number + 1
		}
		f, err := os.OpenFile(r.path(next.number), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		r.file, r.segments, last = f, append(r.segments, next), next
	}
	return last, r.evict(size)
}

// evict deletes the oldest segments until more bytes fit. The last segment stays.
func (r *Ring) evict(size int64) error {
	n, bytes := 0, r.bytes
	for ; bytes+size > r.cfg.Bytes && n < len(r.segments)-1; n++ {
		bytes -= r.segments[n].size
	}
	if n == 0 {
		return nil
	}
	if r.cfg.BeforeEviction != nil {
		if err := r.cfg.BeforeEviction(); err != nil {
			return err
		}
	}
	old, before := r.segments[:n], map[string]uint64{}
	for _, s := range old {
		for capture, e := range s.captures {
			if _, is := before[capture]; !is {
				before[capture] = r.captures[capture].from
			}
			r.captures[capture].from = e.to
		}
	}
	if err := r.save(r.segments[n].number); err != nil {
		for capture, from := range before {
			r.captures[capture].from = from
		}
		return err
	}
	r.segments, r.bytes = slices.Clone(r.segments[n:]), bytes
	for capture := range before {
		r.release(capture)
	}
	var err error
	for _, s := range old {
		err = errors.Join(err, os.Remove(r.path(s.number)))
	}
	return err
}

// Sync syncs the records to the disk.
func (r *Ring) Sync() error {
	r.mu.Lock()
	f, dirty := r.file, r.dirty
	r.dirty = false
	r.mu.Unlock()
	if f == nil || !dirty {
		return nil
	}
	// It may be closed by now, after it was synced.
	if err := f.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("ring: %w", err)
	}
	return nil
}

// Close closes the store. No other method is called after it.
func (r *Ring) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	return errors.Join(r.file.Sync(), r.file.Close())
}
