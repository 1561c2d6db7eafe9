package unit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"switchyard.dev/workflows/iocontext"
	"switchyard.dev/workflows/script"
)

// receivePause is the longest time between two requests for the assignment.
const receivePause = time.Second

// Receive waits until the server sends the pod's assignment, and writes it into the volume,
// beside a copy of the wrapper. It returns nil, or why it failed.
func Receive(ctx context.Context, s Server, v Volume, wrapper string) *iocontext.Ending {
	c, err := s.client(receivePause)
	if err != nil {
		return failed(iocontext.ServerUnreachable, "%v", err)
	}
	// The volume first: the status of the unit needs time anyway.
	if err := v.prepare(wrapper); err != nil {
		return failed(iocontext.VolumeFailed, "the volume at %s cannot be written: %v", iocontext.Root, err)
	}
	err = c.until(ctx, "GET", "/assignment", nil, v.unpack)
	if final := (*iocontext.Refusal)(nil); errors.As(err, &final) {
		return failed(final.Reason, "%s", final.Message)
	}
	if err != nil {
		return failed(iocontext.ServerUnreachable, "the IO context server gave no inputs: %v", err)
	}
	return nil
}

func failed(reason, format string, args ...any) *iocontext.Ending {
	return &iocontext.Ending{Reason: reason, ExitCode: 1, Message: fmt.Sprintf(format, args...)}
}

// prepare creates the folders, and the copy of the wrapper. The main container may have any user.
func (v Volume) prepare(wrapper string) error {
	for _, folder := range []struct {
		path string
		mode os.FileMode
	}{{iocontext.InputsDir, 0o755}, {iocontext.OutputsDir, 0o777}} {
		if err := os.MkdirAll(v.in(folder.path), 0o755); err != nil { //nolint:gosec // Containers have users of their own.
			return err
		}
		if err := os.Chmod(v.in(folder.path), folder.mode); err != nil {
			return err
		}
	}
	program, err := os.ReadFile(wrapper)
	if err != nil {
		return err
	}
	return script.Put(v.in(iocontext.RunPath), program, 0o755)
}

// unpack writes an assignment into the volume while reading it: one value at a time is in memory.
func (v Volume) unpack(from io.Reader) error {
	var p plan
	decoder := json.NewDecoder(from)
	if err := opens(decoder, '{'); err != nil {
		return err
	}
	for decoder.More() {
		field, err := decoder.Token()
		if err != nil {
			return err
		}
		switch field {
		case "script":
			err = v.unpackScript(decoder, &p)
		case "inputs":
			err = v.unpackInputs(decoder, &p)
		case "outputs":
			err = decoder.Decode(&p.Outputs)
		default: // a field of a later release
			err = decoder.Decode(new(json.RawMessage))
		}
		if err != nil {
			return err
		}
	}
	if err := opens(decoder, '}'); err != nil { // else it was truncated
		return err
	}
	return putJSON(v.in(iocontext.PlanPath), p)
}

// opens reads a delimiter.
func opens(decoder *json.Decoder, bracket json.Delim) error {
	token, err := decoder.Token()
	if err == nil && token != bracket {
		err = fmt.Errorf("an answer of the server has no %s where one is due", bracket)
	}
	return err
}

func (v Volume) unpackScript(decoder *json.Decoder, p *plan) error {
	var text string
	if err := decoder.Decode(&text); err != nil {
		return err
	}
	if p.Script = text != ""; !p.Script {
		return nil
	}
	return script.Put(v.in(iocontext.ScriptPath), []byte(text), 0o755)
}

func (v Volume) unpackInputs(decoder *json.Decoder, p *plan) error {
	if err := opens(decoder, '['); err != nil {
		return err
	}
	for decoder.More() {
		var input iocontext.Input
		if err := decoder.Decode(&input); err != nil {
			return err
		}
		if err := v.unpackInput(input, p); err != nil {
			return err
		}
	}
	return opens(decoder, ']')
}

func (v Volume) unpackInput(input iocontext.Input, p *plan) error {
	if strings.ContainsAny(input.Name, "/\x00") || strings.Trim(input.Name, ".") == "" {
		return fmt.Errorf("input %q cannot be a file", input.Name)
	}
	p.Inputs = append(p.Inputs, input.Name)
	if input.Env != "" {
		p.Variables = append(p.Variables, variable{Name: input.Env, Input: input.Name, From: input.From})
	}
	return script.Put(filepath.Join(v.in(iocontext.InputsDir), input.Name), input.Value, 0o644)
}
