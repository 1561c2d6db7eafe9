package interpreter

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	starjson "github.com/1set/starlet/lib/json"
	starre "github.com/1set/starlet/lib/re"
	starstring "github.com/1set/starlet/lib/string"
	"go.starlark.net/lib/math"
	"go.starlark.net/lib/time"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// load returns the global names of a script. Those of starlet are linked one by one: its package of the same name links
// all of them, also those with access to files and the process.
func (t *run) load() starlark.StringDict {
	all := starlark.StringDict{"math": math.Module, "time": time.Module}
	for _, load := range []func() (starlark.StringDict, error){starjson.LoadModule, starre.LoadModule, starstring.LoadModule} {
		module, _ := load() // they return no errors
		maps.Copy(all, module)
	}
	all["http"] = &starlarkstruct.Module{Name: "http", Members: t.http()}
	all["smart_test"] = &starlarkstruct.Module{Name: "smart_test", Members: starlark.StringDict{"check": starlark.NewBuiltin("smart_test.check", t.check)}}
	return all
}

// member implements load(…) for the modules, and nothing else.
func (t *run) member(_ *starlark.Thread, name string) (starlark.StringDict, error) {
	if module, is := t.modules[name].(*starlarkstruct.Module); is {
		return module.Members, nil
	}
	return nil, fmt.Errorf("there is no module %q: tests have %s", name, strings.Join(slices.Sorted(maps.Keys(t.modules)), ", "))
}
