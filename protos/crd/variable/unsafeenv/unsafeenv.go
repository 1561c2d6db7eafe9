// Package unsafeenv lists the environment variables from which dynamic loaders, shells,
// interpreters, build tools and Git take code or commands to run. A local process does not get
// them from a cluster unless its user allows them by name, and a plugin with an input of such a name is
// warned about.
package unsafeenv

import (
	"slices"
	"strings"
)

// names are the variables that match as a whole.
var names = []string{
	"GLIBC_TUNABLES", "GCONV_PATH",
	"BASH_ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "ZDOTDIR",
	"PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONBREAKPOINT", "PYTHONPYCACHEPREFIX",
	"NODE_OPTIONS", "NODE_PATH",
	"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH",
	"RUBYOPT", "RUBYLIB", "RUBYSHELL", "GEM_PATH", "GEM_HOME", "BUNDLE_GEMFILE",
	"PERL5OPT", "PERL5LIB", "PERLLIB", "PERL5DB",
	"PHPRC", "PHP_INI_SCAN_DIR",
	"R_PROFILE", "R_PROFILE_USER", "R_ENVIRON", "R_ENVIRON_USER", "R_LIBS", "R_LIBS_USER",
	"OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES",
	"MAKEFLAGS", "MAKEFILES", "GOFLAGS",
	"DOTNET_STARTUP_HOOKS", "DOTNET_ADDITIONAL_DEPS", "DOTNET_SHARED_STORE",
	"GIT_ASKPASS", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_PAGER", "GIT_EXTERNAL_DIFF", "GIT_EXEC_PATH", "GIT_PROXY_COMMAND",
	"GIT_TEMPLATE_DIR", "GIT_DIR", "GIT_COMMON_DIR",
}

// prefixes match every variable that begins with one of them. The profilers of .NET are those of
// CORECLR_, COR_ and DOTNET_: each names a library that the runtime loads.
var prefixes = []string{
	"LD_", "DYLD_", "BASH_FUNC_", "GIT_SSH", "GIT_CONFIG", "LUA_INIT", "LUA_PATH", "LUA_CPATH", "CORECLR_", "COR_",
	"DOTNET_ENABLE_PROFILING", "DOTNET_PROFILER",
}

// paths end the names of variables that often name where a program finds code or its configuration.
var paths = []string{"PATH", "HOME", "BASE", "CONF"}

// NamesPath reports whether the name of a variable that is let through suggests that it holds the path of
// code or configuration.
func NamesPath(name string) bool {
	return slices.ContainsFunc(paths, func(end string) bool { return strings.HasSuffix(name, end) })
}

// shEnv is the file that POSIX shells read when they start interactively. Applications use the
// same name for the name of an environment ("production"), which is no path.
const shEnv = "ENV"

// machine are variables that change how a script and its programs run, without code of their own.
var machine = []string{"PATH", "HOME", "IFS", "SHELL", shEnv, "CDPATH", "LANG", "LC_ALL", "USER", "PWD", "TMPDIR", "TERM", "HOSTNAME"}

// Changes reports whether a variable of this name changes how a script and its programs run, whatever
// its value is: those that run code, and those that are about the machine.
func Changes(name string) bool { return slices.Contains(machine, name) || RunsCode(name, "") }

// RunsCode reports whether a variable with this name and value can make a program run code.
func RunsCode(name, value string) bool {
	if name == shEnv {
		return strings.ContainsAny(value, "/$`")
	}
	return slices.Contains(names, name) || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}
