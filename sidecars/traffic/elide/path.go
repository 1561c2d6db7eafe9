package elide

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Bounds of paths.
const (
	maxPaths = 64
	maxPath  = 512
)

// path is a parsed JSON path.
type path struct {
	text  string
	steps []step
}

// step selects members or elements of a value.
type step struct {
	// deep: of the value, and of all below it.
	deep bool
	// any: each; otherwise the member with the name or, if index is not negative, the element.
	any   bool
	name  string
	index int
}

// selector is one step: dots and a name, or brackets with their content.
var selector = regexp.MustCompile(`^(?:(\.\.?)([\p{L}\p{N}_\-@$]+|\*)|(\.\.)?\[(?:(\*)|(0|[1-9][0-9]{0,8})|'([^'\\]*)'|"([^"\\]*)")\])`)

// parse reads a path.
func parse(text string) (path, error) {
	p := path{text: text}
	rest, is := strings.CutPrefix(text, "$")
	if !is || rest == "" || len(text) > maxPath {
		return p, unsupported(text, "")
	}
	for rest != "" {
		m := selector.FindStringSubmatch(rest)
		if m == nil {
			return p, unsupported(text, rest)
		}
		s := step{deep: m[1] == ".." || m[3] == "..", index: -1}
		switch {
		case m[2] == "*" || m[4] == "*":
			s.any = true
		case m[5] != "":
			s.index, _ = strconv.Atoi(m[5]) // nine digits
		default:
			s.name = m[2] + m[6] + m[7]
		}
		p.steps, rest = append(p.steps, s), rest[len(m[0]):]
	}
	return p, nil
}

func unsupported(text, at string) error {
	if at != "" {
		at = fmt.Sprintf(" at %.40q", at)
	}
	return fmt.Errorf("JSON path %.128q is not supported%s: write members ($.a, $['a']), elements ($[0]), all of them ($.a[*], $.a.*) or members at any depth ($..a), in at most %d bytes", text, at, maxPath)
}

// member reports whether a step selects the member with a name, and element whether it selects an element.
func (s step) member(name string) bool { return s.any || s.index < 0 && s.name == name }
func (s step) element(i int) bool      { return s.any || s.index == i }
