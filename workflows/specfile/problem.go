package specfile

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is a problem in a file.
type Problem struct {
	// Path is the field, such as spec.forks[0].name; empty for the file as a whole.
	Path string
	// Text has the problem and the remedy, as the end of a sentence.
	Text string
	// File and Line are its position; Line is 0 when it is unknown.
	File string
	Line int
}

// Error returns the problem as one line.
func (p Problem) Error() string {
	text := p.Text
	if p.Path != "" {
		text = p.Path + " " + text
	}
	switch {
	case p.File == "":
		return text
	case p.Line == 0:
		return p.File + ": " + text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, text)
}

// shownProblems is how many problems an error lists.
const shownProblems = 20

// Problems is an error with one line for each problem.
type Problems []Problem

// Error implements error.
func (ps Problems) Error() string {
	var lines []string
	for i, p := range ps {
		if i == shownProblems {
			lines = append(lines, fmt.Sprintf("and %d more", len(ps)-i))
			break
		}
		lines = append(lines, p.Error())
	}
	return strings.Join(lines, "\n")
}

// Add adds a problem of a field.
func (ps *Problems) Add(path, format string, args ...any) {
	*ps = append(*ps, Problem{Path: path, Text: fmt.Sprintf(format, args...)})
}

// OrNil returns the problems as an error; nil when there are none.
func (ps Problems) OrNil() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// Locate returns problems with the positions of their fields in the file, in the order of the
// file. A missing field has the line of its parent.
func (f *File) Locate(ps Problems) Problems {
	out := slices.Clone(ps)
	for i := range out {
		if out[i].File == "" {
			out[i].File, out[i].Line = f.Name, f.line(out[i].Path)
		}
	}
	slices.SortStableFunc(out, func(a, b Problem) int { return a.Line - b.Line })
	return out
}

// line returns the line of the field with this path, or of the nearest one around it.
func (f *File) line(path string) int {
	n, line := f.root, 0
	for _, step := range steps(path) {
		next, at := child(n, step)
		if next == nil {
			break
		}
		n, line = next, at
	}
	return line
}

// steps splits a path: spec.forks[0].name is spec, forks, [0], name. Names that are quoted in
// brackets are one step.
func steps(path string) []string {
	var out []string
	for path != "" {
		end := strings.IndexAny(path[1:], ".[") + 1
		if strings.HasPrefix(path, `["`) {
			if closing := strings.Index(path, `"]`); closing > 0 {
				end = closing + len(`"]`)
			}
		}
		if end == 0 || end > len(path) {
			end = len(path)
		}
		if step := strings.TrimPrefix(path[:end], "."); step != "" {
			out = append(out, step)
		}
		path = path[end:]
	}
	return out
}
