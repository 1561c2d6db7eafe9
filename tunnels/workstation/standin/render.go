package standin

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// shellName is what a POSIX shell takes for the name of a variable.
var shellName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Shell returns variables as lines NAME='value' that a POSIX shell reads, whatever is in them.
// Those whose names no shell knows are comments. sources: above each stands where it is from.
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

// Quote returns a text as one word of a POSIX shell, and plain where it can be.
func Quote(text string) string {
	if text != "" && !strings.ContainsFunc(text, special) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// special reports whether a character may mean something to a shell.
func special(c rune) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return false
	}
	return !strings.ContainsRune("_-./:,@%+", c)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Below returns the variables with paths of mounted volumes moved below a folder, and the names
// of those that were changed. A value is such a path when it is one as a whole, or each part
// between colons is some path and one of them such a one, as in PATH.
func (r Result) Below(root string) (vars []Var, changed []string) {
	folders := r.Mounts
	if slices.ContainsFunc(r.Files, func(f File) bool { return strings.HasPrefix(f.Path, ResourcesFolder+"/") }) {
		folders = append(slices.Clone(folders), ResourcesFolder)
	}
	for _, v := range r.Env {
		parts := strings.Split(v.Value, ":")
		moved := false
		for i, p := range parts {
			if !path.IsAbs(p) {
				moved = false
				break
			}
			if within(path.Clean(p), folders) {
				parts[i], moved = path.Join(root, p), true
			}
		}
		if moved {
			v.Value = strings.Join(parts, ":")
			changed = append(changed, v.Name)
		}
		vars = append(vars, v)
	}
	return vars, changed
}

// within reports whether a path is one of folders, or in one.
func within(p string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return p == f || strings.HasPrefix(p, strings.TrimSuffix(f, "/")+"/") })
}

// kept are the variables that a local process has from its user and not from the baseline: they
// are about the machine that it runs on.
var kept = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "TERM", "TMPDIR", "SHLVL", "DISPLAY", "WAYLAND_DISPLAY",
	"XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "SSH_AGENT_PID"}

// Environ returns the environment of a local process, as os.Environ has it: that of its user, over
// which the variables of the container win, but for those that are about the machine. clean: of the
// user's it has only these.
func Environ(user []string, vars []Var, clean bool) []string {
	all := map[string]string{}
	var names []string
	set := func(name, value string) {
		if _, has := all[name]; !has {
			names = append(names, name)
		}
		all[name] = value
	}
	for _, line := range user {
		if name, value, ok := strings.Cut(line, "="); ok && name != "" && (!clean || slices.Contains(kept, name)) {
			set(name, value)
		}
	}
	for _, v := range vars {
		if _, has := all[v.Name]; has && slices.Contains(kept, v.Name) {
			continue
		}
		if !strings.ContainsRune(v.Name+v.Value, 0) { // No process can have such a one.
			set(v.Name, v.Value)
		}
	}
	slices.Sort(names)
	out := make([]string, 0, len(names))
	for _, name := range names {
		out = append(out, name+"="+all[name])
	}
	return out
}
