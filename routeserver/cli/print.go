package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"
)

// The forms of --output.
const (
	outputTable = "table"
	outputJSON  = "json"
	outputYAML  = "yaml"
)

// print shows an answer in the form that was asked for; text is the one for
// people, made of a copy whose text is plain.
func print[M proto.Message](a *app, m M, text func(M) string) error {
	if a.flags.output == outputTable {
		_, err := io.WriteString(a.Out, text(forPeople(m)))
		return err
	}
	b, err := written(m)
	if err != nil {
		return err
	}
	return a.write(b)
}

// write shows JSON in the form that was asked for.
func (a *app) write(b []byte) (err error) {
	if a.flags.output == outputYAML {
		if b, err = yaml.JSONToYAML(b); err == nil {
			_, err = a.Out.Write(b)
		}
		return err
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, b, "", "  "); err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.Out, pretty.String())
	return err
}

// printPart shows one of many answers: a line of JSON, or a YAML document.
func printPart[M proto.Message](a *app, m M, text func(M) string) error {
	switch a.flags.output {
	case outputTable:
		return print(a, m, text)
	case outputYAML:
		if _, err := io.WriteString(a.Out, "---\n"); err != nil {
			return err
		}
		return print(a, m, text)
	}
	b, err := written(m)
	if err == nil {
		_, err = fmt.Fprintf(a.Out, "%s\n", b)
	}
	return err
}

// written returns an answer as compact JSON, with every field that has a value by
// default. protojson puts in spaces that differ from one build to another, so
// that nobody compares its output; with them taken out it can be compared.
func written(m proto.Message) ([]byte, error) {
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
	green  = "\x1b[32m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	bold   = "\x1b[1m"
	off    = "\x1b[0m"
)

func (a *app) paint(colour, s string) string {
	if !a.Terminal || a.flags.noColor || a.Getenv("NO_COLOR") != "" {
		return s
	}
	return colour + s + off
}
