package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"switchyard.dev/eventbus/jetstream"
)

// The records of JetStream's block files, as far as they matter here: length,
// sequence, time, length of the subject; the highest bits are marks.
const (
	recordHead = 4 + 8 + 8 + 2
	lengthMark = 1 << 31
	placeMarks = 1<<63 | 1<<62
	// leap is more than any two records that follow each other are apart.
	leap = 1 << 24
)

// leaps returns an error when sequences in the block files of the store leap where none can: when one
// high bit of a sequence has flipped. The server takes the leap for that many
// deleted events and notes down each of them, which takes it all the memory there
// is. This is the only damage that must not reach it; all other is found by
// reading the log through it, so what does not look like a record is left to it.
func (d Dir) leaps() error {
	names, err := filepath.Glob(filepath.Join(d.logs(), jetstream.StreamName, "msgs", "*.blk"))
	if err != nil {
		return err
	}
	number := func(name string) int {
		n, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(name), ".blk")) // 0 for other files
		return n
	}
	slices.SortFunc(names, func(a, b string) int { return number(a) - number(b) })
	var last uint64
	for _, name := range names {
		block, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return DamageError{Unreadable, err}
		}
		for len(block) >= recordHead {
			length := binary.LittleEndian.Uint32(block) &^ lengthMark
			seq := binary.LittleEndian.Uint64(block[4:]) &^ placeMarks
			if length < recordHead || int64(length) > int64(len(block)) {
				break
			}
			if last > 0 && (seq > last+leap || last > seq+leap) {
				return DamageError{Altered, fmt.Errorf("event %d is followed by event %d in %s", last, seq, filepath.Base(name))}
			}
			last, block = seq, block[length:]
		}
	}
	return nil
}
