package ring

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A record on disk is its length without these 8 bytes and the checksum of that part, as 32 bits each, and then capture,
// source (each a length and bytes), number and data.
const head = 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode appends a record.
func encode(to []byte, r Record) []byte {
	begin := len(to)
	to = append(to, make([]byte, head)...)
	to = append(binary.AppendUvarint(to, uint64(len(r.Capture))), r.Capture...)
	to = append(binary.AppendUvarint(to, uint64(len(r.Source))), r.Source...)
	to = append(binary.AppendUvarint(to, r.Number), r.Data...)
	body := to[begin+head:]
	binary.BigEndian.PutUint32(to[begin:], uint32(len(body))) //nolint:gosec // MaxBatch
	binary.BigEndian.PutUint32(to[begin+4:], crc32.Checksum(body, castagnoli))
	return to
}

// errTorn is the error of a record that is not whole, or damaged.
var errTorn = errors.New("a record is torn or damaged")

// scanner reads the records of a segment. left is the bytes that it may still read, buffer has the last record.
type scanner struct {
	in     *bufio.Reader
	left   int64
	buffer []byte
}

// next returns the next record and its size on disk; io.EOF after the last one. Its data is valid until the next call.
func (s *scanner) next() (Record, int64, error) {
	if s.left == 0 {
		return Record{}, 0, io.EOF
	}
	var h [head]byte
	if _, err := io.ReadFull(s.in, h[:]); err != nil {
		return Record{}, 0, torn(err)
	}
	size := int64(binary.BigEndian.Uint32(h[:]))
	if size > s.left-head {
		return Record{}, 0, errTorn
	}
	s.buffer = slices.Grow(s.buffer[:0], int(size))[:size]
	if _, err := io.ReadFull(s.in, s.buffer); err != nil {
		return Record{}, 0, torn(err)
	}
	if crc32.Checksum(s.buffer, castagnoli) != binary.BigEndian.Uint32(h[4:]) {
		return Record{}, 0, errTorn
	}
	r, err := decode(s.buffer)
	s.left -= head + size
	return r, head + size, err
}

func torn(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errTorn
	}
	return err
}

// decode reads the part of a record that has the checksum.
func decode(body []byte) (r Record, err error) {
	text := func() string {
		n, used := binary.Uvarint(body)
		if used <= 0 || n > uint64(len(body)-used) {
			body, err = nil, errTorn
			return ""
		}
		t := string(body[used : used+int(n)]) //nolint:gosec // within body
		body = body[used+int(n):]             //nolint:gosec // as above
		return t
	}
	r.Capture, r.Source = text(), text()
	number, used := binary.Uvarint(body)
	if err != nil || used <= 0 {
		return r, errTorn
	}
	r.Number, r.Data = number, body[used:]
	return r, nil
}

const suffix = ".segment"

// numbers returns the numbers of the segments in a folder, sorted.
func numbers(dir string) (all []int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if text, is := strings.CutSuffix(e.Name(), suffix); is {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%s is no segment: remove it", e.Name())
			}
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, nil
}

// load reads the store. The error is fs.ErrNotExist if there is none.
func (r *Ring) load() error {
	text, err := os.ReadFile(r.state())
	if err != nil {
		return err
	}
	var s state
	if err := json.Unmarshal(text, &s); err != nil || s.Epoch == "" {
		return fmt.Errorf("%s cannot be read: %w", filepath.Base(r.state()), err)
	}
	r.epoch = s.Epoch
	for capture, n := range s.Evicted {
		r.captures[capture] = &extent{from: n, to: n}
	}
	all, err := numbers(r.cfg.Dir)
	if err != nil {
		return err
	}
	for i, n := range all {
		if n < s.First { // evicted, and then the process terminated
			if err := os.Remove(r.path(n)); err != nil {
				return err
			}
			continue
		}
		if len(r.segments) == 0 && n != s.First || len(r.segments) > 0 && n != all[i-1]+1 {
			return fmt.Errorf("a segment before %s is missing", filepath.Base(r.path(n)))
		}
		if err := r.read(n, i == len(all)-1); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(r.path(n)), err)
		}
	}
	if len(r.segments) == 0 && s.First > 1 {
		return fmt.Errorf("%s is missing", filepath.Base(r.path(s.First)))
	}
	return nil
}

// read reads a segment. The end of the last one is cut where it is torn.
func (r *Ring) read(n int64, last bool) error {
	f, err := os.OpenFile(r.path(n), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	stat, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s := &segment{number: n, captures: map[string]*extent{}}
	records := scanner{in: bufio.NewReaderSize(f, 256<<10), left: stat.Size()}
	for {
		one, size, err := records.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if last && errors.Is(err, errTorn) {
			err = f.Truncate(s.size)
			if err == nil {
				break
			}
		}
		if err != nil {
			return errors.Join(err, f.Close())
		}
		s.size += size
		r.count(s, one.Capture)
		if r.cfg.Loaded != nil {
			r.cfg.Loaded(one)
		}
	}
	r.segments, r.bytes = append(r.segments, s), r.bytes+s.size
	if last {
		r.file = f
		return nil
	}
	return f.Close()
}

// Position is where a reader of one capture is. Only Offset is set by others.
type Position struct {
	// Offset is that of the next record.
	Offset uint64
	// offset, at and segment are where the record with an offset begins on disk.
	offset  uint64
	at      int64
	segment int64
}

// Read returns records of a capture, about most bytes of them but at least one if there is one, and moves the position behind
// them. missed is how many were evicted before the first one.
func (r *Ring) Read(capture string, p *Position, most int) (all []Record, missed uint64, err error) {
	for {
		s, size, end, skipped := r.find(capture, p)
		missed += skipped
		if s == nil {
			return nil, missed, nil
		}
		all, err = r.readFrom(s, size, capture, p, end, most)
		// The file can have been deleted since find.
		if err == nil || r.oldest() <= s.number {
			return all, missed, err
		}
	}
}

// oldest returns the number of the oldest segment.
func (r *Ring) oldest() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.segments[0].number
}

// find returns the segment with the record at a position, and how much of it is written: its bytes, and the offset after the last
// record of the capture. A position before the oldest record moves there. Without a record there, the segment is nil.
func (r *Ring) find(capture string, p *Position) (s *segment, size int64, end, missed uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.captures[capture]
	if e == nil {
		return nil, 0, 0, 0
	}
	if p.Offset < e.from {
		missed, p.Offset = e.from-p.Offset, e.from
	}
	for _, s := range r.segments {
		if in := s.captures[capture]; in != nil && in.from <= p.Offset && p.Offset < in.to {
			if p.segment != s.number || p.offset > p.Offset {
				p.segment, p.at, p.offset = s.number, 0, in.from
			}
			return s, s.size, in.to, missed
		}
	}
	return nil, 0, 0, missed
}

// readFrom reads from a segment up to the record before the offset end.
func (r *Ring) readFrom(s *segment, size int64, capture string, p *Position, end uint64, most int) (all []Record, err error) {
	f, err := os.Open(r.path(s.number))
	if err != nil {
		return nil, fmt.Errorf("ring: %w", err)
	}
	defer f.Close() //nolint:errcheck // It was only read.
	if _, err := f.Seek(p.at, io.SeekStart); err != nil {
		return nil, fmt.Errorf("ring: %w", err)
	}
	records, bytes := scanner{in: bufio.NewReaderSize(f, 64<<10), left: size - p.at}, 0
	next := *p
	for next.offset < end && (bytes < most || len(all) == 0) {
		one, size, err := records.next()
		if err != nil {
			return nil, fmt.Errorf("ring: %s at %d: %w", filepath.Base(f.Name()), next.at, err)
		}
		next.at += size
		if one.Capture != capture {
			continue
		}
		next.offset++
		if next.offset <= p.Offset {
			continue
		}
		one.Data = slices.Clone(one.Data)
		all, bytes = append(all, one), bytes+len(one.Data)
	}
	next.Offset = next.offset
	*p = next
	return all, nil
}
