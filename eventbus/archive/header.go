package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"switchyard.dev/eventbus/event"
)

// Version is the version of the format that is written. A reader refuses any
// that it does not know.
const Version = 1

// kind is the value of the first line that identifies the file.
const kind = "log"

// Header identifies the log and the range of events in an archive.
type Header struct {
	// Epoch is the epoch of all its events.
	Epoch string
	// Floor and Tip are the sequences of its first and last event. A log without
	// events has its Floor one behind its Tip.
	Floor, Tip uint64
}

// Len is how many events the archive is to have.
func (h Header) Len() uint64 { return h.Tip + 1 - h.Floor }

// TipPos returns the place of the last event.
func (h Header) TipPos() event.Pos { return event.Pos{Epoch: h.Epoch, Seq: h.Tip} }

// Validate returns an error if the Header is not valid.
func (h Header) Validate() error {
	switch {
	case h.Epoch == "":
		return errors.New("an archive must name the epoch of its log")
	case h.Floor == 0 || h.Floor > h.Tip+1:
		return fmt.Errorf("an archive cannot begin at event %d and end at event %d", h.Floor, h.Tip)
	}
	return nil
}

// line is the first line of an archive.
type line struct {
	Switchyard string `json:"switchyard"`
	Version    int    `json:"version"`
	Epoch      string `json:"epoch"`
	Floor      uint64 `json:"floor"`
	Tip        uint64 `json:"tip"`
}

func (h Header) written() ([]byte, error) {
	b, err := json.Marshal(line{kind, Version, h.Epoch, h.Floor, h.Tip})
	return append(b, '\n'), err
}

func parseHeader(b []byte) (Header, error) {
	var l line
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&l); err != nil || l.Switchyard != kind {
		return Header{}, errors.New("this is not the archive of a routing log: its first line is not an archive header")
	}
	if l.Version != Version {
		return Header{}, fmt.Errorf("the archive is of version %d, and this program reads version %d: use a newer one", l.Version, Version)
	}
	h := Header{Epoch: l.Epoch, Floor: l.Floor, Tip: l.Tip}
	return h, h.Validate()
}
