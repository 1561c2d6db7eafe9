package allow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"switchyard.dev/tunnels/workstation/consent"
)

// maxAnswers is how many answers are remembered; the oldest are forgotten first.
const maxAnswers = 1000

// File returns the path of the file with remembered answers; empty: the user has no home directory.
func File(getenv func(string) string) string {
	dir := getenv("XDG_STATE_HOME")
	if dir == "" || !filepath.IsAbs(dir) {
		home := getenv("HOME")
		if home == "" {
			return ""
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "switchyard", "addresses.json")
}

// read returns the remembered answers. A file that other users can write is an error.
func read(path string) ([]consent.Answer, error) {
	info, err := os.Stat(path)
	if path == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s can be written by other users: delete it, or chmod 600 it", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []consent.Answer
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%s cannot be read (%w): delete it", path, err)
	}
	return all, nil
}

// remember adds an answer to the file, which it replaces as a whole.
func remember(path string, one consent.Answer) error {
	all, err := read(path)
	if err != nil || path == "" {
		return err
	}
	all = append(all, one)
	text, err := json.MarshalIndent(all[max(0, len(all)-maxAnswers):], "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(path), ".addresses-*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = next.Write(text)
	if err = errors.Join(err, next.Close()); err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		_ = os.Remove(next.Name())
	}
	return err
}
