// Package changes has the requests to HotROD and podinfo, and 20 changes of their answers, which were committed before the comparison
// was written.
package changes

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"switchyard.dev/workflows/comparison/exchange"
)

//go:embed changes.yaml
var file []byte

// Set is the content of changes.yaml.
type Set struct {
	Requests []Request `json:"requests"`
	Changes  []Change  `json:"changes"`
}

// Request is one to an application.
type Request struct {
	Name   string `json:"name"`
	App    string `json:"app"`
	Method string `json:"method"`
	Path   string `json:"path"`
	Body   string `json:"body"`
}

// Change is one of an answer: by flags of the process, or by edits of the answer.
type Change struct {
	Name    string            `json:"name"`
	Request string            `json:"request"`
	Args    []string          `json:"args"`
	Status  int               `json:"status"`
	Header  map[string]string `json:"header"`
	Edits   []Edit            `json:"edits"`
}

// Edit replaces a regular expression in a body.
type Edit struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Load returns all.
func Load() (s Set, err error) {
	if err := yaml.UnmarshalStrict(file, &s); err != nil {
		return Set{}, fmt.Errorf("read changes.yaml: %w", err)
	}
	return s, nil
}

// Apply returns an exchange with the change. It fails if an edit finds nothing to replace.
func (c Change) Apply(e exchange.Exchange) (exchange.Exchange, error) {
	m := &e.Response
	if c.Status != 0 {
		m.Status = c.Status
	}
	m.Header = slices.Clone(m.Header)
	for i, f := range m.Header {
		if value, is := c.Header[strings.ToLower(f.Name)]; is {
			m.Header[i].Value = value
		}
	}
	for _, edit := range c.Edits {
		from, err := regexp.Compile(edit.From)
		if err != nil {
			return e, fmt.Errorf("change %s: %w", c.Name, err)
		}
		if !from.Match(m.Body) {
			return e, fmt.Errorf("change %s: %s is not in the answer %q: the application answers otherwise", c.Name, edit.From, m.Body)
		}
		m.Body = from.ReplaceAll(m.Body, []byte(edit.To))
	}
	return e, nil
}
