package containerenv

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"switchyard.dev/tunnels/workstation/containerenv/paths"
)

// shellName matches names of variables in a POSIX shell.
var shellName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Shell returns variables as lines NAME='value' that a POSIX shell reads, whatever is in them.
// Variables with names that are invalid in a shell are comments. With sources set, a comment
// above each line has the variable's source.
func Shell(vars []Var, sources bool) string {
	var out strings.Builder
	for _, v := range vars {
		if sources {
			fmt.Fprintf(&out, "# %s\n", oneLine(v.Source))
		}
		if !shellName.MatchString(v.Name) {
			fmt.Fprintf(&out, "# %q is no name of a shell variable; -o json has its value\n", v.Name)
			continue
		}
		out.WriteString(v.Name + "=" + Quote(v.Value) + "\n")
	}
	return out.String()
}

// Quote returns a text as one word of a POSIX shell, without quotes where none are needed.
func Quote(text string) string {
	if text != "" && !strings.ContainsFunc(text, special) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// special reports whether a shell may interpret a character.
func special(c rune) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return false
	}
	return !strings.ContainsRune("_-./:,@%+", c)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Below returns the variables with paths of mounted volumes moved below a folder (package
// paths), the names of those that were changed, and of those that name such paths in a form that
// is not understood, and stay as they are.
func (r Result) Below(root string) (vars []Var, changed, left []string) {
	folders := r.Mounts
	if slices.ContainsFunc(r.Files, func(f File) bool { return strings.HasPrefix(f.Path, ResourcesFolder+"/") }) {
		folders = append(slices.Clone(folders), ResourcesFolder)
	}
	for _, v := range r.Env {
		moved, unclear := paths.Below(v.Value, root, folders)
		switch {
		case unclear:
			left = append(left, v.Name)
		case moved != v.Value:
			changed = append(changed, v.Name)
		}
		v.Value = moved
		vars = append(vars, v)
	}
	return vars, changed, left
}

// kept are the variables that a local process takes from its user and not from the baseline: they
// describe its machine.
var kept = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "TERM", "TMPDIR", "SHLVL", "DISPLAY", "WAYLAND_DISPLAY",
	"XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "SSH_AGENT_PID"}

// Environ returns the environment of a local process, in the form of os.Environ: that of its
// user, overridden by the variables of the container, except those that describe the machine.
// With clean set only the latter are taken from the user.
func Environ(user []string, vars []Var, clean bool) []string {
	all := map[string]string{}
	for _, line := range user {
		if name, value, ok := strings.Cut(line, "="); ok && name != "" && (!clean || slices.Contains(kept, name)) {
			all[name] = value
		}
	}
	for _, v := range vars {
		if _, has := all[v.Name]; has && slices.Contains(kept, v.Name) {
			continue
		}
		if !strings.ContainsRune(v.Name+v.Value, 0) { // not possible in an environment
			all[v.Name] = v.Value
		}
	}
	out := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, name+"="+all[name])
	}
	return out
}
