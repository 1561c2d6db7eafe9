// Package unsafeenv lists the environment variables from which dynamic loaders, shells,
// interpreters, build tools and Git take code or commands to run. A local process does not get
// them from a cluster unless its user allows them by name.
package unsafeenv

import (
	"slices"
	"strings"
)

// names are the variables that match as a whole.
var names = []string{
	"GLIBC_TUNABLES",
	"BASH_ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND",
	"PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME",
	"NODE_OPTIONS", "NODE_PATH",
	"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH",
	"RUBYOPT", "RUBYLIB",
	"PERL5OPT", "PERL5LIB",
	"MAKEFLAGS", "MAKEFILES", "GOFLAGS",
	"DOTNET_STARTUP_HOOKS",
	"GIT_ASKPASS", "GIT_EDITOR", "GIT_PAGER", "GIT_EXTERNAL_DIFF", "GIT_EXEC_PATH", "GIT_PROXY_COMMAND", "GIT_TEMPLATE_DIR",
}

// prefixes match every variable that begins with one of them.
var prefixes = []string{"LD_", "DYLD_", "BASH_FUNC_", "GIT_SSH", "GIT_CONFIG"}

// shEnv is the file that POSIX shells read when they start interactively. Applications use the
// same name for the name of an environment ("production"), which is no path.
const shEnv = "ENV"

// RunsCode reports whether a variable with this name and value can make a program run code.
func RunsCode(name, value string) bool {
	if name == shEnv {
		return strings.ContainsAny(value, "/$`")
	}
	return slices.Contains(names, name) || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}
