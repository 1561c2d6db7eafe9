package executor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"switchyard.dev/workflows/jobexec/socket"
	"switchyard.dev/workflows/script"
)

// volume is the folder that the containers of the pod share; its layout is that of socket.Root.
type volume string

// in returns the path of a file of the layout.
func (v volume) in(path string) string {
	return filepath.Join(string(v), strings.TrimPrefix(path, socket.Root))
}

// everyone is the mode of folders in which any user of the containers creates files.
const everyone = 0o777 | os.ModeSticky

// Install copies a program into a volume, and prepares it for any user of the main container.
func Install(dir, program string) error {
	v := volume(dir)
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	to := v.in(socket.Program)
	return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), v.prepare(), script.Put(to, content, 0o755)) //nolint:gosec // Containers have users of their own.
}

// prepare creates the folders, and gives them their modes if this process can: a script can have changed them.
func (v volume) prepare() error {
	for _, dir := range []string{filepath.Dir(v.in(socket.Path)), v.in(socket.BegunDir)} {
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // Containers have users of their own.
			return err
		}
		if err := os.Chmod(dir, everyone); err != nil && !errors.Is(err, fs.ErrPermission) { // those of another user
			return err
		}
	}
	return nil
}

// script is the path of the current script.
func (v volume) script() string { return filepath.Join(filepath.Dir(v.in(socket.Path)), "script") }

// record is the path of the record of an execution.
func (v volume) record(ref socket.Ref) string {
	return filepath.Join(v.in(socket.BegunDir), fmt.Sprintf("%s-%d", ref.Job, ref.Execution))
}

// stoppedNote is the content of the record of an execution that was stopped before it began.
const stoppedNote = "stopped"

// begin writes the script and records that the execution begins. The record is locked until it is closed.
func (v volume) begin(ref socket.Ref, text string) (*os.File, error) {
	record, err := (*os.File)(nil), error(nil)
	if text != "" {
		err = errors.Join(os.RemoveAll(v.script()), script.Put(v.script(), []byte(text), 0o755)) // of another user, or a folder
	}
	if err == nil {
		record, err = script.Begin(v.record(ref), "")
	}
	if err != nil {
		return nil, refusal(socket.VolumeFailed, "the volume at %s cannot be written: %v", v, err)
	}
	return record, nil
}

// stop records that an execution never begins.
func (v volume) stop(ref socket.Ref) error {
	record, err := script.Begin(v.record(ref), stoppedNote)
	if err != nil {
		return refusal(socket.VolumeFailed, "the volume at %s cannot be written: %v", v, err)
	}
	return record.Close()
}

// stopped reports whether an execution with a record was stopped before it began.
func (v volume) stopped(ref socket.Ref) (bool, error) {
	note, err := os.ReadFile(v.record(ref))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, refusal(socket.NotBegun, "execution %d of job %s has not begun here", ref.Execution, ref.Job)
	case err != nil:
		return false, refusal(socket.VolumeFailed, "the volume at %s cannot be read: %v", v, err)
	}
	return string(note) == stoppedNote, nil
}
