// Package show renders results: as text, or as JSON and YAML.
//
// Names in a cluster can contain any character, and terminals interpret some: in text such
// characters are escaped. JSON and YAML contain the names unchanged, and equal bytes for equal
// results on any machine.
package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"
)

// The forms of output.
const (
	Table = "table"
	JSON  = "json"
	YAML  = "yaml"
)

// Printer prints results in the selected format.
type Printer struct {
	Out io.Writer
	// Form is Table (text), JSON or YAML.
	Form string
	// Colours is set if the terminal shows colours.
	Colours bool
	// Now is the clock, in the time zone that times are shown in.
	Now func() time.Time
}

// Answer prints a result; text renders it as text, from a copy with escaped strings.
func Answer[M proto.Message](p *Printer, m M, text func(M) string) error {
	if p.Form == Table {
		_, err := io.WriteString(p.Out, text(ForPeople(m)))
		return err
	}
	b, err := Written(m)
	if err != nil {
		return err
	}
	return p.write(b)
}

// Part shows one of many answers: a line of JSON, or a YAML document.
func Part[M proto.Message](p *Printer, m M, text func(M) string) error {
	switch p.Form {
	case Table:
		return Answer(p, m, text)
	case YAML:
		if _, err := io.WriteString(p.Out, "---\n"); err != nil {
			return err
		}
		return Answer(p, m, text)
	}
	b, err := Written(m)
	if err == nil {
		_, err = fmt.Fprintf(p.Out, "%s\n", b)
	}
	return err
}

// Report prints a result that has no message in the API; its JSON is part of the interface. text is
// its text form.
func (p *Printer) Report(report any, text string) error {
	if p.Form == Table {
		_, err := io.WriteString(p.Out, text)
		return err
	}
	b, err := json.Marshal(report)
	if err != nil {
		return err
	}
	return p.write(b)
}

// write prints JSON in the selected format.
func (p *Printer) write(b []byte) (err error) {
	if p.Form == YAML {
		if b, err = yaml.JSONToYAML(b); err == nil {
			_, err = p.Out.Write(b)
		}
		return err
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, b, "", "  "); err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.Out, pretty.String())
	return err
}

// Written returns a message as compact JSON, including fields with default values. protojson
// inserts spaces that differ from one build to another, to prevent comparison of its output; they
// are removed here so that it can be compared.
func Written(m proto.Message) ([]byte, error) {
	loose, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("the answer cannot be written as JSON: %w", err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, loose); err != nil {
		return nil, fmt.Errorf("the answer cannot be written as JSON: %w", err)
	}
	return b.Bytes(), nil
}

// Colours, on terminals only.
const (
	Green  = "\x1b[32m"
	Red    = "\x1b[31m"
	Yellow = "\x1b[33m"
	Bold   = "\x1b[1m"
	off    = "\x1b[0m"
)

// Paint returns a text in a colour, if Colours is set.
func (p *Printer) Paint(colour, s string) string {
	if !p.Colours {
		return s
	}
	return colour + s + off
}
