package script_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"switchyard.dev/workflows/script"
)

func TestProgramsAreFoundByThePathOfTheScript(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "own")
	if err := errors.Join(os.WriteFile(own, []byte("#!/bin/sh\n"), 0o700), os.WriteFile(filepath.Join(dir, "text"), nil, 0o600), os.Mkdir(filepath.Join(dir, "folder"), 0o700)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir) // of this process, which does not count
	for what, tt := range map[string]struct {
		program string
		environ []string
		want    string
	}{
		"of the environment":       {"own", []string{"PATH=/none:" + dir}, own},
		"the last one counts":      {"own", []string{"PATH=/none", "PATH=" + dir}, own},
		"not of this process":      {"own", []string{"PATH=/none"}, ""},
		"without a path":           {"sh", nil, "/bin/sh"},
		"a path is not looked up":  {"./own", nil, "./own"},
		"a file that is no script": {"text", []string{"PATH=" + dir}, ""},
		"a folder":                 {"folder", []string{"PATH=" + dir}, ""},
	} {
		command, wrong := script.Program([]string{tt.program, "argument"}, tt.environ)
		switch {
		case tt.want == "" && (wrong == nil || wrong.Reason != script.CommandMissing || wrong.ExitCode != 127 || !strings.Contains(wrong.Message, tt.program)):
			t.Errorf("%s: %v, %+v", what, command, wrong)
		case tt.want != "" && (wrong != nil || command.Path != tt.want || len(command.Args) != 2):
			t.Errorf("%s: %v, %+v", what, command, wrong)
		}
		text := filepath.Join(dir, "script")
		if err := script.Put(text, []byte("#!/usr/bin/env "+tt.program+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, wrong := script.Script(text, tt.environ); tt.program != "./own" && (wrong != nil) != (tt.want == "") {
			t.Errorf("%s, as interpreter: %+v", what, wrong)
		}
	}
}

func TestARecordIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "begun")
	begun, err := script.Begin(path, "a note")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := script.Begin(path, "another"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second one: %v", err)
	}
	if note, err := os.ReadFile(path); string(note) != "a note" || err != nil {
		t.Errorf("the note is %q, %v", note, err)
	}
	for _, alive := range []bool{true, false} {
		reader, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if locked, err := script.Locked(reader); locked != alive || err != nil {
			t.Errorf("locked: %t, %v", locked, err)
		}
		_ = errors.Join(reader.Close(), begun.Close()) // a second time on the last round
	}
	if files, err := os.ReadDir(filepath.Dir(path)); len(files) != 1 || err != nil {
		t.Errorf("the folder has %v, %v", files, err)
	}
}

// A process that was killed while it made a record has left a file under the number that the next one has in its container.
func TestARecordHasNoNoteOfAProcessThatWasKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "begun")
	if err := os.WriteFile(fmt.Sprintf("%s.%d", path, os.Getpid()), []byte("stopped"), 0o600); err != nil {
		t.Fatal(err)
	}
	begun, err := script.Begin(path, "")
	if err != nil {
		t.Fatal(err)
	}
	if note, err := os.ReadFile(path); len(note) > 0 || err != nil {
		t.Errorf("the note is %q, %v", note, err)
	}
	if err := begun.Close(); err != nil {
		t.Error(err)
	}
}

// A record that could not be written to disk is no record: its script has not begun, and can begin later.
func TestARecordThatFailsIsDeleted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "begun")
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	next, err := os.Open(filepath.Dir(path)) // the lowest number that is free
	if err != nil {
		t.Fatal(err)
	}
	one := before
	one.Cur = uint64(next.Fd()) + 1 // the record, and not the folder
	err = errors.Join(next.Close(), syscall.Setrlimit(syscall.RLIMIT_NOFILE, &one))
	begun, failed := script.Begin(path, "")
	if err := errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)); err != nil {
		t.Fatal(err)
	}
	if begun != nil || !errors.Is(failed, syscall.EMFILE) {
		t.Errorf("with one file: %v", failed)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); len(files) != 0 || err != nil {
		t.Errorf("the folder has %v, %v", files, err)
	}
	if begun, err = script.Begin(path, ""); err != nil {
		t.Fatal(err)
	}
	if err := begun.Close(); err != nil {
		t.Error(err)
	}
}
