package unit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"switchyard.dev/workflows/iocontext"
)

// collect copies the outputs that the script has left, and lists them in the result. It returns
// their values. The problem of an output becomes the result's reason, unless the script failed.
// whole is false when a value was not read to its end: then it is unknown which part of it the
// script has printed.
func (m Main) collect(p plan, r *result) (given []value, whole bool) {
	whole = true
	for _, output := range p.Outputs {
		content, err := readOutput(output.Path)
		wrong, message := "", ""
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			wrong, message = iocontext.OutputMissing, fmt.Sprintf("the script ended with 0 and left no file %s, which is to hold output %s: have it write that file", output.Path, output.Name)
		case errors.Is(err, errTooLarge):
			whole = false
			wrong, message = iocontext.OutputTooLarge, fmt.Sprintf("file %s has more than the %d bytes that output %s may have: store large data elsewhere, and give its address",
				output.Path, iocontext.MaxValue, output.Name)
		case err != nil:
			wrong, message = iocontext.OutputNotAFile, fmt.Sprintf("output %s cannot be read: %v", output.Name, err)
		}
		if wrong == "" {
			given = append(given, value{output.Name, content})
			// The API server accepts no unit with a slash in a name.
			if err = put(filepath.Join(m.Volume.in(iocontext.OutputsDir), filepath.Base(output.Name)), content, 0o644); err != nil {
				wrong, message = iocontext.VolumeFailed, fmt.Sprintf("output %s cannot be written to %s: %v", output.Name, iocontext.OutputsDir, err)
			} else {
				r.Outputs = append(r.Outputs, output.Name)
			}
		}
		if wrong != "" && r.Reason == "" {
			r.Reason, r.Message = wrong, message
		}
	}
	return given, whole
}

var errTooLarge = errors.New("too large")

// readOutput reads an output file. The path may be anything, such as a pipe: it does not block.
func readOutput(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	about, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !about.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file: it is %s", path, about.Mode().Type())
	}
	content, err := io.ReadAll(io.LimitReader(f, iocontext.MaxValue+1))
	if err == nil && len(content) > iocontext.MaxValue {
		err = errTooLarge
	}
	return content, err
}
