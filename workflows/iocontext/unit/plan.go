package unit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"switchyard.dev/workflows/iocontext"
	"switchyard.dev/workflows/script"
)

// Volume is the shared volume of a pod's containers. The zero value is that of pods
// (iocontext.Root); tests use others.
type Volume struct {
	// Root is the folder; empty for iocontext.Root.
	Root string
}

// in returns the path of a file of the layout in the volume.
func (v Volume) in(path string) string {
	if v.Root == "" {
		return path
	}
	rest, err := filepath.Rel(iocontext.Root, path)
	if err != nil {
		return path // both are absolute
	}
	return filepath.Join(v.Root, rest)
}

// begunPath is a file that is locked while the wrapper runs, and exists once it has run.
const begunPath = iocontext.Root + "/begun"

// plan is the input of the wrapper. It has names only, no values.
type plan struct {
	// Script reports whether there is a script.
	Script bool `json:"script"`
	// Variables are the variables of inputs.
	Variables []variable `json:"variables,omitempty"`
	// Inputs are the names of all inputs: each has a file with its value.
	Inputs []string `json:"inputs,omitempty"`
	// Outputs are the outputs that the script has to leave.
	Outputs []iocontext.Output `json:"outputs,omitempty"`
}

// variable is a variable with the value of an input.
type variable struct {
	Name  string `json:"name"`
	Input string `json:"input"`
	// From is iocontext.Input.From.
	From string `json:"from,omitempty"`
}

// result describes the end of the main container. Outputs that exist have files.
type result struct {
	iocontext.Ending
	// Ran reports whether the script was started.
	Ran bool `json:"ran"`
	// Outputs are the names of the outputs that exist.
	Outputs []string `json:"outputs,omitempty"`
}

// putJSON writes a value as JSON.
func putJSON(path string, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return script.Put(path, content, 0o644)
}

// maxJSON is the maximum size of the files with the plan and the result, in bytes.
const maxJSON = 8 << 20

// take reads a file of the layout that putJSON wrote, and follows no links; false when it does
// not exist yet.
func (v Volume) take(name string, to any) (bool, error) {
	f, err := v.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxJSON))
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(content, to); err != nil {
		return false, fmt.Errorf("%s: %w", v.in(name), err)
	}
	return true, nil
}

// Ended writes the termination message of a container. The kubelet owns the file, so it cannot be
// replaced.
func Ended(path string, e iocontext.Ending) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644) //nolint:gosec // The kubelet reads it.
	if err != nil {
		return err
	}
	_, err = f.Write(e.Encode())
	return errors.Join(err, f.Close())
}

// TerminationPath is the path of a termination message in Kubernetes.
const TerminationPath = "/dev/termination-log"
