package sandboxes

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/plugins"
	"switchyard.dev/workflows/specfile"
)

// input is a file that a command reads, with values for its variables.
type input struct {
	path string
	what string // the kind of object
	Values
}

// Values are what a file's directives may take from the user.
type Values struct {
	// set are values of variables, NAME=VALUE, and roots further folders of embedded files.
	set, roots []string
}

// Flags adds the flags of Values; kind is "file" or "files".
func (v *Values) Flags(f *pflag.FlagSet, kind string) {
	f.StringArrayVar(&v.set, "set", nil, "value of a variable of the "+kind+", `NAME=VALUE`; repeatable")
	f.StringArrayVar(&v.roots, "embed-root", nil, "a further `DIR` below which @{embed: path} of the "+kind+" may read, in addition to the folder of the file; repeatable")
}

// flags adds the flags for the file to read.
func (in *input) flags(f *pflag.FlagSet, what string) {
	in.what = what
	f.StringVarP(&in.path, "filename", "f", "", "the `file` of the "+what+", or - for standard input")
	in.Values.Flags(f, "file")
}

// Input is a file that a command of another package reads.
type Input struct{ input }

// NewInput adds the flags for a file of this kind of object.
func NewInput(f *pflag.FlagSet, what string) *Input {
	in := &Input{}
	in.flags(f, what)
	return in
}

// Read reads the whole file into a specification. It prints warnings.
func (in *Input) Read(s *command.Session, into any) (*specfile.File, error) {
	if in.path == "" {
		return nil, exit.Usage.Errorf("give -f FILE")
	}
	return in.read(s, into)
}

// Name returns the name that is given as an argument, or that the file has.
func (in *Input) Name(s *command.Session, args []string) (string, error) { return in.name(s, args) }

// open parses the file and replaces its directives. With nameOnly, only the name is evaluated.
func (in *input) open(s *command.Session, nameOnly bool) (*specfile.File, error) {
	values, err := specfile.ValuesOf(in.set)
	if err != nil {
		return nil, exit.Usage.Errorf("%w", err)
	}
	name, dir, from := in.path, filepath.Dir(in.path), s.In
	if in.path == "-" {
		name, dir = "standard input", "."
	} else {
		file, err := os.Open(in.path)
		if err != nil {
			return nil, exit.Usage.Errorf("%w", err)
		}
		defer file.Close()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, specfile.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	f, err := specfile.Parse(name, text)
	if err == nil {
		err = f.Check(in.what)
	}
	if err == nil && nameOnly {
		f.KeepName()
	}
	if err == nil {
		err = f.Expand(values, func(path string) ([]byte, error) { return in.embedded(dir, path) })
	}
	if err != nil {
		return nil, exit.Usage.Errorf("%w", err)
	}
	return f, nil
}

// read reads the whole file into a specification.
func (in *input) read(s *command.Session, into any) (*specfile.File, error) {
	f, err := in.open(s, false)
	if err != nil {
		return nil, err
	}
	if err := f.Decode(into); err != nil {
		return nil, exit.Usage.Errorf("%w", err)
	}
	for _, w := range f.Warnings() {
		_, _ = io.WriteString(s.Err, show.Line("warning: "+w.Error())+"\n")
	}
	return f, nil
}

// name returns the name that is given as an argument, or that the file has.
func (in *input) name(s *command.Session, args []string) (string, error) {
	switch {
	case len(args) == 1 && in.path == "":
		return args[0], nil
	case len(args) > 0 || in.path == "":
		return "", exit.Usage.Errorf("give a name or -f FILE")
	}
	f, err := in.open(s, true)
	if err != nil {
		return "", err
	}
	var named struct {
		Name string `json:"name"`
	}
	if err := f.Decode(&named); err != nil {
		return "", exit.Usage.Errorf("%w", err)
	}
	return named.Name, nil
}

// store returns where the cluster keeps resource plugins.
func store(s *command.Session, c client.Client) plugins.Store {
	return plugins.Store{Client: c, Namespace: s.Cluster.Namespace, Warn: func(message string) { _, _ = io.WriteString(s.Err, show.Line("warning: "+message)+"\n") }}
}

// embedded reads a file that a specification in a folder embeds, by its path from there. Symbolic
// links are followed, and their target has to be below that folder or one of
// --embed-root: the author of a specification may be another user than the one that applies it.
func (in *input) embedded(folder, path string) ([]byte, error) {
	at, err := resolved(filepath.Join(folder, path))
	if err != nil {
		return nil, err
	}
	for _, root := range append([]string{folder}, in.roots...) {
		whole, err := resolved(root)
		if err != nil {
			continue // A root that does not exist contains no file.
		}
		if below, err := filepath.Rel(whole, at); err == nil && filepath.IsLocal(below) {
			return readBelow(whole, below)
		}
	}
	allowed := strings.Join(append([]string{folder}, in.roots...), ", ")
	return nil, fmt.Errorf("%s is outside of %s: move it there, or give --embed-root with a folder that contains it and that you let the file read", at, allowed)
}

// resolved returns the absolute path of a file without symbolic links.
func resolved(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// readBelow reads a regular file below a folder, even if a link has replaced part of the path since
// it was checked.
func readBelow(folder, path string) ([]byte, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // Opening a pipe would wait for its writer.
		return nil, fmt.Errorf("%s is no regular file", filepath.Join(folder, path))
	}
	file, err := root.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, specfile.MaxBytes+1))
}
