package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// file is the journal within its folder.
const file = "connections.journal"

// line is a line of the journal: a connection that begins, or the id of one that has ended.
type line struct {
	Begin *Connection `json:"begin,omitempty"`
	Ended string      `json:"ended,omitempty"`
}

// readOpen returns the connections of a journal that have not ended, in their order. A torn or
// invalid line is skipped: no byte passes before a record is complete.
func readOpen(dir string) (open []Connection, skipped int, err error) {
	f, err := os.Open(filepath.Join(dir, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read the journal of connections: %w", err)
	}
	defer f.Close()
	var order []string
	found := map[string]Connection{}
	for lines := bufio.NewReader(f); err == nil; {
		var text []byte
		if text, err = lines.ReadBytes('\n'); len(text) == 0 {
			continue
		}
		var l line
		switch bad := json.Unmarshal(text, &l); {
		case bad != nil:
			skipped++
		case l.Begin != nil && l.Begin.ID != "":
			found[l.Begin.ID] = *l.Begin
			order = append(order, l.Begin.ID)
		default:
			delete(found, l.Ended)
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, 0, fmt.Errorf("read the journal of connections %s: %w", f.Name(), err)
	}
	for _, id := range order {
		if c, is := found[id]; is {
			open = append(open, c)
			delete(found, id) // once, although the journal may contain it twice
		}
	}
	return open, skipped, nil
}

// journal is the journal that is written.
type journal struct {
	dir  string
	f    *os.File
	size int64
	// begun is its size when it was rewritten, with the connections that were open.
	begun int64
}

// begin replaces the journal by one with the connections that are open.
func (j *journal) begin(open []Connection) error {
	var text bytes.Buffer
	for i := range open {
		if err := write(&text, line{Begin: &open[i]}); err != nil {
			return err
		}
	}
	place := filepath.Join(j.dir, file)
	f, err := os.OpenFile(place+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("begin a journal of connections: %w", err)
	}
	_, err = f.Write(text.Bytes())
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(f.Name(), place)
	}
	if err == nil {
		err = syncDir(j.dir)
	}
	if err != nil {
		_ = f.Close() // it is not used
		return fmt.Errorf("begin a journal of connections: %w", err)
	}
	j.close()
	j.f, j.size, j.begun = f, int64(text.Len()), int64(text.Len())
	return nil
}

// append writes lines, and syncs them if they have to be on disk.
func (j *journal) append(text []byte, sync bool) error {
	if j.f == nil {
		return errors.New("there is no journal of connections")
	}
	n, err := j.f.Write(text)
	j.size += int64(n)
	if err == nil && sync {
		err = j.f.Sync()
	}
	if err != nil {
		// The content on disk is unknown now, and a sync that failed cannot be repeated.
		j.close()
		return fmt.Errorf("write the journal of connections: %w", err)
	}
	return nil
}

// grown reports whether the journal is due to be rewritten: there is none, or it grew by more
// than most.
func (j *journal) grown(most int64) bool { return j.f == nil || j.size-j.begun > most }

func (j *journal) close() {
	if j.f != nil {
		_ = j.f.Close() // it was synced, or is useless
		j.f = nil
	}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// write writes one line.
func write(to io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write a record: %w", err)
	}
	_, err = to.Write(append(text, '\n'))
	return err
}

// logged is the form of a record in the log.
type logged struct {
	Time time.Time `json:"time"`
	// Message distinguishes records from other log lines of the program.
	Message string `json:"msg"`
	Record
}

// The messages of records.
const (
	MessageBegan = "connection began"
	MessageEnded = "connection ended"
	// MessageRefused is that of an attempt that opened no connection: its only record.
	MessageRefused = "connection refused"
)

func writeLog(to io.Writer, r Record) error {
	if r.End == nil {
		return write(to, logged{r.Began, MessageBegan, r})
	}
	if r.End.Refused {
		return write(to, logged{r.End.At, MessageRefused, r})
	}
	return write(to, logged{r.End.At, MessageEnded, r})
}
