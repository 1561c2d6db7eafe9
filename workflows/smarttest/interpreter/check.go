package interpreter

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/1set/starlet/dataconv"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"switchyard.dev/workflows/smarttest"
)

// check is a check, and the attributes of its errors.
type check struct {
	run   *run
	name  string
	attrs map[string]json.RawMessage
}

// value returns the check as a value of the script.
func (c *check) value() starlark.Value {
	return starlarkstruct.FromStringDict(starlark.String("check"), starlark.StringDict{"name": starlark.String(c.name),
		"error": starlark.NewBuiltin("error", c.fail), "errorAttrs": starlark.NewBuiltin("errorAttrs", c.with)})
}

// check implements smart_test.check(format, …), and smart_test.check(name, function).
func (t *run) check(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var do starlark.Callable
	if len(args) == 2 && len(kwargs) == 0 {
		if do, _ = args[1].(starlark.Callable); do != nil {
			args = args[:1]
		}
	}
	name, err := format(thread, b, args, kwargs)
	if err == nil && name == "" {
		err = fmt.Errorf("%s: the name is empty", b.Name())
	}
	if err != nil {
		return nil, err
	}
	c := &check{run: t, name: name}
	if !t.checks[name] {
		t.checks[name] = true
		t.report(smarttest.Event{Check: name})
	}
	if do != nil {
		if _, err := starlark.Call(thread, do, starlark.Tuple{c.value()}, nil); err != nil {
			c.record(err.Error(), where(err))
		}
	}
	return c.value(), nil
}

// fail implements error(format, …).
func (c *check) fail(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	text, err := format(thread, b, args, kwargs)
	if err == nil {
		c.record(text, caller(thread))
	}
	return starlark.None, err
}

func (c *check) record(text string, at *smarttest.Position) {
	c.run.report(smarttest.Event{Check: c.name, Error: &smarttest.CheckError{Message: smarttest.Cut(text), Attrs: c.attrs, SourcePosition: at}})
}

// with implements errorAttrs(key=value, …): the same check, with more attributes for its errors.
func (c *check) with(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	out := &check{run: c.run, name: c.name, attrs: map[string]json.RawMessage{}}
	maps.Copy(out.attrs, c.attrs)
	for _, kv := range kwargs {
		name, _ := starlark.AsString(kv[0]) // names of arguments are strings
		value, err := dataconv.EncodeStarlarkJSON(kv[1])
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", b.Name(), name, err)
		}
		out.attrs[name] = json.RawMessage(value)
	}
	return out.value(), starlark.UnpackPositionalArgs(b.Name(), args, nil, 0)
}

// format formats as string.format does.
func format(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (string, error) {
	if len(args) == 0 || args[0].Type() != "string" {
		return "", fmt.Errorf("%s: the first argument is no string", b.Name())
	}
	method, err := args[0].(starlark.String).Attr("format")
	if err != nil {
		return "", err
	}
	formatted, err := starlark.Call(thread, method, args[1:], kwargs)
	if err != nil {
		return "", fmt.Errorf("%s: %w", b.Name(), errors.Unwrap(err))
	}
	out, _ := starlark.AsString(formatted) // it is a string
	return out, nil
}
