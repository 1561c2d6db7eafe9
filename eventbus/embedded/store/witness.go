package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"switchyard.dev/eventbus/event"
)

// The witness is a small file next to the store. It contains the Mark of the newest event that
// the server knows to be on disk, and so shows that there was a log and how far it reached.
// JetStream itself does not report that after its files were damaged, because it begins again
// with the readable ones.
const (
	witnessFile = "witness"
	// witnessForm is its first line. A later form gets another.
	witnessForm = "switchyard witness 1"
)

// ErrNoWitness means that there is no witness file.
var ErrNoWitness = errors.New("there is no witness of the log")

// writtenWitness is the witness in written form: lines that a person can read,
// the last of which is a checksum over those before it.
func writtenWitness(m event.Mark) []byte {
	text := fmt.Sprintf("%s\nepoch %s\nsequence %d\nchain %s\n", witnessForm, m.Epoch, m.Seq, m.Chain)
	sum := sha256.Sum256([]byte(text))
	return []byte(text + "sum " + hex.EncodeToString(sum[:]) + "\n")
}

// parseWitness reads what writtenWitness wrote. An error means that it did not.
func parseWitness(text string) (event.Mark, error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 6 || lines[0] != witnessForm {
		return event.Mark{}, errors.New("it does not have the form of a witness")
	}
	m := event.Mark{Pos: event.Pos{Epoch: strings.TrimPrefix(lines[1], "epoch ")}}
	var err error
	if m.Seq, err = strconv.ParseUint(strings.TrimPrefix(lines[2], "sequence "), 10, 64); err != nil {
		return event.Mark{}, fmt.Errorf("its sequence does not read: %w", err)
	}
	if m.Chain, err = event.ParseChain(strings.TrimPrefix(lines[3], "chain ")); err != nil {
		return event.Mark{}, fmt.Errorf("its chain does not read: %w", err)
	}
	// Written again it must come out the same: this checks the checksum too.
	if string(writtenWitness(m)) != text {
		return event.Mark{}, errors.New("it does not fit its checksum")
	}
	return m, nil
}

// Witness reads the witness; ErrNoWitness when there is none.
func (d Dir) Witness() (event.Mark, error) {
	text, err := os.ReadFile(d.path(witnessFile))
	if errors.Is(err, fs.ErrNotExist) {
		return event.Mark{}, ErrNoWitness
	}
	if err != nil {
		return event.Mark{}, fmt.Errorf("read the witness of the log: %w", err)
	}
	m, err := parseWitness(string(text))
	if err != nil {
		return event.Mark{}, fmt.Errorf("the witness of the log is damaged: %w", err)
	}
	return m, nil
}

// SetWitness replaces the witness. After an error the previous one is unchanged.
func (d Dir) SetWitness(m event.Mark) error {
	if err := writeSynced(d.path(witnessFile), writtenWitness(m)); err != nil {
		return fmt.Errorf("write the witness of the log: %w", err)
	}
	return nil
}

// The opening file exists while the store is being opened, and contains how many openings in a
// row have not ended. Reading a damaged store can make the NATS server panic in a goroutine of
// its own, which ends the process: without the file the process would do so again at each
// start.
const (
	openingFile = "opening"
	// OpeningsTried is how often an opening may not end.
	OpeningsTried = 2
)

// Openings returns how many openings in a row have not ended.
func (d Dir) Openings() (int, error) {
	text, err := os.ReadFile(d.path(openingFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read how the last opening of the store ended: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n < 1 {
		return 1, nil // it did not end, whatever is written there
	}
	return n, nil
}

// BeginOpening notes on disk that this is an opening, the n-th in a row.
func (d Dir) BeginOpening(n int) error {
	if err := writeSynced(d.path(openingFile), []byte(strconv.Itoa(n)+"\n")); err != nil {
		return fmt.Errorf("note that the store is being opened: %w", err)
	}
	return nil
}

// EndOpening notes that the opening has ended, whichever way.
func (d Dir) EndOpening() error {
	err := os.Remove(d.path(openingFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = syncDir(string(d))
	}
	if err != nil {
		return fmt.Errorf("note that the store has been opened: %w", err)
	}
	return nil
}
